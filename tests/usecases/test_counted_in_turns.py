"""Counting what waits takes no more memory than there is, however much waits."""

from dataclasses import replace

from lab.fakes.stores.state import MemoryState
from lab.fakes.system import ManualClock
from lab.fakes.values import workload_record
from reservoir.core.history.sample import UNPLANNED
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.sharing.reading_turns import WHOLE, ReadingBound, ReadingTurns
from reservoir.usecases.history.take_sample import CountWhatIsThere


def there(state: MemoryState, bound: ReadingBound) -> CountWhatIsThere:
    return CountWhatIsThere(
        state.reservations,
        state.node_claims,
        state.workloads,
        state.offerings,
        state.clock,
        turns=ReadingTurns(bound),
    )


def test_of_more_than_there_is_room_for_the_rest_counts_as_one_replica_each() -> None:
    state = MemoryState(ManualClock())
    for number in range(10):
        record = workload_record(f"w-{number}")  # four replicas each
        full = UnplacedReplicas(record.key, 4, ReasonCode.RESERVATION_FULL, "it is full")
        state.workloads.put(replace(record, unplaced=(full,)), expected_revision=None)
    small = ReadingBound(rows=6, page_rows=2)
    sample = there(state, small).count()
    assert sample.unread_count == 4
    waiting = {it.reason: it for it in sample.waiting}
    full_now = waiting[ReasonCode.RESERVATION_FULL.value]
    assert (full_now.replica_count, full_now.workload_count) == (24, 6)
    assert (waiting[UNPLANNED].replica_count, waiting[UNPLANNED].workload_count) == (4, 4)

    whole = there(state, WHOLE).count()
    assert whole.unread_count == 0
    (all_of_it,) = whole.waiting
    assert (all_of_it.replica_count, all_of_it.workload_count) == (40, 10)
