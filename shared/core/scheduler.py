"""The decision: demand onto reserved capacity first, then onto the cheapest that is left (DESIGN section 3)."""

from datetime import datetime

from shared.core.plan import Plan
from shared.core.policy import SchedulingPolicy
from shared.core.snapshot import Snapshot
from shared.core.solver.emit import emit
from shared.core.solver.gangs import place_gang
from shared.core.solver.general import Placer
from shared.core.solver.groups import gather
from shared.core.solver.market import Market
from shared.core.solver.nodes import NodeFacts
from shared.core.solver.reasons import Reasons
from shared.core.solver.state import State


def solve(snapshot: Snapshot, *, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Return a complete plan for the snapshot's demand.

    Pure and deterministic: the same arguments give the same plan, byte for byte, under any hash seed, as long as
    ``policy.expired`` answers the same. ``now`` is aware UTC.
    """
    demands = gather(snapshot, now, policy.preference_policy)
    market = Market(snapshot, now, policy, demands.dimensions, demands.alternatives)
    demands.resolve(market)
    state = State(market, demands, NodeFacts(market, demands))
    placer = Placer(state)
    for group in sorted(demands.groups, key=lambda group: (-group.priority, placer.dearness(group), group.index)):
        if group.workload.gang is not None:
            place_gang(placer, group)
        else:
            placer.place_group(group)
    return emit(state, Reasons(state), (), 1)
