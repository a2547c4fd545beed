"""Which groups can be packed by counts, and in which domains: zone rules are kept by construction (docs/scheduler.md).

A connected component of the groups whose terms are all *simple* is packed by counts: its replicas are assigned to
domains beforehand, by water filling, so that every spread is even and every affinity has one domain. All other
components are inserted replica by replica.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter, ge, le

from shared.core.scheduling_terms.labels import CAPACITY_TYPE, HOSTNAME, ZONE, ZONE_ID
from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.components import Component
from shared.core.solver.problem.groups import EquivalenceClass, Group, RelaxedGroup
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.partial_plan import PartialPlan

# Domains that an offering decides. Others (families, custom labels) are rare and are inserted one by one.
_PLACE_KEYS = frozenset({ZONE, ZONE_ID, CAPACITY_TYPE})
_term, _topology_key = attrgetter("term"), attrgetter("topology_key")


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
            continue
        assigned = _assign_component(state, component, domains) if level == 0 else []
        if assigned is None:
            inserted.extend(component.groups)
        else:
            batches.extend(assigned)
    return batches, sorted(inserted, key=lambda group: group.index)


class DomainCosts:
    """Where a group can be bought at all, and for how much a replica; plus what was assigned to each domain so far."""

    def __init__(self, state: PartialPlan) -> None:
        self._state = state
        self._tables: dict[str, dict[tuple[int, str], _Offers]] = {}
        self._memo: dict[tuple[int, tuple[int, ...], str], dict[str, float]] = {}
        self.loads: dict[str, dict[str, float]] = {}  # by topology key and domain

    def of(self, group: Group, topology_key: str) -> Mapping[str, float]:
        """Return the price of a replica by domain; only domains where it can be bought without limit."""
        memo_key = (group.requirement_sets[0], group.request, topology_key)
        known = self._memo.get(memo_key)
        if known is None:
            known = self._memo[memo_key] = {}
            for (requirement_sets, domain), offers in self._table(topology_key).items():
                price = offers.price(group.request) if requirement_sets & group.requirement_sets[0] else None
                if price is not None and price < known.get(domain, inf):
                    known[domain] = price
        return known

    def _table(self, topology_key: str) -> dict[tuple[int, str], "_Offers"]:
        table = self._tables.get(topology_key)
        if table is None:
            prices: dict[tuple[int, str], dict[Vector, int]] = {}
            for option in self._state.catalogue.options:
                if option.reservation is None:
                    sizes = prices.setdefault((option.requirement_sets, option.place_labels[topology_key]), {})
                    known = sizes.get(option.allocatable)
                    if known is None or option.price < known:
                        sizes[option.allocatable] = option.price
            table = self._tables[topology_key] = {}
            alike: dict[object, _Offers] = {}  # where prices are on demand, they are mostly the same in all zones
            for where, sizes in prices.items():
                about = tuple(sizes.items())
                table[where] = alike.get(about) or alike.setdefault(about, _Offers(sizes))
        return table


class _Offers:
    """The offers of one domain that the same requirement sets accept: cheapest rates, and the largest sizes."""

    __slots__ = ("_rates", "_sizes")

    def __init__(self, prices: Mapping[Vector, int]) -> None:
        rates = [[price / amount if amount else inf for amount in size] for size, price in prices.items()]
        self._rates: list[float] = list(map(min, zip(*rates, strict=True)))
        self._sizes: list[Vector] = []
        for size in sorted(prices, reverse=True):  # whoever is no larger than another comes after it
            if not any(all(map(ge, known, size)) for known in self._sizes):
                self._sizes.append(size)

    def price(self, request: Vector) -> float | None:
        """Return about what one replica costs here (never more than it will), or None when nothing can hold it."""
        if not any(all(map(le, request, size)) for size in self._sizes):
            return None
        return max(asked * rate for asked, rate in zip(request, self._rates, strict=True) if asked)


def _assign_component(state: PartialPlan, component: Component, domains: DomainCosts) -> list[DomainBatch] | None:
    """Return the batches of a component with terms, or None when it must be inserted one by one."""
    classes = component.classes
    if any(len(class_.levels) > 1 for class_ in classes) or _has_residents(state, component):
        return None
    item_type = _ComponentRules.of(classes)
    if item_type is None or not item_type.host_terms_are_simple(classes) or not _are_counted_everywhere(classes):
        return None
    if item_type.key is None:
        return [DomainBatch(group.relaxed[0], None, state.remaining[group.index]) for group in component.groups]
    if item_type.affinity_term is not None:
        return _one_domain(state, component.groups, item_type.key, item_type.affinity_term, domains)
    return _even(state, component, item_type.key, item_type.spread_terms, domains)


def _has_residents(state: PartialPlan, component: Component) -> bool:
    """Whether a running replica's anti-affinity is about the component: packing does not look at those."""
    for term in iter_bits(component.terms):
        counts = state.ledger.by_term.get(term)
        if counts is not None and any(counts.owners.values()):
            return True
    return any(anti & component.terms for bin_ in state.bins for _, anti, _ in bin_.residents)


@dataclass(slots=True)
class _ComponentRules:
    """What kinds of terms a component has."""

    key: str | None  # the one topology key other than the host
    affinity_term: int | None
    spread_terms: set[int]

    # Branches: each condition is a mixture of rules that cannot be assigned beforehand.
    @classmethod
    def of(cls, classes: Sequence[EquivalenceClass]) -> "_ComponentRules | None":
        """Return the rules of a component, or None when it mixes what cannot be assigned beforehand."""
        spread, affinity, keys = set[int](), set[int](), set[str]()
        for rules in (class_.constraints[0] for class_ in classes):
            if any(term.topology_key != HOSTNAME for term in rules.anti):
                return None
            apart = [term for term in rules.spread if term.topology_key != HOSTNAME]
            spread.update(map(_term, apart))
            affinity.update(map(_term, rules.affinity))
            keys.update(map(_topology_key, (*apart, *rules.affinity)))
        if len(keys) > 1 or not keys <= _PLACE_KEYS or len(affinity) > (0 if spread else 1):
            return None
        found = cls(next(iter(keys), None), next(iter(affinity), None), spread)
        return found if found.decide_alone(classes) else None

    def decide_alone(self, classes: Iterable[EquivalenceClass]) -> bool:
        """Whether one spread at most counts each class, and each goes where its own affinity has it go."""
        mask = sum(1 << term for term in self.spread_terms)
        if any((class_.matching & mask).bit_count() > 1 for class_ in classes):
            return False
        followed = self.affinity_term
        return followed is None or all(_leads_itself(class_, followed) for class_ in classes)

    @staticmethod
    def host_terms_are_simple(classes: Iterable[EquivalenceClass]) -> bool:
        """Whether host anti-affinity is only of groups against themselves (carriers and matches are the same)."""
        for class_ in classes:
            for near in class_.constraints[0].anti:
                bit = 1 << near.term
                for other in classes:
                    carries = bool(other.constraints[0].anti_mask & bit)
                    if carries != bool(other.matching & bit):
                        return False
        return True


def _are_counted_everywhere(classes: Iterable[EquivalenceClass]) -> bool:
    """Whether each spread counts whoever it counts on every node that may be chosen for them.

    Those that honour affinity or taints count only on nodes that their carriers accept.
    """
    choosy = {spread for class_ in classes for spread in class_.constraints[0].spread if spread.nodes is not None}
    return all(
        spread.nodes is None or spread.nodes.covers(class_.levels[0].selection, spread.topology_key)
        for spread in choosy
        for class_ in classes
        if class_.matching >> spread.term & 1
    )


def _leads_itself(class_: EquivalenceClass, term: int) -> bool:
    return bool(class_.matching >> term & 1) and any(near.term == term for near in class_.constraints[0].affinity)


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

    loads = domains.loads.setdefault(key, {})

    def order(domain: str) -> tuple[float, float, str]:
        price = sum(domains.of(group, key)[domain] * state.remaining[group.index] for group in groups)
        return (round(price, 9), loads.get(domain, 0.0), domain)

    chosen = min(sorted(allowed), key=order)
    weight = sum(_weight(group) * state.remaining[group.index] for group in groups)
    loads[chosen] = loads.get(chosen, 0.0) + weight
    return [DomainBatch(group.relaxed[0], (key, chosen), state.remaining[group.index]) for group in groups]


def _weight(group: Group) -> float:
    """How much a replica loads a domain: vCPU, with 2 GiB as much as one."""
    return group.request[0] / 1000 + group.request[1] / 2**31


# Branches: comprehensions of a line each around one loop over groups.
def _even(
    state: PartialPlan, component: Component, key: str, terms: set[int], domains: DomainCosts
) -> list[DomainBatch] | None:
    """Deal every replica that some spread counts to the emptiest domain; None when a constraint would not hold."""
    carried = {spread for class_ in component.classes for spread in class_.constraints[0].spread}
    spreads = [spread for spread in carried if spread.topology_key == key]
    universe = sorted({domain for spread in spreads for domain in spread.domains})
    counts = {term: {**dict.fromkeys(universe, 0), **state.ledger.by_term[term].matched} for term in terms}
    loads = domains.loads.setdefault(key, {})
    for domain in universe:
        loads.setdefault(domain, 0.0)
    batches: list[DomainBatch] = []
    mask = sum(1 << term for term in terms)
    for group, (_, allowed, weight) in _choosiest_first(component.groups, key, universe, domains):
        remaining, counting = state.remaining[group.index], group.matching & mask  # one term at most
        if not counting:
            batches.append(DomainBatch(group.relaxed[0], None, remaining))
            continue
        if not allowed:
            return None
        for domain, count in _water_filled(counts[counting.bit_length() - 1], loads, allowed, remaining):
            batches.append(DomainBatch(group.relaxed[0], (key, domain), count))
            loads[domain] += count * weight
    # Every constraint must hold in every domain, so carriers that do not count themselves may land anywhere.
    is_even = all(spread.excess(counts[spread.term], domain) <= 0 for spread in spreads for domain in spread.domains)
    return batches if is_even else None


def _choosiest_first(
    groups: Iterable[Group], key: str, universe: Sequence[str], domains: DomainCosts
) -> list[tuple[Group, tuple[int, list[str], float]]]:
    """Return the groups, those first that can be bought in the fewest domains, as queued among equals.

    With each: the number of those domains, which of them the spreads know, and the weight of a replica.
    """
    known: dict[tuple[int, Vector], tuple[int, list[str], float]] = {}  # groups are many, what they ask for is not
    found = []
    for group in groups:
        about = (group.requirement_sets[0], group.request)
        offer = known.get(about)
        if offer is None:
            offered = domains.of(group, key)
            allowed = [domain for domain in universe if domain in offered]
            offer = known[about] = (len(offered), allowed, _weight(group))
        found.append((group, offer))
    return sorted(found, key=lambda item: item[1][0])


def _water_filled(
    counts: dict[str, int], loads: Mapping[str, float], names: Iterable[str], amount: int
) -> Sequence[tuple[str, int]]:
    """Pour ``amount`` into the emptiest domains first, as water finds its level; adds to ``counts``."""
    ordered = sorted([(counts[name], loads[name], name) for name in names])
    if amount == 1:  # mostly
        level, _, name = ordered[0]
        counts[name] = level + 1
        return ((name, 1),)
    levels = [level for level, _, _ in ordered]
    width, total = len(levels), amount + sum(levels)
    while width > 1 and levels[width - 1] * width >= total:  # the water does not rise above the fullest
        width -= 1
        total -= levels[width]
    even, rest = divmod(total, width)
    filled = []
    for level, _, name in ordered[:width]:
        count = even - level
        if rest:
            count, rest = count + 1, rest - 1
        if count:
            counts[name] = level + count
            filled.append((name, count))
    return filled
