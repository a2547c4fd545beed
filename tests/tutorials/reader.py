"""Tutorials as a reader goes through them: files are written, commands typed, and outputs compared loosely.

In a page, a block whose first line is ``# NAME.yaml`` is a file. In a block of the language ``console`` a line that
begins with ``$`` is typed, and what stands below it must be in the output, line for line in this order; ``…`` stands
for anything. Nothing happens that the page does not show.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from lab.embedded.reservoir import ROOT
from lab.story.world import World
from reservoir.names import Function

# Commands that only read: what they show may take some schedules to come about.
_READING: Final = (
    *(f"reservoir {word}" for word in ("get", "explain", "events", "plan", "replay")),
    "aws ",
)
# What a reader has after ``source .venv/bin/activate``.
_PROGRAMS: Final = {
    "reservoir": "-m reservoir",
    "aws": "-m tests.tutorials.aws",
    "python": "",
}
_LOOKS_MAX: Final = 40
_LOOK_EVERY: Final = timedelta(seconds=20)
_PART: Final = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL
)
_FILE: Final = re.compile(r"# ([\w.-]+\.(?:yaml|json|sh|toml))\n")
_ASSIGNMENT: Final = re.compile(r"(\w+)=\$\((.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """A command and the lines that it should print."""

    command: str
    expected: tuple[str, ...]


class Reader:
    """Somebody who goes through a page on a deployment, in a folder of their own."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._folder = folder
        self._variables: dict[str, str] = {}
        programs = folder / "programs"
        programs.mkdir()
        for name, module in _PROGRAMS.items():
            path = programs / name
            path.write_text(
                f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n'
            )
            path.chmod(0o755)
        self._environment = {
            **world.reservoir.environment(),
            "COLUMNS": "200",
            "PATH": f"{programs}:{os.defpath}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }

    def follow(self, page: Path) -> None:
        """Do what the page says, in order; fails at the first output that is another."""
        for part in _PART.finditer(page.read_text(encoding="utf-8")):
            if (name := _FILE.match(part["block"])) is not None:
                (self._folder / name[1]).write_text(part["block"])
            elif part["language"] == "console":
                for typed in commands_of(part["block"]):
                    self._type(typed)

    def _type(self, typed: Typed) -> None:
        assigned = _ASSIGNMENT.fullmatch(typed.command)
        command = typed.command if assigned is None else assigned[2]
        looks = _LOOKS_MAX if command.startswith(_READING) else 1
        for _ in range(looks):
            done = subprocess.run(  # noqa: S603 - our own documents
                ["/bin/sh", "-c", command],
                cwd=self._folder,
                env={**self._environment, **self._variables},
                stdout=subprocess.PIPE,
                # in the order in which a reader sees them
                stderr=subprocess.STDOUT if assigned is None else None,
                text=True,
                check=False,
            )
            missing = missing_of(typed.expected, done.stdout.splitlines())
            if missing is None:
                break
            self._world.aws.clock.advance(_LOOK_EVERY)
            self._world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
        assert missing is None, (
            f"$ {command}\n{done.stdout}\nlacks: {missing}\n{self._world.summary()}"
        )
        if assigned is not None:
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
            self._variables[assigned[1]] = done.stdout.strip()


def commands_of(block: str) -> Iterator[Typed]:
    """Yield the commands of a block with what should follow each."""
    joined = block.replace("\\\n", " ")
    for text in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, *expected = text.splitlines()
        yield Typed(
            re.sub(r"\s+# .*$", "", command).strip(),
            tuple(line for line in expected if line.strip()),
        )


def missing_of(expected: tuple[str, ...], written: list[str]) -> str | None:
    """Return the first expected line that is not in the output after those before it; None if all are."""
    lines = iter([" ".join(line.split()) for line in written])
    for line in expected:
        pattern = re.compile(
            ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        )
        # Blanks beside what stands for anything belong to it.
        loose = re.compile(pattern.pattern.replace(r"\ .*", ".*").replace(r".*\ ", ".*"))
        if not any(loose.fullmatch(item) or pattern.fullmatch(item) for item in lines):
            return line
    return None
