"""Launches of nodes without demand: a static pool's, planned as if each were wanted as a whole.

The scheduler decides where they come from, as for any demand: reserved units first, then the cheapest capacity, within
the pool's limits and the deployment's ceiling. The demand that it gets is a placeholder, which no applied plan names.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import AffinityTerm, Demand, LabelSelector, Workload
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, HOSTNAME
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Toleration, TolerationOperator

_NAMESPACE: Final = "static-pools"
_LABEL: Final = "static-pool"


def growth_snapshot(
    snapshot: Snapshot, pool: NodePool, count: int, now: datetime
) -> Snapshot:
    """Return the world in which the pool alone launches, and so many placeholders want a new node of it each."""
    demand = Demand(_placeholder(pool.name, count), count, now)
    return replace(launching_alone(snapshot, pool, now), demands=(demand,), workloads={})


def launching_alone(snapshot: Snapshot, pool: NodePool, now: datetime) -> Snapshot:
    """Return the world in which the static pool launches for demand, and nothing else takes any.

    The nodes that there are go on counting for limits and the ceiling. Units are shared out among teams when replicas
    come to run on them, and not before.
    """
    nodes = tuple(replace(node, drain_at=now) for node in snapshot.nodes)
    return replace(snapshot, node_pools=(_launching(pool),), nodes=nodes, teams=())


def only_reserved(pool: NodePool) -> NodePool:
    """Return the pool as one that launches reserved capacity alone."""
    only = Requirement.new(CAPACITY_TYPE, Operator.IN, (CapacityType.RESERVED,))
    return replace(pool, requirements=pool.requirements.add(only))


def _launching(pool: NodePool) -> NodePool:
    """Return the pool as one that launches for demand; what follows reservations launches nothing else."""
    launching = only_reserved(pool) if pool.all_reserved else pool
    return replace(launching, replicas=None, all_reserved=False)


def growth_policy(policy: SchedulingPolicy) -> SchedulingPolicy:
    """Return how such nodes are planned: no reserved unit is too good for them, and no better plan is sought."""
    return replace(policy, reserved_floor_percent=0, with_certificate=False)


def bare(plan: Plan) -> Plan:
    """Return the plan's launches with nothing on them."""
    return Plan(launches=tuple(replace(nodes, placements=()) for nodes in plan.launches))


def _placeholder(pool_name: str, count: int) -> Workload:
    own = {_LABEL: pool_name}
    apart = AffinityTerm(HOSTNAME, LabelSelector(match_labels=tuple(own.items())))
    return Workload(
        namespace=_NAMESPACE,
        name=pool_name,
        generation=1,
        replicas=count,
        requests=Resources.of({}),
        labels=own,
        tolerations=(Toleration(operator=TolerationOperator.EXISTS),),
        anti_affinity=(apart,),
        duration_s=0,  # it stays until a Capacity Block drains, whatever its length
    )
