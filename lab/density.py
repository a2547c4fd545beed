"""How dense the code is, room by room, beside two libraries that read well. It informs and gates nothing.

Density is what makes a line need a second reading: a comprehension within a comprehension, a line that goes on and on.
Run by `make check`; by hand it is `python -m lab.density`.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent
_ROOMS: Final = (
    "core",
    "usecases",
    "manifests",
    "adapters",
    "runtime",
    "cli",
    "client",
    "agent",
)
_MODELS: Final = ("attr", "aws_lambda_powertools")
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_HEADER: Final = f"{'':24}{'lines':>8}{'comprehensions':>16}{'nested':>8}{'comments':>10}{'length p90':>12}"


@dataclass(frozen=True)
class Density:
    """What was counted in some files; lines are those that are neither empty nor comments."""

    lines: int
    comprehensions: int
    nested: int
    comments: int
    length_p90: int

    def row(self, name: str) -> str:
        """Return a line of the table: counts are for a hundred lines of code."""
        figures = (
            f"{self._of_hundred(self.comprehensions):>16.1f}",
            f"{self._of_hundred(self.nested):>8.2f}",
            f"{self._of_hundred(self.comments):>10.1f}",
        )
        return f"{name:24}{self.lines:>8,}{''.join(figures)}{self.length_p90:>12}"

    def _of_hundred(self, count: int) -> float:
        return 100 * count / self.lines if self.lines else 0.0


def density_of(files: list[Path]) -> Density:
    """Count in files of Python."""
    lengths: list[int] = []
    comments = comprehensions = nested = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        for line in text.splitlines():
            stripped = line.strip()
            if stripped.startswith("#"):
                comments += 1
            elif stripped:
                lengths.append(len(line))
        for depth in _depths(ast.parse(text)):
            comprehensions += 1
            nested += depth > 0
    lengths.sort()
    length_p90 = lengths[len(lengths) * 9 // 10] if lengths else 0
    return Density(len(lengths), comprehensions, nested, comments, length_p90)


def _depths(node: ast.AST, around: int = 0) -> Iterator[int]:
    """Yield for each comprehension how many others it is inside of, and for one of several `for` clauses that too."""
    inside = around
    if isinstance(node, _COMPREHENSIONS):
        yield around + len(node.generators) - 1
        inside = around + 1
    for child in ast.iter_child_nodes(node):
        yield from _depths(child, inside)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _library(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name)
    return Path(spec.origin).parent


def main() -> None:
    """Print the table."""
    lines = ["how dense the code is, for each hundred lines of code", _HEADER]
    for room in _ROOMS:
        folder = _ROOT / "shared" / "reservoir" / room
        lines.append(density_of(_files(folder)).row(f"reservoir.{room}"))
    for name in _MODELS:
        lines.append(density_of(_files(_library(name))).row(name))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
