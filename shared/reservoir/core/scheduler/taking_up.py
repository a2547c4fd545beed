"""Which of the demand a pass takes up: where there is more than one pass can consider, each team has its part.

What a workload costs before anything is placed grows with its constraints: each combination of a node term and a
preference is tested against each type of each pool. So that is summed up before it is spent, and a pass takes up as
much as it can consider. The rest waits for a later pass, like all demand for which time was short.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from reservoir.core.capacity.offerings import usable_pools
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import by_namespace
from reservoir.core.model.workload import Demand, WhenUnsatisfiable, Workload
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.solver.problem.queue import ACCEPTS

# Tests of one requirement against one type, of which a core makes some four million a second: three seconds of a pass.
EFFORT_MAX: Final = 12_000_000
# One second, where others than those whose work it is wait for the end of the pass.
EFFORT_BESIDE_TEAMS_MAX: Final = 4_000_000
# A test goes through the values that a requirement lists; so many cost as much as the test of one without.
_VALUES_A_TEST: Final = 8
# The cost of a topology term, in such tests: it is compared with the labels of all waiting workloads.
_EFFORT_A_TOPOLOGY_TERM: Final = 500
_LEFT: Final = (
    "not looked at in this pass: what waits has more constraints than one pass can look at"
)


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The demand of a pass, as a snapshot, and what of the demand waits for a later one."""

    snapshot: Snapshot
    left: tuple[Demand, ...] = ()

    def unplaced(self) -> tuple[UnplacedReplicas, ...]:
        """Return the reasons of the workloads that were left."""
        return tuple(
            UnplacedReplicas(
                demand.workload.key, demand.pending_count, ReasonCode.OUT_OF_TIME, _LEFT
            )
            for demand in self.left
        )


def taken_up(snapshot: Snapshot, now: datetime, effort_max: int | None = None) -> TakenUp:
    """Return the demand that a pass considers: all, or the light demand of every team and then the others in turn.

    Half of the effort is divided evenly among teams; each spends it on its urgent and light workloads. The other half
    is for the rest, in an order that begins elsewhere each minute; the first of it is taken whatever it costs.
    """
    effort_max = _effort_max(snapshot) if effort_max is None else effort_max
    at_most = len(snapshot.instance_types) * len(snapshot.node_pools)
    if sum(_effort(each.workload, at_most) for each in snapshot.demands) <= effort_max:
        return TakenUp(snapshot)
    efforts = _Efforts.of(snapshot)
    if efforts.in_all() <= effort_max:
        return TakenUp(snapshot)
    rest = _beyond_their_part(snapshot, efforts, effort_max // 2)
    left = {each.workload.key for each in _not_in_turn(rest, efforts, now, effort_max // 2)}
    taken = tuple(each for each in snapshot.demands if each.workload.key not in left)
    return TakenUp(
        replace(snapshot, demands=taken),
        tuple(each for each in snapshot.demands if each.workload.key in left),
    )


def _effort_max(snapshot: Snapshot) -> int:
    """Return what a pass may spend: less where others than those whose work it is wait for its end."""
    are_several = len(snapshot.teams) > 1
    return EFFORT_BESIDE_TEAMS_MAX if are_several else EFFORT_MAX


@dataclass(slots=True)
class _Efforts:
    """The cost of workloads; workloads that accept the same cost it together, once."""

    by_key: dict[str, int]
    alike: dict[str, object]  # by key
    _spent_on: set[object] = field(default_factory=set)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "_Efforts":
        """Weigh the demand of a snapshot."""
        tests = _tests_a_requirement(snapshot)
        by_key: dict[str, int] = {}
        alike: dict[str, object] = {}
        for demand in snapshot.demands:
            if effort := _effort(demand.workload, tests):
                by_key[demand.workload.key] = effort
                alike[demand.workload.key] = ACCEPTS.key(demand.workload)
        return cls(by_key, alike)

    def in_all(self) -> int:
        """Return what all of them cost."""
        return sum(
            {self.alike[key]: effort for key, effort in self.by_key.items()}.values()
        )

    def of_one(self, demand: Demand) -> int:
        """Return what a workload would cost by itself."""
        return self.by_key.get(demand.workload.key, 0)

    def still(self, demand: Demand) -> int:
        """Return what it costs in addition to the workloads that are taken already."""
        is_known = self.alike.get(demand.workload.key) in self._spent_on
        return 0 if is_known else self.of_one(demand)

    def take(self, demand: Demand) -> None:
        """Count it, and all that are like it, as taken."""
        if demand.workload.key in self.alike:
            self._spent_on.add(self.alike[demand.workload.key])


def _beyond_their_part(
    snapshot: Snapshot, efforts: _Efforts, effort_max: int
) -> list[Demand]:
    """Return the demand for which its team's part of the effort has no room.

    Work without a team counts as one team's.
    """
    teams = by_namespace(snapshot.teams)
    by_team = defaultdict[str, list[Demand]](list)
    for demand in snapshot.demands:
        team = teams.get(demand.workload.namespace)
        by_team["" if team is None else team.name].append(demand)
    part = effort_max // len(by_team)
    beyond: list[Demand] = []
    for name in sorted(by_team):
        spent = 0
        in_order = sorted(
            by_team[name],
            key=lambda each: (
                -each.workload.priority,
                efforts.of_one(each),
                each.workload.key,
            ),
        )
        for demand in in_order:
            effort = efforts.still(demand)
            if spent + effort > part:
                beyond.append(demand)
            else:
                spent += effort
                efforts.take(demand)
    return beyond


def _not_in_turn(
    demands: Sequence[Demand], efforts: _Efforts, now: datetime, effort_max: int
) -> Sequence[Demand]:
    """Return the demand that the effort does not reach, beginning elsewhere each minute; at least one is reached."""
    if not demands:
        return ()
    in_order = sorted(demands, key=lambda each: (each.pending_since, each.workload.key))
    in_all = sum(efforts.of_one(each) for each in in_order)
    a_turn = max(1, len(in_order) * effort_max // in_all)
    begin = int(now.timestamp()) // 60 * a_turn % len(in_order)
    turned = [*in_order[begin:], *in_order[:begin]]
    spent = 0
    for position, demand in enumerate(turned):
        spent += efforts.still(demand)
        if spent > effort_max and position:
            return turned[position:]
        efforts.take(demand)
    return ()


def _effort(workload: Workload, tests: int) -> int:
    """Return what a workload costs; ``tests``: what one of its requirements does."""
    sets = _sets_of(workload)
    if not sets:
        return 0
    terms = (*workload.required_node_terms, workload.node_selector)
    preferred = [each.requirements for each in workload.preferred_node_terms]
    requirements = sum(_tests_of(each) for each in (*terms, *preferred))
    topology = workload.topology_spread, workload.affinity, workload.anti_affinity
    count = sum(len(each) for each in topology)
    about_topology = count * _levels(workload) * _EFFORT_A_TOPOLOGY_TERM
    return (sets + requirements) * tests + about_topology


def _tests_of(requirements: Requirements) -> int:
    """Return how many tests the requirements of a set cost against one type."""
    return sum(1 + len(each.values) // _VALUES_A_TEST for each in requirements.values())


def _sets_of(workload: Workload) -> int:
    """Return how many requirement sets a workload has; 0 for one without constraints, which shares that of all such."""
    terms = len(workload.required_node_terms)
    levels = _levels(workload)
    is_plain = not (terms or len(workload.node_selector) or workload.has_topology_terms)
    return 0 if is_plain and levels == 1 else max(1, terms) * levels


def _levels(workload: Workload) -> int:
    """Return how many levels it has: one, and one more for each preference that may be given up."""
    preferences = sum(
        each.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY
        for each in workload.topology_spread
    )
    for affinity in (*workload.affinity, *workload.anti_affinity):
        preferences += affinity.weight is not None
    return 1 + preferences + len(workload.preferred_node_terms)


def _tests_a_requirement(snapshot: Snapshot) -> int:
    """Return against how many types of pools a requirement is tested."""
    count = 0
    for pool, _ in usable_pools(snapshot):
        for item in snapshot.instance_types:
            count += pool.requirements.meets(item.requirements)
    return count
