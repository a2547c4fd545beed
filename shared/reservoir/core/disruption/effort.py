"""How much a pass may simulate. Counted, not timed: the same world gives the same decision on any machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

T = TypeVar("T")

# A unit is about 20 microseconds of Lambda's processor at one vCPU, so that a pass ends within two seconds; the rest
# has its turn in later passes. The weights are measured: for checking a node, and for placing a workload on nodes that
# stay or, more expensive, on nodes to launch; five offerings that could be launched cost two. A replica with rules
# about others may have to check every node and offering for itself.
EFFORT_A_PASS: Final = 45_000
# A large fleet's pass may look at each node so often, which is six simulations: with less it would be over before it
# had moved anything. Over 50,000 nodes that takes some five seconds.
_LOOKS_AT_EACH_NODE: Final = 6
_WORKLOAD_TO_PLACE: Final = 3
_WORKLOAD_TO_LAUNCH_FOR: Final = 10
_LAUNCHING: Final = 1_000
_LOOKS_OF_A_TIED_REPLICA: Final = 25  # a unit


def cost_of_replicas(
    workloads: int, tied_replicas: int, *, nodes: int, offerings: int
) -> int:
    """Estimate the effort of placing replicas of so many workloads, some of them with rules about others."""
    plain = (_WORKLOAD_TO_LAUNCH_FOR if offerings else _WORKLOAD_TO_PLACE) * workloads
    return plain + tied_replicas * (nodes + offerings) // _LOOKS_OF_A_TIED_REPLICA


def effort_a_pass(nodes: int) -> int:
    """Return what a pass over so many nodes may simulate."""
    return max(EFFORT_A_PASS, _LOOKS_AT_EACH_NODE * nodes)


def rotated(items: Sequence[T], now: datetime, at_once: int = 1) -> list[T]:
    """Begin at another item each minute when there are more than are tried at once in any case."""
    if len(items) <= at_once:
        return list(items)
    start = int(now.timestamp()) // 60 * at_once % len(items)
    return [*items[start:], *items[:start]]


@dataclass(slots=True)
class Effort:
    """The rest of a pass's effort; the simulation that uses it up is still completed."""

    left: int = EFFORT_A_PASS

    def spend(
        self, workloads: int, tied_replicas: int, *, nodes: int, offerings: int
    ) -> None:
        """Count a simulation over so many nodes, with so much to place and so much on offer."""
        launching = _LAUNCHING + 2 * offerings // 5 if offerings else 0
        self.left -= (
            nodes
            + launching
            + cost_of_replicas(workloads, tied_replicas, nodes=nodes, offerings=offerings)
        )
