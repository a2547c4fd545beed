"""Which groups can be packed by counts, and in which domains: zone rules are kept by construction (docs/scheduler.md).

Groups and terms form a graph (a group that carries or matches a term is its neighbour). A connected part whose terms
are all *simple* is packed by counts: its replicas are dealt out to domains beforehand so that every spread is even and
every affinity has one domain. All other parts take the general path, replica by replica.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from operator import ge, le

from shared.core.labels import CAPACITY_TYPE, HOSTNAME, ZONE, ZONE_ID
from shared.core.solver.bits import iter_bits
from shared.core.solver.groups import Group
from shared.core.solver.market import Option
from shared.core.solver.state import State
from shared.core.solver.topology import SpreadTerm
from shared.core.solver.vectors import Vector

# Domains that an offering decides. Others (families, custom labels) are rare and take the general path.
_PLACE_KEYS = frozenset({ZONE, ZONE_ID, CAPACITY_TYPE})


@dataclass(slots=True, eq=False)  # not frozen: a large demand has ten thousand, and those take longer to make
class Lot:
    """``count`` replicas of a group that may go anywhere the group may, within one domain if ``pin`` says so."""

    group: Group
    level: int
    pin: tuple[str, str] | None
    count: int


@dataclass(slots=True)
class _Part:
    groups: list[Group] = field(default_factory=list)
    terms: int = 0  # a mask


@dataclass(frozen=True, slots=True)
class Dealt:
    """Lots to pack, and the groups that must take the general path."""

    lots: list[Lot]
    general: list[Group]


def general_groups(groups: Sequence[Group], one_by_one: Set[int]) -> set[int]:
    """Return the groups that must take the general path from the start, with all who are tied to them by terms.

    Those are gangs, price caps, and ``one_by_one``: what could not be dealt out.
    """
    found: set[int] = set()
    for part in _parts(groups):
        alone = [
            group
            for group in part.groups
            if group.workload.gang is not None or group.is_price_capped or group.index in one_by_one
        ]
        # Terms that reach over priorities would have to be kept between two packings.
        mixed = part.terms and len({group.priority for group in part.groups}) > 1
        found.update(group.index for group in (part.groups if mixed or (alone and part.terms) else alone))
    return found


def deal(state: State, groups: Sequence[Group], level: int, domains: "DomainCosts") -> Dealt:
    """Split the groups, as they are after giving up ``level`` preferences, into lots."""
    lots: list[Lot] = []
    general: list[Group] = []
    for part in _parts(groups):
        if not part.terms:
            lots.extend(
                Lot(group, level, None, state.remaining[group.index])
                for group in part.groups
                if level < len(group.levels) and state.remaining[group.index]
            )
            continue
        dealt = _deal_part(state, part, domains) if level == 0 else []
        if dealt is None:
            general.extend(part.groups)
        else:
            lots.extend(dealt)
    return Dealt(lots, sorted(general, key=lambda group: group.index))


class DomainCosts:
    """Where a group can be bought at all, and for how much a replica; plus what was dealt to each domain so far."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables: dict[str, dict[tuple[int, str], _Offers]] = {}
        self._memo: dict[tuple[int, tuple[int, ...], str], dict[str, float]] = {}
        self.loads: dict[str, dict[str, float]] = {}  # by topology key and domain

    def of(self, group: Group, topology_key: str) -> Mapping[str, float]:
        """Return the price of a replica by domain; only domains where it can be bought without limit."""
        memo_key = (group.alternatives[0], group.request, topology_key)
        known = self._memo.get(memo_key)
        if known is None:
            known = self._memo[memo_key] = {}
            for (alternatives, domain), offers in self._table(topology_key).items():
                price = offers.price(group.request) if alternatives & group.alternatives[0] else None
                if price is not None and price < known.get(domain, inf):
                    known[domain] = price
        return known

    def _table(self, topology_key: str) -> dict[tuple[int, str], "_Offers"]:
        table = self._tables.get(topology_key)
        if table is None:
            table = self._tables[topology_key] = {}
            prices: dict[tuple[int, str], dict[Vector, int]] = {}
            for option in self._state.market.options:
                if option.reservation is None:
                    sizes = prices.setdefault((option.alternatives, _domain(option, topology_key)), {})
                    sizes[option.allocatable] = min(option.price, sizes.get(option.allocatable, option.price))
            table.update({where: _Offers(sizes) for where, sizes in prices.items()})
        return table


def _domain(option: Option, topology_key: str) -> str:
    """Return the domain of a key that offerings decide."""
    if topology_key == CAPACITY_TYPE:
        return str(option.key.capacity_type.value)
    return option.key.zone if topology_key == ZONE else option.key.zone_id


class _Offers:
    """The offers of one domain that the same wishes accept: cheapest rates, and the largest sizes."""

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


def connected(groups: Sequence[Group]) -> Iterable[frozenset[int]]:
    """Yield the indices of groups that rules connect; nobody else has to do with where they are."""
    return (frozenset(group.index for group in part.groups) for part in _parts(groups))


def _parts(groups: Sequence[Group]) -> Iterable[_Part]:
    """Yield the connected parts, in the order of their first group."""
    touched_by = _touched(groups)
    kinds = list(dict.fromkeys(touched_by))  # groups are many, combinations of terms few
    parent = list(range(len(kinds)))
    owner_of: dict[int, int] = {}
    for kind, touched in enumerate(kinds):
        for term in iter_bits(touched):
            other = owner_of.setdefault(term, kind)
            parent[_root(parent, kind)] = _root(parent, other)
    part_of = {touched: _root(parent, kind) for kind, touched in enumerate(kinds)}
    parts: dict[int, _Part] = {}
    for position, (group, touched) in enumerate(zip(groups, touched_by, strict=True)):
        # Who has no terms is alone.
        part = parts.setdefault(part_of[touched] if touched else ~position, _Part())
        part.groups.append(group)
        part.terms |= touched
    return parts.values()


def _root(parent: list[int], item: int) -> int:
    """Return who stands for the item's part, and shorten the way to it."""
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


def _touched(groups: Sequence[Group]) -> list[int]:
    """Return, by group, the mask of terms that it carries or matches."""
    carried: dict[int, int] = {}  # by identity: many groups share their constraints
    found = []
    for group in groups:
        touched = group.matching
        for constraints in group.constraints:
            mask = carried.get(id(constraints))
            if mask is None:
                mask = 0
                for spread in constraints.spread:
                    mask |= 1 << spread.term
                for near in (*constraints.affinity, *constraints.anti):
                    mask |= 1 << near.term
                carried[id(constraints)] = mask
            touched |= mask
        found.append(touched)
    return found


def _deal_part(state: State, part: _Part, domains: DomainCosts) -> list[Lot] | None:
    """Return the lots of a part with terms, or None when it needs the general path."""
    if any(len(group.levels) > 1 for group in part.groups) or _has_residents(state, part):
        return None
    shape = _PartShape.of(part)
    if shape is None or not shape.host_terms_are_simple(part.groups) or not _are_counted_everywhere(part.groups):
        return None
    if shape.key is None:
        return [Lot(group, 0, None, state.remaining[group.index]) for group in part.groups]
    if shape.affinity_term is not None:
        return _one_domain(state, part.groups, shape.key, shape.affinity_term, domains)
    return _even(state, part.groups, shape.key, shape.spread_terms, domains)


def _has_residents(state: State, part: _Part) -> bool:
    """Whether a running replica's anti-affinity is about the part: the fast path does not look at those."""
    for term in iter_bits(part.terms):
        counts = state.ledger.by_term.get(term)
        if counts is not None and any(counts.owners.values()):
            return True
    return any(anti & part.terms for bin_ in state.bins for _, anti, _ in bin_.residents)


@dataclass(slots=True)
class _PartShape:
    """What kinds of terms a part has."""

    key: str | None  # the one topology key other than the host
    affinity_term: int | None
    spread_terms: set[int]

    @classmethod
    def of(cls, part: _Part) -> "_PartShape | None":
        """Return the part's shape, or None when it mixes what cannot be dealt out beforehand."""
        keys: set[str] = set()
        spread: set[int] = set()
        affinity: set[int] = set()
        for group in part.groups:
            constraints = group.constraints[0]
            for term in constraints.spread:
                if term.topology_key != HOSTNAME:
                    keys.add(term.topology_key)
                    spread.add(term.term)
            for near in constraints.affinity:
                if near.topology_key == HOSTNAME:
                    return None
                keys.add(near.topology_key)
                affinity.add(near.term)
            if any(near.topology_key != HOSTNAME for near in constraints.anti):
                return None
        if len(keys) > 1 or not keys <= _PLACE_KEYS or (affinity and spread) or len(affinity) > 1:
            return None
        mask = sum(1 << term for term in spread)
        if any((group.matching & mask).bit_count() > 1 for group in part.groups):
            return None
        followed = next(iter(affinity), None)
        if followed is not None and not all(_leads_itself(group, followed) for group in part.groups):
            return None
        return cls(next(iter(keys), None), followed, spread)

    @staticmethod
    def host_terms_are_simple(groups: Sequence[Group]) -> bool:
        """Whether host anti-affinity is only of groups against themselves (carriers and matches are the same)."""
        for group in groups:
            for near in group.constraints[0].anti:
                bit = 1 << near.term
                for other in groups:
                    carries = bool(other.constraints[0].anti_mask & bit)
                    if carries != bool(other.matching & bit):
                        return False
        return True


def _are_counted_everywhere(groups: Sequence[Group]) -> bool:
    """Whether each spread counts whoever it counts on every node that may be chosen for them.

    Those that honour affinity or taints count only on nodes that their carriers accept.
    """
    choosy = {spread for group in groups for spread in group.constraints[0].spread if spread.nodes is not None}
    return all(
        spread.nodes is None or spread.nodes.covers(group.levels[0].selection, spread.topology_key)
        for spread in choosy
        for group in groups
        if group.matching >> spread.term & 1
    )


def _leads_itself(group: Group, term: int) -> bool:
    return bool(group.matching >> term & 1) and any(near.term == term for near in group.constraints[0].affinity)


def _one_domain(state: State, groups: Sequence[Group], key: str, term: int, domains: DomainCosts) -> list[Lot] | None:
    """Put the whole part into one domain: where it already is, else where it is cheapest, else the least loaded."""
    matched = state.ledger.by_term[term].matched
    populated = {domain for domain, count in matched.items() if count > 0}
    candidates: set[str] | None = None
    for group in groups:
        known = set(domains.of(group, key))
        candidates = known if candidates is None else candidates & known
    allowed = (candidates or set()) & populated if populated else candidates or set()
    if not allowed:
        return None

    loads = domains.loads.setdefault(key, {})

    def order(domain: str) -> tuple[float, float, str]:
        price = sum(domains.of(group, key)[domain] * state.remaining[group.index] for group in groups)
        return (round(price, 9), loads.get(domain, 0.0), domain)

    chosen = min(sorted(allowed), key=order)
    weight = sum(_weight(group) * state.remaining[group.index] for group in groups)
    loads[chosen] = loads.get(chosen, 0.0) + weight
    return [Lot(group, 0, (key, chosen), state.remaining[group.index]) for group in groups]


def _weight(group: Group) -> float:
    """How much a replica loads a domain: vCPU, with 2 GiB as much as one."""
    return group.request[0] / 1000 + group.request[1] / 2**31


def _even(state: State, groups: Sequence[Group], key: str, terms: set[int], domains: DomainCosts) -> list[Lot] | None:
    """Deal every replica that some spread counts to the emptiest domain; None when a constraint would not hold."""
    counts = {term: dict(state.ledger.by_term[term].matched) for term in terms}
    spreads = _strictest(groups, key)
    universe = sorted({domain for spread in spreads.values() for domain in spread.domains})
    loads = domains.loads.setdefault(key, {})
    lots: list[Lot] = []
    mask = sum(1 << term for term in terms)
    offers = [(domains.of(group, key), group) for group in groups]
    offers.sort(key=lambda item: (len(item[0]), item[1].index))
    for offered, group in offers:
        remaining, counting = state.remaining[group.index], group.matching & mask  # one term at most
        if not counting:
            lots.append(Lot(group, 0, None, remaining))
            continue
        allowed = [domain for domain in universe if domain in offered]
        if not allowed:
            return None
        weight = _weight(group)
        for domain, count in _poured(counts[counting.bit_length() - 1], loads, allowed, remaining):
            lots.append(Lot(group, 0, (key, domain), count))
            loads[domain] = loads.get(domain, 0.0) + count * weight
    # Every constraint must hold in every domain, so carriers that do not count themselves may land anywhere.
    return lots if all(_holds(spread, counts[spread.term]) for spread in spreads.values()) else None


def _strictest(groups: Sequence[Group], key: str) -> dict[object, SpreadTerm]:
    """Return each distinct spread constraint over the key."""
    found: dict[object, SpreadTerm] = {}
    for group in groups:
        for spread in group.constraints[0].spread:
            if spread.topology_key == key:
                found.setdefault((spread.term, spread.max_skew, spread.min_domains, spread.domains), spread)
    return found


def _poured(
    counts: dict[str, int], loads: Mapping[str, float], names: Iterable[str], amount: int
) -> Sequence[tuple[str, int]]:
    """Pour ``amount`` into the emptiest domains first, as water finds its level; adds to ``counts``."""
    ordered = sorted([(counts.get(name, 0), loads.get(name, 0.0), name) for name in names])
    if amount == 1:  # mostly
        level, _, name = ordered[0]
        counts[name] = level + 1
        return ((name, 1),)
    width, total = 0, amount
    for level, _, _ in ordered:
        if width and level * width >= total:
            break  # the water does not rise above this one
        width, total = width + 1, total + level
    even, rest = divmod(total, width)
    poured = []
    for position, (level, _, name) in enumerate(ordered[:width]):
        count = even + (position < rest) - level
        if count:
            counts[name] = level + count
            poured.append((name, count))
    return poured


def _holds(spread: SpreadTerm, counts: Mapping[str, int]) -> bool:
    """Whether the constraint holds in every domain once everything is placed."""
    lowest = min((counts.get(domain, 0) for domain in spread.domains), default=0)
    if spread.min_domains is not None and len(spread.domains) < spread.min_domains:
        lowest = 0
    return all(counts.get(domain, 0) - lowest <= spread.max_skew for domain in spread.domains)
