"""DynamoDB: the state in memory with indexes that lag behind their tables, and rows that tell when they are written."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from lab.fakes.stores.state import (
    MemoryNodeClaims,
    MemoryReservations,
    MemoryState,
    MemoryWorkloads,
    chosen,
)
from lab.simulation.faults import Faults
from lab.simulation.kernel import SECOND, Chance, Kernel
from reservoir.adapters.dynamodb.revisions import KnownRows
from reservoir.core.capacity.ledger import holds_open_lease, is_moving
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.sharing.reading_turns import DemandReading
from reservoir.ports.state import PlannedCommit, ReservationRecord, WorkloadRecord

Row = TypeVar("Row")
# AWS says: usually within a fraction of a second, and promises nothing
LAG_MAX: Final = 20 * SECOND


class Rows(dict[str, Row]):
    """The rows of a table. ``wrote`` hears of each write: the key, the row before and the row after."""

    def __init__(self, wrote: Callable[[str, Row | None, Row | None], None]) -> None:
        super().__init__()
        self._wrote = wrote

    def __setitem__(self, key: str, after: Row) -> None:
        before = self.get(key)
        super().__setitem__(key, after)
        self._wrote(key, before, after)

    def replace_all(self, rows: Mapping[str, Row]) -> None:
        """Put other rows in the place of all that there are, as a restore does."""
        self.clear()
        self.update(rows)


class Index:
    """A secondary index: changes come in the order of their writes, most at once, some after seconds."""

    def __init__(
        self, kernel: Kernel, chance: Chance, faults: Callable[[], Faults]
    ) -> None:
        self._kernel = kernel
        self._chance = chance
        self._faults = faults
        self._coming: deque[tuple[int, str, Any]] = deque()
        self._rows: dict[str, Any] = {}

    def wrote(self, key: str, row: Any) -> None:
        """Take up a write."""
        lag = 0
        if self._chance.hits("index_lags", self._faults().index_lags):
            lag = self._chance.between("index", SECOND // 10, LAG_MAX)
        visible_us = self._kernel.now_us + lag
        if self._coming:
            visible_us = max(visible_us, self._coming[-1][0])
        self._coming.append((visible_us, key, row))

    def rows(self) -> Mapping[str, Any]:
        """Return what the index shows now."""
        while self._coming and self._coming[0][0] <= self._kernel.now_us:
            _, key, row = self._coming.popleft()
            self._rows[key] = row
        return self._rows

    def replace_all(self, rows: Mapping[str, Any]) -> None:
        """Show other rows, as the index of a restored table does."""
        self._coming.clear()
        self._rows = dict(rows)


class IndexedNodeClaims(MemoryNodeClaims):
    """Claims whose listings lag; those by instance and by lease name claims whose rows are then read themselves.

    So it is with live claims that are not known at the revision that the index shows. All processes know the same.
    """

    def __init__(self, state: "SimulatedState") -> None:
        super().__init__(state)
        self._simulated = state

    def _where(self, wanted: Callable[[NodeClaim], bool]) -> tuple[NodeClaim, ...]:
        return tuple(
            claim
            for _, claim in sorted(self._simulated.claim_index.rows().items())
            if wanted(claim)
        )

    def list_live(self) -> tuple[NodeClaim, ...]:
        """Return live claims: those known at their revision in the index as they are known, others as they are."""
        rows = self._simulated.claim_index.rows()
        revisions = {key: claim.revision for key, claim in rows.items() if claim.is_live}
        live = self._simulated.known_claims.at(revisions)
        unreadable = self._simulated.unreadable
        read = self.get_many(
            [key for key in revisions if key not in live and key not in unreadable]
        )
        live.update((key, claim) for key, claim in read.items() if claim.is_live)
        self._simulated.known_claims.keep(live)
        return tuple(live[key] for key in sorted(live))

    def list_moving(self) -> tuple[NodeClaim, ...]:
        """Return the units on their way that the index shows, as they are."""
        keys = {claim.id for claim in super().list_moving()} - self._simulated.unreadable
        return tuple(filter(is_moving, self.get_many(keys).values()))

    def find_by_instance(self, instance_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        """Return claims by EC2 instance id."""
        found = self.get_many(
            [claim.id for claim in super().find_by_instance(instance_ids).values()]
        )
        return {
            claim.instance_id: claim
            for claim in found.values()
            if claim.instance_id is not None
        }

    def list_leased(self, reservation_id: str) -> tuple[NodeClaim, ...]:
        """Return claims with an open lease."""
        found = self.get_many([claim.id for claim in super().list_leased(reservation_id)])
        return tuple(filter(holds_open_lease, found.values()))

    def commit(self, commit: PlannedCommit) -> None:
        """Commit, and remember of which generations the workloads were."""
        rows = self._simulated.workload_rows
        generations = {
            key: rows[key].generation for key in commit.placed_by_workload() if key in rows
        }
        super().commit(commit)
        self._simulated.committed = (commit, generations)

    def save_many(self, claims: Sequence[NodeClaim]) -> Mapping[str, NodeClaim]:
        """Write claims, some of them perhaps not."""
        return super().save_many(
            [claim for claim in claims if not self._simulated.leaves_out()]
        )

    def return_many(
        self, claims: Sequence[NodeClaim], *, returned_at: datetime
    ) -> Mapping[str, NodeClaim]:
        """Write claims and return their replicas, of some of them perhaps not."""
        written = [claim for claim in claims if not self._simulated.leaves_out()]
        return super().return_many(written, returned_at=returned_at)


class IndexedWorkloads(MemoryWorkloads):
    """Workloads whose listings lag; what is known at the revision that one shows is not read again."""

    def __init__(self, state: "SimulatedState") -> None:
        super().__init__(state)
        self._simulated = state

    def placed_revisions(self) -> Mapping[str, int]:
        """Return the revisions that the index shows."""
        rows = self._simulated.workload_index.rows()
        return {
            key: record.revision for key, record in rows.items() if record.placed_count > 0
        }

    def get_placed(
        self, keys: Collection[str], revisions: Mapping[str, int]
    ) -> Mapping[str, WorkloadRecord]:
        """Return the records that exist: those that are known, and were settled, as they are known."""
        known = self._simulated.known_workloads.at(
            {key: revisions[key] for key in keys if key in revisions}
        )
        settled = {
            key: record for key, record in known.items() if not record.needs_planning
        }
        found = {**settled, **self.get_many([key for key in keys if key not in settled])}
        self._simulated.known_workloads.keep(found)
        return dict(sorted(found.items()))

    def read_waiting(
        self, choose: Callable[[Collection[str]], DemandReading]
    ) -> tuple[WorkloadRecord, ...]:
        """Return what is chosen of the listed records."""
        return chosen(self.list_needing_planning(), choose)

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        """Return listed records: those known at their revision in the index as they are known, others as they are."""
        rows = self._simulated.workload_index.rows()
        revisions = {
            key: record.revision for key, record in rows.items() if record.needs_planning
        }
        waiting = self._simulated.known_waiting.at(revisions)
        read = self.get_many(revisions.keys() - waiting.keys() - self._simulated.unreadable)
        waiting.update(
            (key, record) for key, record in read.items() if record.needs_planning
        )
        self._simulated.known_waiting.keep(waiting)
        return tuple(waiting[key] for key in sorted(waiting))


class IndexedReservations(MemoryReservations):
    """Reservations whose listing lags."""

    def __init__(self, state: "SimulatedState") -> None:
        super().__init__(state)
        self._simulated = state

    def list_current(self) -> tuple[ReservationRecord, ...]:
        """Return the listed records, by id."""
        rows = self._simulated.reservation_index.rows()
        return tuple(rows[key] for key in sorted(rows) if rows[key].is_current)


class SimulatedState(MemoryState):
    """All tables of the state. ``changed`` hears of each write of a claim, a workload or a reservation."""

    def __init__(
        self,
        kernel: Kernel,
        chance: Chance,
        faults: Callable[[], Faults],
        changed: Callable[[str, Any, Any], None],
    ) -> None:
        super().__init__(kernel)
        self._chance = chance
        self._faults = faults
        self.known_claims = KnownRows[NodeClaim]()
        self.known_workloads = KnownRows[WorkloadRecord]()
        self.known_waiting = KnownRows[WorkloadRecord]()
        self.committed: tuple[PlannedCommit, Mapping[str, int]] = (PlannedCommit(), {})
        self.claim_index, self.workload_index, self.reservation_index = (
            Index(kernel, chance, faults) for _ in range(3)
        )

        def heard(index: Index) -> Callable[[str, Any, Any], None]:
            def wrote(key: str, before: Any, after: Any) -> None:
                index.wrote(key, after)
                changed(key, before, after)

            return wrote

        self.claim_rows = Rows[NodeClaim](heard(self.claim_index))
        self.workload_rows = Rows[WorkloadRecord](heard(self.workload_index))
        self.reservation_rows = Rows[ReservationRecord](heard(self.reservation_index))
        self.node_claims = IndexedNodeClaims(self)
        self.workloads = IndexedWorkloads(self)
        self.reservations = IndexedReservations(self)

    def forget_known(self) -> None:
        """Know no row any more, as new processes do."""
        self.known_claims.keep({})
        self.known_workloads.keep({})
        self.known_waiting.keep({})

    def leaves_out(self) -> bool:
        """Whether a row of a batch stays unwritten this time."""
        return self._chance.hits("partly_saved", self._faults().partly_saved)

    def indexed(self) -> Iterator[tuple[Any, Index]]:
        """Yield the tables with their indexes."""
        yield self.claim_rows, self.claim_index
        yield self.workload_rows, self.workload_index
        yield self.reservation_rows, self.reservation_index
