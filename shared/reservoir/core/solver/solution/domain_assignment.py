"""Which groups can be packed by counts, and to which domains their replicas are assigned (docs/scheduler.md).

If the rules of a connected component are simple enough (``_assign_component``), its replicas are assigned to domains
before they are packed: by water filling for spread, so that the domains are even, and to one domain for affinity. The
rules then hold, whatever packing does within a domain. Room that costs nothing more is used first, as far as the rules
allow. The replicas of all other components are inserted one by one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf
from operator import attrgetter, le

from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, HOSTNAME, ZONE, ZONE_ID
from reservoir.core.solver.problem.components import Component
from reservoir.core.solver.problem.groups import EquivalenceClass, Group, RelaxedGroup
from reservoir.core.solver.problem.topology import SpreadTerm
from reservoir.core.solver.problem.vectors import Vector, mask_of
from reservoir.core.solver.solution.free_room import FreeRoom
from reservoir.core.solver.solution.partial_plan import PartialPlan

# Topology keys whose value the offering decides. Rules over other keys (instance families, custom labels) are rare, and
# groups that carry one are inserted one by one.
_PLACE_KEYS = frozenset({ZONE, ZONE_ID, CAPACITY_TYPE})
# What is sold, by requirement sets, tier of the pool and domain: sizes, largest first, and the lowest rate of each
# resource (``_rates``).
_Table = dict[tuple[int, int, str], tuple[list[Vector], list[float]]]
_Price = tuple[int, int]  # the tier of the heaviest pool that sells, and atto-USD an hour
_NOT_SOLD: _Price = (1 << 30, 0)
_Wanted = tuple[RelaxedGroup, int]  # a group and how many of its replicas are wanted


# Not frozen: a large demand has ten thousand batches, and frozen ones take longer to make.
@dataclass(slots=True, eq=False)
class DomainBatch:
    """``count`` replicas of a group; if ``pin`` is set, they must be in the domain of this label and value."""

    relaxed: RelaxedGroup
    pin: tuple[str, str] | None
    count: int


def assign_domains(
    state: PartialPlan, components: Iterable[Component], level: int, domains: "DomainCosts"
) -> tuple[list[DomainBatch], list[Group]]:
    """Return batches to pack, with the preferences of ``level`` given up, and the groups to insert one by one.

    Components with terms are assigned only at level 0.
    """
    batches: list[DomainBatch] = []
    inserted: list[Group] = []
    for component in components:
        if not component.terms:
            batches.extend(
                DomainBatch(group.relaxed[level], None, state.remaining[group.index])
                for group in component.groups
                if level < len(group.levels) and state.remaining[group.index]
            )
        elif level == 0 and not state.is_out_of_time(*component.groups):
            assigned = _assign_component(state, component, domains)
            if assigned is None:
                inserted.extend(component.groups)
            else:
                batches.extend(assigned)
    return batches, sorted(inserted, key=attrgetter("index"))


class DomainCosts:
    """What placing replicas in each domain costs: the free room there, the price of what is sold there, and the load.

    ``loads``, by topology key and domain, is the weight of the replicas assigned there so far.
    """

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._free: dict[str, FreeRoom] = {}
        self._bought = [
            option for option in state.catalogue.options if option.reservation is None
        ]
        self._tables: dict[str, _Table] = {}
        self._known: dict[tuple[int, Vector, str], dict[str, _Price]] = {}
        self.loads: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def free(self, topology_key: str) -> FreeRoom:
        """Return the room left that costs nothing more, by the domains of the key."""
        if topology_key not in self._free:
            self._free[topology_key] = FreeRoom.of(self._state, topology_key)
        return self._free[topology_key]

    def of(self, group: Group, topology_key: str) -> Mapping[str, _Price]:
        """Return, by domain, the tier of the heaviest pool that sells there and a lower bound of a replica's price.

        Domains in which no option on sale holds the replica are left out.
        """
        asked = (group.requirement_sets[0], group.request, topology_key)
        if asked not in self._known:
            self._known[asked] = self._prices(*asked)
        return self._known[asked]

    def _prices(
        self, accepted: int, request: Vector, topology_key: str
    ) -> dict[str, _Price]:
        prices: dict[str, _Price] = {}
        for (requirement_sets, tier, domain), (sizes, rates) in self._table(
            topology_key
        ).items():
            if not requirement_sets & accepted or not _fits_any(request, sizes):
                continue
            # The resource of which a replica takes the largest part of a node limits how many share the node.
            shares = [
                amount * rate for amount, rate in zip(request, rates, strict=True) if amount
            ]
            price = (tier, round(max(shares)))
            prices[domain] = min(price, prices.get(domain, price))
        return prices

    def _table(self, topology_key: str) -> "_Table":
        if topology_key not in self._tables:
            self._tables[topology_key] = self._tabulated(topology_key)
        return self._tables[topology_key]

    def _tabulated(self, topology_key: str) -> "_Table":
        prices: defaultdict[tuple[int, int, str], dict[Vector, int]] = defaultdict(dict)
        for option in self._bought:
            sizes = prices[
                option.requirement_sets,
                option.entry.tier,
                option.place_labels[topology_key],
            ]
            sizes[option.allocatable] = min(
                option.price, sizes.get(option.allocatable, option.price)
            )
        table: _Table = {}
        for where, sizes in prices.items():
            rates = [_rates(size, price) for size, price in sizes.items()]
            cheapest = [
                min(rates_of_resource) for rates_of_resource in zip(*rates, strict=True)
            ]
            table[where] = (sorted(sizes, reverse=True), cheapest)
        return table


def _fits_any(request: Vector, sizes: Iterable[Vector]) -> bool:
    return any(all(map(le, request, size)) for size in sizes)


def _rates(size: Vector, price: int) -> list[float]:
    """Return, for each resource, the node's price divided by the amount of that resource."""
    return [price / amount if amount else inf for amount in size]


# Branches: each condition names rules, or mixtures of them, that cannot be kept by assigning domains beforehand.
def _assign_component(
    state: PartialPlan, component: Component, domains: DomainCosts
) -> list[DomainBatch] | None:
    """Return the batches of a component with terms, or None if its replicas must be inserted one by one."""
    groups, classes = component.groups, component.classes
    # Replicas with preferences may need different levels, and the anti-affinity of running replicas forbids domains.
    if any(len(class_.levels) > 1 for class_ in classes) or component.terms & state.avoided:
        return None
    spreads: set[SpreadTerm] = set()
    affinity_keys: dict[int, str] = {}  # topology key by affinity term
    for class_ in classes:
        rules = class_.constraints[0]
        spreads.update(spread for spread in rules.spread if spread.topology_key != HOSTNAME)
        affinity_keys.update({near.term: near.topology_key for near in rules.affinity})
    keys = {*affinity_keys.values(), *(spread.topology_key for spread in spreads)}
    # The rules must be over one key that offerings decide, and be either spreads or one affinity term.
    if (
        len(keys) > 1
        or not keys <= _PLACE_KEYS
        or len(affinity_keys) > (0 if spreads else 1)
    ):
        return None
    if not (_hosts_are_simple(classes) and _are_counted_alike(classes, spreads)):
        return None
    if not keys:
        return [
            DomainBatch(group.relaxed[0], None, state.remaining[group.index])
            for group in groups
        ]
    (key,) = keys
    if spreads:
        return _even(state, groups, key, spreads, domains)
    (term,) = affinity_keys
    if _are_affine_to_themselves(classes, term):
        return _one_domain(state, groups, key, term, domains)
    return None


def _hosts_are_simple(classes: Sequence[EquivalenceClass]) -> bool:
    """Whether each anti-affinity term is over hosts, and is carried by exactly the classes that it selects."""
    mask = 0
    for class_ in classes:
        for near in class_.constraints[0].anti:
            if near.topology_key != HOSTNAME:
                return False
            mask |= 1 << near.term
    return not any(
        (class_.constraints[0].anti_mask ^ class_.matching) & mask for class_ in classes
    )


def _are_counted_alike(
    classes: Iterable[EquivalenceClass], spreads: Set[SpreadTerm]
) -> bool:
    """Whether at most one spread term counts each class, and counts it on each node that may be chosen for it.

    A spread that honours node affinity or taints counts replicas only on nodes that its carriers accept.
    """
    mask = mask_of(spread.term for spread in spreads)
    for class_ in classes:
        if (class_.matching & mask).bit_count() > 1:
            return False
        counting = [spread for spread in spreads if class_.matching >> spread.term & 1]
        if not all(_counts_everywhere(spread, class_) for spread in counting):
            return False
    return True


def _counts_everywhere(spread: SpreadTerm, class_: EquivalenceClass) -> bool:
    return spread.nodes is None or spread.nodes.covers(
        class_.levels[0].selection, spread.topology_key
    )


def _are_affine_to_themselves(classes: Iterable[EquivalenceClass], term: int) -> bool:
    """Whether each class carries the affinity term and matches it."""
    for class_ in classes:
        carries = any(near.term == term for near in class_.constraints[0].affinity)
        if not carries or not class_.matching >> term & 1:
            return False
    return True


def _one_domain(
    state: PartialPlan, groups: Sequence[Group], key: str, term: int, domains: DomainCosts
) -> list[DomainBatch] | None:
    """Assign the component to one domain: where its replicas run, else the cheapest, of equals the least loaded."""
    wanted = [(group.relaxed[0], state.remaining[group.index]) for group in groups]
    offers = [domains.of(group, key) for group in groups]
    loads, free = domains.loads[key], domains.free(key)
    costs: dict[str, _Price] = {}
    for domain in _possible(state, term, wanted, offers, free):
        if state.is_out_of_time(*groups):
            return []
        cost = _cost_in(domain, wanted, offers, free.within(domain))
        if cost is not None:
            costs[domain] = cost
    if not costs:
        return None
    # A domain where nothing must be bought comes first, as a pool's weight only orders what is bought.
    chosen = min(
        costs,
        key=lambda domain: (costs[domain][1] > 0, costs[domain], loads[domain], domain),
    )
    for relaxed, count in wanted:
        free.take(relaxed, chosen, count)
        loads[chosen] += _weight(relaxed.group) * count
    return [DomainBatch(relaxed, (key, chosen), count) for relaxed, count in wanted]


def _possible(
    state: PartialPlan,
    term: int,
    wanted: Sequence[_Wanted],
    offers: Iterable[Mapping[str, _Price]],
    free: FreeRoom,
) -> set[str]:
    """Return the domains where replicas that the term selects run; if there are none, all with offers or free room."""
    matched = state.ledger.by_term[term].matched
    populated = {domain for domain, count in matched.items() if count > 0}
    if populated:
        return populated
    possible = set[str]().union(*offers)
    for relaxed, _ in wanted:
        possible.update(free.by_domain(relaxed, 1))
    return possible


def _cost_in(
    domain: str,
    wanted: Sequence[_Wanted],
    offers: Sequence[Mapping[str, _Price]],
    room: FreeRoom,
) -> _Price | None:
    """Return the highest tier and the price of the replicas that must be bought in a domain.

    It is None if some of them are not sold there. The replicas that need not be bought use up ``room``.
    """
    heaviest_tier = total = 0
    for (relaxed, count), offered in zip(wanted, offers, strict=True):
        bought_count = count - room.take(relaxed, domain, count)
        if not bought_count:
            continue
        if domain not in offered:
            return None
        tier, price = offered[domain]
        heaviest_tier = max(heaviest_tier, tier)
        total += price * bought_count
    return heaviest_tier, total


def _weight(group: Group) -> float:
    """Return how much a replica loads a domain: its vCPUs, and one for each 2 GiB of memory."""
    return group.request[0] / 1000 + group.request[1] / 2**31


# Branches: one loop over groups, which ends without time, without room, or when all are dealt.
def _even(
    state: PartialPlan,
    groups: Sequence[Group],
    key: str,
    spreads: Set[SpreadTerm],
    domains: DomainCosts,
) -> list[DomainBatch] | None:
    """Deal each replica that a spread counts to the emptiest domain; None if some constraint would not hold.

    Groups that can be bought in the fewest domains come first. As far as the spread allows, replicas that would be paid
    for move to domains with room that costs nothing more.
    """
    universe = sorted(set[str]().union(*(spread.domains for spread in spreads)))
    counts = {spread.term: _counted_now(state, spread.term, universe) for spread in spreads}
    counted = mask_of(counts)
    batches: list[DomainBatch] = []
    for group in sorted(groups, key=lambda group: len(domains.of(group, key))):
        if state.is_out_of_time(*groups):
            return []
        counting = group.matching & counted  # one term at most
        if not counting:
            batches.append(
                DomainBatch(group.relaxed[0], None, state.remaining[group.index])
            )
            continue
        term = counting.bit_length() - 1
        of_term = [spread for spread in spreads if spread.term == term]
        dealt = _dealt(
            group,
            state.remaining[group.index],
            key,
            universe,
            counts[term],
            of_term,
            domains,
        )
        if dealt is None:
            return None
        batches.extend(dealt)
    # All constraints must hold in all domains, as carriers that their own constraint does not count may be in any.
    is_even = not any(_is_broken(spread, counts[spread.term]) for spread in spreads)
    return batches if is_even else None


def _counted_now(state: PartialPlan, term: int, universe: Iterable[str]) -> dict[str, int]:
    """Return how many replicas a term counts in each domain, including domains without any."""
    return {**dict.fromkeys(universe, 0), **state.ledger.by_term[term].matched}


def _dealt(
    group: Group,
    remaining: int,
    key: str,
    universe: Iterable[str],
    counts: dict[str, int],
    spreads: Collection[SpreadTerm],
    domains: DomainCosts,
) -> list[DomainBatch] | None:
    """Deal a group's replicas to domains and count them; None if some must be bought in a domain that sells none."""
    relaxed = group.relaxed[0]
    offered, loads, free = domains.of(group, key), domains.loads[key], domains.free(key)
    rooms = free.by_domain(relaxed, remaining)
    order: dict[str, tuple[_Price, float]] = {}
    for name in universe:
        if name in offered or rooms[name]:
            order[name] = (offered.get(name, _NOT_SOLD), loads[name])
    if not order:
        return None
    placed = _water_filled(counts, order, remaining)
    _draw(placed, rooms, order, counts, spreads)
    batches: list[DomainBatch] = []
    for domain, count in sorted(placed.items()):
        if domain not in offered and count > rooms[domain]:
            return None
        free.take(relaxed, domain, count)
        batches.append(DomainBatch(relaxed, (key, domain), count))
        loads[domain] += count * _weight(group)
    return batches


def _is_broken(spread: SpreadTerm, counts: dict[str, int]) -> bool:
    return any(spread.excess(counts, domain) > 0 for domain in spread.domains)


def _water_filled(
    counts: dict[str, int], order: Mapping[str, object], amount: int
) -> dict[str, int]:
    """Add ``amount`` replicas to the emptiest domains so that their counts become even; return how many each gets.

    ``order`` has the domains to choose from, with the sort key of equally empty ones. The replicas are added to
    ``counts``.
    """
    ordered = sorted(order, key=lambda name: (counts[name], order[name], name))
    width = len(ordered)
    total = amount + sum([counts[name] for name in ordered])
    # Leave out domains that are fuller than the level to which the replicas raise the others.
    while width > 1 and counts[ordered[width - 1]] * width >= total:
        width -= 1
        total -= counts[ordered[width]]
    even, rest = divmod(total, width)
    placed = {}
    for position, name in enumerate(ordered[:width]):
        level = counts[name]
        counts[name] = even + (position < rest)
        if counts[name] > level:
            placed[name] = counts[name] - level
    return placed


def _draw(
    placed: dict[str, int],
    rooms: Mapping[str, int],
    order: Mapping[str, tuple[_Price, float]],
    counts: dict[str, int],
    spreads: Collection[SpreadTerm],
) -> None:
    """Move replicas from domains where they would be paid for to domains with free room, while the spreads hold."""
    while rooms:
        paying = [name for name, count in placed.items() if count > rooms[name]]
        empty = [name for name in order if rooms[name] > placed.get(name, 0)]
        if not paying or not empty:
            return
        source = max(paying, key=lambda name: (counts[name], order[name], name))
        target = min(empty, key=lambda name: (counts[name], order[name], name))
        _move(counts, source, target)
        if any(_is_broken(spread, counts) for spread in spreads):
            _move(counts, target, source)
            return
        _move(placed, source, target)


def _move(counts: dict[str, int], source: str, target: str) -> None:
    counts[source] -= 1
    counts[target] = counts.get(target, 0) + 1
