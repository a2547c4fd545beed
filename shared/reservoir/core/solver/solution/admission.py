"""How many replicas of a group may join a node.

It is the least of what requirements, free resources, and rules over hosts and domains allow.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from reservoir.core.scheduling_terms.labels import HOSTNAME
from reservoir.core.solver.problem.groups import Group, RelaxedGroup
from reservoir.core.solver.problem.topology import Constraints, DomainLedger
from reservoir.core.solver.problem.vectors import UNLIMITED, copies_that_fit
from reservoir.core.solver.solution.bins import Bin


class NodeAdmission:
    """Takes the least of what each rule allows, by the ledger's counts of replicas in domains."""

    def __init__(self, groups: Sequence[Group], ledger: DomainLedger) -> None:
        self._groups = groups
        self._ledger = ledger

    def room(self, bin_: Bin, relaxed: RelaxedGroup, *, is_assigned: bool = False) -> int:
        """Return how many replicas of the group ONE node of the bin takes, by requirements, resources and topology.

        ``is_assigned``: the replicas were assigned to domains, so rules over domains are not checked here: they hold
        once all replicas are placed.
        """
        if not bin_.requirement_sets & relaxed.requirement_sets:
            return 0
        group, constraints = relaxed.group, relaxed.constraints
        fitting = copies_that_fit(group.request, bin_.free)
        if fitting == 0:
            return 0
        if not (group.matching or constraints.anti_mask or not constraints.is_free):
            return fitting
        domain_room = UNLIMITED if is_assigned else self.domain_room(bin_.labels, relaxed)
        return (
            min(fitting, domain_room, self.host_room(relaxed, bin_)) if domain_room else 0
        )

    def domain_room(self, labels: Mapping[str, str], relaxed: RelaxedGroup) -> int:
        """Return how many replicas the rules over domains (all but hosts) allow on one node with these labels."""
        ledger, group, constraints = self._ledger, relaxed.group, relaxed.constraints
        if group.matching and ledger.inverse_blocked(labels, group.matching):
            return 0
        room = ledger.near_room(constraints, labels)
        if group.matching and ledger.carried:
            room = min(room, ledger.carried_room(labels, group.matching))
        for spread in constraints.spread:
            if room == 0:
                return 0
            if spread.topology_key != HOSTNAME:
                room = min(
                    room, ledger.spread_room(spread, labels.get(spread.topology_key))
                )
        return room

    def host_room(self, relaxed: RelaxedGroup, bin_: Bin | None) -> int:
        """Return how many replicas the rules over hosts allow on one node (a new one if ``bin_`` is None)."""
        group, constraints = relaxed.group, relaxed.constraints
        room = (
            self._host_near_room(constraints, bin_)
            if constraints.anti or constraints.affinity
            else UNLIMITED
        )
        for spread in constraints.spread:
            if spread.topology_key == HOSTNAME:
                room = min(
                    room, spread.room(self._matched_on(bin_, spread.term) - spread.max_skew)
                )
        if (
            bin_ is not None
            and (bin_.contents or bin_.residents)
            and group.matching & self._ledger.host_mask
        ):
            room = min(room, self._inverse_host_room(bin_, group))
        return room

    def _host_near_room(self, constraints: Constraints, bin_: Bin | None) -> int:
        room = UNLIMITED
        for near in constraints.anti:
            if near.topology_key == HOSTNAME:
                if self._matched_on(bin_, near.term):
                    return 0
                room = 1 if near.matches_self else room
        for near in constraints.affinity:
            if near.topology_key == HOSTNAME and not self._matched_on(bin_, near.term):
                may_open = (
                    near.matches_self
                    and self._ledger.populated_hosts.get(near.term, 0) <= 0
                )
                if not may_open:
                    return 0
        return room

    def _inverse_host_room(self, bin_: Bin, group: Group) -> int:
        """Return how many replicas the host rules of the replicas on the node allow.

        These are the anti-affinity of all of them, and the spread of those that this solve placed there.
        """
        hosts = group.matching & self._ledger.host_mask
        for _, anti_mask, _ in bin_.residents:
            if anti_mask & hosts:
                return 0
        room = UNLIMITED
        for index in bin_.contents:
            if (final := self._with_host_rules.get(index)) is None:
                continue
            if final.anti_mask & hosts:
                return 0
            for spread in final.spread:
                if hosts >> spread.term & 1:
                    room = min(
                        room, max(0, spread.max_skew - self._matched_on(bin_, spread.term))
                    )
        return room

    @cached_property
    def _with_host_rules(self) -> Mapping[int, Constraints]:
        """Return the required rules of the groups whose host rules keep other replicas off their nodes, by group index.

        Only required rules count: they are the same at every level, and a node does not record the level of a replica.
        """
        found: dict[int, Constraints] = {}
        for group in self._groups:
            required = group.constraints[-1]
            is_anti = bool(required.anti_mask & self._ledger.host_mask)
            if is_anti or any(rule.topology_key == HOSTNAME for rule in required.spread):
                found[group.index] = required
        return found

    def _matched_on(self, bin_: Bin | None, term: int) -> int:
        matched = 0
        # Plain loops, for speed: this is called for each replica with such a rule.
        if bin_ is not None:
            for index, count in bin_.contents.items():
                matched += count if self._groups[index].matching >> term & 1 else 0
            for matching, _, count in bin_.residents:
                matched += count if matching >> term & 1 else 0
        return matched
