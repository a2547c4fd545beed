"""The pictures of a terminal in the documents have the form of what their commands print today."""

import html
import re
import shlex
from datetime import UTC, datetime
from typing import Any

import pytest
import typer

from lab.demo.pictures import FOLDER, PICTURES
from lab.demo.terminal import drawn, run_on_terminal
from reservoir.cli.app import app
from reservoir.cli.commands.ask.what_if_text import answer_lines
from reservoir.cli.commands.see.explanation_text import workload_lines
from reservoir.cli.commands.see.status_text import lines as status_lines
from reservoir.cli.nouns.registry import noun_of
from reservoir.core.model.plan import ReasonCode
from reservoir.manifests.answers.explanations import WaitingReplicas, WorkloadExplanation
from reservoir.manifests.answers.what_if import WhatIfAnswer, WhatIfOutcome, WhatIfWorkload
from reservoir.manifests.event_parts import WorkloadRef
from reservoir.usecases.history.see_status import Status, Unknown

ROOT = FOLDER.parents[1]
CELL = 12.2  # how wide rich draws one
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lines_in(picture: str) -> list[str]:
    """Return the text of a picture, line by line, each part where it stands."""
    found: dict[float, str] = {}
    for x, y, text in re.findall(
        r'<text class="terminal-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture
    ):
        line = found.get(float(y), "").ljust(round(float(x) / CELL))
        found[float(y)] = line + html.unescape(text).replace("\xa0", " ")
    return [found[y].rstrip() for y in sorted(found)]


@pytest.fixture(params=sorted(PICTURES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def shown(name: str) -> list[str]:
    return lines_in((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))


def test_a_picture_shows_its_command_and_asks_nobody_for_anything(name: str) -> None:
    assert shown(name)[0] == f"$ reservoir {shlex.join(PICTURES[name])}"
    picture = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert (
        re.findall(r'(?:href|src)="|url\((?!#)|@import|@font-face|<script', picture) == []
    )


def test_the_command_is_one_that_there_is(name: str) -> None:
    command: Any = typer.main.get_command(app)
    words = list(PICTURES[name])
    context = command.make_context("reservoir", ["--stack", "any"], resilient_parsing=True)
    while hasattr(command, "get_command"):
        command = command.get_command(context, words.pop(0))
        assert command is not None
    # raises for an option that there is not
    command.make_context(command.name, words, parent=context)


def test_a_picture_is_shown_in_the_documents(name: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(
        f"pictures/{name}.svg)" in page.read_text(encoding="utf-8") for page in pages
    )


def test_a_table_has_the_columns_of_today() -> None:
    titles = shown("reservations")[1].split()
    columns = [
        column
        for column in noun_of("reservations").listing(NOW).columns
        if not column.is_wide
    ]
    # A narrow terminal leaves some out, first those that have nothing to say.
    there = [it.title for it in columns if it.leaves is None or it.title in titles]
    assert titles == there


def test_the_answer_to_a_plan_has_the_columns_of_today() -> None:
    waits = WaitingReplicas(
        replicas=1, reason=ReasonCode.GANG_INCOMPLETE, message="", earliest_at=NOW
    )
    workload = WhatIfWorkload(
        workload=WorkloadRef(namespace="a", name="b"),
        replicas=1,
        placed=0,
        places=[],
        waiting=[waits],
    )
    world = WhatIfOutcome(
        workloads=[workload], displaced=[], added_micro_usd_per_hour=0, notes=[]
    )
    header, *others = (
        str(line)
        for line in answer_lines(WhatIfAnswer(asked_at=NOW, present=world, edited=world))
    )
    columns = set(re.split(r"\s{2,}", header))
    assert set(re.split(r"\s{2,}", shown("plan")[1])) == columns
    adds = {line.split()[0] for line in others if line.endswith("to what is bought")}
    assert {
        line.split()[0] for line in shown("plan") if line.endswith("to what is bought")
    } == adds


def labels_in(lines: list[str], indent: str) -> set[str]:
    """Return the words that begin lines with this indent and more after it, as labels do."""
    found = (re.match(rf"{indent}([a-z]+(?: [a-z]+)?)\s{{2,}}\S", line) for line in lines)
    return {match[1] for match in found if match}


def test_the_overview_has_the_parts_of_today() -> None:
    unknown = Unknown("nobody was asked")
    status = Status(NOW, unknown, unknown, unknown, unknown, unknown, unknown)
    today = [line.plain for line in status_lines(status, 118)]
    assert [
        line.split()[0] for line in shown("status")[1:] if not line.startswith(" ")
    ] == [line.split()[0] for line in today]


def test_an_explanation_has_the_parts_of_today() -> None:
    waits = WaitingReplicas(replicas=1, reason=ReasonCode.GANG_INCOMPLETE, message="m")
    ref = WorkloadRef(namespace="a", name="b", generation=1)
    found = WorkloadExplanation(
        workload=ref,
        withdrawn=False,
        replicas=1,
        placed=0,
        pending=1,
        pending_since=NOW,
        waiting=[waits],
        nodes=[],
    )
    assert (
        labels_in(shown("explain"), "  ")
        == labels_in(list(workload_lines(found)), "  ")
        != set()
    )


def test_drawing_keeps_what_was_written_where_it_stood() -> None:
    written = run_on_terminal(("--version",), {}, ROOT, 80)
    assert "\r" not in written
    picture = drawn("reservoir --version", f"{written}\x1b[32m██\x1b[0m  & <b>\n")
    assert lines_in(picture) == [
        "$ reservoir --version",
        *written.splitlines(),
        "██  & <b>",
    ]
    assert drawn("a", written) == drawn("a", written)


def test_a_command_that_fails_is_no_picture() -> None:
    with pytest.raises(RuntimeError, match="No such command"):
        run_on_terminal(("nonsense",), {}, ROOT, 80)
