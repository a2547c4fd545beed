"""How the wheel is made: ``reservoir`` with ``shared`` inside it, as ``reservoir._shared``.

Programs that install Reservoir often have a package ``shared`` of their own; the wheel brings one name only (ADR 92).
What deploys lies in it as an archive of the checkout's files (ADR 136).
"""

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE: Final = "reservoir._shared"

# Deploying needs the locks and the sources of functions as they are.
CHECKOUT: Final = "checkout.zip"
_CARRIED: Final = (
    *("app.py", "cdk.json", "package.json", "package-lock.json", "requirements/runtime.txt"),
    *("functions", "infra", "reservoir", "shared"),
)
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "deployment")
_IMPORT: Final = re.compile(r"^(\s*)(from|import) shared(?=[.\s])", re.MULTILINE)
_BY_NAME: Final = re.compile(r'import_module\("shared(?=\.)')


class Vendor(BuildHookInterface[Any]):
    """Copies the packages, with imports of ``shared`` changed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Have the wheel take its files from the copy."""
        del version
        copy = Path(self.directory) / "sources"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(Path(self.root) / "reservoir", copy / "reservoir", ignore=_LEFT_OUT)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(self.root) / "shared", copy / "reservoir" / "_shared", ignore=ignored)
        for module in copy.rglob("*.py"):
            module.write_text(vendored(module.read_text(encoding="utf-8")), encoding="utf-8")
        pack(Path(self.root), copy / "reservoir" / CHECKOUT)
        build_data["force_include"] = {str(copy / "reservoir"): "reservoir"}


def pack(root: Path, archive: Path) -> None:
    """Pack what deploys; the same files are the same bytes, by which an unpacked archive is known."""
    named = [path for name in _CARRIED for path in sorted((root / name).rglob("*.*")) or [root / name]]
    files = [path for path in named if path.is_file() and path.suffix != ".pyc"]
    with zipfile.ZipFile(archive, "w") as packed:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix())
            packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def vendored(source: str) -> str:
    """Return a module's source with ``shared`` under its name in the wheel."""
    return _BY_NAME.sub(f'import_module("{INSIDE}', _IMPORT.sub(rf"\1\2 {INSIDE}", source))
