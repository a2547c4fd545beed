"""What documents show is what the product takes: every block of code in them is read, validated, parsed or run."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main

from reservoir.cli.app import app as command_line
from reservoir.core.model.conditions import ConditionType
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.events import EVENTS
from reservoir.manifests.messages import parse_demand
from reservoir.manifests.node_identity import NodeIdentity
from reservoir.manifests.parsing.load import Document, load_documents
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.reports import parse_report
from reservoir.manifests.validate import read_document
from tests.manifests.kinds.valid import node_class, node_pool
from tests.manifests.test_schemas import generated
from tests.test_tidy import ROOT, name_of, tracked

PAGES = tracked(".md")
# What a fenced block may be; text and pictures are for the eye only.
LOOKED_AT = {"", "console", "json", "mermaid", "python", "text", "yaml"}


@dataclass(frozen=True)
class Block:
    """A block of a page, by where it begins."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fenced(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(
        r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL
    ):
        yield Block(
            name_of(page), text.count("\n", 0, found.start()) + 1, found[1], found[2]
        )


def commands(page: Path) -> Iterator[Block]:
    """Yield each line that a reader would type: indented by four, after a prompt, or in a block without a language."""
    text = page.read_text(encoding="utf-8")
    plain = "\n".join(
        block.text for block in fenced(page) if block.language in ("", "console")
    )
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^ {4}(\S.*)$", outside, flags=re.MULTILINE)
    for line in (*indented, *plain.splitlines()):
        typed = line.removeprefix("$ ").strip()
        yield Block(
            name_of(page), text.count("\n", 0, text.index(line)) + 1, "shell", typed
        )


def blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in fenced(page) if block.language == language]


def test_every_block_has_a_language_that_is_looked_at() -> None:
    assert [
        str(block)
        for page in PAGES
        for block in fenced(page)
        if block.language not in LOOKED_AT
    ] == []


def completed(document: Document) -> dict[str, Any]:
    """Return the manifest that a document is, or is a part of."""
    part = document.value
    if "kind" in part:
        return dict(part)
    if set(part) == {"disruption"}:
        whole = node_pool()
        return whole | {"spec": whole["spec"] | part}
    assert set(part) == {"spec"}, "say in this test which manifest this is a part of"
    whole = node_class()
    return whole | {"spec": whole["spec"] | part["spec"]}


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_manifests_are_valid(block: Block) -> None:
    header = re.match(r"# yaml-language-server: \$schema=(\S+)", block.text)
    if header:
        assert (ROOT / "docs" / header[1]).resolve().is_file()
        return
    if re.match(r"# deployments/[\w-]+\.yaml\n", block.text):
        (settings,) = load_documents(block.text)
        DeploymentSettings.model_validate(settings.value)
        return
    for document in load_documents(block.text.replace(", …}", "}")):
        if set(document.value) == {"status"}:  # printed by the product, not read
            assert {c["type"] for c in document.value["status"]["conditions"]} <= set(
                ConditionType
            )
            continue
        manifest, problems = read_document(Document(completed(document)))
        assert [str(problem) for problem in errors_of(problems)] == []
        assert manifest is not None


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_messages_and_events_are_valid(block: Block) -> None:
    value = json.loads(block.text)
    if "detail-type" in value:
        (event,) = (event for event in EVENTS if event.detail_type == value["detail-type"])
        assert set(value["detail"]) <= set(
            event.model_json_schema(mode="serialization")["properties"]
        )
        return
    if "state" in value:  # what a node reads
        assert NodeIdentity.model_validate_json(block.text).text() == json.dumps(
            value, separators=(",", ":")
        )
        return
    if "report" in value:
        parse_report(block.text)
        return
    if "Effect" in value:  # a statement; tests/infra/test_documentation.py compares it
        return
    assert "action" in value, "say in this test what this is"
    parse_demand(block.text)


def test_the_emulated_ec2s_example_runs() -> None:
    (block,) = (b for b in blocks("python") if b.page == "docs/ec2-emulation.md")

    class Clock:
        """A clock that is moved."""

        time = datetime(2026, 1, 1, tzinfo=UTC)

        def now(self) -> datetime:
            return self.time

        def advance(self, step: timedelta) -> None:
            self.time += step

    names: dict[str, Any] = {"clock": Clock(), "events": [], "timedelta": timedelta}
    exec(block.text, names)  # noqa: S102 - our own document
    assert names["ec2"].describe_capacity_reservations()["CapacityReservations"] == []
    assert names["pricing"].get_products(ServiceCode="AmazonEC2", MaxResults=1)["PriceList"]


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_what_python_examples_import_and_call_exists(block: Block) -> None:
    """An example that deploys is not run here; the tests of ``tests/deployed`` do what it does."""
    tree = ast.parse(block.text)
    imports = ast.Module(
        [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], []
    )
    names: dict[str, Any] = {}
    exec(compile(imports, str(block), "exec"), names)  # noqa: S102 - our own document
    held = {
        item.optional_vars.id: names[item.context_expr.func.id]
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and isinstance(item.context_expr, ast.Call)
        and isinstance(item.context_expr.func, ast.Name)
    }
    used = [
        (held[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in held
    ]
    assert [(owner, name) for owner, name in used if not hasattr(owner, name)] == []


@pytest.mark.parametrize(
    "block",
    [
        c
        for page in PAGES
        for c in commands(page)
        if re.match(r"(python -m )?reservoir\s", c.text)
    ],
    ids=str,
)
def test_the_command_line_takes_what_documents_type(block: Block) -> None:
    words = shlex.split(block.text.removeprefix("python -m "), comments=True)[1:]
    group: Any = typer.main.get_command(command_line)
    context = group.make_context("reservoir", list(words))
    name, command, rest = group.resolve_command(
        context, [*context._protected_args, *context.args]
    )
    command.make_context(name, rest, parent=context)


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    page = ROOT / "docs" / "cli.md"
    assert generated()[page] == page.read_text(encoding="utf-8"), (
        "run python docs/generate.py"
    )


GLOBAL_OPTION = re.compile(r"--(?:deployment|profile|region|stack) \S+")


def test_commands_that_sentences_name_exist() -> None:
    group: Any = typer.main.get_command(command_line)
    told = {
        (name_of(page), words[0])
        for page in PAGES
        for named in re.findall(
            r"`(?:python -m )?reservoir ([^`]+)`", page.read_text(encoding="utf-8")
        )
        for words in [
            [
                word
                for word in re.sub(GLOBAL_OPTION, "", named).split()
                if not word.startswith("-")
            ]
        ]
        if words
    }
    assert {(page, word) for page, word in told if word not in group.commands} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_outputs_that_commands_ask_for_exist(page: Path) -> None:
    asked = set(
        re.findall(r"OutputKey=='(\w+)'|\[\"(\w+Url)\"\]", page.read_text(encoding="utf-8"))
    )
    outputs = (ROOT / "tests" / "infra" / "template.snapshot.txt").read_text()
    assert [
        key for pair in asked for key in pair if key and f"Outputs {key} " not in outputs
    ] == []
