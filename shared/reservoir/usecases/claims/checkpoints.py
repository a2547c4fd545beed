"""How much notice the work on nodes wants before a drain's deadline, as it was when it was placed."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from reservoir.core.launching.placed_terms import PlacedTerms
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.state import WorkloadRecord, WorkloadStore
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
    terms = placed_terms(records)
    return {
        claim.id: [
            period_s
            for placed in terms.claim(claim).placements
            if (workload := terms.workloads.get(placed.workload_key)) is not None
            and (period_s := workload.within_notice(longest).checkpoint_period_s) is not None
        ]
        for claim in claims
        if lost.isdisjoint(placed.workload_key for placed in claim.placements)
    }


def placed_terms(records: Mapping[str, WorkloadRecord]) -> PlacedTerms:
    """Return what runs as it was placed, by what is stored of the workloads."""
    return PlacedTerms(
        {key: record.workload for key, record in records.items() if record.workload is not None},
        {key: record.former for key, record in records.items()},
    )
