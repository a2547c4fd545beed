"""Folders that are expensive to make: once for a run, however many of pytest-xdist's workers need them.

A test package that uses ``make_once`` imports it in its conftest.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def make_once(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> MakeOnce:
    """Return what makes a folder by name and returns it; the first worker makes it, the others wait for it."""
    own = tmp_path_factory.getbasetemp()
    base = own.parent if hasattr(request.config, "workerinput") else own

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder = base / name
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                unfinished = base / f"{name}.unfinished"
                fill(unfinished)
                unfinished.rename(folder)
        return folder

    return make
