"""What the checks of a plan's leftovers ask in common: which replicas may have a unit, and which cannot move alone."""

from reservoir.core.checking.constraints.spread import is_bound
from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.residual.open_nodes import OpenNodes, wants_many
from reservoir.core.checking.residual.room_left import RoomLeft
from reservoir.core.checking.team_resources import TeamResources
from reservoir.core.checking.team_shares import TeamShares
from reservoir.core.model.policy import PreferencePolicy
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources


class Leftovers:
    """A plan's final state, the room that is left in it, and the questions about both."""

    def __init__(self, facts: Facts, topology: Topology) -> None:
        self.facts = facts
        self.topology = topology
        self.shares = TeamShares(facts)
        self.resources = TeamResources(facts)
        self.room = RoomLeft(facts, self.shares, self.resources)
        self.unplaced = {refusal.workload_key for refusal in facts.plan.unplaced}
        self._bound: dict[str, bool] = {}

    def is_bound(self, workload: Workload) -> bool:
        """Whether a topology rule, its own or another workload's, concerns the workload."""
        known = self._bound.get(workload.key)
        if known is None:
            known = self._bound[workload.key] = is_bound(self.topology, workload)
        return known

    def is_held(self, workload: Workload) -> bool:
        """Whether moving one replica by itself could break a rule about its place."""
        return self.is_bound(workload) or workload.gang is not None

    def may_have(self, workload: Workload, unit: OpenNodes) -> bool:
        """Whether a rule certainly lets a replica be on the free unit; size and topology are not looked at."""
        pool = unit.pool
        may_launch = (
            pool is not None
            and self.room.tolerates(workload, pool)
            and not wants_many(pool)
        )
        return may_launch and self.room.may_run(workload, unit)

    def has_all_it_prefers(self, workload: Workload, unit: OpenNodes) -> bool:
        """Whether the unit meets all preferences of the workload: an unmet one has a price (R-47)."""
        if self.facts.policy.preference_policy is PreferencePolicy.IGNORE:
            return True
        return all(
            unit.description.admits(term.requirements, unit.undefined)
            for term in workload.preferred_node_terms
        )

    def is_below_floor(self, load: Resources, slot: Resources) -> bool:
        """Whether the load uses less of each resource than the policy's floor for reserved units."""
        floor = self.facts.policy.reserved_floor_percent
        return floor > 0 and all(
            amount * 100 < floor * slot[name] for name, amount in load.items() if slot[name]
        )
