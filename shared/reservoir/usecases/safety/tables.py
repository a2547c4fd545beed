"""Whether the tables are the deployment's own, and the command that confirms it after a person has looked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reservoir.core.model.instance import Instance
from reservoir.core.safety.table_mark import (
    MarkedTable,
    Recognition,
    may_be_marked_unasked,
    next_mark,
    recognise,
)
from reservoir.manifests.events import TablesAdopted
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.safety import TableMarkStore, UnreadableRowError
from reservoir.ports.state import ConflictError

UNASKED: Final = "reservoir"  # written as the one who marked the tables of a new deployment


@dataclass(frozen=True, slots=True)
class OwnTables:
    """Recognises the deployment's tables, and marks them."""

    store: TableMarkStore
    deployment: str

    def recognition(self) -> Recognition:
        """Return whether the tables are our own. Tables that cannot be read are not recognised; the reason says so."""
        try:
            return recognise(self.deployment, self.store.read())
        except (UnreadableRowError, AwsError) as error:
            return Recognition(None, (f"the marks on the tables cannot be read: {error}",))

    def mark_if_new(
        self,
        owned: Sequence[Instance],
        explained_ids: Callable[[], frozenset[str]],
        now: datetime,
    ) -> Recognition:
        """As :meth:`recognition`; the tables of a new deployment are marked first.

        ``explained_ids`` returns which of the ``owned`` instances the tables know; it is called only when it matters.
        """
        found = self.recognition()
        if found.is_whole or found.mark is not None:
            return found
        try:
            tables = self.store.read()
            if not may_be_marked_unasked(tables, owned, explained_ids()):
                return found
            mark = next_mark(
                self.deployment,
                tables,
                made_at=now,
                made_by=UNASKED,
                reason="a new deployment",
            )
            self.store.write(mark, tables)
        except (UnreadableRowError, AwsError, ConflictError):
            return found  # the next pass tries again, and nothing is ended until then
        return self.recognition()


@dataclass(frozen=True, slots=True)
class AdoptTables:
    """Makes the tables as they are now the deployment's own: the way back after a restore."""

    own: OwnTables
    publisher: EventPublisher

    def look(self) -> tuple[MarkedTable, ...]:
        """Return the tables as they are. Raises UnreadableRowError, AwsError."""
        return self.own.store.read()

    def adopt(
        self, seen: Sequence[MarkedTable], *, by: str, reason: str, now: datetime
    ) -> Recognition:
        """Mark the tables that were ``seen``; from then on no instance that was launched before ends as an orphan.

        Raises ConflictError when another process marked them meanwhile.
        """
        mark = next_mark(self.own.deployment, seen, made_at=now, made_by=by, reason=reason)
        self.own.store.write(mark, seen)
        self.publisher.publish(
            [
                TablesAdopted(
                    generation=mark.generation, by=by, reason=reason, adopted_at=now
                )
            ]
        )
        return self.own.recognition()
