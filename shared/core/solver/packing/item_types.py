"""What the packer sees: shapes (lots alike for packing) and candidates (options alike for packing)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from operator import ge, gt

from shared.core.scheduling_terms.labels import CAPACITY_TYPE, ZONE, ZONE_ID
from shared.core.solver.problem.catalogue import Option
from shared.core.solver.problem.host_rules import HostRule, host_rules
from shared.core.solver.problem.min_values import MinValues
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.domain_assignment import Lot
from shared.core.solver.solution.partial_plan import State
from shared.core.solver.solution.residual_capacity import Supply


@dataclass(slots=True, eq=False)
class Shape:
    """Lots with the same request, wishes, domain and kind of host rule."""

    index: int
    request: Vector
    alternatives: int
    pin: tuple[str, str] | None
    host: HostRule | None
    lots: list[Lot] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """An option standing for all that look the same to the shapes; ``mask`` is who may run on it, size apart."""

    option: Option
    mask: int
    price: float  # USD an hour with the node's overhead


def build_shapes(lots: Sequence[Lot]) -> list[Shape]:
    """Merge lots into shapes, in order of first appearance."""
    rules = host_rules(list({lot.group.index: lot.group for lot in lots}.values()))
    shapes: dict[object, Shape] = {}
    for lot in lots:
        group = lot.group
        host = rules.get(group.index)
        key = (group.request, group.alternatives[lot.level], lot.pin, host)
        shape = shapes.get(key)
        if shape is None:
            shape = shapes[key] = Shape(len(shapes), group.request, group.alternatives[lot.level], lot.pin, host)
        shape.lots.append(lot)
        shape.count += lot.count
    return list(shapes.values())


class Eligibility:
    """Bit masks over shapes: who accepts which wishes, places and sizes."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._shapes = shapes
        self._by_alternatives: dict[int, int] = {}
        self._by_place: dict[tuple[str, str, str], int] = {}
        self._by_size: dict[Vector, int] = {}
        self._all = (1 << len(shapes)) - 1
        self.is_pinned = any(shape.pin for shape in shapes)
        dimensions = len(shapes[0].request) if shapes else 0
        self._prefixes = [_prefix(shapes, dimension) for dimension in range(dimensions)]

    def accepting(self, alternatives: int, labels: Mapping[str, str]) -> int:
        """Return the shapes that accept a node meeting these wishes at this place, whatever its size."""
        mask = self._by_alternatives.get(alternatives)
        if mask is None:
            mask = sum(1 << shape.index for shape in self._shapes if shape.alternatives & alternatives)
            self._by_alternatives[alternatives] = mask
        return mask & self._at(labels) if self.is_pinned and mask else mask

    def _at(self, labels: Mapping[str, str]) -> int:
        place = (labels.get(ZONE, ""), labels.get(ZONE_ID, ""), labels.get(CAPACITY_TYPE, ""))
        mask = self._by_place.get(place)
        if mask is None:
            mask = sum(
                1 << shape.index
                for shape in self._shapes
                if shape.pin is None or labels.get(shape.pin[0]) == shape.pin[1]
            )
            self._by_place[place] = mask
        return mask

    def fitting(self, size: Vector) -> int:
        """Return the shapes of which one replica fits into ``size``."""
        mask = self._by_size.get(size)
        if mask is None:
            mask = self._all
            for (amounts, masks), available in zip(self._prefixes, size, strict=True):
                mask &= masks[bisect_right(amounts, available)]
            self._by_size[size] = mask
        return mask


def _prefix(shapes: Sequence[Shape], dimension: int) -> tuple[list[int], list[int]]:
    """Return the sorted requests of a resource, and for each prefix of them the mask of its shapes."""
    ordered = sorted(shapes, key=lambda shape: shape.request[dimension])
    masks = [0]
    for shape in ordered:
        masks.append(masks[-1] | 1 << shape.index)
    return [shape.request[dimension] for shape in ordered], masks


class Candidates:
    """The options worth looking at, reserved and paid, given what is still free and allowed."""

    def __init__(self, state: State, shapes: Sequence[Shape], overhead: int) -> None:
        supply = state.supply
        min_values = MinValues(state.market)
        self.eligibility = Eligibility(shapes)
        self.reserved: list[Candidate] = []
        self.paid: list[Candidate] = []
        open_options: list[tuple[Option, int, int]] = []
        best_tier: dict[int, int] = {}  # per tier: the shapes that some paid option of it could hold
        for option in state.market.options:
            accepting = self.eligibility.accepting(option.alternatives, option.place_labels)
            holding = accepting & self.eligibility.fitting(option.allocatable)
            if not holding or min_values.concerns(option.entry) or supply.nodes_left(option) == 0:
                continue  # under minValues, whether a node leaves enough to choose from is looked at replica by replica
            if option.reservation is not None:
                self.reserved.append(Candidate(option, accepting, (option.price + overhead) / 1e18))
            else:
                open_options.append((option, accepting, holding))
                tier = option.entry.tier
                best_tier[tier] = best_tier.get(tier, 0) | holding
        allowed: dict[int, int] = {}
        served = 0
        for tier in sorted(best_tier):
            allowed[tier] = best_tier[tier] & ~served
            served |= best_tier[tier]
        self.buyable = served
        self._keep_cheapest(supply, open_options, allowed, overhead)

    def _keep_cheapest(
        self,
        supply: Supply,
        options: Sequence[tuple[Option, int, int]],
        allowed: Mapping[int, int],
        overhead: int,
    ) -> None:
        """Keep, of options with equal size and takers, the cheapest; limited pools stay apart."""
        cheapest: dict[tuple[Vector, int, str], Option] = {}
        for option, accepting, holding in options:
            takers = allowed[option.entry.tier]
            if not holding & takers:
                continue
            pool = option.entry.pool.name
            key = (option.allocatable, accepting & takers, pool if pool in supply.limits else "")
            known = cheapest.get(key)
            if known is None or option.price < known.price:
                cheapest[key] = option
        found = [Candidate(option, mask, (option.price + overhead) / 1e18) for (_, mask, _), option in cheapest.items()]
        self.unthinned = sorted(_undominated(found), key=lambda item: (item.price, item.option.index))
        self.paid = _thinned(self.unthinned)


def _undominated(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Drop what is no larger and no cheaper than another with the same takers and the same pool limits."""
    by_takers: dict[object, list[Candidate]] = {}
    for candidate in candidates:
        by_takers.setdefault((candidate.mask, candidate.option.entry.pool.name), []).append(candidate)
    kept: list[Candidate] = []
    for same in by_takers.values():
        same.sort(key=lambda item: (item.price, [-size for size in item.option.allocatable], item.option.index))
        frontier: list[Vector] = []
        largest = [-1] * len(same[0].option.allocatable)
        for item in same:
            size = item.option.allocatable
            # Mostly a dearer candidate is larger than all before it in something; only others need the comparison.
            if any(map(gt, size, largest)) or not any(all(map(ge, other, size)) for other in frontier):
                frontier.append(size)
                kept.append(item)
                largest = list(map(max, size, largest))
    kept.sort(key=lambda item: item.option.index)
    return kept


# Sizes closer than this to the next smaller one are left out while packing (a node is fitted to its content later).
_SIZE_STEP = 1.12


def _thinned(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Thin out finely graded families: sizes of one CPU to memory ratio at one price a unit, for the same takers."""
    last: dict[object, Candidate] = {}
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda item: (item.price, item.option.index)):
        size = candidate.option.allocatable
        unit_price = candidate.price / max(1, size[0])
        family = (
            candidate.mask,
            candidate.option.entry.pool.name,
            round(8 * log2(max(1, size[1]) / max(1, size[0]))),
            round(24 * log2(unit_price)),
            size[3:],
        )
        smaller = last.get(family)
        if smaller is None or candidate.price >= smaller.price * _SIZE_STEP:
            last[family] = candidate
            kept.append(candidate)
    return sorted(kept, key=lambda item: item.option.index)
