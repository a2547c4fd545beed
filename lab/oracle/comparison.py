"""A plan beside all that brute force finds: what it placed, and what could have been placed instead."""

from collections.abc import Mapping, Sequence

from lab.oracle.brute_force import BruteForce, Counts
from lab.oracle.world import NOW
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.totals import placed_counts
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot

POLICY = SchedulingPolicy()


def placed_vector(snapshot: Snapshot, plan: Plan) -> Counts:
    """Return how many replicas of each demand the plan places."""
    placed = placed_counts(Facts(snapshot, plan, NOW, POLICY))
    return tuple(placed[item.workload.key] for item in snapshot.demands)


def could_have_been(snapshot: Snapshot, vector: Counts) -> list[Counts]:
    """Return the better vectors at each level of priority."""
    brute = BruteForce(snapshot, POLICY, strict=True)
    priorities = [workload.priority for workload in brute.workloads]
    better: list[Counts] = []
    for level in sorted(set(priorities)):
        among = [index for index, priority in enumerate(priorities) if priority >= level]
        better += _dominating(brute.outcomes, vector, among)
    return better


def _dominating(
    outcomes: Mapping[Counts, int], vector: Counts, among: Sequence[int]
) -> list[Counts]:
    """Return what could have been placed instead: no fewer of any of these workloads, and more of one."""
    found: list[Counts] = []
    for other in outcomes:
        more = [other[index] - vector[index] for index in among]
        if min(more) >= 0 and max(more) > 0:
            found.append(other)
    return found
