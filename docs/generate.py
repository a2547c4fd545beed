"""Writes what follows from the models: JSON Schemas and the reference of manifests, settings, messages and events.

``python docs/generate.py`` after a model changed; a test compares what is committed with what this would write.
"""

import gzip
import importlib.util
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import botocore.session
from pydantic import BaseModel, TypeAdapter

DOCS: Final = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # run as a script from anywhere

# The path must be known first.
from shared.deployment.settings import DeploymentSettings  # noqa: E402 - see above
from shared.manifests.events import EVENTS  # noqa: E402 - see above
from shared.manifests.messages import (  # noqa: E402 - see above
    AnyMessage,
    DescribeMessage,
    ReleaseMessage,
    SubmitMessage,
    WithdrawMessage,
)
from shared.manifests.node_identity import NodeIdentity  # noqa: E402 - see above
from shared.manifests.reports import REPORTS, NodeReport  # noqa: E402 - see above
from shared.manifests.validate import KINDS, Manifest  # noqa: E402 - see above

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_LONGEST_CELL: Final = 70
_LONGEST_LINE: Final = 120
_MOTO: Final = importlib.util.find_spec("moto")
_TYPES: Final = Path(str(_MOTO and _MOTO.origin)).parent / "ec2" / "resources" / "instance_types.json.gz"


def files() -> dict[Path, str]:
    """Return every generated file with its content."""
    generated = {DOCS / "schemas" / name: _json(schema) for name, schema in _schemas()}
    generated[DOCS / "reference.md"] = _reference()
    generated[DOCS.parent / "shared" / "manifests" / "ec2_names.py"] = _ec2_names()
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
        yield f"{kind.lower()}.json", model.model_json_schema(mode="validation")
    yield "manifest.json", TypeAdapter(Manifest).json_schema(mode="validation")
    yield "deployment.json", DeploymentSettings.model_json_schema(mode="validation")
    yield "demand-message.json", TypeAdapter(AnyMessage).json_schema(mode="validation")
    yield "node-report.json", TypeAdapter(NodeReport).json_schema(mode="validation")
    yield "node-identity.json", NodeIdentity.model_json_schema(mode="serialization")
    for event in EVENTS:
        name = event.detail_type.lower().replace(" ", "-")
        schema = event.model_json_schema(mode="serialization")
        yield f"events/{name}.json", {**schema, "title": event.detail_type}


def _json(schema: Mapping[str, Any]) -> str:
    return json.dumps({"$schema": _DIALECT, **schema}, indent=2, sort_keys=True) + "\n"


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
    lines += ["## The settings file of a deployment", "", *_model_lines(DeploymentSettings), ""]
    lines += ["## Messages of the demand queue", ""]
    for message in (SubmitMessage, WithdrawMessage, ReleaseMessage, DescribeMessage):
        lines += [f"### {message.__name__.removesuffix('Message')}", "", *_model_lines(message, stop=("workload",)), ""]
    lines += ["## What a node may know of itself", "", *_model_lines(NodeIdentity), ""]
    lines += ["## Reports of nodes", "", "Messages of the reports queue.", ""]
    for name, report in REPORTS.items():
        lines += [f"### {name}", "", *_model_lines(report), ""]
    lines += ["## Events on the outbound bus", "", "Source `reservoir`; the table is the event's `detail`.", ""]
    for event in EVENTS:
        lines += [f"### {event.detail_type}", "", *_model_lines(event), ""]
    return "\n".join(lines).rstrip() + "\n"


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
    schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str, stop: Sequence[str]
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
        inner = _resolved(field.get("items", {}), definitions) if field.get("type") == "array" else field
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
