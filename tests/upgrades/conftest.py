"""The previous release's code, from the repository's own history."""

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.local import ministack
from tests.once import MakeOnce, make_once
from tests.test_tidy import ROOT

__all__ = ["make_once"]

STEP = Path(__file__).parent / "step.py"
OLD_NAMES = Path(__file__).parent / "old_names.py"
# What a release is synthesised from, and its tests.
PARTS = (
    "app.py",
    "cdk.json",
    "functions",
    "infra",
    "package-lock.json",
    "requirements",
    "shared",
    "tests",
)
PREVIOUS = (Path(__file__).parent / "PREVIOUS_RELEASE").read_text().strip()


@pytest.fixture(scope="session")
def previous(make_once: MakeOnce) -> Path:
    """Return a folder with the code and the tests as they were; skips where the history is not there."""
    try:
        archive = archive_of(ROOT, PREVIOUS)
    except MissingReleaseError as error:
        pytest.skip(str(error))

    return make_once(f"release-{PREVIOUS[:12]}", lambda folder: unpack(archive, folder))


class MissingReleaseError(Exception):
    """The previous release is not in the history that is here."""


def archive_of(repository: Path, commit: str) -> bytes:
    """Return code and tests of a commit as a zip file. Raises MissingReleaseError, which says why."""
    archive = subprocess.run(  # noqa: S603 - a commit that is named in this folder
        ["git", "archive", "--format=zip", commit, *PARTS],  # noqa: S607 - whatever git this is
        cwd=repository,
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise MissingReleaseError(
            f"the history has no {commit[:7]} (a shallow clone?): {archive.stderr.decode().strip()}"
        )
    return archive.stdout


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack what :func:`archive_of` returned into a folder."""
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        content.extractall(folder)


class ReleaseProcess:
    """A process in which one release's code does what it is asked to."""

    def __init__(self, code: Path, endpoint: str) -> None:
        is_old = not (code / "shared" / "reservoir").is_dir()
        scripts = [str(OLD_NAMES), str(STEP)] if is_old else [str(STEP)]
        self._process = subprocess.Popen(  # noqa: S603 - our own code, of two ages
            [sys.executable, "-B", *scripts, endpoint],
            cwd=code,
            env={
                "PYTHONPATH": os.pathsep.join([str(code / "shared"), str(code)]),
                "PATH": "",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, tables: Mapping[str, str], step: str) -> dict[str, Any]:
        """Do a step on these tables; return what the release sees afterwards. What it complains of is on stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([tables, step]) + "\n")
        self._process.stdin.flush()
        seen: dict[str, Any] = json.loads(self._process.stdout.readline())
        return seen

    def end(self) -> None:
        """End it."""
        self._process.communicate()


@pytest.fixture(scope="session")
def releases(previous: Path, endpoint: str) -> Iterator[dict[str, ReleaseProcess]]:
    found = {
        "old": ReleaseProcess(previous, endpoint),
        "new": ReleaseProcess(ROOT, endpoint),
    }
    yield found
    for release in found.values():
        release.end()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with ministack.running("dynamodb") as found:
        yield found


@pytest.fixture(scope="session")
def dynamodb(endpoint: str) -> Any:
    return ministack.client("dynamodb", endpoint)
