"""Spin: searches every order of a model's steps, and plays single orders of them."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
# What a step of a model prints: its name with arguments, then what is stored.
_STEP: Final = "> "
_STATE: Final = "= "
_MEMORY_MIB: Final = 2_000
_DEPTH_MAX: Final = 1_000_000
_COMPILED: Final = (
    "-w",
    "-O2",
    "-DCOLLAPSE",
    "-DVECTORSZ=2048",
    "-DNFAIR=4",
    f"-DMEMLIM={_MEMORY_MIB}",
)


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found: how many states there are, how deep they lie, and the first rule that a state breaks."""

    states: int
    depth: int
    violation: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a play, and what is stored after it, by name."""

    name: str
    arguments: tuple[int, ...]
    state: Mapping[str, tuple[int, ...]]


def missing() -> str | None:
    """Return why nothing can be checked on this machine, or None."""
    for program in ("spin", "cc"):
        if shutil.which(program) is None:
            return (
                f"there is no {program} on this machine (Debian: apt-get install spin gcc)"
            )
    return None


def search(model: str, defines: Sequence[str]) -> Search:
    """Look at every state; with ``LIVENESS`` among the defines at every fair path too."""
    follows_paths = "LIVENESS" in defines
    with tempfile.TemporaryDirectory() as folder:
        _run(["spin", "-a", *_defined(defines), str(FOLDER / model)], folder)
        _run(
            [
                "cc",
                *_COMPILED,
                *([] if follows_paths else ["-DSAFETY"]),
                "-o",
                "pan",
                "pan.c",
            ],
            folder,
        )
        said = _run(
            ["./pan", *(["-a", "-f"] if follows_paths else []), f"-m{_DEPTH_MAX}"], folder
        )
    if re.search(r"max search depth too small|out of memory|pan: reached -DMEMLIM", said):
        raise RuntimeError(f"{model} with {defines} is too large to be searched:\n{said}")
    count = re.search(r"(\d+) states, stored", said)
    depth = re.search(r"depth reached (\d+), errors: (\d+)", said)
    if count is None or depth is None:
        raise RuntimeError(f"spin did not search {model}:\n{said}")
    broken = re.search(r"pan:\d+: (.+)", said)
    violation = None if depth[2] == "0" else (broken[1] if broken else "errors")
    return Search(int(count[1]), int(depth[1]), violation)


def play(model: str, defines: Sequence[str], seed: int) -> Iterator[Step]:
    """Yield the steps of one order that the seed draws."""
    with tempfile.TemporaryDirectory() as folder:
        said = _run(
            ["spin", "-T", f"-n{seed}", "-u20000", *_defined(defines), str(FOLDER / model)],
            folder,
        )
    name: str | None = None
    arguments: tuple[int, ...] = ()
    for line in said.splitlines():
        if line.startswith(_STEP):
            name, *numbers = line.removeprefix(_STEP).split()
            arguments = tuple(map(int, numbers))
        elif line.startswith(_STATE) and name is not None:
            yield Step(name, arguments, _state(line.removeprefix(_STATE).split()))


def _state(words: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    name = ""
    for word in words:
        if word.lstrip("-").isdigit():
            found[name] = (*found[name], int(word))
        else:
            name = word
            found[name] = ()
    return found


def _defined(defines: Sequence[str]) -> list[str]:
    return [f"-D{define}" for define in defines]


def _run(words: Sequence[str], folder: str) -> str:
    done = subprocess.run(  # noqa: S603 # spin, the compiler, and what they made
        words, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode and words[0] != "./pan":
        raise RuntimeError(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
