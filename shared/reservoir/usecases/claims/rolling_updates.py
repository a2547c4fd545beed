"""How far a rolling update may go on when what is wanted of its workload has changed."""

from dataclasses import replace

from reservoir.ports.state import Rollout, WorkloadRecord


def kept_rollout(before: WorkloadRecord, after: WorkloadRecord) -> Rollout | None:
    """Return the update that is under way, if the workload still rolls.

    Where ``after`` allows a smaller surge, the surge keeps to that from now on: fewer replicas are wanted, some have
    finished, or its ``maxSurge`` is smaller. The next pass of disruption may let it have more again, where one node
    holds more replicas than these bounds.
    """
    bounds = None if after.workload is None else after.workload.rolling_update
    if before.rollout is None or bounds is None:
        return None
    largest_surge, _ = bounds.bounds(after.unfinished_count)
    if largest_surge >= _largest_surge(before):
        return before.rollout
    surge_count = min(before.rollout.surge_count, largest_surge)
    return replace(before.rollout, surge_count=surge_count)


def _largest_surge(record: WorkloadRecord) -> int:
    """Return how many replicas beyond those wanted a workload's own bounds allow."""
    bounds = None if record.workload is None else record.workload.rolling_update
    return 0 if bounds is None else bounds.bounds(record.unfinished_count)[0]
