"""What the wheel has beside the package: as a data file, the checkout that it deploys (ADR 136)."""

import zipfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CHECKOUT: Final = "reservoir/cli/checkout.zip"
# Deploying needs the locks and the sources of functions as they are, and the check what CloudFormation must be allowed.
_CARRIED: Final = (
    *(
        "app.py",
        "cdk.json",
        "package.json",
        "package-lock.json",
        "requirements/runtime.txt",
        "examples/iam/execution.json",
    ),
    *("functions", "infra", "shared"),
)


class Checkout(BuildHookInterface[Any]):
    """Packs the checkout into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the archive; an editable installation deploys from the checkout itself."""
        if version == "editable":
            return
        archive = Path(self.directory) / "checkout.zip"
        archive.parent.mkdir(parents=True, exist_ok=True)
        pack(Path(self.root), archive)
        build_data["force_include"][str(archive)] = CHECKOUT


def pack(root: Path, archive: Path) -> None:
    """Pack what deploys; the same files are the same bytes, by which an unpacked archive is known."""
    named = [
        path
        for name in _CARRIED
        for path in sorted((root / name).rglob("*.*")) or [root / name]
    ]
    files = [path for path in named if path.is_file() and path.suffix != ".pyc"]
    with zipfile.ZipFile(archive, "w") as packed:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix())
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
