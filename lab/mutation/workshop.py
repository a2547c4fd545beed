"""A room's folder, in which mutmut changes a copy of the code and runs the room's tests on it.

mutmut reads its settings from the folder that it runs in, and copies the sources and tests from there to its folder
``mutants``. So each room has a folder of links to this checkout, beside a ``pyproject.toml`` that says what is changed.
The checkout itself is only read.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutmut.configuration import reset_config
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

from lab.mutation.results import Change
from lab.mutation.rooms import Room

ROOT: Final = Path(__file__).resolve().parents[2]
_FOLDERS: Final = ROOT / ".build" / "mutants"
_LINKED: Final = ("tests", "lab", "functions")
_KILLED: Final = ("killed", "timeout", "segfault")
_LIVES: Final = ("survived", "no tests", "suspicious", "skipped")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What became of a room's mutants, by their names."""

    killed: frozenset[str]
    survived: frozenset[str]


class MutmutError(Exception):
    """mutmut did not run to its end."""


def prepare(room: Room) -> Path:
    """Make the room's folder, or make it true again, and return it. What mutmut knows already stays."""
    folder = _FOLDERS / room.folder_name
    folder.mkdir(parents=True, exist_ok=True)
    _link(
        folder / "src", ROOT / "shared"
    )  # the one name that mutmut leaves out of module names
    for name in _LINKED:
        _link(folder / name, ROOT / name)
    changed = f"src/reservoir/{room.name}" + ("" if room.is_module else "/*")
    settings = {
        "source_paths": ["src"],
        "only_mutate": [changed],
        "also_copy": ["lab", "functions"],
        "pytest_add_cli_args_test_selection": list(room.tests),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    ours = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = "\n".join(
        (ours, "[tool.mutmut]", *lines, "use_git_change_detection = false", "")
    )
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def names(room: Room) -> list[str]:
    """Return the names of all the room's mutants, in order."""
    found = []
    with _opened(room):
        for path in sorted(walk_mutatable_files()):
            mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
            found += [get_mutant_name(path, name) for name in mutated.mutant_names]
    return found


def run(room: Room, wanted: Collection[str], workers: int) -> None:
    """Try these mutants, or without names all that have not been tried. Raises MutmutError."""
    folder = prepare(room)
    log = folder / "run.log"
    command = [
        str(Path(sys.executable).with_name("mutmut")),
        "run",
        "--max-children",
        str(workers),
        *wanted,
    ]
    environment = {
        **os.environ,
        "HYPOTHESIS_PROFILE": "ci",
    }  # each mutant meets the same examples
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        last = log.read_text(encoding="utf-8")[-2000:].replace("\r", "\n")
        raise MutmutError(f"{room.name}: mutmut ended with {done.returncode}:\n{last}")


def verdicts(room: Room) -> Verdicts:
    """Return what is known of the room's mutants."""
    by_status: dict[str, set[str]] = {}
    with _opened(room):
        for path in walk_mutatable_files():
            known = SourceFileMutationData(path=path)
            known.load()
            for name, exit_code in known.exit_code_by_key.items():
                by_status.setdefault(status_by_exit_code[exit_code], set()).add(name)
    return Verdicts(_joined(by_status, _KILLED), _joined(by_status, _LIVES))


def changes(room: Room, mutants: Collection[str]) -> list[Change]:
    """Return what these mutants change."""
    with _opened(room):
        return [_change(name) for name in sorted(mutants)]


def _change(name: str) -> Change:
    function = name.partition("__mutmut_")[0]
    module, _, mangled = function.rpartition(".")
    path = Path("src", *module.split(".")).with_suffix(".py")
    if not path.exists():
        path = Path("src", *module.split("."), "__init__.py")
    lines = get_diff_for_mutant(name, path=path).splitlines()[3:]
    was = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    instead = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    plain = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    return Change(f"{module.removeprefix('reservoir.')}.{plain}", was, instead)


def _joined(by_status: dict[str, set[str]], statuses: tuple[str, ...]) -> frozenset[str]:
    return frozenset().union(*(by_status.get(status, set()) for status in statuses))


@contextlib.contextmanager
def _opened(room: Room) -> Iterator[None]:
    """Have mutmut read the settings of this room: it keeps those of the folder it was first asked in."""
    with contextlib.chdir(prepare(room)):
        reset_config()
        yield
    reset_config()


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)
