"""How much a pass may simulate. Counted, not timed: the same world gives the same decision on any machine."""

from dataclasses import dataclass
from typing import Final

# A unit is about 20 microseconds of Lambda's processor at one vCPU, so that a pass ends within two seconds; what is
# left over has its turn in later passes. The weights are measured: a node is looked at, a workload is placed on nodes
# that stay or, dearer, on nodes to launch, and five offerings that could be launched cost two.
EFFORT_A_PASS: Final = 45_000
_WORKLOAD_TO_PLACE: Final = 3
_WORKLOAD_TO_LAUNCH_FOR: Final = 10
_LAUNCHING: Final = 1_000


@dataclass(slots=True)
class Effort:
    """What is left of a pass's effort; the simulation that uses up the rest is still done."""

    left: int = EFFORT_A_PASS

    def spend(self, nodes: int, workloads: int, offerings: int) -> None:
        """Count a simulation over so many nodes, with replicas of so many workloads to place and so much on offer."""
        launching = _LAUNCHING + _WORKLOAD_TO_LAUNCH_FOR * workloads + 2 * offerings // 5
        self.left -= nodes + (launching if offerings else _WORKLOAD_TO_PLACE * workloads)
