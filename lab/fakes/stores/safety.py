"""Tallies and marks in memory."""

from collections.abc import Sequence
from dataclasses import replace

from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.table_mark import MarkedTable, TableMark
from reservoir.core.safety.tally import Tally
from reservoir.ports.errors import AwsError
from reservoir.ports.safety import StoredTally, UnreadableRowError
from reservoir.ports.state import ConflictError

ROLES = ("NodeClaims", "Policy", "Reservations", "Workloads")


class MemoryTallies:
    """Implements ``TallyStore``."""

    def __init__(self) -> None:
        self.rows: dict[EndingKind, tuple[Tally, int]] = {}
        self.unreadable: set[EndingKind] = set()

    def get(self, kind: EndingKind) -> StoredTally:
        if kind in self.unreadable:
            raise UnreadableRowError(kind)
        tally, revision = self.rows.get(kind, (Tally(kind), None))
        return StoredTally(tally, revision)

    def put(self, tally: Tally, *, expected_revision: int | None) -> None:
        _, revision = self.rows.get(tally.kind, (None, None))
        if revision != expected_revision:
            raise ConflictError([tally.kind])
        self.rows[tally.kind] = (tally, (revision or 0) + 1)


class MemoryTableMarks:
    """Implements ``TableMarkStore``; a table that is made anew or restored has another identity."""

    def __init__(self) -> None:
        self.tables = {role: MarkedTable(role, f"{role}-1", None) for role in ROLES}
        self.failure: AwsError | UnreadableRowError | None = None

    def read(self) -> tuple[MarkedTable, ...]:
        if self.failure is not None:
            raise self.failure
        return tuple(self.tables[role] for role in ROLES)

    def write(self, mark: TableMark, seen: Sequence[MarkedTable]) -> None:
        moved = [table.role for table in seen if self.tables[table.role].mark != table.mark]
        if moved:
            raise ConflictError(moved)
        for table in seen:
            self.tables[table.role] = replace(self.tables[table.role], mark=mark)

    # --- what tests do to the tables

    def empty(self, role: str) -> None:
        """Somebody deletes all rows."""
        self.tables[role] = replace(self.tables[role], mark=None)

    def restore(self, role: str) -> None:
        """The table is restored to a point in time: DynamoDB makes a new one, with the old rows."""
        self.tables[role] = replace(
            self.tables[role], table_id=f"{self.tables[role].table_id}-restored"
        )
