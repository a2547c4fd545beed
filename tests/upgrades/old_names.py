"""Names of today for modules of releases up to 0.2.0, whose product was a package called ``shared``.

What behaves in tests lay in ``tests`` then. Each module stays one module, whatever it is called: classes are compared.
"""

import importlib
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OLD_NAMES = {
    "reservoir": "shared",
    "lab": "tests",
    "lab.fakes": "tests.fakes",
    "lab.local": "tests.adapters",
}


class OldNames(MetaPathFinder, Loader):
    """Finds a module by the name that it has today."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find it, if it is one that had another name."""
        del path, target
        return None if old_name(fullname) is None else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that has been imported by its old name."""
        name = old_name(spec.name)
        assert name is not None
        return importlib.import_module(name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing more: it was executed by its old name."""


def old_name(name: str) -> str | None:
    """Return what a module was called, or None if it was never moved."""
    for today, before in sorted(OLD_NAMES.items(), reverse=True):
        if name == today or name.startswith(f"{today}."):
            return before + name.removeprefix(today)
    return None


# a script and its arguments: run it where modules have their old names
if __name__ == "__main__":
    sys.meta_path.insert(0, OldNames())
    script, *sys.argv = sys.argv[1], *sys.argv[1:]
    runpy.run_path(script, run_name="__main__")
