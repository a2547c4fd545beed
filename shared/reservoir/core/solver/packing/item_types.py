"""The packing problem as the packer sees it: item types, host rules and bin types.

Batches that are alike for packing are merged into one item type. Of launch options with equal size and eligible items
the cheapest becomes a bin type, which stands for all of them.
"""

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
    """An anti-affinity or spread rule over hosts, which allows ``cap`` of its carriers on a node.

    ``is_exact``: keeping the cap keeps the rule. An inexact rule also counts replicas that do not carry it (its
    selector is not its carriers' own). Then each node must be checked before a replica joins it, and nodes with
    carriers should be small, as each carrier limits all other replicas on its node.
    """

    number: int
    cap: int
    is_exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class ItemType:
    """Batches with the same request, requirement sets, pinned domain and host rule.

    ``index`` is the item's bit in masks, ``pin`` the label and value of the domain that all its replicas must be in.
    """

    index: int
    request: Vector
    requirement_sets: int
    pin: tuple[str, str] | None
    host: HostRule | None
    count: int
    batches: Sequence[DomainBatch] = ()

    @property
    def workload(self) -> Workload:
        """One of the item's workloads, to read what all of them ask for alike."""
        return self.batches[0].relaxed.group.workload

    @property
    def is_single(self) -> bool:
        """Whether a node holds at most one replica of all the items that carry this item's host rule."""
        return self.host is not None and self.host.is_exact and self.host.cap == 1

    @property
    def is_loose(self) -> bool:
        """Whether the item carries an inexact host rule."""
        return self.host is not None and not self.host.is_exact


@dataclass(slots=True, eq=False)
class BinType:
    """A launch option that stands for all with the same size and eligible items.

    ``eligible`` is the mask of the items that may run on it, whatever its size.
    """

    option: LaunchOption
    eligible: int
    price: float  # USD an hour, with the node's overhead

    @property
    def slot_price(self) -> float:
        """The on-demand price of the reserved slot, in USD an hour."""
        return max(1, self.option.on_demand_micro_usd) / 1e6


def build_item_types(batches: Sequence[DomainBatch]) -> list[ItemType]:
    """Merge batches into item types, in the order in which each item type first appears."""
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
    """Return the host rule of each group that carries one, by group index.

    All inexact spread rules become one rule. An anti-affinity rule allows one carrier on a node, and replaces a spread
    rule of the same group.
    """
    # maxSkew by term, then by the group that carries the spread rule
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
    """Return the terms of inexact spread rules.

    A rule is exact if it counts its carriers and no other group, and its carriers carry no other spread rule.
    """
    rules_carried = Counter[int]()  # by group index
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
    """Which items accept which requirement sets, places and sizes, as masks over items.

    Answers are kept: options are many, while the requirement sets, places and sizes that they have are few.
    """

    def __init__(self, item_types: Sequence[ItemType]) -> None:
        self._is_pinned = any(item_type.pin for item_type in item_types)
        requests = [item_type.request for item_type in item_types]
        ascending = [Ascending(amounts) for amounts in zip(*requests, strict=True)]
        # The caches are of functions, not of bound methods: those would refer back to this object, and the cycle would
        # outlive the pass.
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
        """Return the items that accept a node of any size that meets these requirement sets and has these labels."""
        mask = self._meeting(requirement_sets)
        if mask and self._is_pinned:
            mask &= self._at(
                *[(key, labels.get(key)) for key in (ZONE, ZONE_ID, CAPACITY_TYPE)]
            )
        return mask


def _fitting(asked: Sequence[Ascending], size: Vector) -> int:
    """Return the mask of the items of which one replica fits into this size."""
    mask = -1
    for amounts, available in zip(asked, size, strict=True):
        mask &= amounts.at_most(available)
    return mask


class BinTypes:
    """The bin types of one packing problem: of options that hold some item and that units and limits leave open.

    ``reserved`` has one bin type for each reserved option, ``paid`` those that packing chooses from when it buys.
    ``unthinned`` has all paid bin types, cheapest first; ``holders`` has the same, each with the mask of the items of
    which one replica fits. ``buyable`` are the items that some paid bin type can hold, ``reserved_for`` those that some
    reserved unit can hold.
    """

    # Branches: one loop over options, one over tiers, and one condition a line for each thing that rules an option out.
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
            # Insertion checks, replica by replica, that minValues of a pool still leaves enough instance types.
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
        # Of options with equal size and eligible items, the cheapest becomes the bin type. Only those of pools without
        # limits stand for each other: a node of a limited pool counts against its own pool's limits.
        cheapest: dict[object, BinType] = {}
        paid.sort(key=lambda offer: offer[0].entry.tier)
        for _, offers in groupby(paid, key=lambda offer: offer[0].entry.tier):
            tier = list(offers)
            # An item is bought from the best tier that can hold it, and from no other.
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
        """Return the price of the cheapest paid node that holds one replica, in USD an hour; infinity if none does."""
        return next(
            (item.price for item, held in self.holders if held >> item_type.index & 1), inf
        )


# Of a family, a size is left out if its price is less than this times that of the last size kept. That saves time, and
# plans are as cheap in the mean.
_SIZE_STEP = 1.12


def _thinned(bin_types: Sequence[BinType]) -> list[BinType]:
    """Leave out sizes that are close to a smaller one of the same family.

    A family has the same pool, eligible items and accelerators, about the same ratio of memory to CPU and about the
    same price a vCPU. ``bin_types`` come cheapest first.
    """
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
