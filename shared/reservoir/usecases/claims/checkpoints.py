"""How much notice the workloads on nodes want before a drain's deadline."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.state import WorkloadStore
from reservoir.usecases.claims import unreadable


def checkpoint_periods_s(
    claims: Sequence[NodeClaim], workloads: WorkloadStore, longest: timedelta
) -> Mapping[str, list[int]]:
    """Return the checkpointPeriods of the workloads on each claim, in seconds, by claim id; one read for all.

    None is longer than the longest notice.

    Claims are left out on which a workload is that cannot be read: nobody knows what it wants.
    """
    keys = {placed.workload_key for claim in claims for placed in claim.placements}
    records, lost = unreadable.workloads(workloads, keys)
    wanted = {
        key: period_s
        for key, record in records.items()
        if record.workload is not None
        and (period_s := record.workload.within_notice(longest).checkpoint_period_s) is not None
    }
    return {
        claim.id: [wanted[placed.workload_key] for placed in claim.placements if placed.workload_key in wanted]
        for claim in claims
        if lost.isdisjoint(placed.workload_key for placed in claim.placements)
    }
