"""Rolling updates: which nodes end because their replicas were placed with an earlier spec, and what must run first.

A node's replicas leave together, by a drain. As in a Deployment, there are never more replicas than the wanted ones and
the surge, and unless something else ends some, never fewer running ones than wanted less those that may be missing.
Where a node has more replicas than both bounds together, as many get a place ahead as let one such node end. Bounds
hold for every workload on the node that names some, whether its own update ends the node or a neighbour's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
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
    """A workload that names bounds; ``wanted`` replicas are wanted, ``surging`` more had a place until now."""

    key: str
    wanted: int
    bounds: RollingUpdate
    surging: int = 0


@dataclass(frozen=True, slots=True)
class RollingNode:
    """A node with replicas of workloads that name bounds: ``replicas`` and, of these, ``outdated``, by workload key.

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
        """Whether it will be ended, and so gets no new replicas."""
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
        """Yield the nodes that hold replicas of ``rolling`` workloads, given by key."""
        for claim in claims:
            replicas = {
                placed.workload_key: placed.count
                for placed in claim.placements
                if placed.workload_key in rolling
            }
            if replicas:
                found = self.terms.outdated_on(claim)
                outdated = {key: count for key, count in found.items() if key in rolling}
                yield RollingNode(
                    claim.id,
                    claim.node_pool_name,
                    claim.created_at,
                    replicas,
                    outdated,
                    is_running=claim.state is ClaimState.RUNNING,
                    is_steady=blocked_reason(claim, now) is None,
                    stays=self._stays(claim, outdated.keys()),
                )

    def _stays(self, claim: NodeClaim, outdated: Set[str]) -> str | None:
        """Say why no update may end a node, or None. Work of other teams is not moved for an update."""
        pool = self.node_pools.get(claim.node_pool_name)
        marked = None if pool is None else marked_reason(pool)
        if marked is not None:
            return f"{claim.id} to be left: {marked}"
        if len({self._whose(placed.workload_key) for placed in claim.placements}) > 1:
            return f"{claim.id} to be left: other work runs there, too"
        neighbours = tuple(it for it in claim.placements if it.workload_key not in outdated)
        protected = protected_reason(neighbours, self.terms.workloads)
        return None if protected is None else f"{claim.id} to be left: {protected}"

    def _whose(self, workload_key: str) -> tuple[str, str]:
        """Return the Team of a workload, or its namespace if that belongs to no Team."""
        namespace = workload_key.partition("/")[0]
        owner = self.owners.get(namespace)
        return ("", namespace) if owner is None else (owner.name, "")


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One step of a rolling update: how many more replicas get a place, and what the next node waits for."""

    surge_count: int
    waits_for: str


@dataclass(frozen=True, slots=True)
class RolloutSteps:
    """The next step of workloads, by key, and the nodes to be drained; workloads without a step are left out."""

    steps: Mapping[str, RolloutStep]
    going: tuple[str, ...]


# Branches: which nodes go, then one question after the other about each workload.
def next_steps(
    workloads: Iterable[RollingWorkload],
    nodes: Iterable[RollingNode],
    allowed: Mapping[str, int],
) -> RolloutSteps:
    """Decide which nodes are drained now. ``allowed``: how many nodes of each pool may be, by its name."""
    rolling = {each.key: each for each in workloads}
    known = list(nodes)
    leaving = _in_turn([node for node in known if node.leaves], rolling)
    room = _MayGo(
        left=dict(allowed),
        spare={key: _spare(each, known) for key, each in rolling.items()},
    )
    candidates = [node for node in leaving if room.left.get(node.pool_name, 0) > 0]
    going = [node for node in candidates if room.took(node)]
    steps: dict[str, RolloutStep] = {}
    for key, each in sorted(rolling.items()):
        leaves = [node for node in leaving if key in node.replicas]
        stays = [node for node in known if node.outdated.get(key) and not node.leaves]
        if not each.wanted:
            continue
        if leaves:
            steps[key] = _step(each, leaves, candidates, going, room)
        elif stays:
            steps[key] = RolloutStep(0, stays[0].stays or "")
    return RolloutSteps(steps, tuple(node.claim_id for node in going))


def _in_turn(
    leaving: Iterable[RollingNode], rolling: Mapping[str, RollingWorkload]
) -> list[RollingNode]:
    """Return nodes in the one order in which all workloads make room for them.

    All workloads on the first node make room for that one, so that updates which share nodes never wait for each other.
    """
    return sorted(
        leaving,
        key=lambda node: (
            not node.is_steady,
            _beyond_bounds(node, rolling),
            node.created_at,
            node.claim_id,
        ),
    )


def _beyond_bounds(node: RollingNode, rolling: Mapping[str, RollingWorkload]) -> int:
    """Return how many more replicas of a workload the node has than both its bounds allow together, at most."""
    beyond = 0
    for key, count in node.replicas.items():
        each = rolling[key]
        surge, missing = each.bounds.bounds(each.wanted)
        beyond = max(beyond, count - surge - missing)
    return beyond


def _spare(workload: RollingWorkload, nodes: Iterable[RollingNode]) -> int:
    """Return how many of a workload's running replicas may be taken away now."""
    _, missing = workload.bounds.bounds(workload.wanted)
    running = sum(node.replicas.get(workload.key, 0) for node in nodes if node.is_running)
    return running - (workload.wanted - missing)


@dataclass(frozen=True, slots=True)
class _MayGo:
    """How many nodes of each pool, and running replicas of each workload, may still be drained."""

    left: dict[str, int]
    spare: dict[str, int]

    def took(self, node: RollingNode) -> bool:
        """Count a node against the bounds, if these allow its drain."""
        if not node.is_steady or self.left[node.pool_name] <= 0 or self.lacking(node):
            return False
        self.left[node.pool_name] -= 1
        for key, count in node.replicas.items():
            self.spare[key] -= count
        return True

    def lacking(self, node: RollingNode) -> list[str]:
        """Return the workloads with too few replicas on other nodes for the node to be ended."""
        return [
            key for key, count in sorted(node.replicas.items()) if count > self.spare[key]
        ]


def _step(
    workload: RollingWorkload,
    leaving: Sequence[RollingNode],
    candidates: Sequence[RollingNode],
    going: Sequence[RollingNode],
    room: _MayGo,
) -> RolloutStep:
    """Return a workload's step for the first draining node with replicas of it, of those that budgets allow."""
    key = workload.key
    hosting = [node for node in candidates if key in node.replicas]
    is_going = any(node in going for node in hosting)
    first = hosting[0] if hosting else leaving[0]
    if not is_going and room.left.get(first.pool_name, 0) <= 0:
        # no replica gets a place ahead of a node that may not end; one that has a place keeps it
        used_up = f"the budget of NodePool {first.pool_name}, which is used up"
        return RolloutStep(workload.surging, used_up)
    surge, missing = workload.bounds.bounds(workload.wanted)
    surge = max(surge, first.replicas[key] - missing)
    if is_going:
        return RolloutStep(surge, "a node that drains to be replaced")
    return RolloutStep(surge, _waits_for(key, first, room))


def _waits_for(workload_key: str, node: RollingNode, room: _MayGo) -> str:
    """Say what the next node waits for, if not for a budget."""
    lacking = room.lacking(node)
    if workload_key in lacking:
        count = node.replicas[workload_key] - max(room.spare[workload_key], 0)
        return f"{count} more of its replicas to run"
    if not node.is_steady:
        return "its nodes to run and to stop changing"
    return f"more replicas of {', '.join(lacking)} to run"
