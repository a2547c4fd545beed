"""What teams use of what they own, as stored claims and reservations tell it now."""

from collections.abc import Iterable, Mapping, Sequence

from shared.core.launching.claim_nodes import node_of
from shared.core.model.capacity_reservation import CapacityReservation
from shared.core.model.node_claim import NodeClaim
from shared.core.model.snapshot import Snapshot
from shared.core.model.team import Team
from shared.core.model.workload import Workload
from shared.core.sharing.quota_groups import quota_groups
from shared.manifests.status import QuotaUse


def quota_uses(
    teams: Sequence[Team],
    reservations: Iterable[CapacityReservation],
    claims: Iterable[NodeClaim],
    workloads: Mapping[str, Workload],
) -> Mapping[str, tuple[QuotaUse, ...]]:
    """Return by team what it owns, uses and borrows of each group of reservations that its quotas select."""
    nodes = tuple(node_of(claim, workloads) for claim in claims)
    snapshot = Snapshot((), tuple(reservations), nodes=nodes, workloads=workloads, teams=tuple(teams))
    found: dict[str, list[QuotaUse]] = {}
    for group in quota_groups(snapshot):
        for name in group.quotas:
            use = QuotaUse(
                group=group.key,
                nominal=group.nominal(name),
                used=group.used.get(name, 0),
                borrowed=group.borrowed(name),
                lent=_lent(group.nominal(name), group.used.get(name, 0), group.free_units),
                total=group.total_units,
            )
            found.setdefault(name, []).append(use)
    return {name: tuple(uses) for name, uses in found.items()}


def _lent(nominal: int, used: int, free: int) -> int:
    """Return how many of its own units a team does not use and that are not free either."""
    return max(0, nominal - used - free)
