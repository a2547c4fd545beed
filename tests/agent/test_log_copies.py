"""What commands write reaches a log group whole, in order, once, and no faster than is paid for."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from reservoir.agent.aws import UnreachableError
from reservoir.agent.configuration import Run
from reservoir.agent.log_copies import (
    BYTES_PER_LOOK,
    LONGEST_LEAD_BYTES,
    LogCopies,
    LogCopying,
)
from reservoir.agent.machine import ProcessId
from reservoir.agent.processes import Processes


class LogGroup:
    """Streams in memory; ``is_reachable`` False refuses everything."""

    def __init__(self) -> None:
        self.streams: dict[str, list[str]] = {}
        self.is_reachable = True

    def send(self, stream: str, at_ms: int, lines: Sequence[str]) -> None:
        if not self.is_reachable:
            raise UnreachableError("no route")
        assert at_ms == 5_000
        self.streams.setdefault(stream, []).extend(lines)


@pytest.fixture
def group() -> LogGroup:
    return LogGroup()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "research_train-0.log"


def copies_of(group: LogGroup, file: Path) -> LogCopies:
    copies = LogCopies(group.send, lambda: 5.0)
    copies.add(file, "train")
    return copies


def append(file: Path, text: str) -> None:
    with file.open("a") as output:
        output.write(text)


def test_each_line_is_copied_once(group: LogGroup, file: Path) -> None:
    copies = copies_of(group, file)
    copies.copy()  # the command has not written yet
    append(file, "one\ntwo\n")
    copies.copy()
    copies.copy()
    append(file, "three\n")
    copies.copy()
    assert group.streams == {"train": ["one", "two", "three"]}


def test_a_line_that_is_still_written_waits_for_its_end(
    group: LogGroup, file: Path
) -> None:
    copies = copies_of(group, file)
    append(file, "one\nhal")
    copies.copy()
    append(file, "f\n")
    copies.copy()
    assert group.streams["train"] == ["one", "half"]


def test_a_last_line_without_an_end_is_copied_too(group: LogGroup, file: Path) -> None:
    copies = copies_of(group, file)
    append(file, "Killed")
    copies.copy()
    copies.copy()
    assert group.streams["train"] == ["Killed"]


def test_what_could_not_be_sent_is_sent_later(group: LogGroup, file: Path) -> None:
    copies = copies_of(group, file)
    append(file, "one\n")
    group.is_reachable = False
    with pytest.raises(UnreachableError):
        copies.copy()
    group.is_reachable = True
    append(file, "two\n")
    copies.copy()
    assert group.streams["train"] == ["one", "two"]


def test_an_agent_that_is_started_anew_goes_on_where_the_last_one_stopped(
    group: LogGroup, file: Path
) -> None:
    append(file, "one\n")
    copies_of(group, file).copy()
    append(file, "two\n")
    copies_of(group, file).copy()
    assert group.streams["train"] == ["one", "two"]


def test_a_file_that_somebody_emptied_is_copied_from_its_beginning(
    group: LogGroup, file: Path
) -> None:
    copies = copies_of(group, file)
    append(file, "a long line\n")
    copies.copy()
    file.write_text("new\n")
    copies.copy()
    assert group.streams["train"] == ["a long line", "new"]


def test_no_look_copies_more_than_is_paid_for(group: LogGroup, file: Path) -> None:
    copies = copies_of(group, file)
    append(file, f"{'x' * 99}\n" * 10_000)
    copies.copy()
    sent_bytes = sum(len(line) + 1 for line in group.streams["train"])
    assert BYTES_PER_LOOK / 2 < sent_bytes <= BYTES_PER_LOOK


def test_what_can_never_be_caught_up_with_is_left_out_and_that_is_said(
    group: LogGroup, file: Path
) -> None:
    copies = copies_of(group, file)
    size = LONGEST_LEAD_BYTES + 100
    append(file, "x" * size)
    copies.copy()
    append(file, "the end\n")
    copies.copy()
    note, last = group.streams["train"]
    assert str(size) in note
    assert last == "the end"


def test_a_process_that_writes_much_leaves_room_for_its_neighbours(
    group: LogGroup, file: Path, tmp_path: Path
) -> None:
    copies = copies_of(group, file)
    neighbour = tmp_path / "research_train-1.log"
    copies.add(neighbour, "neighbour")
    append(file, "x\n" * 200_000)
    append(neighbour, "hello\n")
    copies.copy()
    assert group.streams["neighbour"] == ["hello"]


def test_a_command_and_its_hook_have_streams_that_name_workload_node_and_process(
    group: LogGroup, tmp_path: Path
) -> None:
    copies = LogCopies(group.send, lambda: 5.0)
    work = Processes(tmp_path, copies)
    environment = {
        "RESERVOIR_WORKLOAD": "research/train",
        "RESERVOIR_NODE_CLAIM": "nc-1",
    }
    command = ("echo", "begins")
    work.start(ProcessId("research/train", 3), Run("*", command), environment)
    hooked = Run("*", command, checkpoint=("echo", "saved"))
    work.start_hook("research/train", hooked, environment)
    while not list(work.ended()):
        time.sleep(0.01)
    while not list(work.ended_hooks()):
        time.sleep(0.01)
    copies.copy()
    assert group.streams == {
        "research/train/nc-1/3": ["begins"],
        "research/train/nc-1/checkpoint": ["saved"],
    }


def test_the_last_lines_are_copied_when_the_agent_ends(group: LogGroup, file: Path) -> None:
    copying = LogCopying(copies_of(group, file))
    copying.start()
    append(file, "the last\n")
    copying.finish(within_s=60)
    assert group.streams["train"] == ["the last"]
