"""The folder of manifests that a deployment applies: which files count, and what is wrong with it as a whole."""

from pathlib import Path
from typing import Final

MANIFEST_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
# The text travels in the template and in one invocation; both end at 1 MiB. Far more than a sane folder holds.
MANIFESTS_LIMIT_BYTES: Final = 200_000


def manifest_files(folder: Path) -> list[Path]:
    """Return the folder's YAML and JSON files, by path."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in MANIFEST_SUFFIXES and path.is_file()
    )


def folder_problem(folder: Path, named: str) -> str | None:
    """Say why a folder, as the settings name it, cannot be deployed; None if it can."""
    if not folder.is_dir():
        return f"{named} is not a folder beside this file"
    files = manifest_files(folder)
    if not files:
        return f"{named} holds no file that ends in {', '.join(sorted(MANIFEST_SUFFIXES))}"
    size_bytes = sum(path.stat().st_size for path in files)
    if size_bytes > MANIFESTS_LIMIT_BYTES:
        return f"{named} holds {size_bytes} bytes; at most {MANIFESTS_LIMIT_BYTES} can be deployed"
    return None
