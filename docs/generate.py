"""Writes what follows from the models: JSON Schemas and the reference of manifests, settings, messages and events.

``python docs/generate.py`` after a model changed; a test compares what is committed with what this would write.
"""

import gzip
import importlib.util
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import botocore.session
import typer.main
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode

DOCS: Final = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # run as a script from anywhere

from docs.asyncapi import asyncapi
from docs.untitled import Untitled
from reservoir.cli.app import COMMANDS, EXIT_CODES
from reservoir.cli.app import app as command_line
from reservoir.cli.nouns.noun import Selector
from reservoir.cli.nouns.registry import NOUNS, Registered, noun_of
from reservoir.core.history.counters import AMOUNTS, COUNTERS
from reservoir.core.history.measures import (
    CARDINALITIES,
    DIMENSIONS,
    MEASURES,
    METRIC_USD_CENTS,
    MOST,
    Subject,
)
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.answers.render import to_yaml
from reservoir.manifests.events import EVENTS
from reservoir.manifests.messages import (
    AnyMessage,
    DescribeMessage,
    ReleaseMessage,
    SubmitMessage,
    WithdrawMessage,
)
from reservoir.manifests.node_identity import NodeIdentity
from reservoir.manifests.reports import REPORTS, NodeReport
from reservoir.manifests.validate import KINDS, Manifest

# What the page about the command line says beside what its commands say of themselves.
_CLI_BEFORE: Final = """# The command line

Generated from the commands by `python docs/generate.py`.

`reservoir` is what [the wheel](../README.md#install-the-command-line) installs, and `make setup` in a checkout's
`.venv`. It talks to one stack, and finds it by the settings file in `deployments/` (`--deployment`, where there are
several), by its name (`--stack`, `RESERVOIR_STACK`), or by [a context](#contexts). Profile, region and endpoint are
chosen as in the AWS CLI: by `--profile`, `--region` and `--endpoint-url`, else by `AWS_PROFILE`, `AWS_REGION`,
`AWS_ENDPOINT_URL` and the like. A region on the command line wins against the one in the settings, and that against the
variables.

## Contexts

A context is a name for a stack, with the region, profile and endpoint by which it is reached, as in kubectl:

    reservoir config set-context production --stack Reservoir --region us-east-1 --profile prod
    reservoir config use-context production
    reservoir config get-contexts
    reservoir --context staging status

They are in `~/.config/reservoir/config.yaml` (`XDG_CONFIG_HOME` and `RESERVOIR_CONFIG` say where else), and hold no
credentials. `--context` or `RESERVOIR_CONTEXT` names one; without them, and without `--stack`, `RESERVOIR_STACK` and
`--deployment`, the current one counts. What a context says wins against `AWS_PROFILE`, `AWS_REGION` and keys in the
environment, and gives way to `--profile`, `--region` and `--endpoint-url`. In a folder with `deployments/`, the current
context has to be the stack of the settings file; where it is another, nothing is done until you say which you mean.

## What is printed

Results go to the standard output, everything else to the error stream. A table fits its terminal, and has colours only
in a terminal and unless `NO_COLOR` is set. Where a row does not fit, long texts are cut, then columns are left out;
`-o wide` shows all of them and more. In a pipe nothing is cut or left out. For programs, `-o json` prints an object of
`kind: List` with `items`, `-o yaml` one document after the other, and `-o name` one name a line, which other commands
take. Later releases add fields and rename none. Prices in tables are USD an hour, in documents micro-USD.

`-o jsonpath='{.metadata.name}'` prints single fields of each row, `'{.items[*].metadata.name}'` those of all rows at
once, and `-o custom-columns=NAME:.metadata.name,STATE:.status.state` tables of your own. Paths are those of `-o json`;
of kubectl's JSONPath, fields, positions, `[*]`, texts in quotes and `{range}` with `{end}` work. `reservoir get` sorts
by a path with `--sort-by`, and leaves titles out with `--no-headers`.

## Exit codes

"""
_CLI_NOUNS: Final = """
## Nouns

![reservoir get reservations](pictures/reservations.svg)

These are the nouns of `reservoir get` and `reservoir describe`. Commas join several (`reservoir get nodes,pools`); a
name chooses one object (`reservoir get node nc-4f1c`, or `reservoir get node/nc-4f1c`). Labels are selected as in
kubectl: `-l team=research,stage!=test`, `-l 'zone in (a,b)'`, `-l spot`, `-l '!spot'`; those of a reservation are its
tags. Workloads are those of the namespace `default`, unless `-n` or `-A` chooses others. Some objects are found by name
alone: workloads that neither wait nor have a place, nodes and reservations that have ended, and decisions about no node
that lives or had an event within the hour. Events are those of the last hour (`reservoir events` has more). Listings
are read by an index or by keys ([ADR 93](adr/0093-list-and-show-what-is-alive.md)). Of workloads that wait, up to
20,000 and 64 MiB are read, each namespace its part; the error stream says how many were left out, and `-n` or a name
finds them.

Selectors choose a decision by the nodes that it launched or ended: one of them must have the labels, the pool, the
state, and a workload of the namespace. They choose an event by its object: the namespace of a workload, the pool of a
node or a pool itself, the labels of workloads, nodes and reservations. An object that has ended is found by its last
labels: a node for a week, a workload for 15 days, a reservation for 30. An event's state is that of its object after
it: `--state draining` chooses `Node Draining`. `reservoir events` takes the same selectors, also with `-f`.

Blocks are Capacity Blocks that EC2 would sell now ([ADR 290](adr/0290-change-reservations-by-hand-once.md)). A question
names count, type and duration: `reservoir get blocks "4 p5.48xlarge for 2d"`. `describe` also prints the command that
shows what a block would change (`reservoir plan --with`), and the one that buys it. `reservoir get blocks p5.48xlarge
--for NAMESPACE/NAME` says which block to buy for workloads that wait, or to buy none ([more](buying.md#which-block)).

| noun | also | chosen by | columns (with `-o wide`) |
|---|---|---|---|
"""
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DEMAND: Final = (SubmitMessage, WithdrawMessage, ReleaseMessage, DescribeMessage)
_LONGEST_CELL: Final = 70
_LONGEST_LINE: Final = 120
_MOTO: Final = importlib.util.find_spec("moto")
_TYPES: Final = (
    Path(str(_MOTO and _MOTO.origin)).parent
    / "ec2"
    / "resources"
    / "instance_types.json.gz"
)


def files() -> dict[Path, str]:
    """Return every generated file with its content."""
    generated = {DOCS / "schemas" / name: _json(schema) for name, schema in _schemas()}
    generated[DOCS / "reference.md"] = _reference()
    generated[DOCS / "asyncapi.yaml"] = to_yaml([asyncapi()])
    generated[DOCS / "cli.md"] = _command_line()
    generated[DOCS.parent / "shared" / "reservoir" / "manifests" / "ec2_names.py"] = (
        _ec2_names()
    )
    generated[DOCS / "metrics.md"] = _metrics()
    return generated


def _ec2_names() -> str:
    """Return a module with the instance types and regions that the packages of this release know."""
    listed = json.loads(gzip.decompress(_TYPES.read_bytes()))
    sizes: dict[str, list[str]] = {}
    for name in sorted(listed):
        family, _, size = name.partition(".")
        sizes.setdefault(family, []).append(size)
    regions = sorted(botocore.session.get_session().get_available_regions("ec2"))
    lines = [
        '"""Names of EC2, written by ``python docs/generate.py`` from the packages that tests run on."""',
        "",
        "from typing import Final",
        "",
        "# The sizes of each family of instance types.",
        "SIZES: Final = {",
    ]
    for family, found in sizes.items():
        lines += _wrapped(f'    "{family}": ', " ".join(found))
    lines += ["}", "REGIONS: Final = ("]
    lines += [f'    "{region}",' for region in regions]
    return "\n".join([*lines, ")"]) + "\n"


def _wrapped(start: str, text: str) -> list[str]:
    """Return an entry of a dictionary as it is formatted: one string, in brackets where it is too long for a line."""
    if len(start) + len(text) + 3 <= _LONGEST_LINE:
        return [f'{start}"{text}",']
    parts = textwrap.wrap(text, _LONGEST_LINE - 11, break_on_hyphens=False)
    strings = [f'        "{part} "' for part in parts[:-1]] + [f'        "{parts[-1]}"']
    return [f"{start}(", *strings, "    ),"]


def _schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, (_, model) in KINDS.items():
        yield f"{kind.lower()}.json", _schema(model, "validation")
    yield "manifest.json", _schema(Manifest, "validation")
    yield "deployment.json", _schema(DeploymentSettings, "validation")
    yield "demand-message.json", _schema(AnyMessage, "validation")
    for message in _DEMAND:
        name = message.__name__.removesuffix("Message").lower()
        yield f"messages/{name}.json", _schema(message, "validation")
    yield "node-report.json", _schema(NodeReport, "validation")
    yield "node-identity.json", _schema(NodeIdentity, "serialization")
    for event in EVENTS:
        name = event.detail_type.lower().replace(" ", "-")
        schema = _schema(event, "serialization")
        yield f"events/{name}.json", {**schema, "title": event.detail_type}


def _schema(of: Any, mode: JsonSchemaMode) -> dict[str, Any]:
    return TypeAdapter(of).json_schema(mode=mode, schema_generator=Untitled)


def _json(schema: Mapping[str, Any]) -> str:
    return json.dumps({"$schema": _DIALECT, **schema}, indent=2, sort_keys=True) + "\n"


_METRICS: Final = """# Metrics

Generated by `python docs/generate.py` from `shared/reservoir/core/history/`. The namespace is `Reservoir`.

## The present state

Every ten minutes `record` measures the present state. It stores the figures in the [history](history.md) and writes one
line of its log for each object: the tables show the message and the fields. The first row of the dashboard shows these
lines. The log has the {most} reservations with the dearest idle units, the {most} workloads that cost most and the
{most} teams that use most; the history has all.

These are metrics of CloudWatch only if the setting `publishMetrics` says so, because it charges 0.30 USD a month for
each metric and value of its dimension. All figures are for metrics that are written in every hour of a month.
A figure that is not known, such as a price, is left out, and not written as 0.

The setting `otlpEndpoint` has `record` push the same figures every ten minutes to a receiver of yours, by
[OTLP over HTTP](https://opentelemetry.io/docs/specs/otlp/#otlphttp): the gauges that `reservoir metrics` prints, under
the same names, but for those of queues, alarms and refusals. If the receiver needs a key, store it in a parameter
with the deployment's name, in the form of `OTEL_EXPORTER_OTLP_HEADERS`, encrypted with AWS's own key; it is sent only
over https:

    aws ssm put-parameter --type SecureString --name /reservoir/Reservoir/otlp-headers --value "api-key=…"

No other work waits for the receiver: if it refuses figures, that is counted (`FiguresRefused`), and new ones are sent
ten minutes later.

"""
_COUNTED: Final = """
## Occurrences

Functions count these when they occur (unit Count; the dimension `service` is the function, or `any` for
`CapacitySuspected`, `LaunchesBlocked`, `RowsUnreadable`, `TerminationsRefused` and `TimersRefused`). Nothing is
written for 0, and CloudWatch charges for the hours in which a metric was written. Besides these, events of AWS
are counted by kind (`shared/reservoir/core/node_life/notice.py`).

| metric | counts |
|---|---|
"""
_AMOUNTS: Final = """
Beside these counts, functions write amounts, where they are known. A count or an amount costs 0.04 cents for an hour in
which it was written, 0.30 USD for a month of them, and nothing while it is quiet:

| metric | unit | is |
|---|---|---|
"""


def _metrics() -> str:
    text = _METRICS.format(most=MOST)
    for subject in Subject:
        one = METRIC_USD_CENTS * len(MEASURES[subject]) / 100
        most = CARDINALITIES[subject]
        text += f"`{subject.value}`, with the dimension `{DIMENSIONS[subject]}`. "
        text += f"If published, {one:.2f} USD a month for\n"
        text += f"each, {one * most:.2f} for the {most} that there are at most.\n\n"
        text += "| metric | field of the log | unit | meaning |\n|---|---|---|---|\n"
        for it in MEASURES[subject]:
            text += f"| `{it.name}` | `{it.field}` | {it.unit.value} | {it.meaning} |\n"
        text += "\n"
    text = (
        text.rstrip("\n")
        + "\n"
        + _COUNTED
        + "".join(f"| `{name}` | {it} |\n" for name, it in COUNTERS.items())
    )
    amounts = "".join(
        f"| `{name}` | {unit.value} | {it} |\n" for name, (unit, it) in AMOUNTS.items()
    )
    return text + _AMOUNTS + amounts


def _reference() -> str:
    lines = [
        "# Reference: manifests, settings, messages, events",
        "",
        "Generated from the models by `python docs/generate.py`. How to use them: [manifests.md](manifests.md).",
        "JSON Schemas: `docs/schemas/`.",
        "",
    ]
    lines += ["## Manifests", ""]
    for kind, (version, model) in KINDS.items():
        lines += [f"### {kind} (`{version}`)", "", *_model_lines(model), ""]
    lines += [
        "## The settings file of a deployment",
        "",
        *_model_lines(DeploymentSettings),
        "",
    ]
    lines += ["## Messages of the demand queue", ""]
    for message in _DEMAND:
        lines += [
            f"### {message.__name__.removesuffix('Message')}",
            "",
            *_model_lines(message, stop=("workload",)),
            "",
        ]
    lines += ["## What a node may know of itself", "", *_model_lines(NodeIdentity), ""]
    lines += ["## Reports of nodes", "", "Messages of the reports queue.", ""]
    for name, report in REPORTS.items():
        lines += [f"### {name}", "", *_model_lines(report), ""]
    lines += [
        "## Events on the outbound bus",
        "",
        "Source `reservoir`; the table is the event's `detail`.",
        "",
    ]
    for event in EVENTS:
        lines += [f"### {event.detail_type}", "", *_model_lines(event), ""]
    return "\n".join(lines).rstrip() + "\n"


def _command_line() -> str:
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    nouns = "".join(f"{_noun_row(registered)}\n" for registered in NOUNS)
    lines = ["## Commands", "", "Options of all commands stand before the command:", ""]
    whole: Any = typer.main.get_command(command_line)
    lines += [*_parameter_lines(whole), ""]
    for listed in COMMANDS:
        lines += _command_lines(f"reservoir {listed.name}", listed.load())
    text = "\n".join(lines).rstrip()
    return f"{_CLI_BEFORE}| code | when |\n|---|---|\n{codes}{_CLI_NOUNS}{nouns}\n{text}\n"


def _noun_row(registered: Registered) -> str:
    noun = noun_of(registered.plural)
    others = ", ".join(f"`{alias}`" for alias in registered.aliases)
    selectors = (
        ", ".join(f"`{each.value}`" for each in Selector if each in noun.selectors)
        or "names only"
    )
    columns = ", ".join(
        column.title for column in noun.listing(datetime(2000, 1, 1, tzinfo=UTC)).columns
    )
    return f"| `{noun.plural}` | {others} | {selectors} | {columns} |"


def _command_lines(name: str, command: Any) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield from textwrap.wrap(
        " ".join(str(command.help).split()), _LONGEST_LINE, break_on_hyphens=False
    )
    yield ""
    if hasattr(command, "commands"):
        for inner in command.commands.values():
            yield from (
                line.replace("### ", "#### ", 1)
                for line in _command_lines(f"{name} {inner.name}", inner)
            )
    elif any(True for _ in _parameters(command)):
        yield from _parameter_lines(command)
        yield ""


def _parameter_lines(command: Any) -> Iterator[str]:
    yield "| argument or option | meaning |"
    yield "|---|---|"
    for parameter in _parameters(command):
        if parameter.param_type_name == "argument":
            name = parameter.metavar or parameter.name.upper()
        else:
            values = (
                ""
                if parameter.is_flag
                else f" {parameter.metavar or parameter.name.strip('_').upper()}"
            )
            name = ", ".join(parameter.opts) + values
        meaning = " ".join(str(parameter.help or "").split())
        yield "| `{}` | {} |".format(
            *(cell.replace("|", "\\|") for cell in (name, meaning))
        )


def _parameters(command: Any) -> Iterator[Any]:
    return (each for each in command.params if each.name != "help")


def _model_lines(model: type[BaseModel], stop: Sequence[str] = ()) -> Iterator[str]:
    schema = model.model_json_schema(mode="validation")
    yield _sentence(schema)
    yield ""
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for path, field, required in _fields(schema, schema.get("$defs", {}), "", stop):
        default = "required" if required else _default(field)
        yield f"| `{path}` | {_type(field)} | {default} | {_sentence(field)} |"


def _fields(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    prefix: str,
    stop: Sequence[str],
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield every field below a schema, parents first, by its path."""
    for name, stated in schema.get("properties", {}).items():
        if stated.get("description") in ("Set by the server; not read.", "Not read."):
            continue
        field = _resolved(stated, definitions)
        path = f"{prefix}{name}"
        yield path, field, name in schema.get("required", [])
        if path in stop:
            continue
        inner = (
            _resolved(field.get("items", {}), definitions)
            if field.get("type") == "array"
            else field
        )
        suffix = "[]." if field.get("type") == "array" else "."
        yield from _fields(inner, definitions, path + suffix, stop)


def _resolved(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field with its reference followed and "or null" left out."""
    options = [option for option in field.get("anyOf", []) if option.get("type") != "null"]
    merged = {**options[0], **field} if len(options) == 1 else dict(field)
    if "$ref" in merged:
        merged = {**definitions[merged["$ref"].rsplit("/", 1)[1]], **merged}
    if len(options) == 1:
        merged.pop("anyOf", None)
    return merged


def _type(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return "list"
    if field.get("type") == "object":
        return "mapping"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(option) for option in field["anyOf"]))
    if field.get("format") == "date-time":
        return "instant"
    return str(field.get("type", "any"))


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    if default in (None, [], {}) or isinstance(default, dict | list):
        return ""
    return f"`{json.dumps(default)}`"


def _sentence(field: Mapping[str, Any]) -> str:
    text = " ".join(str(field.get("description", "")).split())
    return text.replace("|", "\\|").replace("``", "`")


def main() -> None:
    """Write the files, and remove schemas that no model has any more."""
    generated = files()
    for path in (DOCS / "schemas").rglob("*.json"):
        if path not in generated:
            path.unlink()
    for path, content in generated.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
