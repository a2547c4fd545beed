"""What keeps a fleet from being ended by mistake: the tallies of endings, and the marks on tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.table_mark import MarkedTable, TableMark
from reservoir.core.safety.tally import Tally


class UnreadableRowError(Exception):
    """A row was written by another version of the product, or damaged: its content is not known."""


@dataclass(frozen=True, slots=True)
class StoredTally:
    """A tally as it was read. ``revision`` None: there is no row yet."""

    tally: Tally
    revision: int | None


class TallyStore(Protocol):
    """One tally a kind. Reads are consistent."""

    def get(self, kind: EndingKind) -> StoredTally:
        """Return the kind's tally, an empty one if there is none. Raises UnreadableRowError."""
        ...

    def put(self, tally: Tally, *, expected_revision: int | None) -> None:
        """Write the tally over the one that was read. Raises ConflictError when another has been written since."""
        ...


class TableMarkStore(Protocol):
    """The marks in the tables of the state."""

    def read(self) -> tuple[MarkedTable, ...]:
        """Return every table with its identity and its mark (consistent read). Raises UnreadableRowError, AwsError."""
        ...

    def write(self, mark: TableMark, seen: Sequence[MarkedTable]) -> None:
        """Put the mark into all tables or none, over the marks that were ``seen``. Raises ConflictError."""
        ...
