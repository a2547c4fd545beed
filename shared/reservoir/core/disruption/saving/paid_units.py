"""Which places are worse than a reserved unit: moving work there from one saves no money and makes the work worse off.

Emptying a reserved node frees its unit and saves nothing else. On a block that ends earlier, the work would have
to move a second time. On a node whose accelerators it does not use, it would take the place of work that uses them.
"""

from collections.abc import Sequence, Set
from datetime import datetime
from typing import Final

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.scheduling_terms.resources import ACCELERATORS, Resources

WORSE: Final = "its unit is paid for, and the other one ends sooner or has accelerators that its work does not use"


def worse_nodes(removed: Sequence[Candidate], snapshot: Snapshot) -> Set[str]:
    """Return the nodes onto which the work of reserved nodes should not move; none for the work of bought ones."""
    if not _are_reserved(removed):
        return frozenset()
    return frozenset(node.claim_id for node in snapshot.nodes if _is_worse(removed, node))


def uses_worse_units(removed: Sequence[Candidate], plan: Plan, snapshot: Snapshot) -> bool:
    """Whether the plan launches into reservations into which the work of reserved nodes should not move."""
    if not _are_reserved(removed):
        return False
    reservations = {item.id: item for item in snapshot.reservations}
    types = {item.name: item for item in snapshot.instance_types}
    for launch in plan.launches:
        reservation = reservations.get(launch.offering.reservation_id or "")
        if reservation is None:
            continue
        if _ends_sooner(removed, reservation.drain_at()):
            return True
        if _wastes_accelerators(removed, types[launch.offering.instance_type].capacity):
            return True
    return False


def _are_reserved(removed: Sequence[Candidate]) -> bool:
    """Whether the nodes are reserved. Consolidation never mixes the two kinds; of a mixed group, one would suffice."""
    return any(candidate.is_reserved for candidate in removed)


def _is_worse(removed: Sequence[Candidate], node: Node) -> bool:
    return _ends_sooner(removed, node.drain_at) or _wastes_accelerators(
        removed, node.allocatable
    )


def _ends_sooner(removed: Sequence[Candidate], drain_at: datetime | None) -> bool:
    """Whether a place drains before one of the nodes does."""
    if drain_at is None:
        return False
    ends = [candidate.node.drain_at for candidate in removed]
    return any(end is None or drain_at < end for end in ends)


def _wastes_accelerators(removed: Sequence[Candidate], amounts: Resources) -> bool:
    """Whether a place has accelerators although none of the nodes has any."""
    if not _has_accelerators(amounts):
        return False
    return not any(_has_accelerators(candidate.node.allocatable) for candidate in removed)


def _has_accelerators(amounts: Resources) -> bool:
    return any(amounts[name] for name in ACCELERATORS)
