"""The agent's containers by real engines, podman and docker, on an image that is made here of a shell."""

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
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


def engine_says(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the engine


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where engines keep what they have; a socket's path may not be long."""
    folder = Path(tempfile.mkdtemp(prefix="engine"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def docker(folder: Path) -> Iterator[str]:
    """A daemon of docker's of our own; return where it listens."""
    require("docker", "dockerd", "containerd", "runc", "ldd")
    host = f"unix://{folder}/docker.sock"
    (folder / "daemon.json").write_text("{}")  # and not the machine's
    keeps = (f"--{name}={folder}/{name}" for name in ("data-root", "exec-root", "pidfile"))
    options = (
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--storage-driver=vfs",
    )
    log = folder / "docker.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(  # noqa: S603 - the engine's own
            [  # noqa: S607 - it is on the PATH
                "dockerd",
                f"--config-file={folder}/daemon.json",
                f"--host={host}",
                *keeps,
                *options,
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until(lambda: daemon.poll() is not None or "API listen on" in log.read_text())
    if daemon.poll() is not None:
        pytest.skip(f"docker's daemon does not run here: {log.read_text()[-300:]}")
    yield host
    daemon.terminate()
    daemon.wait()


@pytest.fixture(scope="module")
def podman(folder: Path) -> Mapping[str, str]:
    """Settings of podman's; return the variables that name them."""
    require("podman", "runc", "ldd")
    (folder / "containers.conf").write_text(CONTAINERS)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    return {
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
    }


def require(*programs: str) -> None:
    if any(shutil.which(name) is None for name in programs) or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(programs)}")


@pytest.fixture(params=["podman", "docker"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Have one engine alone on the path, with an image; its own words say why where it cannot run one."""
    name = str(request.param)
    told = request.getfixturevalue(name)
    for variable, value in ({"DOCKER_HOST": told} if name == "docker" else told).items():
        monkeypatch.setenv(variable, value)
    image = make_image(tmp_path / "image.tar")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    tried = [
        engine_says(name, "import", str(image), IMAGE),
        engine_says(name, "run", "--rm", IMAGE, "sh", "-c", "exit 0"),
    ]
    if any(it.returncode for it in tried):
        pytest.skip(f"{name} runs no container here: {tried[-1].stderr.strip()}")
    yield name
    for left in names(name):
        engine_says(name, "rm", "--force", left)


def make_image(file: Path) -> Path:
    """Make a file system of the machine's shell, ``sleep``, and what these load."""
    programs = {name: str(shutil.which(name)) for name in ("sh", "sleep")}
    loaded = subprocess.run(  # noqa: S603 - our own programs
        ["ldd", *programs.values()],  # noqa: S607 - our own programs
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with tarfile.open(file, "w", dereference=True) as image:
        for name, path in programs.items():
            image.add(path, f"bin/{name}")
        for library in sorted(set(re.findall(r"(?<=\s)/\S+(?= \()", loaded))):
            image.add(library, library)
    return file


@pytest.fixture
def work(tmp_path: Path, engine: str) -> Iterator[Processes]:  # noqa: ARG001 - it has to be there
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


def begin(
    work: Processes, script: str, variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Start a container, and wait until it has said so."""
    run = Run("*", ("sh", "-c", f"echo begins; {script}"), image=IMAGE)
    work.start(PROCESS, run, variables)
    until(lambda: "begins" in work.log_of(PROCESS).read_text())


def names(engine: str) -> list[str]:
    """Return the names of the containers that there are, running or not."""
    return engine_says(engine, "ps", "--all", "--format={{.Names}}").stdout.split()


def test_a_container_is_told_what_it_is_for_hears_that_it_must_end_and_leaves_nothing(
    work: Processes, engine: str, tmp_path: Path
) -> None:
    died = Processes(tmp_path / "of-an-agent-that-died")
    begin(died, "while :; do sleep 0.1; done")
    assert names(engine) == [NAME]
    begin(
        work,
        "trap 'echo saved $RANK; exit 4' TERM; while :; do sleep 0.1; done",
        {"RANK": "7"},
    )
    assert ended(died)[0] != 0, "what was left is ended before it is started anew"
    work.signal(PROCESS, kill=False)
    assert ended(work) == (4, "begins\nsaved 7\n")
    assert names(engine) == []


def test_a_container_that_does_not_hear_is_killed(work: Processes, engine: str) -> None:
    begin(work, "trap '' TERM; while :; do sleep 0.1; done")
    work.signal(PROCESS, kill=False)
    work.signal(PROCESS, kill=True)
    assert ended(work)[0] != 0
    until(lambda: names(engine) == [])
