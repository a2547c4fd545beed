"""The command line in a process of its own, which is forked from one that has imported everything.

Credentials and clients are kept per process, so people cannot share one; an interpreter that imports everything anew
takes ten times as long as what a command does.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from reservoir.cli.app import COMMANDS

_STREAMS: Final = (
    ("stdin", os.O_RDONLY),
    ("stdout", os.O_WRONLY | os.O_CREAT),
    ("stderr", os.O_WRONLY | os.O_CREAT),
)
_FORKING: Final = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [__name__, "reservoir.__main__", *(command.module for command in COMMANDS)]
)


def run_command(
    arguments: tuple[str, ...], environment: Mapping[str, str], stdin: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Return how ``python -m reservoir`` ended, and what it wrote."""
    with TemporaryDirectory(prefix="command-") as name:
        folder = Path(name)
        (folder / "stdin").write_text(stdin or "")
        process = _FORKING.Process(
            target=_be_command, args=(arguments, dict(environment), folder)
        )
        process.start()
        process.join()
        assert process.exitcode is not None
        stdout, stderr = ((folder / stream).read_text() for stream in ("stdout", "stderr"))
    return subprocess.CompletedProcess(
        ["reservoir", *arguments], process.exitcode, stdout, stderr
    )


def _be_command(
    arguments: tuple[str, ...], environment: dict[str, str], folder: Path
) -> None:
    """Be the command, in the new process."""
    for number, (stream, flags) in enumerate(_STREAMS):
        os.dup2(os.open(folder / stream, flags), number)
    sys.stdin = os.fdopen(0)
    os.environ.clear()  # noqa: TID251 - the environment of a person
    os.environ.update(environment)  # noqa: TID251 - as above
    sys.argv[1:] = arguments
    from reservoir.__main__ import run

    run()
