"""Where the previous release is not in the history, tests of upgrades say so instead of failing without a reason."""

import subprocess
from pathlib import Path

import pytest

from tests.test_tidy import ROOT
from tests.upgrades.conftest import PREVIOUS, MissingReleaseError, archive_of


def test_a_shallow_clone_has_no_previous_release_and_says_so(tmp_path: Path) -> None:
    """What a CI service makes unless it is asked for the whole history."""
    clone = tmp_path / "clone"
    command = [
        "git",
        "clone",
        "--quiet",
        "--depth",
        "1",
        "--no-checkout",
        f"file://{ROOT}",
        str(clone),
    ]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own repository
    with pytest.raises(
        MissingReleaseError,
        match=rf"the history has no {PREVIOUS[:7]} \(a shallow clone\?\)",
    ):
        archive_of(clone, PREVIOUS)


def test_neither_has_a_copy_without_a_history(tmp_path: Path) -> None:
    with pytest.raises(MissingReleaseError, match="not a git repository"):
        archive_of(tmp_path, PREVIOUS)
