"""``python -m infra.release.version 0.3.0 --on 2027-01-15``: give what is unreleased a version and a date.

The version stands in one place of the product, from which the wheel, the stack's output and the bill of materials have
it; the changelog's list of what is unreleased becomes that of the version.
"""

import argparse
import re
import sys
from datetime import date
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CHANGELOG: Final = "CHANGELOG.md"
NAMES: Final = "shared/reservoir/names.py"

_UNRELEASED: Final = "## Unreleased"
_RELEASED: Final = re.compile(r"^## (\d+)\.(\d+)\.(\d+) \(", re.MULTILINE)
_VERSION_LINE: Final = re.compile(r'^VERSION: Final = "[^"]+"', re.MULTILINE)

Version = tuple[int, int, int]


class ReleaseError(Exception):
    """The version cannot be released."""


def cut(root: Path, version: str, on: date) -> None:
    """Write version and date into the checkout at ``root``.

    Raises
    ------
    ReleaseError
        The version is not of the form 1.2.3, is not above the last release, or there is nothing to release. Nothing is
        written.
    """
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    names = (root / NAMES).read_text(encoding="utf-8")
    wanted = _parsed(version)
    last = max(_releases(changelog), default=(0, 0, 0))
    if wanted <= last:
        raise ReleaseError(
            f"{version} is not above the last release, {'.'.join(map(str, last))}"
        )
    if not notes(changelog, "Unreleased"):
        raise ReleaseError(f"{CHANGELOG} has nothing under {_UNRELEASED!r}")
    dated = changelog.replace(_UNRELEASED, f"## {version} ({on.isoformat()})", 1)
    (root / CHANGELOG).write_text(dated, encoding="utf-8")
    (root / NAMES).write_text(
        _VERSION_LINE.sub(f'VERSION: Final = "{version}"', names), encoding="utf-8"
    )


def notes(changelog: str, title: str) -> str:
    """Return what the changelog says under a heading that begins with ``title``; empty where it has none."""
    found = re.search(
        rf"^## {re.escape(title)}\b[^\n]*\n(.*?)(?=^## |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    return "" if found is None else found[1].strip()


def release_notes(changelog: str, version: str) -> str:
    """Return the notes of a version, or of what is unreleased while the version has no date."""
    return notes(changelog, version) or notes(changelog, "Unreleased")


def _parsed(version: str) -> Version:
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        raise ReleaseError(f"{version!r} is no version of the form 1.2.3")
    return int(found[1]), int(found[2]), int(found[3])


def _releases(changelog: str) -> list[Version]:
    return [
        (int(major), int(minor), int(patch))
        for major, minor, patch in _RELEASED.findall(changelog)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Cut a release of this checkout."""
    parser = argparse.ArgumentParser(prog="python -m infra.release.version")
    parser.add_argument("version", help="of the form 1.2.3")
    parser.add_argument("--on", type=date.fromisoformat, required=True, help="its date")
    chosen = parser.parse_args(arguments)
    try:
        cut(ROOT, chosen.version, chosen.on)
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
