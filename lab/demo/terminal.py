"""Pictures of a terminal: what a command really printed on one, drawn as SVG."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

# Rich's own form names fonts on somebody else's server, which a page of ours shall not ask.
_REMOTE_FONTS: Final = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)
_ROWS: Final = 50


def run_on_terminal(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, columns: int
) -> str:
    """Run ``reservoir`` on a terminal that is ``columns`` wide; return all it wrote there, with its colours.

    Raises
    ------
    RuntimeError
        It failed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    plain = {
        name: value
        for name, value in environment.items()
        if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "reservoir", *arguments],
        cwd=folder,
        env={**plain, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = _read_all(ours)
    if process.wait():
        message = f"reservoir {' '.join(arguments)} failed:\n{written}"
        raise RuntimeError(message)
    return written.replace("\r\n", "\n")


def _read_all(terminal: int) -> str:
    parts: list[bytes] = []
    with open(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                part = stream.read(65536)
            except OSError:  # how Linux says that nobody writes to the terminal any more
                part = b""
            if not part:
                return b"".join(parts).decode()
            parts.append(part)


def drawn(command: str, written: str) -> str:
    """Return an SVG of a terminal in which ``command`` wrote this, as wide as it has to be."""
    shown = Text.from_ansi(written.rstrip("\n"))
    columns = max(cell_len(line) for line in (f"$ {command}", *shown.plain.splitlines()))
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Text(f"$ {command}", style="bold"))
    console.print(shown)
    svg = console.export_svg(title="", theme=MONOKAI, unique_id="terminal")
    return _REMOTE_FONTS.sub("", svg)
