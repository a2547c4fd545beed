"""How the wheel is made: ``reservoir`` with ``shared`` inside it, as ``reservoir._shared``.

Programs that install Reservoir often have a package ``shared`` of their own; the wheel brings one name only (ADR 92).
"""

import re
import shutil
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE: Final = "reservoir._shared"

# Deploying needs locks, the CDK and its command line: a checkout.
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
        build_data["force_include"] = {str(copy / "reservoir"): "reservoir"}


def vendored(source: str) -> str:
    """Return a module's source with ``shared`` under its name in the wheel."""
    return _BY_NAME.sub(f'import_module("{INSIDE}', _IMPORT.sub(rf"\1\2 {INSIDE}", source))
