"""Bytecode of what is deployed: it halves a cold start, and Lambda's folders are read-only, so none can be made there.

Bytecode belongs to one minor version of Python, and whoever builds need not have that one. What is built for this
machine is compiled by the Python that runs this; what is built for an account by the CPython in the locked Pyodide,
which runs in the locked Node: on every machine the same compiler, and therefore the same bytes.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from infra import NODE

_PYODIDE: Final = Path(__file__).resolve().parents[2] / "node_modules" / "pyodide"
_COMPILE_IN_PYODIDE: Final = Path(__file__).with_name("bytecode.mjs")
# Invalidation is by nothing (unchecked hash), because a zip changes the modification times that Python would compare.
_INVALIDATION: Final = "unchecked-hash"


class BytecodeError(Exception):
    """Bytecode cannot be made; says what is missing and how to get it."""


def compile_here(folder: Path, where: str) -> None:
    """Compile ``folder`` for the Python that runs this; tracebacks name files in ``where``, as Lambda has them."""
    command = [
        sys.executable,
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        _INVALIDATION,
    ]
    subprocess.run([*command, "-s", str(folder), "-p", where, str(folder)], check=True)


def compile_for(
    python_version: str, folder: Path, where: str, pyodide: Path = _PYODIDE
) -> None:
    """Compile ``folder`` for another Python, with the locked one.

    Raises BytecodeError when the lock's compiler is not installed, is of another minor version, or fails.
    """
    if not pyodide.is_dir():
        message = f"the compiler for Python {python_version} is not installed in {pyodide}; `make synth` installs it"
        raise BytecodeError(message)
    answer = subprocess.run(
        [NODE, _COMPILE_IN_PYODIDE, pyodide, python_version, folder, where],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        message = f"no bytecode for Python {python_version}: {answer.stdout}{answer.stderr}".rstrip()
        raise BytecodeError(message)
