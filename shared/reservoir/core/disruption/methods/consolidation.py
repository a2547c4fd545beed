"""Consolidation: the same work on cheaper capacity, or on less of it (R-173 to R-185).

Candidates are in one order (most saved per disruption first), so on-demand and spot nodes come before anything prepaid;
reserved nodes are grouped apart, lest the saving on a paid node pays for moving a reserved one. Three kinds of moves
are proposed, cheaply, and each is simulated by the scheduler before it is believed:

* nodes that could be emptied into the room of those that stay;
* groups, whose replicas together may need fewer or cheaper nodes, or go to free reserved units. Unlike upstream,
  several nodes may be replaced by several. What is accepted or refused as a whole says little of its parts, so a group
  that is refused is halved, and the next one is as large as the last that was accepted;
* single nodes, for which something cheaper exists.

Budgets bound what goes, not what is looked at: a node that cannot be bettered takes no other's place in them.

The effort of a pass is bounded. No kind of move may waste what the next ones need, and each tries at least one group,
or one single node, however little is left. Whose turn did not come is first in the next pass, longest wait first: so
each node is judged within as many passes as there are nodes, whatever a simulation costs.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.disruption.candidate import Candidate, Refusal
from reservoir.core.disruption.command import LATER, DisruptionCommand, command_of
from reservoir.core.disruption.effort import rotated
from reservoir.core.disruption.feasibility_filter import FeasibilityFilter
from reservoir.core.disruption.free_capacity import FreeCapacity
from reservoir.core.disruption.headroom import Headroom, used_up
from reservoir.core.disruption.saving.paid_units import WORSE, uses_worse_units, worse_nodes
from reservoir.core.disruption.saving.price_rule import Judgement, PriceRule, nodes_bought
from reservoir.core.disruption.simulation import PassState
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan

COMMAND_NODES_MAX: Final = 100
_SIMULATION_PARTS: Final = 3  # a simulation may take a third of the effort
_REFUSED_GROUPS_MAX: Final = 6  # of each kind of move: halved so often, a hundred is three
# Refused moves of one kind, of paid or of reserved nodes, may take a quarter of the effort from the others.
_WASTE_PARTS: Final = 4
_GROUP_MIN: Final = 2
_UNDERUTILIZED: Final = DisruptionReason.UNDERUTILIZED


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a group may not be ended, and which of its nodes may not be ended in any case."""

    reason: str
    in_vain: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What one pass of consolidation found: commands in order, the world after them, and why the rest stays."""

    commands: tuple[DisruptionCommand, ...]
    world: PassState
    refusals: tuple[Refusal, ...]


def consolidate(
    world: PassState,
    candidates: Sequence[Candidate],
    rule: PriceRule,
    waiting: Mapping[str, datetime],
    headroom: Headroom,
) -> Consolidation:
    """Consolidate ``candidates`` (in disruption order), as much as budgets and a pass allow.

    ``waiting``: since when nodes wait for their turn, by claim. ``headroom`` is counted down by what goes.
    """
    going = [
        candidate
        for candidate in candidates
        if headroom.left(candidate.pool.name, _UNDERUTILIZED)
    ]
    reasons = {candidate.id: used_up(candidate) for candidate in candidates}
    if not going:
        return Consolidation((), world, _refusals(reasons))
    search = _Search(world, going, rule, waiting, headroom)
    for reserved in (False, True):
        search.run(reserved)
    for candidate in going:
        reasons[candidate.id] = search.reason(candidate)
    for command in search.commands:
        for claim_id in command.claim_ids:
            del reasons[claim_id]
    return Consolidation(tuple(search.commands), search.world, _refusals(reasons))


def _refusals(reasons: Mapping[str, str]) -> tuple[Refusal, ...]:
    return tuple(Refusal(key, reason) for key, reason in sorted(reasons.items()))


class _Search:
    """The state of one pass of consolidation."""

    def __init__(
        self,
        world: PassState,
        candidates: Sequence[Candidate],
        rule: PriceRule,
        waiting: Mapping[str, datetime],
        headroom: Headroom,
    ) -> None:
        self.world = world
        self.commands: list[DisruptionCommand] = []
        self.refusals = {candidate.id: LATER for candidate in candidates}
        self._left = list(candidates)
        self._waiting = waiting
        self._headroom = headroom
        self._simulation_max = world.effort.left // _SIMULATION_PARTS
        self._waste_max = world.effort.left // _WASTE_PARTS
        self._wasted = 0
        self._tried = False  # whether the kind of move at hand has tried one
        self._rule = rule
        self._feasibility = FeasibilityFilter(world, candidates)

    def run(self, reserved: bool) -> None:
        """Try every kind of move for the paid or the reserved nodes."""
        moves = [self._empty_nodes, self._replace_groups]
        # Work that goes to prepaid units anyway is not moved onto paid nodes first.
        if self._feasibility.has_free_units:
            moves.reverse()
        for move in (*moves, self._replace_single_nodes):
            self._wasted, self._tried = 0, False
            move(reserved)

    def reason(self, candidate: Candidate) -> str:
        """Say why the node stays, whose turn may have come too late for its pool's budget."""
        found = self.refusals[candidate.id]
        is_used_up = not self._headroom.left(candidate.pool.name, _UNDERUTILIZED)
        return used_up(candidate) if found == LATER and is_used_up else found

    # -- moves

    def _empty_nodes(self, reserved: bool) -> None:
        chosen = self._feasibility.emptiable(
            self._free_capacity(reserved), self._group(reserved)
        )
        refused = 0
        waiting = list(self._chunks(chosen))
        while waiting and refused < _REFUSED_GROUPS_MAX and self._may_go_on():
            group = self._within_budgets(self._still_left(waiting.pop(0)))
            # Those whose turn comes next take nothing, or they would have to stay.
            next_ones = frozenset(
                candidate.id for candidate in chain.from_iterable(waiting)
            )
            if group and not self._attempted(group, launches=False, closed=next_ones):
                refused += 1
                waiting[:0] = _halves(group)

    def _replace_groups(self, reserved: bool) -> None:
        refused, start, size = 0, 0, COMMAND_NODES_MAX
        group = rotated(self._group(reserved), self.world.now, COMMAND_NODES_MAX)
        while refused < _REFUSED_GROUPS_MAX and self._may_go_on():
            group = self._still_left(group)
            window = self._within_budgets(group[start : start + size])
            affordable = self._affordable(window)
            window = window[: affordable if self._tried else max(_GROUP_MIN, affordable)]
            if len(window) < _GROUP_MIN:
                return  # single nodes are tried each for itself
            if self._attempted(window):
                size = min(2 * size, COMMAND_NODES_MAX)
            else:
                if not refused:
                    # its halves begin elsewhere each minute
                    group = rotated(self._still_left(group), self.world.now)
                refused += 1
                size = len(window) // 2
                if size < _GROUP_MIN:
                    # the first of the group is the obstacle
                    start, size = start + 1, _GROUP_MIN

    def _replace_single_nodes(self, reserved: bool) -> None:
        free = self._free_capacity(reserved)
        cheapest_idle = min(self._rule.idle.values(), default=None)
        hopeful = []
        for candidate in self._group(reserved):
            reason = self._rule.hopeless(candidate)
            if not reserved or cheapest_idle is None or cheapest_idle >= candidate.price:
                reason = reason or self._feasibility.refusal(free, candidate)
            if reason is None:
                hopeful.append(candidate)
            else:
                self.refusals[candidate.id] = reason
        for candidate in sorted(rotated(hopeful, self.world.now), key=self._waits_since):
            if not self._may_go_on():
                return
            if self._within_budgets(self._still_left([candidate])):
                self._attempted([candidate])

    # -- helpers

    def _free_capacity(self, reserved: bool) -> FreeCapacity:
        """Return the free room on the nodes that stay; for reserved nodes, an empty reserved one is none of these."""
        closed = self.world.closed | (self._rule.idle.keys() if reserved else frozenset())
        return self._feasibility.free_capacity(
            replace(self.world, closed=closed), self._left
        )

    def _chunks(self, candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
        start = 0
        while start < len(candidates):
            window = candidates[start : start + COMMAND_NODES_MAX]
            together = self._headroom.together(window, _UNDERUTILIZED)
            count = max(1, min(together, self._affordable(window)))
            yield window[:count]
            start += count

    def _within_budgets(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return self._headroom.within(candidates, _UNDERUTILIZED)

    def _affordable(self, group: Sequence[Candidate]) -> int:
        """Return how many of the first nodes one simulation may cover without taking much of the pass."""
        left = self._simulation_max
        for position, candidate in enumerate(group):
            left -= self.world.burden(candidate)
            if left < 0:
                return position
        return len(group)

    def _may_go_on(self) -> bool:
        """Whether one more may be tried: as long as there is effort, and the first of each kind of move anyway."""
        return not self._tried or (
            self.world.effort.left > 0 and self._wasted <= self._waste_max
        )

    def _waits_since(self, candidate: Candidate) -> datetime:
        return self._waiting.get(candidate.id, self.world.now)

    def _group(self, reserved: bool) -> list[Candidate]:
        return [candidate for candidate in self._left if candidate.is_reserved is reserved]

    def _still_left(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        left = {candidate.id for candidate in self._left}
        return [candidate for candidate in candidates if candidate.id in left]

    def _attempted(
        self,
        group: Sequence[Candidate],
        *,
        launches: bool = True,
        closed: Set[str] = frozenset(),
    ) -> bool:
        """Simulate the removal and, if it is an improvement, make it a command."""
        removed = tuple(group)
        outcome = self._simulated(removed, launches, closed)
        while isinstance(outcome, _Refused) and outcome.in_vain and self._may_go_on():
            removed = tuple(
                candidate for candidate in removed if candidate.id not in outcome.in_vain
            )
            if not removed:
                break
            outcome = self._simulated(removed, launches, closed)
        if isinstance(outcome, _Refused):
            if len(group) == 1:
                self.refusals[group[0].id] = outcome.reason
            return False
        self._record(removed, outcome)
        return True

    def _simulated(
        self, removed: tuple[Candidate, ...], launches: bool, closed: Set[str]
    ) -> Plan | _Refused:
        before = self.world.effort.left
        self._tried = True
        outcome = self._judged(removed, launches, closed)
        if isinstance(outcome, _Refused):
            self._wasted += before - self.world.effort.left
        return outcome

    def _judged(
        self, removed: tuple[Candidate, ...], launches: bool, closed: Set[str]
    ) -> Plan | _Refused:
        closed = closed | self._rule.no_cheaper_idle(removed)
        closed = closed | worse_nodes(removed, self.world.snapshot)
        plan = self._replanned(removed, launches, closed)
        if isinstance(plan, _Refused):
            return plan
        judgement = self._rule.judged(removed, plan)
        if judgement.refusals and len(removed) == 1 and nodes_bought(plan) > 1:
            judgement = self._on_one_node(removed, closed) or judgement
        if judgement.refusals:
            return _Refused(
                next(iter(judgement.refusals.values())), frozenset(judgement.refusals)
            )
        return judgement.plan

    def _replanned(
        self, removed: tuple[Candidate, ...], launches: bool, closed: Set[str]
    ) -> Plan | _Refused:
        """Plan for the replicas on the nodes without them; refused where some have no place, or a worse one."""
        plan = self.world.without(removed, launches=launches, closed=closed)
        if plan.unplaced and not launches:
            return _Refused("the nodes that stay cannot hold its replicas")
        if plan.unplaced:
            return _Refused(
                f"its replicas would not all be placed: {plan.unplaced[0].message}"
            )
        if climber := self.world.begins_again(plan):
            return _Refused(
                f"{climber} would begin its fallback ladder again, and not move to the nodes that stay"
            )
        if uses_worse_units(removed, plan, self.world.snapshot):
            return _Refused(WORSE)
        return plan

    def _on_one_node(
        self, removed: tuple[Candidate, ...], closed: Set[str]
    ) -> Judgement | None:
        """Return the best with one node instead of several that cost still less, if it is an improvement, too."""
        plan = self.world.without(removed, closed=closed, on_one_node=True)
        if plan.unplaced or self.world.begins_again(plan):
            return None
        judgement = self._rule.judged(removed, plan)
        return None if judgement.refusals else judgement

    def _record(self, removed: tuple[Candidate, ...], plan: Plan) -> None:
        """Make a command of it; its nodes and its destinations are candidates no more."""
        what = (
            "cheaper capacity can hold its replicas"
            if plan.launches
            else "its replicas fit on nodes that stay"
        )
        self.commands.append(command_of(_UNDERUTILIZED, removed, plan, what))
        self._headroom.spend(removed)
        destinations = {placed.claim_id for placed in plan.existing}
        self.refusals.update(
            dict.fromkeys(
                destinations & self.refusals.keys(), "replicas of other nodes move here"
            )
        )
        busy = {candidate.id for candidate in removed} | destinations
        self.world = self.world.after(removed, plan)
        self._rule = self._rule.occupied(destinations)
        self._left = [candidate for candidate in self._left if candidate.id not in busy]


def _halves(group: Sequence[Candidate]) -> list[Sequence[Candidate]]:
    middle = len(group) // 2
    return [group[:middle], group[middle:]] if middle else []
