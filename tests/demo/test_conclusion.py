"""How a run ends: each reason has its exit status, says itself, and leaves what there is to look at."""

import io
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from botocore.exceptions import ReadTimeoutError
from rich.console import Console

from lab.demo.errors import (
    FAILED,
    RULE_BROKEN,
    TOO_SLOW,
    NotReachedError,
    RuleBrokenError,
    TooSlowError,
)
from lab.demo.evidence import Logs
from lab.demo.observer import Observed, Reservation
from lab.demo.run import conclude
from tests.demo.support import START


@dataclass
class Emulator:
    """An emulator that has written something."""

    folder: Path
    is_started: bool = True

    def log(self) -> str:
        return "the emulator's words\n"


@dataclass
class Play:
    """A run that ends as it is told."""

    logs: Logs
    error: Exception | None
    seen: Observed | None = None
    is_stopped: bool = False
    ended: list[str] = field(default_factory=list)

    def play(self) -> None:
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def emulator(tmp_path: Path) -> Emulator:
    folder = tmp_path / "emulator"
    (folder / "logs" / "Reservoir-launch").mkdir(parents=True)
    (folder / "logs" / "Reservoir-launch" / "one.log").write_text("a function's words\n")
    return Emulator(folder)


def looked_at() -> Observed:
    seen = Observed(now=START, awaited={"nc-two", "nc-one"})
    seen.reservations = [
        Reservation("cr-1", "general", "m5.large", "us-east-1a", 4, 1, None, is_active=True)
    ]
    seen.events.append({"detail-type": "Launch Failed"})
    seen.counts["Launch Failed"] = 1
    return seen


def conclusion(play: Play, kept: Path) -> tuple[int, str]:
    out = io.StringIO()
    status = conclude(play, Console(file=out, width=80), kept)
    return status, out.getvalue()


TIMED_OUT = ReadTimeoutError(endpoint_url="https://127.0.0.1")


@pytest.mark.parametrize(
    ("error", "status", "verdict"),
    [
        (
            RuleBrokenError("general was used beyond its count"),
            RULE_BROKEN,
            "a rule was broken",
        ),
        (
            NotReachedError("a step: not within 0:10:00 of emulated time"),
            RULE_BROKEN,
            "a rule was broken",
        ),
        (
            TooSlowError("a step: not within 300 real seconds"),
            TOO_SLOW,
            "this machine could not keep up",
        ),
        (TIMED_OUT, TOO_SLOW, "this machine could not keep up"),
        (KeyError("nobody expected this"), FAILED, "the demo itself failed"),
    ],
)
def test_each_reason_has_a_status_and_leaves_its_evidence(
    emulator: Emulator, tmp_path: Path, error: Exception, status: int, verdict: str
) -> None:
    play = Play(emulator, error, looked_at())
    ended, said = conclusion(play, tmp_path / "kept")
    assert ended == status
    assert play.is_stopped
    (folder,) = (tmp_path / "kept").iterdir()
    assert verdict in said
    assert str(folder) in said.replace("\n", "")
    assert verdict in (folder / "reason.txt").read_text()
    assert str(error) in (folder / "reason.txt").read_text()
    assert (folder / "emulator.log").read_text() == "the emulator's words\n"
    assert (
        folder / "functions" / "Reservoir-launch" / "one.log"
    ).read_text() == "a function's words\n"
    world = json.loads((folder / "world.json").read_text())
    assert world["reservations"][0]["total_count"] == 4
    assert world["awaited"] == ["nc-one", "nc-two"]
    assert world["events"] == [{"detail-type": "Launch Failed"}]
    assert world["counts"] == {"Launch Failed": 1}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotReachedError("a step: not within 0:10:00 of emulated time"), TOO_SLOW),
        (RuleBrokenError("general was used beyond its count"), RULE_BROKEN),
    ],
)
def test_functions_that_were_killed_explain_what_did_not_happen_and_excuse_nothing_else(
    emulator: Emulator, tmp_path: Path, error: Exception, status: int
) -> None:
    (emulator.folder / "logs" / "Reservoir-launch" / "two.log").write_text(
        "RequestId: 1 Error: Task timed out after 60.00 seconds\n"
    )
    ended, said = conclusion(Play(emulator, error), tmp_path / "kept")
    assert ended == status
    assert ("Reservoir-launch" in said) is (status == TOO_SLOW)


def test_statuses_differ() -> None:
    assert len({0, RULE_BROKEN, TOO_SLOW, FAILED}) == 4


def test_a_run_that_ends_well_leaves_nothing(emulator: Emulator, tmp_path: Path) -> None:
    play = Play(emulator, None)
    assert conclusion(play, tmp_path / "kept") == (
        0,
        "EC2's state is as it must be.  Next: make play\n",
    )
    assert play.is_stopped
    assert not (tmp_path / "kept").exists()


def test_a_run_that_never_began_keeps_what_there_is(tmp_path: Path) -> None:
    status, _ = conclusion(
        Play(
            Emulator(tmp_path, is_started=False),
            RuntimeError("the embedded AWS did not start"),
        ),
        tmp_path / "kept",
    )
    assert status == FAILED
    (folder,) = (tmp_path / "kept").iterdir()
    assert {path.name for path in folder.iterdir()} == {"reason.txt", "emulator.log"}
