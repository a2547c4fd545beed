"""A quick check where the replicas of nodes could go, which spares simulations that cannot succeed.

It considers sizes, requirements, taints, markets and prices, and neither rules between workloads nor limits or
minValues. The scheduler simulates all that it proposes before anything is decided; nodes that it rejects are only left
alone until the world changes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import add, ge, le
from typing import Final

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.disruption.free_capacity import Destination, FreeCapacity
from reservoir.core.disruption.simulation import LADDER_CLIMBED, PassState
from reservoir.core.model.policy import PreferencePolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Node
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.nodes import NodeFacts, fill_order
from reservoir.core.solver.problem.queue import PendingQueue
from reservoir.core.solver.problem.vectors import Vector

# Evaluations of a node on behalf of a workload, in one pass: about 0.3 s of Lambda's processor at one vCPU.
EVALUATIONS_MAX: Final = 500_000


# A node's place in the order in which nodes are filled, the requirement sets that it meets, and its free room.
_Place = tuple[tuple[bool, int, str], int, Vector]


@dataclass(frozen=True, slots=True)
class Ask:
    """What ``count`` replicas of one workload need: each this size, on a node that meets one of these sets."""

    size: Vector
    requirement_sets: int
    count: int


@dataclass(frozen=True, slots=True)
class _Purchasable:
    """A node that could be launched: its price, its size, and the requirement sets that it meets."""

    price: int
    size: Vector
    requirement_sets: int


class FeasibilityFilter:
    """What stays the same during a pass: how large and how choosy workloads are, and what can be launched for them."""

    # Branches: tables that every question needs, one after the other.
    def __init__(self, world: PassState, candidates: Iterable[Candidate]) -> None:
        placed_keys: set[str] = set()
        for candidate in candidates:
            placed_keys.update(placed.workload_key for placed in candidate.claim.placements)
        classes: dict[object, list[Workload]] = {}
        for key in sorted(placed_keys):
            workload = world.snapshot.workloads.get(key)
            if workload is not None:
                classes.setdefault(_class_key(workload), []).append(workload)
        examples = tuple(_bare_demand(alike[0]) for alike in classes.values())
        asked = replace(world.snapshot, demands=examples, workloads={})
        # The most permissive policy: what the operator's does not allow, the simulation refuses.
        permissive = SchedulingPolicy(preference_policy=PreferencePolicy.IGNORE)
        queue = PendingQueue.of(asked, world.now, permissive)
        catalogue = queue.catalogue(asked, world.now, permissive)
        of_example = {
            each.demand.workload.key: queue.masks(each.levels)[-1] for each in queue.pending
        }
        request = queue.dimensions.request
        self._facts = NodeFacts(catalogue, queue.terms)
        self._asks: dict[str, tuple[Vector, int]] = {}
        for alike in classes.values():
            masks = of_example[alike[0].key]
            for workload in alike:
                self._asks[workload.key] = request(workload.requests), masks
        sizes = [size for size, _ in self._asks.values()]
        self._least = tuple(map(min, zip(*sizes, strict=True)))
        self._paid = _pareto_optimal(
            option for option in catalogue.options if option.reservation is None
        )
        self._paid_prices = [offer.price for offer in self._paid]
        self._units = _pareto_optimal(
            option for option in catalogue.options if option.reservation is not None
        )
        self._places: dict[str, tuple[Node, _Place | None]] = {}
        self.evaluations_left = EVALUATIONS_MAX

    @property
    def has_free_units(self) -> bool:
        """Whether some reservation had a unit to launch into when the pass began."""
        return bool(self._units)

    def free_capacity(
        self, world: PassState, candidates: Sequence[Candidate]
    ) -> FreeCapacity:
        """Return the free room on the world's nodes: on nodes that stay anyway first, then on the last candidates."""
        if not self._least:
            return FreeCapacity((), self._least)
        order = {candidate.id: -position for position, candidate in enumerate(candidates)}
        first = -len(candidates)
        open_places: list[tuple[int, _Place]] = []
        for node in world.snapshot.nodes:
            place = self._place(node)
            if place is not None and node.claim_id not in world.closed:
                open_places.append((order.get(node.claim_id, first), place))
        open_places.sort(key=lambda it: (it[0], it[1][0]))
        places = (
            Destination(filled[-1], sets, list(free))
            for _, (filled, sets, free) in open_places
        )
        return FreeCapacity(places, self._least)

    def _place(self, node: Node) -> _Place | None:
        """Return how the node is as a destination, found once until the pass changes the node.

        None if it is none, or has less room than any replica takes.
        """
        known = self._places.get(node.claim_id)
        if known is None or known[0] is not node:
            place = None
            free = self._facts.free(node) if self._facts.takes_replicas(node) else []
            if free and all(map(ge, free, self._least)):
                place = (fill_order(node), self._facts.requirement_sets(node), tuple(free))
            known = self._places[node.claim_id] = (node, place)
        return known[1]

    def asks(self, candidate: Candidate) -> list[Ask]:
        """Return what the node's replicas need, the largest first."""
        known = (
            (self._asks.get(placed.workload_key), placed.count)
            for placed in candidate.claim.placements
        )
        found = [Ask(*ask, count) for ask, count in known if ask is not None]
        return sorted(found, key=lambda ask: ask.size, reverse=True)

    def emptiable(
        self, free_capacity: FreeCapacity, candidates: Iterable[Candidate]
    ) -> list[Candidate]:
        """Choose nodes that could be emptied together into nodes that stay; these then leave ``free_capacity``.

        A node that takes replicas stays, and a node that cannot be emptied does not block the next.
        """
        chosen = []
        for candidate in candidates:
            if self.evaluations_left <= 0:
                break
            if free_capacity.has_arrivals(candidate.id):
                continue
            if self._try(free_capacity, candidate):
                free_capacity.take_back()
            else:
                free_capacity.close(candidate.id)
                chosen.append(candidate)
        return chosen

    def refusal(self, free_capacity: FreeCapacity, candidate: Candidate) -> str | None:
        """Say why simulating the node's removal is not worth it, or None when it is."""
        if self.evaluations_left <= 0:
            return None
        left_over = self._try(free_capacity, candidate)
        free_capacity.take_back()
        if not left_over or self._has_cheaper(candidate, left_over):
            return None
        return "nothing cheaper would hold its replicas, and the nodes that stay have no room for them"

    def _try(self, free_capacity: FreeCapacity, candidate: Candidate) -> list[Ask]:
        """Put the node's replicas elsewhere as far as there is room; return those without a place."""
        left_over = []
        for ask in self.asks(candidate):
            left, evaluations = free_capacity.put(
                ask.size, ask.requirement_sets, ask.count, besides=candidate.id
            )
            self.evaluations_left -= evaluations
            if left:
                left_over.append(replace(ask, count=left))
        return left_over

    def _has_cheaper(self, candidate: Candidate, asks: Sequence[Ask]) -> bool:
        """Whether one new node that is cheaper than this one holds all of it, or a free unit at least some of it."""
        for unit in self._units:
            if unit.price < candidate.price and any(
                _holds(unit, ask.size, (ask,)) for ask in asks
            ):
                return True
        load = _load(asks)
        cheaper = bisect_left(self._paid_prices, candidate.price)
        return any(_holds(offer, load, asks) for offer in self._paid[:cheaper])


def _load(asks: Sequence[Ask]) -> Vector:
    """Return what all the replicas take together."""
    taken: list[int] = []
    for ask in asks:
        amounts = [amount * ask.count for amount in ask.size]
        taken = list(map(add, taken, amounts)) if taken else amounts
    return tuple(taken)


def _holds(offer: _Purchasable, load: Vector, asks: Sequence[Ask]) -> bool:
    return all(map(le, load, offer.size)) and all(
        offer.requirement_sets & ask.requirement_sets for ask in asks
    )


def _pareto_optimal(options: Iterable[LaunchOption]) -> list[_Purchasable]:
    """Return the offers, cheapest first, without those that a cheaper one can replace."""
    cheapest: dict[tuple[Vector, int], int] = {}
    for option in options:
        key = (option.allocatable, option.requirement_sets)
        cheapest[key] = min(option.price, cheapest.get(key, option.price))
    kept: list[_Purchasable] = []
    for price, size, requirement_sets in sorted(
        (price, size, requirement_sets)
        for (size, requirement_sets), price in cheapest.items()
    ):
        if not any(
            not requirement_sets & ~it.requirement_sets and all(map(le, size, it.size))
            for it in kept
        ):
            kept.append(_Purchasable(price, size, requirement_sets))
    return kept


_BARE_ALIKE: Final = Likeness(
    Workload,
    {
        "namespace": "whose units may be used, the simulation says",
        "name": "it names the workload",
        "generation": "only the newest generation is in a snapshot",
        "replicas": "it is asked for one",
        "requests": "stand beside by name, as sizes are compared apart",
        "labels": "rules about others are left out",
        "annotations": "no rule reads them",
        "priority": "nobody is in the way here",
        "preferred_node_terms": "preferences are left out",
        "topology_spread": "rules about others are left out",
        "affinity": "rules about others are left out",
        "anti_affinity": "rules about others are left out",
        "gang": "rules about others are left out",
        "max_price_micro_usd_per_hour": "money is left out",
        "do_not_disrupt": "what may be moved is decided before",
        "handover": "when a replica may start is no matter of where it is",
        "rolling_update": "when a replica is replaced is no matter of room",
        "unknown": "what a newer release means by it this one does not know",
    },
)


def _class_key(workload: Workload) -> object:
    """Return the key by which workloads differ in where they may run, except for sizes."""
    return _BARE_ALIKE.key(workload), tuple(workload.requests)


def _bare_demand(workload: Workload) -> Demand:
    """Ask for one replica without its rules about others."""
    bare = replace(
        workload,
        topology_spread=(),
        affinity=(),
        anti_affinity=(),
        preferred_node_terms=(),
        gang=None,
        max_price_micro_usd_per_hour=None,
    )
    return Demand(bare, 1, LADDER_CLIMBED)
