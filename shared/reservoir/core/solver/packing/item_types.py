"""What the packer sees: items (batches alike for packing), rules about sharing a host, bin types (options alike)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from itertools import groupby
from math import inf, log2
from operator import attrgetter, or_

from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, HOSTNAME, ZONE, ZONE_ID
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.vectors import Ascending, Vector, mask_of
from reservoir.core.solver.solution.domain_assignment import DomainBatch
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.substitutes import Substitutes


@dataclass(frozen=True, slots=True)
class HostRule:
    """A rule whose carriers have ``cap`` places on a node.

    ``is_exact``: keeping the cap keeps the rule. Otherwise carriers also count replicas that do not carry the rule (a
    selector that is not their own), so who joins a node must be looked at node by node, and nodes with carriers should
    be small: each carrier limits everybody else there.
    """

    number: int
    cap: int
    is_exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class ItemType:
    """Batches with the same request, requirement sets, domain and kind of host rule."""

    index: int
    request: Vector
    requirement_sets: int
    pin: tuple[str, str] | None
    host: HostRule | None
    count: int
    batches: Sequence[DomainBatch] = ()

    @property
    def workload(self) -> Workload:
        """One of its workloads, for what all of them ask for."""
        return self.batches[0].relaxed.group.workload

    @property
    def is_single(self) -> bool:
        """Whether a node takes one of its replicas, and none of another item with the same rule."""
        return self.host is not None and self.host.is_exact and self.host.cap == 1

    @property
    def is_loose(self) -> bool:
        """Whether it carries an inexact rule about hosts."""
        return self.host is not None and not self.host.is_exact


@dataclass(slots=True, eq=False)
class BinType:
    """An option standing for all that look the same to items; ``eligible`` are those that may run on it, size apart."""

    option: LaunchOption
    eligible: int
    price: float  # USD an hour with the node's overhead

    @property
    def slot_price(self) -> float:
        """What a reserved slot would cost on demand, in USD an hour."""
        return max(1, self.option.on_demand_micro_usd) / 1e6


def build_item_types(batches: Sequence[DomainBatch]) -> list[ItemType]:
    """Merge batches into items, in order of first appearance."""
    groups = {batch.relaxed.group.index: batch.relaxed.group for batch in batches}
    rules = _host_rules(list(groups.values()))
    alike = defaultdict[
        tuple[Vector, int, tuple[str, str] | None, HostRule | None], list[DomainBatch]
    ](list)
    for batch in batches:
        group = batch.relaxed.group
        rule = rules.get(group.index)
        key = (group.request, batch.relaxed.requirement_sets, batch.pin, rule)
        alike[key].append(batch)
    item_types: list[ItemType] = []
    for (request, requirement_sets, pin, rule), merged in alike.items():
        item_type = ItemType(
            index=len(item_types),
            request=request,
            requirement_sets=requirement_sets,
            pin=pin,
            host=rule,
            count=sum(batch.count for batch in merged),
            batches=merged,
        )
        item_types.append(item_type)
    return item_types


def _host_rules(groups: Sequence[Group]) -> Mapping[int, HostRule]:
    """Return the rule of each group that carries one, by group index.

    Spread rules that see each other's replicas become one rule. An anti-affinity rule has one place a node.
    """
    # of spread rules, by term and group that carries it
    skews = defaultdict[int, dict[int, int]](dict)
    for group in groups:
        for spread in group.constraints[0].spread:
            if spread.topology_key == HOSTNAME:
                skews[spread.term][group.index] = min(
                    spread.max_skew, skews[spread.term].get(group.index, spread.max_skew)
                )
    loose = _loose_terms(groups, skews)
    rules: dict[int, HostRule] = {}
    for term, skew_of in skews.items():
        merged = loose if term in loose else {term}
        cap = min(min(skews[each].values()) for each in merged)
        rule = HostRule(min(merged), cap, is_exact=term not in loose)
        rules.update(dict.fromkeys(skew_of, rule))
    for group in groups:
        for near in group.constraints[0].anti:
            if near.topology_key == HOSTNAME:
                rules[group.index] = HostRule(near.term, 1, is_exact=True)
    return rules


def _loose_terms(
    groups: Sequence[Group], skews: Mapping[int, Mapping[int, int]]
) -> set[int]:
    """Return the terms of spread rules that are not exact.

    A rule is exact if its carriers are those that it counts, and carry no other.
    """
    rules_carried = Counter[int]()  # by group
    for skew_of in skews.values():
        rules_carried.update(skew_of.keys())
    loose: set[int] = set()
    for term, skew_of in skews.items():
        counted = {group.index for group in groups if group.matching >> term & 1}
        is_only_one = all(rules_carried[index] == 1 for index in skew_of)
        if counted != skew_of.keys() or not is_only_one:
            loose.add(term)
    return loose


class Eligibility:
    """Bit masks over items: who accepts which requirement sets, places and sizes. Options are many, these are few."""

    def __init__(self, item_types: Sequence[ItemType]) -> None:
        self._is_pinned = any(item_type.pin for item_type in item_types)
        requests = [item_type.request for item_type in item_types]
        ascending = [Ascending(amounts) for amounts in zip(*requests, strict=True)]
        # Of functions, not of its own methods: a cycle would outlive the pass.
        self._meeting = cache(
            lambda sets: mask_of(
                it.index for it in item_types if it.requirement_sets & sets
            )
        )
        self._at = cache(
            lambda *place: mask_of(
                it.index for it in item_types if it.pin is None or it.pin in place
            )
        )
        self.fitting: Callable[[Vector], int] = cache(partial(_fitting, ascending))

    def accepting(self, requirement_sets: int, labels: Mapping[str, str]) -> int:
        """Return the items that accept a node meeting these requirement sets at this place, whatever its size."""
        mask = self._meeting(requirement_sets)
        if mask and self._is_pinned:
            mask &= self._at(
                *[(key, labels.get(key)) for key in (ZONE, ZONE_ID, CAPACITY_TYPE)]
            )
        return mask


def _fitting(asked: Sequence[Ascending], size: Vector) -> int:
    """Return the items of which one replica fits into this size."""
    mask = -1
    for amounts, available in zip(asked, size, strict=True):
        mask &= amounts.at_most(available)
    return mask


class BinTypes:
    """The options worth looking at, reserved and paid, given what is still free and allowed.

    ``buyable`` are the items that something paid can hold, ``reserved_for`` those that a reserved unit can.
    ``unthinned`` has all paid bin types, cheapest first, ``holders`` the same with the items of which one replica fits.
    """

    # Branches: one loop over options, one over tiers, and what is asked of an option in lines of its own.
    def __init__(
        self, state: PartialPlan, item_types: Sequence[ItemType], overhead: int
    ) -> None:
        residual, substitutes = state.residual, Substitutes(state.catalogue)
        self.eligibility = Eligibility(item_types)
        self.reserved: list[BinType] = []
        self.reserved_for = 0
        paid: list[tuple[LaunchOption, int, int]] = []
        for option in state.catalogue.options:
            accepting = self.eligibility.accepting(
                option.requirement_sets, option.place_labels
            )
            holding = accepting & self.eligibility.fitting(option.allocatable)
            if not holding or residual.nodes_left(option) == 0:
                continue
            # Under minValues, whether a node leaves enough to choose from is looked at replica by replica.
            if substitutes.concerns(option.entry):
                continue
            if option.reservation is not None:
                self.reserved_for |= holding
                self.reserved.append(
                    BinType(option, accepting, (option.price + overhead) / 1e18)
                )
            else:
                paid.append((option, accepting, holding))
        self.buyable = 0
        # Of options with equal size and eligible items, the cheapest; limited pools stay apart.
        cheapest: dict[object, BinType] = {}
        paid.sort(key=lambda offer: offer[0].entry.tier)
        for _, offers in groupby(paid, key=lambda offer: offer[0].entry.tier):
            tier = list(offers)
            # others have a better tier
            allowed = reduce(or_, [holding for _, _, holding in tier]) & ~self.buyable
            self.buyable |= allowed
            for option, accepting, holding in tier:
                if holding & allowed:
                    pool = option.entry.pool.name
                    key = (
                        option.allocatable,
                        accepting & allowed,
                        pool if pool in residual.limits else "",
                    )
                    if key not in cheapest or option.price < cheapest[key].option.price:
                        cheapest[key] = BinType(
                            option, accepting & allowed, (option.price + overhead) / 1e18
                        )
        self.unthinned = sorted(
            cheapest.values(), key=lambda item: (item.price, item.option.index)
        )
        self.paid = _thinned(self.unthinned)
        fitting = self.eligibility.fitting
        self.holders = [
            (item, item.eligible & fitting(item.option.allocatable))
            for item in self.unthinned
        ]

    def price_alone(self, item_type: ItemType) -> float:
        """Return what a replica costs on a node of its own; infinity if nothing that is sold holds it."""
        return next(
            (item.price for item, held in self.holders if held >> item_type.index & 1), inf
        )


# Sizes closer than this to the next smaller one are left out while packing: less time for plans as cheap in the mean.
_SIZE_STEP = 1.12


def _thinned(bin_types: Sequence[BinType]) -> list[BinType]:
    """Thin out families, cheapest first: sizes of one CPU to memory ratio at one price per unit, for the same items."""
    last: dict[object, BinType] = {}
    kept: list[BinType] = []
    for bin_type in bin_types:
        size = bin_type.option.allocatable
        family = (
            bin_type.eligible,
            bin_type.option.entry.pool.name,
            round(8 * log2(max(1, size[1]) / max(1, size[0]))),
            round(24 * log2(bin_type.price / max(1, size[0]))),
            size[3:],
        )
        if family not in last or bin_type.price >= last[family].price * _SIZE_STEP:
            last[family] = bin_type
            kept.append(bin_type)
    return sorted(kept, key=attrgetter("option.index"))
