"""A release gets its version and its date in one step."""

from datetime import date
from pathlib import Path

import pytest

from infra.release.version import CHANGELOG, NAMES, ROOT, ReleaseError, cut, release_notes
from reservoir.names import VERSION

ON = date(2027, 1, 15)
BEFORE = """# Changelog

## Unreleased

- Warm units.

## 0.2.0 (2026-11-27)

- Static pools.

## 0.1.0 (2026-11-23)

- Everything else.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    names = tmp_path / NAMES
    names.parent.mkdir(parents=True)
    names.write_text(
        '"""Names."""\n\nVERSION: Final = "0.2.0"  # of the release\nOTHER: Final = "0.2.0"\n'
    )
    (tmp_path / CHANGELOG).write_text(BEFORE)
    return tmp_path


def test_what_is_unreleased_gets_the_version_and_the_date(checkout: Path) -> None:
    cut(checkout, "0.3.0", ON)
    assert (checkout / CHANGELOG).read_text() == BEFORE.replace(
        "## Unreleased", "## 0.3.0 (2027-01-15)"
    )
    names = (checkout / NAMES).read_text()
    assert (
        names
        == '"""Names."""\n\nVERSION: Final = "0.3.0"  # of the release\nOTHER: Final = "0.2.0"\n'
    )


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.2.0", "not above the last release, 0.2.0"),
        ("0.1.9", "not above the last release, 0.2.0"),
        ("0.3", "no version of the form 1.2.3"),
        ("v0.3.0", "no version of the form 1.2.3"),
    ],
)
def test_a_version_that_cannot_follow_changes_nothing(
    checkout: Path, version: str, why: str
) -> None:
    with pytest.raises(ReleaseError, match=why):
        cut(checkout, version, ON)
    assert (checkout / CHANGELOG).read_text() == BEFORE


def test_versions_are_compared_as_numbers(checkout: Path) -> None:
    cut(checkout, "0.10.0", ON)
    (checkout / CHANGELOG).write_text(
        (checkout / CHANGELOG)
        .read_text()
        .replace("# Changelog\n", "# Changelog\n\n## Unreleased\n\n- More.\n")
    )
    with pytest.raises(ReleaseError, match=r"not above the last release, 0\.10\.0"):
        cut(checkout, "0.9.0", ON)


def test_nothing_to_release_is_refused(checkout: Path) -> None:
    (checkout / CHANGELOG).write_text(BEFORE.replace("- Warm units.\n", ""))
    with pytest.raises(ReleaseError, match="nothing under"):
        cut(checkout, "0.3.0", ON)


def test_notes_are_those_of_the_version_or_of_what_is_to_be_released() -> None:
    assert release_notes(BEFORE, "0.2.0") == "- Static pools."
    assert release_notes(BEFORE, "0.3.0") == "- Warm units."


def test_this_checkout_can_be_released() -> None:
    assert release_notes((ROOT / CHANGELOG).read_text(encoding="utf-8"), VERSION)
    assert f'VERSION: Final = "{VERSION}"' in (ROOT / NAMES).read_text(encoding="utf-8")
