"""Real processes, and containers of a stand-in for an engine."""

import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reservoir.agent.configuration import Run
from reservoir.agent.machine import ProcessId
from reservoir.agent.processes import Processes

PROCESS = ProcessId("research/train", 0)
CONTAINER = "reservoir_research_train_0"
# Like docker: what it runs is not a child of the client, has a name that is taken once, and hears of the client's
# SIGTERM, but not of its SIGKILL. Of --env only names are taken, whose values are the client's. Whoever reads the
# container's process finds a client that hears: its trap is set before.
ENGINE = """#!/bin/sh
cd "$ENGINE_FOLDER"
echo "$*" >> calls
case $1 in
rm) if [ -e "$3" ]; then kill -KILL "$(cat "$3")" 2>/dev/null; rm -f "$3"; fi; exit 0;;
run) shift;;
esac
while :; do
  case $1 in
  --name=*) name=${1#--name=};;
  --env=*=*) exit 64;;
  --*) ;;
  *) break;;
  esac
  shift
done
[ "$1" = example/train:1 ] || exit 125
shift
[ ! -e "$name" ] || { echo "the name $name is in use"; exit 125; }
trap 'kill -TERM "$(cat "$name")"' TERM
setsid "$@" &
echo $! > "$name"
wait $!; status=$?
if [ $status -gt 128 ]; then wait "$(cat "$name")"; status=$?; fi
rm -f "$name"
exit $status
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the engine on the path; return the folder where it keeps its containers."""
    folder = tmp_path / "engine"
    folder.mkdir()
    program = tmp_path / "bin" / "podman"
    program.parent.mkdir()
    program.write_text(ENGINE)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    # Other engines of this machine are not found.
    for name in ("sh", "cat", "rm", "setsid", "sleep"):
        (program.parent / name).symlink_to(
            next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists())
        )
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("ENGINE_FOLDER", str(folder))
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Processes]:
    work = Processes(tmp_path / "logs")
    yield work
    work.stop(0)


def until(holds: Callable[[], object]) -> None:
    while not holds():
        time.sleep(0.01)


def begun(work: Processes, engine: Path) -> int:
    """Wait until the container runs and has said so; return its process."""
    log, kept = work.log_of(PROCESS), engine / CONTAINER
    until(
        lambda: (
            log.exists()
            and "begins" in log.read_text()
            and kept.exists()
            and kept.read_text().endswith("\n")
        )
    )
    return int(kept.read_text())


def ended(work: Processes) -> tuple[int, str]:
    found: list[tuple[ProcessId, int, str]] = []
    while not found:
        found += work.ended()
        time.sleep(0.01)
    ((process, status, tail),) = found
    assert process == PROCESS
    return status, tail


def container(*command: str) -> Run:
    return Run("*", command, image="example/train:1", container_options=("--gpus=all",))


def test_a_command_gets_its_environment_and_its_end_is_told(work: Processes) -> None:
    work.start(PROCESS, Run("*", ("sh", "-c", 'echo "rank $RANK"; exit 3')), {"RANK": "7"})
    assert ended(work) == (3, "rank 7\n")


def test_a_command_that_does_not_exist_ends_as_a_shell_says(work: Processes) -> None:
    work.start(PROCESS, Run("*", ("/nowhere/at-all",)), {})
    status, why = ended(work)
    assert status == 127
    assert "/nowhere/at-all" in why


def test_a_command_of_a_user_that_does_not_exist_runs_as_nobody_else(
    work: Processes, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    work.start(PROCESS, Run("*", ("touch", str(trace)), user="no-such-user"), {})
    assert ended(work) == (127, "there is no user no-such-user on the node\n")
    hooked = Run("*", ("true",), checkpoint=("touch", str(trace)), user="no-such-user")
    work.start_hook("research/train", hooked, {})
    until(lambda: list(work.ended_hooks()))
    assert not trace.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="root alone runs something as another user")
def test_commands_and_hooks_run_as_their_user_with_no_right_of_roots(
    work: Processes, tmp_path: Path
) -> None:
    who = ("sh", "-c", 'echo "$(id -un) $(id -Gn) $USER $HOME"; cat /proc/self/environ')
    run = Run("*", who, checkpoint=who, user="nobody")
    home = pwd.getpwnam("nobody").pw_dir
    said = f"nobody nogroup nobody {home}\n"
    work.start(PROCESS, run, {})
    status, tail = ended(work)
    assert (status, tail.startswith(said)) == (0, True)
    work.start_hook("research/train", run, {})
    until(lambda: list(work.ended_hooks()))
    hook = tmp_path / "logs" / "research_train-checkpoint.log"
    assert hook.read_text().startswith(said)


def test_nobody_but_the_agents_user_reads_what_commands_write(
    work: Processes, tmp_path: Path
) -> None:
    work.start(PROCESS, Run("*", ("true",)), {})
    ended(work)
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_who_does_not_end_in_time_is_killed_when_the_agent_stops(
    work: Processes, tmp_path: Path
) -> None:
    stubborn, polite = tmp_path / "stubborn", tmp_path / "polite"
    work.start(
        PROCESS,
        Run(
            "*",
            ("sh", "-c", f"trap '' TERM; touch {stubborn}; while :; do sleep 0.05; done"),
        ),
        {},
    )
    saves = f"trap 'touch {polite}.saved; exit 0' TERM; touch {polite}; while :; do sleep 0.05; done"
    work.start(ProcessId("research/train", 1), Run("*", ("sh", "-c", saves)), {})
    until(lambda: stubborn.exists() and polite.exists())
    work.stop(1)
    assert {status for _, status, _ in work.ended()} == {-9, 0}
    assert polite.with_suffix(".saved").exists()


def test_an_image_runs_in_a_container_with_the_variables_and_options(
    work: Processes, engine: Path
) -> None:
    work.start(
        PROCESS,
        container("sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"; exit 4'),
        {"RANK": "1", "WORLD_SIZE": "2"},
    )
    assert ended(work) == (4, "rank 1 of 2\n")
    (ran,) = [
        line
        for line in (engine / "calls").read_text().splitlines()
        if line.startswith("run")
    ]
    assert ran.startswith(
        f"run --rm --name={CONTAINER} --env=RANK --env=WORLD_SIZE --gpus=all example/train:1 sh -c"
    )


def test_a_container_is_asked_to_end_and_its_status_is_told(
    work: Processes, engine: Path
) -> None:
    saves = "trap 'echo saved; exit 0' TERM; echo begins; while :; do sleep 0.05; done"
    work.start(PROCESS, container("sh", "-c", saves), {})
    begun(work, engine)
    work.signal(PROCESS, kill=False)
    assert ended(work) == (0, "begins\nsaved\n")


def test_a_container_that_is_killed_does_not_outlive_its_client(
    work: Processes, engine: Path
) -> None:
    work.start(
        PROCESS,
        container("sh", "-c", "trap '' TERM; echo begins; while :; do sleep 0.05; done"),
        {},
    )
    pid = begun(work, engine)
    work.signal(PROCESS, kill=True)
    assert ended(work)[0] == -9
    until(lambda: not _runs(pid))


def test_what_an_agent_left_is_ended_before_it_is_started_anew(
    work: Processes, engine: Path, tmp_path: Path
) -> None:
    dead = Processes(tmp_path / "other-logs")
    dead.start(
        PROCESS, container("sh", "-c", "echo begins; while :; do sleep 0.05; done"), {}
    )
    left = begun(dead, engine)
    work.start(PROCESS, container("sh", "-c", "echo anew"), {})
    assert ended(work) == (0, "anew\n")
    until(lambda: not _runs(left))
    ended(dead)  # its client, a child of this process


def test_without_an_engine_nothing_is_started_and_it_is_said_why(
    work: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    work.start(PROCESS, container("true"), {})
    assert ended(work) == (
        127,
        "a container needs one of docker, podman, nerdctl on the node\n",
    )


def _runs(pid: int) -> bool:
    """Whether a process is alive, and not one that only nobody has waited for."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
