"""Which groups can be packed by counts, and in which domains: zone rules are kept by construction (docs/scheduler.md).

A connected component of the groups whose terms are all *simple* is packed by counts: its replicas are assigned to
domains beforehand, by water filling, so that every spread is even and every affinity has one domain. All other
components are inserted replica by replica.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf
from operator import attrgetter, le

from shared.core.scheduling_terms.labels import CAPACITY_TYPE, HOSTNAME, ZONE, ZONE_ID
from shared.core.solver.problem.components import Component
from shared.core.solver.problem.groups import EquivalenceClass, Group, RelaxedGroup
from shared.core.solver.problem.topology import SpreadTerm
from shared.core.solver.problem.vectors import Vector, mask_of
from shared.core.solver.solution.partial_plan import PartialPlan

# Domains that an offering decides. Others (families, custom labels) are rare and are inserted one by one.
_PLACE_KEYS = frozenset({ZONE, ZONE_ID, CAPACITY_TYPE})
# By requirement sets and domain: sizes, largest first, and the cheapest rate of each resource.
_Table = dict[tuple[int, str], tuple[list[Vector], list[float]]]


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
    """Where a group can be bought at all, and for how much a replica; plus what was assigned to each domain so far.

    ``loads`` is by topology key and domain.
    """

    def __init__(self, state: PartialPlan) -> None:
        self._bought = [option for option in state.catalogue.options if option.reservation is None]
        self._tables: dict[str, _Table] = {}
        self._known: dict[tuple[int, Vector, str], dict[str, float]] = {}
        self.loads: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))

    def of(self, group: Group, topology_key: str) -> Mapping[str, float]:
        """Return about what a replica costs (never more than it will), by domain where it can be bought at all."""
        accepted, request = group.requirement_sets[0], group.request
        if (known := self._known.get((accepted, request, topology_key))) is None:
            known = self._known[accepted, request, topology_key] = {}
            for (requirement_sets, domain), (sizes, rates) in self._table(topology_key).items():
                if requirement_sets & accepted and any(all(map(le, request, size)) for size in sizes):
                    price = max(asked * rate for asked, rate in zip(request, rates, strict=True) if asked)
                    known[domain] = min(price, known.get(domain, price))
        return known

    def _table(self, topology_key: str) -> "_Table":
        if (table := self._tables.get(topology_key)) is None:
            prices: defaultdict[tuple[int, str], dict[Vector, int]] = defaultdict(dict)
            for option in self._bought:
                sizes = prices[option.requirement_sets, option.place_labels[topology_key]]
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


def _one_domain(
    state: PartialPlan, groups: Sequence[Group], key: str, term: int, domains: DomainCosts
) -> list[DomainBatch] | None:
    """Put the whole component into one domain: where it already is, else the cheapest, else the least loaded."""
    matched = state.ledger.by_term[term].matched
    populated = {domain for domain, count in matched.items() if count > 0}
    allowed = set.intersection(*(set(domains.of(group, key)) for group in groups))
    if populated:
        allowed &= populated
    if not allowed:
        return None
    prices = {
        domain: sum(domains.of(group, key)[domain] * state.remaining[group.index] for group in groups)
        for domain in allowed
    }
    loads = domains.loads[key]
    chosen = min(allowed, key=lambda domain: (round(prices[domain], 9), loads[domain], domain))
    loads[chosen] += sum(_weight(group) * state.remaining[group.index] for group in groups)
    return [DomainBatch(group.relaxed[0], (key, chosen), state.remaining[group.index]) for group in groups]


def _weight(group: Group) -> float:
    """How much a replica loads a domain: vCPU, with 2 GiB as much as one."""
    return group.request[0] / 1000 + group.request[1] / 2**31


# Branches: comprehensions of a line each around one loop over groups.
def _even(
    state: PartialPlan, groups: Sequence[Group], key: str, spreads: Set[SpreadTerm], domains: DomainCosts
) -> list[DomainBatch] | None:
    """Deal every replica that some spread counts to the emptiest domain; None when a constraint would not hold.

    Those go first that can be bought in the fewest domains.
    """
    universe = sorted({domain for spread in spreads for domain in spread.domains})
    matched = {spread.term: state.ledger.by_term[spread.term].matched for spread in spreads}
    counts = {term: {**dict.fromkeys(universe, 0), **found} for term, found in matched.items()}
    loads = domains.loads[key]
    batches: list[DomainBatch] = []
    mask = mask_of(counts)
    offers = [(domains.of(group, key), group) for group in groups]
    for offered, group in sorted(offers, key=lambda offer: len(offer[0])):
        remaining, counting = state.remaining[group.index], group.matching & mask  # one term at most
        if not counting:
            batches.append(DomainBatch(group.relaxed[0], None, remaining))
            continue
        allowed = [domain for domain in universe if domain in offered]
        if not allowed:
            return None
        for domain, count in _water_filled(counts[counting.bit_length() - 1], loads, allowed, remaining):
            batches.append(DomainBatch(group.relaxed[0], (key, domain), count))
            loads[domain] += count * _weight(group)
    # Every constraint must hold in every domain, so carriers that do not count themselves may land anywhere.
    is_even = all(spread.excess(counts[spread.term], domain) <= 0 for spread in spreads for domain in spread.domains)
    return batches if is_even else None


def _water_filled(
    counts: dict[str, int], loads: Mapping[str, float], names: Iterable[str], amount: int
) -> Iterator[tuple[str, int]]:
    """Pour ``amount`` into the emptiest domains first, as water finds its level; adds to ``counts``."""
    ordered = sorted([(counts[name], loads[name], name) for name in names])
    width, total = len(ordered), amount + sum([level for level, _, _ in ordered])
    while width > 1 and ordered[width - 1][0] * width >= total:  # the water does not rise above the fullest
        width -= 1
        total -= ordered[width][0]
    even, rest = divmod(total, width)
    for position, (level, _, name) in enumerate(ordered[:width]):
        counts[name] = even + (position < rest)
        if counts[name] > level:
            yield name, counts[name] - level
