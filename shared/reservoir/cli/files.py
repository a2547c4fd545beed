"""Manifests from files, folders and standard input."""

import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

import typer

from reservoir.cli.console import fail
from reservoir.manifests.parsing.structure import LARGEST_INPUT_BYTES

STANDARD_INPUT: Final = "-"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

Filenames = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="A file, a folder with its subfolders, or - for stdin.",
    ),
]


def read(names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return the files with their contents; ends the command when there are none or one cannot be read."""
    try:
        found = list(chain.from_iterable(map(_read, names)))
    except OSError as error:
        fail(f"cannot read {error.filename}: {error.strerror}")
    if not found:
        fail(
            f"no manifests in {', '.join(names)}: files end in {', '.join(sorted(_SUFFIXES))}"
        )
    return found


def _read(name: str) -> Iterator[tuple[str, bytes]]:
    # one byte more than is allowed, so that the size is refused where all other bounds are
    if name == STANDARD_INPUT:
        yield "stdin", sys.stdin.buffer.read(LARGEST_INPUT_BYTES + 1)
        return
    path = Path(name)
    paths = (
        sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
        if path.is_dir()
        else [path]
    )
    for each in paths:
        with each.open("rb") as file:
            yield str(each), file.read(LARGEST_INPUT_BYTES + 1)
