"""What teams use of their quotas, by stored claims and reservations."""

from collections.abc import Iterable, Mapping, Sequence

from reservoir.core.launching.claim_nodes import counted_keys, node_of
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Workload
from reservoir.core.sharing import resource_pools
from reservoir.core.sharing.quota_groups import loan_ends, quota_groups, users_of
from reservoir.manifests.answers.status import QuotaUse, ResourceUse
from reservoir.ports.state import WorkloadStore
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.checkpoints import placed_terms


def quota_uses(
    teams: Sequence[Team],
    reservations: Iterable[CapacityReservation],
    claims: Iterable[NodeClaim],
    workloads: Mapping[str, Workload],
) -> Mapping[str, tuple[QuotaUse, ...]]:
    """Return by team what it owns, uses and borrows in each group of reservations that its quotas select."""
    nodes = tuple(node_of(claim, workloads) for claim in claims)
    snapshot = Snapshot(
        (), tuple(reservations), nodes=nodes, workloads=workloads, teams=tuple(teams)
    )
    users = users_of(snapshot)
    found: dict[str, list[QuotaUse]] = {}
    for group in quota_groups(snapshot):
        borrowers = {
            name: group.borrowed(name)
            for name in sorted(group.used)
            if group.borrowed(name)
        }
        for name in group.quotas:
            is_short = group.used.get(name, 0) < group.nominal(name)
            use = QuotaUse(
                group=group.key,
                nominal=group.nominal(name),
                used=group.used.get(name, 0),
                borrowed=group.borrowed(name),
                lent=_lent(group.nominal(name), group.used.get(name, 0), group.free_units),
                total=group.total_units,
                borrowers={
                    other: count for other, count in borrowers.items() if other != name
                },
                back_at=min(loan_ends(name, group, nodes, users), default=None)
                if is_short
                else None,
            )
            found.setdefault(name, []).append(use)
    return {name: tuple(uses) for name, uses in found.items()}


def resource_uses(
    teams: Sequence[Team], claims: Iterable[NodeClaim], workloads: Mapping[str, Workload]
) -> Mapping[str, tuple[ResourceUse, ...]]:
    """Return by team what it owns, requests and borrows of each resource that it has a quota for."""
    nodes = tuple(node_of(claim, workloads) for claim in claims)
    snapshot = Snapshot((), nodes=nodes, workloads=workloads, teams=tuple(teams))
    found: dict[str, list[ResourceUse]] = {}
    for pool in resource_pools.resource_pools(snapshot):
        borrowers = {
            name: pool.borrowed(name) for name in pool.quotas if pool.borrowed(name)
        }
        for name in pool.quotas:
            ends = (
                resource_pools.loan_ends(pool, name, snapshot)
                if pool.used[name] < pool.nominal(name)
                else ()
            )
            use = ResourceUse(
                capacity_types=tuple(each.value for each in pool.flavor),
                resource=pool.resource,
                nominal=pool.nominal(name),
                used=pool.used[name],
                borrowed=pool.borrowed(name),
                borrowers={
                    other: amount for other, amount in borrowers.items() if other != name
                },
                back_at=min(ends, default=None),
            )
            found.setdefault(name, []).append(use)
    return {name: tuple(uses) for name, uses in found.items()}


def as_placed(
    claims: Iterable[NodeClaim], workloads: WorkloadStore
) -> tuple[Sequence[NodeClaim], Mapping[str, Workload]]:
    """Return the claims with what runs as it was placed, and the workloads of that by key."""
    known = {claim.id: claim for claim in claims}
    keys = counted_keys(known.values())
    records, _ = unreadable.workloads(workloads, keys)
    terms = placed_terms(records)
    return tuple(terms.claims(known).values()), terms.workloads


def _lent(nominal: int, used: int, free: int) -> int:
    """Return how many of its own units a team does not use and that are not free either."""
    return max(0, nominal - used - free)
