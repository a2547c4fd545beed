"""How much notice the work on nodes wants before a drain's deadline, as it was when it was placed."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from reservoir.core.launching.placed_terms import PlacedTerms
from reservoir.core.model.node_claim import NodeClaim, placed_keys
from reservoir.ports.state import WorkloadRecord, WorkloadStore
from reservoir.usecases.claims import unreadable


def checkpoint_periods_s(
    claims: Sequence[NodeClaim], workloads: WorkloadStore, longest: timedelta
) -> Mapping[str, list[int]]:
    """Return the checkpointPeriods of the workloads on each claim, in seconds, by claim id; one read for all.

    None is longer than the longest notice.

    A claim is left out when a workload on it cannot be read: its period is not known.
    """
    keys = placed_keys(claims)
    records, lost = unreadable.workloads(workloads, keys)
    terms = placed_terms(records)
    periods_s: dict[str, list[int]] = {}
    for claim in claims:
        if not lost.isdisjoint(placed.workload_key for placed in claim.placements):
            continue
        placed_on = terms.claim(claim).placements
        known = [
            terms.workloads[it.workload_key]
            for it in placed_on
            if it.workload_key in terms.workloads
        ]
        wanted_s = [
            workload.within_notice(longest).checkpoint_period_s for workload in known
        ]
        periods_s[claim.id] = [period_s for period_s in wanted_s if period_s is not None]
    return periods_s


def placed_terms(records: Mapping[str, WorkloadRecord]) -> PlacedTerms:
    """Return the terms by which running replicas were placed, from the stored workloads."""
    return PlacedTerms(
        {
            key: record.workload
            for key, record in records.items()
            if record.workload is not None
        },
        {key: record.former for key, record in records.items()},
    )
