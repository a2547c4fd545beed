"""Which groups can be packed by counts, and in which domains: zone rules are kept by construction (docs/scheduler.md).

A connected component of the groups whose terms are all *simple* is packed by counts: its replicas are assigned to
domains beforehand, by water filling, so that every spread is even and every affinity has one domain. Where there is
room that costs nothing more they go there, as far as the rules let them. All other components are inserted replica by
replica.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
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

# Domains that an offering decides. Others (families, custom labels) are rare and are inserted one by one.
_PLACE_KEYS = frozenset({ZONE, ZONE_ID, CAPACITY_TYPE})
# By requirement sets, tier of the pool and domain: sizes, largest first, and the cheapest rate of each resource.
_Table = dict[tuple[int, int, str], tuple[list[Vector], list[float]]]
_Price = tuple[int, int]  # the tier of the heaviest pool that sells, and atto-USD an hour
_NOT_SOLD: _Price = (1 << 30, 0)


@dataclass(slots=True, eq=False)  # not frozen: a large demand has ten thousand, and those take longer to make
class DomainBatch:
    """``count`` replicas of a group that may go anywhere the group may, within one domain if ``pin`` says so."""

    relaxed: RelaxedGroup
    pin: tuple[str, str] | None
    count: int


def assign_domains(
    state: PartialPlan, components: Iterable[Component], level: int, domains: "DomainCosts"
) -> tuple[list[DomainBatch], list[Group]]:
    """Return the groups of the components, as they are after giving up ``level`` preferences, as batches to pack.

    And those that are inserted one by one.
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
        elif level == 0:
            assigned = _assign_component(state, component, domains)
            if assigned is None:
                inserted.extend(component.groups)
            else:
                batches.extend(assigned)
    return batches, sorted(inserted, key=attrgetter("index"))


class DomainCosts:
    """Where a group has room, can be bought at all, and for how much; plus what was assigned to each domain so far.

    ``loads`` is by topology key and domain.
    """

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._free: dict[str, FreeRoom] = {}
        self._bought = [option for option in state.catalogue.options if option.reservation is None]
        self._tables: dict[str, _Table] = {}
        self._known: dict[tuple[int, Vector, str], dict[str, _Price]] = {}
        self.loads: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))

    def free(self, topology_key: str) -> FreeRoom:
        """Return what is left of the room that costs nothing more, by the domains of the key."""
        if topology_key not in self._free:
            self._free[topology_key] = FreeRoom.of(self._state, topology_key)
        return self._free[topology_key]

    def of(self, group: Group, topology_key: str) -> Mapping[str, _Price]:
        """Return the tier of the heaviest pool that sells, and about what a replica costs there, by domain.

        It never costs less. Domains where it cannot be bought at all are left out.
        """
        accepted, request = group.requirement_sets[0], group.request
        if (known := self._known.get((accepted, request, topology_key))) is None:
            known = self._known[accepted, request, topology_key] = {}
            for (requirement_sets, tier, domain), (sizes, rates) in self._table(topology_key).items():
                if requirement_sets & accepted and any(all(map(le, request, size)) for size in sizes):
                    price = max(asked * rate for asked, rate in zip(request, rates, strict=True) if asked)
                    known[domain] = min((tier, round(price)), known.get(domain, (tier, round(price))))
        return known

    def _table(self, topology_key: str) -> "_Table":
        if (table := self._tables.get(topology_key)) is None:
            prices: defaultdict[tuple[int, int, str], dict[Vector, int]] = defaultdict(dict)
            for option in self._bought:
                sizes = prices[option.requirement_sets, option.entry.tier, option.place_labels[topology_key]]
                sizes[option.allocatable] = min(option.price, sizes.get(option.allocatable, option.price))
            table = self._tables[topology_key] = {}
            for where, sizes in prices.items():
                rates = [[price / amount if amount else inf for amount in size] for size, price in sizes.items()]
                table[where] = (sorted(sizes, reverse=True), list(map(min, zip(*rates, strict=True))))
        return table


# Branches: each condition is a mixture of rules that cannot be assigned beforehand.
def _assign_component(state: PartialPlan, component: Component, domains: DomainCosts) -> list[DomainBatch] | None:
    """Return the batches of a component with terms, or None when it must be inserted one by one."""
    groups, classes = component.groups, component.classes
    if any(len(class_.levels) > 1 for class_ in classes) or component.terms & state.avoided:
        return None
    rules = [class_.constraints[0] for class_ in classes]
    spreads = {spread for each in rules for spread in each.spread if spread.topology_key != HOSTNAME}
    followed = {near.term: near.topology_key for each in rules for near in each.affinity}
    keys = {*followed.values(), *(spread.topology_key for spread in spreads)}
    if len(keys) > 1 or not keys <= _PLACE_KEYS or len(followed) > (0 if spreads else 1):
        return None
    if not (_hosts_are_simple(classes) and _are_counted_alike(classes, spreads)):
        return None
    if not keys:
        return [DomainBatch(group.relaxed[0], None, state.remaining[group.index]) for group in groups]
    (key,) = keys
    if spreads:
        return _even(state, groups, key, spreads, domains)
    (term,) = followed
    return _one_domain(state, groups, key, term, domains) if _lead_themselves(classes, term) else None


def _hosts_are_simple(classes: Sequence[EquivalenceClass]) -> bool:
    """Whether anti-affinity is about hosts, and only of classes against themselves (carriers and matches are one)."""
    terms = [near for class_ in classes for near in class_.constraints[0].anti]
    mask = mask_of(near.term for near in terms)
    return all(near.topology_key == HOSTNAME for near in terms) and not any(
        (class_.constraints[0].anti_mask ^ class_.matching) & mask for class_ in classes
    )


def _are_counted_alike(classes: Iterable[EquivalenceClass], spreads: Set[SpreadTerm]) -> bool:
    """Whether one spread at most counts each class, and that on every node that may be chosen for it.

    Those that honour affinity or taints count only on nodes that their carriers accept.
    """
    mask = mask_of(spread.term for spread in spreads)
    return all((class_.matching & mask).bit_count() <= 1 for class_ in classes) and all(
        spread.nodes is None or spread.nodes.covers(class_.levels[0].selection, spread.topology_key)
        for spread in spreads
        for class_ in classes
        if class_.matching >> spread.term & 1
    )


def _lead_themselves(classes: Iterable[EquivalenceClass], term: int) -> bool:
    """Whether each class carries the affinity term and matches it."""
    return all(
        class_.matching >> term & 1 and any(near.term == term for near in class_.constraints[0].affinity)
        for class_ in classes
    )


# Branches: comprehensions of a line each around one loop over domains.
def _one_domain(
    state: PartialPlan, groups: Sequence[Group], key: str, term: int, domains: DomainCosts
) -> list[DomainBatch] | None:
    """Put the whole component into one domain: where it is already, else the cheapest, else the least loaded."""
    matched = state.ledger.by_term[term].matched
    populated = {domain for domain, count in matched.items() if count > 0}
    wanted = [(group.relaxed[0], state.remaining[group.index]) for group in groups]
    loads, offers = domains.loads[key], [domains.of(group, key) for group in groups]
    free = domains.free(key)
    rooms = [free.by_domain(relaxed, 1) for relaxed, _ in wanted]
    costs: dict[str, _Price] = {}
    for domain in populated or set[str]().union(*offers, *rooms):
        room = free.within(domain)
        paid = [count - room.take(relaxed, domain, count) for relaxed, count in wanted]
        if all(domain in offered for offered, count in zip(offers, paid, strict=True) if count):
            prices = [(*offered[domain], count) for offered, count in zip(offers, paid, strict=True) if count]
            tier = max((tier for tier, _, _ in prices), default=0)
            costs[domain] = tier, sum(price * count for _, price, count in prices)
    if not costs:
        return None
    # What costs nothing goes before pools of more weight: that only orders what is bought.
    chosen = min(costs, key=lambda domain: (costs[domain][1] > 0, costs[domain], loads[domain], domain))
    for relaxed, count in wanted:
        free.take(relaxed, chosen, count)
        loads[chosen] += _weight(relaxed.group) * count
    return [DomainBatch(relaxed, (key, chosen), count) for relaxed, count in wanted]


def _weight(group: Group) -> float:
    """How much a replica loads a domain: vCPU, with 2 GiB as much as one."""
    return group.request[0] / 1000 + group.request[1] / 2**31


# Branches: comprehensions of a line each around one loop over groups.
def _even(
    state: PartialPlan, groups: Sequence[Group], key: str, spreads: Set[SpreadTerm], domains: DomainCosts
) -> list[DomainBatch] | None:
    """Deal every replica that some spread counts to the emptiest domain; None when a constraint would not hold.

    Those go first that can be bought in the fewest domains. Within what the spread allows, room that costs nothing more
    draws replicas from where they would be paid for.
    """
    universe = sorted({domain for spread in spreads for domain in spread.domains})
    by_term = {term: [spread for spread in spreads if spread.term == term] for term in {it.term for it in spreads}}
    matched = {term: state.ledger.by_term[term].matched for term in by_term}
    counts = {term: {**dict.fromkeys(universe, 0), **found} for term, found in matched.items()}
    loads, free = domains.loads[key], domains.free(key)
    batches: list[DomainBatch] = []
    mask = mask_of(counts)
    offers = [(domains.of(group, key), group) for group in groups]
    for offered, group in sorted(offers, key=lambda offer: len(offer[0])):
        remaining, counting = state.remaining[group.index], group.matching & mask  # one term at most
        if not counting:
            batches.append(DomainBatch(group.relaxed[0], None, remaining))
            continue
        relaxed, term = group.relaxed[0], counting.bit_length() - 1
        rooms = free.by_domain(relaxed, remaining)
        order = {
            name: (offered.get(name, _NOT_SOLD), loads[name]) for name in universe if name in offered or rooms[name]
        }
        if not order:
            return None
        placed = _water_filled(counts[term], order, remaining)
        _draw(placed, rooms, order, counts[term], by_term[term])
        for domain, count in sorted(placed.items()):
            if domain not in offered and count > rooms[domain]:
                return None
            free.take(relaxed, domain, count)
            batches.append(DomainBatch(relaxed, (key, domain), count))
            loads[domain] += count * _weight(group)
    # Every constraint must hold in every domain, so carriers that do not count themselves may land anywhere.
    is_even = all(spread.excess(counts[spread.term], domain) <= 0 for spread in spreads for domain in spread.domains)
    return batches if is_even else None


def _water_filled(counts: dict[str, int], order: Mapping[str, object], amount: int) -> dict[str, int]:
    """Pour ``amount`` into the emptiest domains first, as water finds its level, equals in order; adds to ``counts``.

    Return how many go where.
    """
    ordered = sorted(order, key=lambda name: (counts[name], order[name], name))
    width, total = len(ordered), amount + sum([counts[name] for name in ordered])
    while width > 1 and counts[ordered[width - 1]] * width >= total:  # the water does not rise above the fullest
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


# Branches: who may leave and who may come in a line each, around one loop.
def _draw(
    placed: dict[str, int],
    rooms: Mapping[str, int],
    order: Mapping[str, tuple[_Price, float]],
    counts: dict[str, int],
    spreads: Iterable[SpreadTerm],
) -> None:
    """Move replicas from domains where some are paid for to domains with room for them, while the spreads hold."""
    while rooms:
        paying = [name for name, count in placed.items() if count > rooms[name]]
        empty = [name for name in order if rooms[name] > placed.get(name, 0)]
        if not paying or not empty:
            return
        source = max(paying, key=lambda name: (counts[name], order[name], name))
        target = min(empty, key=lambda name: (counts[name], order[name], name))
        _move(counts, source, target)
        if any(spread.excess(counts, name) > 0 for spread in spreads for name in spread.domains):
            _move(counts, target, source)
            return
        _move(placed, source, target)


def _move(counts: dict[str, int], source: str, target: str) -> None:
    counts[source] -= 1
    counts[target] = counts.get(target, 0) + 1
