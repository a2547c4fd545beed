"""The agent's containers by a real engine: Debian's podman, on an image that is made here of a shell."""

import os
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from reservoir.agent.configuration import Run
from reservoir.agent.machine import ProcessId
from reservoir.agent.processes import Processes

PROCESS: Final = ProcessId("research/train", 0)
NAME: Final = "reservoir_research_train_0"
IMAGE: Final = "localhost/shell:1"
# As little of the machine as there may be: no network, no systemd, no limits that a container's root may not raise.
CONTAINERS: Final = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
cgroupns = "host"
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""
STORAGE: Final = """
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


def podman(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607 - the engine


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have podman alone on the path, with an image; its own words say why where it cannot run one."""
    lacking = [name for name in ("podman", "runc", "ldd") if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        pytest.skip("needs root and Debian's packages podman and runc")
    image = make_image(tmp_path / "image.tar")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "podman").symlink_to(str(shutil.which("podman")))
    for variable, name, text in (
        ("CONTAINERS_CONF", "containers.conf", CONTAINERS),
        ("CONTAINERS_STORAGE_CONF", "storage.conf", STORAGE.format(folder=tmp_path)),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    tried = [podman("import", str(image), IMAGE), podman("run", "--rm", IMAGE, "sh", "-c", "exit 0")]
    if any(it.returncode for it in tried):
        pytest.skip(f"podman runs no container here: {tried[-1].stderr.strip()}")
    yield
    podman("rm", "--force", "--all")


def make_image(file: Path) -> Path:
    """Make a file system of the machine's shell, ``sleep``, and what these load."""
    programs = {name: str(shutil.which(name)) for name in ("sh", "sleep")}
    loaded = subprocess.run(["ldd", *programs.values()], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607 - our own programs
    with tarfile.open(file, "w", dereference=True) as image:
        for name, path in programs.items():
            image.add(path, f"bin/{name}")
        for library in sorted(set(re.findall(r"(?<=\s)/\S+(?= \()", loaded))):
            image.add(library, library)
    return file


@pytest.fixture
def work(tmp_path: Path, engine: None) -> Iterator[Processes]:  # noqa: ARG001 - it has to be there
    work = Processes(tmp_path / "logs")
    yield work
    work.stop(0)


def until(holds: Callable[[], object]) -> None:
    limit = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def ended(work: Processes) -> tuple[int, str]:
    found: list[tuple[ProcessId, int, str]] = []

    def has_ended() -> bool:
        found.extend(work.ended())
        return bool(found)

    until(has_ended)
    ((process, status, tail),) = found
    assert process == PROCESS
    return status, tail


def begin(work: Processes, script: str, variables: Mapping[str, str] = MappingProxyType({})) -> None:
    """Start a container, and wait until it has said so."""
    run = Run("*", ("sh", "-c", f"echo begins; {script}"), image=IMAGE)
    work.start(PROCESS, run, variables)
    until(lambda: "begins" in work.log_of(PROCESS).read_text())


def names() -> list[str]:
    """Return the names of the containers that there are, running or not."""
    return podman("ps", "--all", "--format={{.Names}}").stdout.split()


def test_a_container_is_told_what_it_is_for_hears_that_it_must_end_and_leaves_nothing(
    work: Processes, tmp_path: Path
) -> None:
    died = Processes(tmp_path / "of-an-agent-that-died")
    begin(died, "while :; do sleep 0.1; done")
    assert names() == [NAME]
    begin(work, "trap 'echo saved $RANK; exit 4' TERM; while :; do sleep 0.1; done", {"RANK": "7"})
    assert ended(died)[0] != 0, "what was left is ended before it is started anew"
    work.signal(PROCESS, kill=False)
    assert ended(work) == (4, "begins\nsaved 7\n")
    assert names() == []


def test_a_container_that_does_not_hear_is_killed(work: Processes) -> None:
    begin(work, "trap '' TERM; while :; do sleep 0.1; done")
    work.signal(PROCESS, kill=False)
    work.signal(PROCESS, kill=True)
    assert ended(work)[0] != 0
    until(lambda: names() == [])
