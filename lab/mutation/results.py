"""What mutants showed: a figure for each room, kept in a file, and the table of it in ``docs/testing.md``."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "lab" / "mutation" / "results.jsonl"
EQUIVALENT: Final = ROOT / "lab" / "mutation" / "equivalent.toml"
DOCUMENT: Final = ROOT / "docs" / "testing.md"
_HEADER: Final = "| room | mutants | tried | equivalent | killed | of those that differ |"


@dataclass(frozen=True, slots=True)
class Change:
    """What a mutant changes: lines of a function, and what stands in their place."""

    function: str  # with its module: core.safety.tally.admit
    was: str
    instead: str


@dataclass(frozen=True, slots=True)
class Figures:
    """How many mutants of a room there are, were tried, change nothing that anybody could see, and were killed."""

    room: str
    mutants: int
    tried: int
    equivalent: int
    killed: int

    @property
    def killed_percent(self) -> float:
        """How many of those that differ from the product were killed, in percent."""
        differ = self.tried - self.equivalent
        return 100 * self.killed / differ if differ else 100.0


def equivalents() -> dict[Change, str]:
    """Return the changes that change nothing that anybody could see, each with the reason."""
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {
        Change(row["function"], row["was"], row["instead"]): row["reason"] for row in rows
    }


def stored() -> list[Figures]:
    """Return the figures on file."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return [Figures(**json.loads(line)) for line in lines]


def store(figures: Figures) -> None:
    """Keep the figures of a room instead of its last ones, here and in the document."""
    others = [each for each in stored() if each.room != figures.room]
    rows = sorted((*others, figures), key=lambda each: each.room)
    text = "".join(json.dumps(asdict(each)) + "\n" for each in rows)
    RESULTS.write_text(text, encoding="utf-8")
    document = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(document.replace(table_in(document), table(rows)), encoding="utf-8")


def table(rows: Sequence[Figures]) -> str:
    """Return the table of these figures."""
    lines = [
        f"| `{each.room}` | {each.mutants:,} | {_tried(each)} | {each.equivalent} | {each.killed:,} "
        f"| {each.killed_percent:.1f} % |"
        for each in rows
    ]
    return "\n".join((_HEADER, "|---|---|---|---|---|---|", *lines))


def table_in(document: str) -> str:
    """Return the table as it stands in the document."""
    lines = document[document.index(_HEADER) :].splitlines()
    return "\n".join(takewhile(lambda line: line.startswith("|"), lines))


def _tried(figures: Figures) -> str:
    if figures.tried == figures.mutants:
        return "all"
    return f"{figures.tried:,}, by chance"
