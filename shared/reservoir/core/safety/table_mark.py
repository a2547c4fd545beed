"""Marks on tables: which tables belong to a deployment, and together.

Every table of the state holds one row that names the deployment and the identities of all tables of the set. A table
that was emptied has no mark. One that was restored or made again is another table than its mark names (each new table
has an identity of its own, a restored one too). A table of another deployment names that one. What such tables lack
proves nothing, so nothing is ended because of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.model.instance import Instance


@dataclass(frozen=True, slots=True)
class TableMark:
    """The row. ``table_ids`` has the identity of each table by its role; ``generation`` counts how often they were."""

    deployment: str
    generation: int
    table_ids: Mapping[str, str]
    made_at: datetime
    made_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class MarkedTable:
    """A table as it is now: its role, its own identity, and the mark in it."""

    role: str
    table_id: str
    mark: TableMark | None


@dataclass(frozen=True, slots=True)
class Recognition:
    """Whether tables are the deployment's own; ``problems`` gives the reasons against it, for people."""

    mark: TableMark | None
    problems: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether what the tables do not know may be taken for something that does not exist."""
        return self.mark is not None and not self.problems


def recognise(deployment: str, tables: Sequence[MarkedTable]) -> Recognition:
    """Compare marks with the tables that carry them."""
    shown = {table.role: table.table_id for table in tables}
    marks = [table.mark for table in tables if table.mark is not None]
    newest = max(marks, key=lambda mark: (mark.generation, mark.made_at), default=None)
    problems = tuple(
        problem
        for table in tables
        if (problem := _problem(deployment, table, newest, shown)) is not None
    )
    return Recognition(newest, problems)


def _problem(
    deployment: str, table: MarkedTable, newest: TableMark | None, shown: Mapping[str, str]
) -> str | None:
    mark = table.mark
    if mark is None:
        return f"{table.role} has no mark: it is new, or was emptied"
    if mark.deployment != deployment:
        return f"{table.role} has the mark of deployment {mark.deployment}"
    if mark.table_ids.get(table.role) != table.table_id:
        return f"{table.role} is not the table that was marked: it was restored or created again"
    if mark != newest:
        return f"{table.role} has an older mark than the others"
    others = sorted(role for role in shown if mark.table_ids.get(role) != shown[role])
    if others:
        return f"{table.role} was marked together with another {', '.join(others)}"
    return None


def next_mark(
    deployment: str,
    tables: Sequence[MarkedTable],
    *,
    made_at: datetime,
    made_by: str,
    reason: str,
) -> TableMark:
    """Return the mark that makes these tables belong together."""
    generation = 1 + max(
        (table.mark.generation for table in tables if table.mark is not None), default=0
    )
    ids = {table.role: table.table_id for table in tables}
    return TableMark(deployment, generation, ids, made_at, made_by, reason)


def may_be_marked_unasked(
    tables: Collection[MarkedTable],
    owned: Collection[Instance],
    explained_ids: Collection[str],
) -> bool:
    """Whether these are the tables of a new deployment, or of one from before there were marks.

    No table may carry a mark, and the tables must have a claim for every instance with the tags of our launches: empty
    tables beside running instances were emptied, or belong to a stack that was made again.
    """
    if any(table.mark is not None for table in tables):
        return False
    launched = (
        instance
        for instance in owned
        if not instance.is_gone and instance.batch_id is not None
    )
    return all(instance.id in explained_ids for instance in launched)
