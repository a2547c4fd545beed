"""How much a pass may simulate. Counted, not timed: the same world gives the same decision on any machine."""

from dataclasses import dataclass
from typing import Final

# A node that is looked at costs one, a workload that must be placed three; 20 units take about a millisecond of
# Lambda's processor at one vCPU, so that a pass ends within seconds. What is left over has its turn in later passes.
EFFORT_A_PASS: Final = 60_000
_A_WORKLOAD: Final = 3


@dataclass(slots=True)
class Effort:
    """What is left of a pass's effort; the simulation that uses up the rest is still done."""

    left: int = EFFORT_A_PASS

    def spend(self, nodes: int, workloads: int) -> None:
        """Count one simulation over so many nodes, with replicas of so many workloads to place."""
        self.left -= nodes + _A_WORKLOAD * workloads

    @property
    def is_spent(self) -> bool:
        """Whether no further simulation may begin."""
        return self.left <= 0
