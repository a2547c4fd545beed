"""What the packer sees: items (batches alike for packing) and bin types (options alike for packing)."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2

from shared.core.scheduling_terms.labels import CAPACITY_TYPE, ZONE, ZONE_ID
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.host_rules import HostRule, host_rules
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.domain_assignment import DomainBatch
from shared.core.solver.solution.partial_plan import PartialPlan
from shared.core.solver.solution.residual_capacity import ResidualCapacity
from shared.core.solver.solution.substitutes import Substitutes


@dataclass(slots=True, eq=False)
class ItemType:
    """Batches with the same request, requirement sets, domain and kind of host rule."""

    index: int
    request: Vector
    requirement_sets: int
    pin: tuple[str, str] | None
    host: HostRule | None
    batches: list[DomainBatch] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True, eq=False)
class BinType:
    """An option standing for all that look the same to items; ``eligible`` are those that may run on it, size apart."""

    option: LaunchOption
    eligible: int
    price: float  # USD an hour with the node's overhead


def build_item_types(batches: Sequence[DomainBatch]) -> list[ItemType]:
    """Merge batches into items, in order of first appearance."""
    rules = host_rules(list({batch.relaxed.group.index: batch.relaxed.group for batch in batches}.values()))
    item_types: dict[object, ItemType] = {}
    for batch in batches:
        group, requirement_sets = batch.relaxed.group, batch.relaxed.requirement_sets
        host = rules.get(group.index)
        key = (group.request, requirement_sets, batch.pin, host)
        item_type = item_types.get(key)
        if item_type is None:
            item_type = item_types[key] = ItemType(len(item_types), group.request, requirement_sets, batch.pin, host)
        item_type.batches.append(batch)
        item_type.count += batch.count
    return list(item_types.values())


class Eligibility:
    """Bit masks over items: who accepts which requirement sets, places and sizes."""

    def __init__(self, item_types: Sequence[ItemType]) -> None:
        self._item_types = item_types
        self._by_requirement_sets: dict[int, int] = {}
        self._by_place: dict[tuple[str | None, ...], int] = {}
        self._by_size: dict[Vector, int] = {}
        self._all = (1 << len(item_types)) - 1
        self.is_pinned = any(item_type.pin for item_type in item_types)
        dimensions = len(item_types[0].request) if item_types else 0
        self._prefixes = [_prefix(item_types, dimension) for dimension in range(dimensions)]

    def accepting(self, requirement_sets: int, labels: Mapping[str, str]) -> int:
        """Return the items that accept a node meeting these requirement sets at this place, whatever its size."""
        mask = self._by_requirement_sets.get(requirement_sets)
        if mask is None:
            mask = sum(
                1 << item_type.index for item_type in self._item_types if item_type.requirement_sets & requirement_sets
            )
            self._by_requirement_sets[requirement_sets] = mask
        return mask & self._at(labels) if self.is_pinned and mask else mask

    def _at(self, labels: Mapping[str, str]) -> int:
        place = tuple(map(labels.get, (ZONE, ZONE_ID, CAPACITY_TYPE)))
        mask = self._by_place.get(place)
        if mask is None:
            mask = sum(
                1 << item_type.index
                for item_type in self._item_types
                if item_type.pin is None or labels.get(item_type.pin[0]) == item_type.pin[1]
            )
            self._by_place[place] = mask
        return mask

    def fitting(self, size: Vector) -> int:
        """Return the items of which one replica fits into ``size``."""
        mask = self._by_size.get(size)
        if mask is None:
            mask = self._all
            for (amounts, masks), available in zip(self._prefixes, size, strict=True):
                mask &= masks[bisect_right(amounts, available)]
            self._by_size[size] = mask
        return mask


def price_alone(item_type: ItemType, holders: Sequence[tuple[BinType, int]], otherwise: float) -> float:
    """Return what a replica costs on a node of its own, by who can hold which items, cheapest first."""
    return next((item.price for item, held in holders if held >> item_type.index & 1), otherwise)


def _prefix(item_types: Sequence[ItemType], dimension: int) -> tuple[list[int], list[int]]:
    """Return the sorted requests of a resource, and for each prefix of them the mask of its items."""
    ordered = sorted(item_types, key=lambda item_type: item_type.request[dimension])
    masks = [0]
    for item_type in ordered:
        masks.append(masks[-1] | 1 << item_type.index)
    return [item_type.request[dimension] for item_type in ordered], masks


class BinTypes:
    """The options worth looking at, reserved and paid, given what is still free and allowed."""

    def __init__(self, state: PartialPlan, item_types: Sequence[ItemType], overhead: int) -> None:
        residual = state.residual
        substitutes = Substitutes(state.catalogue)
        self.eligibility = Eligibility(item_types)
        self.reserved: list[BinType] = []
        self.paid: list[BinType] = []
        open_options: list[tuple[LaunchOption, int, int]] = []
        best_tier: dict[int, int] = {}  # per tier: the items that some paid option of it could hold
        known: dict[tuple[int, int], int] = {}  # options are many, places and who meets them few
        for option in state.catalogue.options:
            about = (option.requirement_sets, id(option.place_labels))
            accepting = known.get(about)
            if accepting is None:
                accepting = known[about] = self.eligibility.accepting(option.requirement_sets, option.place_labels)
            holding = accepting & self.eligibility.fitting(option.allocatable)
            if not holding or substitutes.concerns(option.entry) or residual.nodes_left(option) == 0:
                continue  # under minValues, whether a node leaves enough to choose from is looked at replica by replica
            if option.reservation is not None:
                self.reserved.append(BinType(option, accepting, (option.price + overhead) / 1e18))
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
        self._keep_cheapest(residual, open_options, allowed, overhead)

    def holders(self) -> list[tuple[BinType, int]]:
        """Return what can be bought, cheapest first, with the items of which one replica fits there."""
        fitting = self.eligibility.fitting
        return [(item, item.eligible & fitting(item.option.allocatable)) for item in self.unthinned]

    def _keep_cheapest(
        self,
        residual: ResidualCapacity,
        options: Sequence[tuple[LaunchOption, int, int]],
        allowed: Mapping[int, int],
        overhead: int,
    ) -> None:
        """Keep, of options with equal size and eligible items, the cheapest; limited pools stay apart."""
        cheapest: dict[tuple[Vector, int, str], LaunchOption] = {}
        for option, accepting, holding in options:
            eligible = allowed[option.entry.tier]
            if not holding & eligible:
                continue
            pool = option.entry.pool.name
            key = (option.allocatable, accepting & eligible, pool if pool in residual.limits else "")
            known = cheapest.get(key)
            if known is None or option.price < known.price:
                cheapest[key] = option
        found = [BinType(option, mask, (option.price + overhead) / 1e18) for (_, mask, _), option in cheapest.items()]
        self.unthinned = sorted(found, key=lambda item: (item.price, item.option.index))
        self.paid = _thinned(self.unthinned)


# Sizes closer than this to the next smaller one are left out while packing (a node is fitted to its pattern later).
_SIZE_STEP = 1.12


def _thinned(bin_types: Sequence[BinType]) -> list[BinType]:
    """Thin out families, cheapest first: sizes of one CPU to memory ratio at one price a unit, for the same items."""
    last: dict[object, BinType] = {}
    kept: list[BinType] = []
    for bin_type in bin_types:
        size = bin_type.option.allocatable
        unit_price = bin_type.price / max(1, size[0])
        family = (
            bin_type.eligible,
            bin_type.option.entry.pool.name,
            round(8 * log2(max(1, size[1]) / max(1, size[0]))),
            round(24 * log2(unit_price)),
            size[3:],
        )
        smaller = last.get(family)
        if smaller is None or bin_type.price >= smaller.price * _SIZE_STEP:
            last[family] = bin_type
            kept.append(bin_type)
    return sorted(kept, key=lambda item: item.option.index)
