"""The cost of disrupting a node for its workloads, and the saving (R-168 to R-171)."""

from collections.abc import Iterable, Mapping
from typing import Final

from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload

# Costs are integers in units of 2**-27, which makes Karpenter's 1 + deletionCost / 2**27 + priority / 2**25 exact.
ONE: Final = 2**27
_PRIORITY_WEIGHT: Final = 4
_REPLICA_COST_MAX: Final = 10 * ONE
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"


def replica_cost(workload: Workload) -> int:
    """Cost of evicting one replica, in units of ``1 / ONE``, clamped to [-10, 10]."""
    text = workload.annotations.get(DELETION_COST_ANNOTATION, "0")
    # an unreadable annotation weighs nothing, as upstream
    deletion_cost = int(text) if _is_whole_number(text) else 0
    cost = ONE + deletion_cost + _PRIORITY_WEIGHT * workload.priority
    return max(-_REPLICA_COST_MAX, min(_REPLICA_COST_MAX, cost))


def _is_whole_number(text: str) -> bool:
    digits = text.removeprefix("-")
    # an int32 has at most 10
    return len(digits) <= 10 and digits.isascii() and digits.isdigit()


def node_cost(
    placements: Iterable[PlacedReplicas], workloads: Mapping[str, Workload]
) -> int:
    """Cost of disrupting a node with these replicas: 1 + the sum of its replicas' positive costs, in ``1 / ONE``.

    A replica whose workload is no longer known is about to leave and costs nothing.
    """
    known = (
        (workloads[it.workload_key], it.count)
        for it in placements
        if it.workload_key in workloads
    )
    return ONE + sum(max(0, replica_cost(workload)) * count for workload, count in known)


def savings_ratio(price: int, cost: int) -> float:
    """Price per disruption: the higher, the earlier a node is ended. Reserved nodes (price near 0) come last (R-171).

    The quotient of two whole numbers is rounded correctly, so that it is the same on any machine; comparing fractions
    was a sixth of a pass over a large fleet.
    """
    return price * ONE / max(1, cost)
