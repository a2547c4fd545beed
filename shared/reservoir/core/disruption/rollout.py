"""Rolling updates: which nodes end because their replicas were placed with an earlier spec, and what must run first.

A node's replicas leave together, by a drain. As in a Deployment, there are never more replicas than the wanted ones and
the surge, and unless something else ends some, never fewer running ones than wanted less those that may be missing.
Where a node has more replicas than both bounds together, as many get a place ahead as let one such node end.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.disruption.candidate import (
    blocked_reason,
    marked_reason,
    protected_reason,
)
from reservoir.core.launching.placed_terms import PlacedTerms
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Team
from reservoir.core.model.workload import RollingUpdate


@dataclass(frozen=True, slots=True)
class RollingWorkload:
    """A workload whose replicas are replaced; ``wanted`` of them are wanted, ``surging`` more had a place until now."""

    key: str
    wanted: int
    bounds: RollingUpdate
    surging: int = 0


@dataclass(frozen=True, slots=True)
class RollingNode:
    """A node with replicas of workloads that roll: ``replicas`` and, of these, ``outdated``, by workload key.

    ``is_steady``: it runs and nothing else is about to happen to it. ``stays``: why no update may end it; None: it may.
    """

    claim_id: str
    pool_name: str
    created_at: datetime
    replicas: Mapping[str, int]
    outdated: Mapping[str, int]
    is_running: bool
    is_steady: bool
    stays: str | None = None

    @property
    def leaves(self) -> bool:
        """Whether it goes sooner or later, and so takes nothing new."""
        return bool(self.outdated) and self.stays is None


@dataclass(frozen=True, slots=True)
class Hosting:
    """Looks for the nodes of what rolls. ``owners`` are the Teams of namespaces."""

    terms: PlacedTerms
    node_pools: Mapping[str, NodePool]
    owners: Mapping[str, Team]

    def nodes(
        self, rolling: Set[str], claims: Iterable[NodeClaim], now: datetime
    ) -> Iterator[RollingNode]:
        """Yield the nodes that hold replicas of workloads that roll, given by key."""
        for claim in claims:
            replicas = {
                placed.workload_key: placed.count
                for placed in claim.placements
                if placed.workload_key in rolling
            }
            if replicas:
                outdated = self.terms.outdated_on(claim)
                yield RollingNode(
                    claim.id,
                    claim.node_pool_name,
                    claim.created_at,
                    replicas,
                    {key: count for key, count in outdated.items() if key in rolling},
                    is_running=claim.state is ClaimState.RUNNING,
                    is_steady=blocked_reason(claim, now) is None,
                    stays=self._stays(claim, rolling),
                )

    def _stays(self, claim: NodeClaim, rolling: Set[str]) -> str | None:
        """Say why no update may end a node, or None: work of others is not moved for it."""
        pool = self.node_pools.get(claim.node_pool_name)
        marked = None if pool is None else marked_reason(pool)
        if marked is not None:
            return f"{claim.id} to be left: {marked}"
        if len({self._whose(placed.workload_key) for placed in claim.placements}) > 1:
            return f"{claim.id} to be left: others work there, too"
        neighbours = tuple(it for it in claim.placements if it.workload_key not in rolling)
        protected = protected_reason(neighbours, self.terms.workloads)
        return None if protected is None else f"{claim.id} to be left: {protected}"

    def _whose(self, workload_key: str) -> tuple[str, str]:
        """Return the Team that a workload is of, or its namespace where that is no Team's."""
        namespace = workload_key.partition("/")[0]
        owner = self.owners.get(namespace)
        return ("", namespace) if owner is None else (owner.name, "")


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """What a workload's update does next: how many more have a place, and what the next node waits for."""

    surge_count: int
    waits_for: str


@dataclass(frozen=True, slots=True)
class RolloutSteps:
    """What updates do next, by workload key, and the nodes that go; a workload that is left out is through."""

    steps: Mapping[str, RolloutStep]
    going: tuple[str, ...]


# Branches: one question after the other about each node, and a line for each workload.
def next_steps(
    workloads: Iterable[RollingWorkload],
    nodes: Iterable[RollingNode],
    allowed: Mapping[str, int],
) -> RolloutSteps:
    """Decide which nodes go now. ``allowed``: how many of each pool's may, by its name."""
    rolling = {each.key: each for each in workloads}
    ordered = sorted(nodes, key=lambda node: (node.created_at, node.claim_id))
    left = dict(allowed)
    spare = {key: _spare(each, ordered) for key, each in rolling.items()}
    going: list[str] = []
    for node in ordered:
        can_go = node.leaves and node.is_steady
        fits = all(
            node.replicas.get(key, 0) <= room
            for key, room in spare.items()
            if node.replicas.get(key)
        )
        if not can_go or not fits or left.get(node.pool_name, 0) <= 0:
            continue
        left[node.pool_name] -= 1
        going.append(node.claim_id)
        for key, count in node.replicas.items():
            if key in spare:
                spare[key] -= count
    steps: dict[str, RolloutStep] = {}
    for key, each in sorted(rolling.items()):
        hosting = [node for node in ordered if node.outdated.get(key)]
        if hosting and each.wanted:
            steps[key] = _step(each, hosting, going, spare[key], left)
    return RolloutSteps(steps, tuple(going))


def _spare(workload: RollingWorkload, nodes: Iterable[RollingNode]) -> int:
    """Return how many of a workload's running replicas may be taken away now."""
    _, missing = workload.bounds.bounds(workload.wanted)
    running = sum(node.replicas.get(workload.key, 0) for node in nodes if node.is_running)
    return running - (workload.wanted - missing)


def _step(
    workload: RollingWorkload,
    hosting: list[RollingNode],
    going: list[str],
    spare: int,
    left: Mapping[str, int],
) -> RolloutStep:
    movable = [node for node in hosting if node.stays is None]
    if not movable:
        return RolloutStep(0, hosting[0].stays or "")
    surge, missing = workload.bounds.bounds(workload.wanted)
    least = min(node.replicas[workload.key] for node in movable)
    surge = max(surge, least - missing)
    if any(node.claim_id in going for node in movable):
        return RolloutStep(surge, "a node that goes to be replaced")
    if not any(left.get(node.pool_name, 0) > 0 for node in movable):
        # no replica gets a place ahead of a node that may not end; one that has a place keeps it
        name = movable[0].pool_name
        used_up = f"the budget of NodePool {name}, which is used up"
        return RolloutStep(workload.surging, used_up)
    return RolloutStep(surge, _waits_for(movable, least, spare))


def _waits_for(movable: Iterable[RollingNode], least: int, spare: int) -> str:
    """Say what the next node waits for, if not for a budget."""
    if least > spare:
        return f"{least - max(spare, 0)} more of its replicas to run"
    if any(node.is_steady for node in movable):
        return "another update on the same node"
    return "its nodes to run and to be left alone"
