"""Every plan for a small world: which replicas can be placed together, and at what least cost.

Independent of solver and checker. Labels are compared directly, which is enough for the worlds of ``instances``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import product

from lab.oracle.world import NOW
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import LabelSelector, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import (
    ATTO_USD_PER_MICRO_USD,
    reserved_price_atto_usd,
    reserved_price_divisor,
)
from reservoir.core.scheduling_terms.resources import Resources

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Bin:
    """A node that could be: an existing one, a reserved unit, or something bought. ``units`` None: any number."""

    name: str
    zone: str
    market: CapacityType
    pool: int
    allocatable: Resources
    capacity: Resources
    tainted: bool
    price: int
    units: int | None
    is_new: bool = True


@dataclass(frozen=True)
class Option:
    """A bin with what it would carry."""

    bin: int
    content: Counts
    # more important workloads that could use this reserved unit
    kept_off: frozenset[int] = frozenset()
    # reserved bins that could carry all of this, which is bought
    takers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Chosen:
    """One state of the search."""

    left: Counts
    units: Counts
    zones: tuple[Counts, ...]  # by zone, replicas of each workload
    used: tuple[Counts, ...]  # by pool: nodes, cpu
    paid: frozenset[int] = frozenset()  # workloads with replicas on nodes that are bought
    # workloads that could use reserved units which less important ones have
    kept_off: frozenset[int] = frozenset()
    # bins that are bought, and who could take over
    replaceable: frozenset[tuple[int, frozenset[int]]] = frozenset()


class BruteForce:
    """All feasible vectors of placed replicas of a snapshot, each with its least cost in atto-USD an hour.

    Over which zones a spread is measured is read in two ways: over those that could host a replica (which allows
    more), or with ``strict`` over all that are offered at all. With ``strict`` reserved units go first too: nothing is
    bought that a unit left free could carry, nor does one go to replicas while another that could use it and is more
    important waits or is on what is bought.
    """

    def __init__(
        self, snapshot: Snapshot, policy: SchedulingPolicy, *, strict: bool = False
    ) -> None:
        self._snapshot, self._strict = snapshot, strict
        self._overhead = policy.node_overhead_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
        self.workloads = [item.workload for item in snapshot.demands]
        self.counts = tuple(item.pending_count for item in snapshot.demands)
        self._markets = [
            self._allowed_markets(index) for index in range(len(self.workloads))
        ]
        self._bins = list(self._all_bins())
        self._zones = sorted({item.zone for item in self._bins})
        self._options = self._all_options()
        self._known: dict[Chosen, dict[Counts, int]] = {}

    @cached_property
    def outcomes(self) -> dict[Counts, int]:
        """The least cost for each vector of placed replicas (by demand) that some plan reaches."""
        start = Chosen(
            left=self.counts,
            units=tuple(item.units or 0 for item in self._bins),
            zones=tuple((0,) * len(self.counts) for _ in self._zones),
            used=tuple((0, 0) for _ in self._snapshot.node_pools),
        )
        return self._search(start, (0,) * len(self.counts))

    # -- what could be

    def _allowed_markets(self, index: int) -> frozenset[CapacityType]:
        workload, since = self.workloads[index], self._snapshot.demands[index].pending_since
        if not workload.fallback:
            return frozenset(CapacityType)
        allowed, opens_at = set(), since
        for step in workload.fallback:
            if opens_at <= NOW:
                allowed.add(step.capacity_type)
            opens_at += timedelta(seconds=step.for_s or 10**6)
        return frozenset(allowed)

    def _all_bins(self) -> Iterator[Bin]:
        types = {item.name: item for item in self._snapshot.instance_types}
        for existing in self._snapshot.nodes:
            free = existing.allocatable - existing.used
            yield Bin(
                existing.claim_id,
                existing.zone,
                existing.capacity_type,
                0,
                free,
                free,
                False,
                0,
                1,
                False,
            )
        for index, one in enumerate(self._snapshot.node_pools):
            allowed = one.requirements[labels.CAPACITY_TYPE]
            for item in types.values():
                for offer in item.offerings:
                    if allowed.has(offer.capacity_type):
                        price = (
                            offer.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
                            + self._overhead
                        )
                        yield Bin(
                            item.name, offer.zone, offer.capacity_type, index, item.allocatable, item.capacity,
                            bool(one.taints), price, None,
                        )  # fmt: skip
        yield from self._reserved_bins()

    def _reserved_bins(self) -> Iterator[Bin]:
        types = {item.name: item for item in self._snapshot.instance_types}
        prices = [offer for item in types.values() for offer in item.offerings]
        dearest = max(
            item.on_demand_price_micro_usd_per_hour or 0 for item in types.values()
        )
        spot = [
            offer.price_micro_usd_per_hour
            for offer in prices
            if offer.capacity_type is CapacityType.SPOT
        ]
        divisor = reserved_price_divisor(dearest, min(spot, default=dearest))
        for one in self._snapshot.reservations:
            item = types[one.instance_type]
            price = (
                reserved_price_atto_usd(
                    item.on_demand_price_micro_usd_per_hour or 0, divisor
                )
                + self._overhead
            )
            for index, each in enumerate(self._snapshot.node_pools):
                if (
                    each.requirements[labels.CAPACITY_TYPE].has(CapacityType.RESERVED)
                    and one.free_units
                ):
                    yield Bin(
                        one.id, one.zone, CapacityType.RESERVED, index, item.allocatable, item.capacity,
                        bool(each.taints), price, one.free_units,
                    )  # fmt: skip

    # -- what may be on one node

    def _may_be_in(self, index: int, item: Bin) -> bool:
        workload = self.workloads[index]
        wants = workload.node_selector
        return (
            wants[labels.ZONE].has(item.zone)
            and wants[labels.CAPACITY_TYPE].has(item.market)
            and item.market in self._markets[index]
            and (not item.tainted or bool(workload.tolerations))
        )

    def _all_options(self) -> list[Option]:
        """List every possible content of every bin; of bought bins that differ only in price, the cheapest alone."""
        options: list[Option] = []
        cheapest: dict[tuple[object, ...], int] = {}
        has_limits = any(one.limits for one in self._snapshot.node_pools)
        for number, item in enumerate(self._bins):
            for content in product(*(range(count + 1) for count in self.counts)):
                if not any(content) or not self._is_possible(item, content):
                    continue
                key = (
                    item.zone,
                    content,
                    number if item.units is not None or has_limits else None,
                )
                if (
                    key not in cheapest
                    or item.price < self._bins[options[cheapest[key]].bin].price
                ):
                    if key in cheapest:
                        options[cheapest[key]] = Option(number, content)
                    else:
                        cheapest[key] = len(options)
                        kept_off = self._kept_off(item, content)
                        takers = self._takers(item, content)
                        options.append(Option(number, content, kept_off, takers))
        return options

    def _kept_off(self, item: Bin, content: Counts) -> frozenset[int]:
        """Return the workloads one more replica of which had room, were it not for less important ones."""
        if not self._strict or item.market is not CapacityType.RESERVED or not item.is_new:
            return frozenset()
        found = set()
        for index, workload in enumerate(self.workloads):
            ranks = [other.priority for other in self.workloads]
            kept = tuple(
                count * (rank >= workload.priority) + (number == index)
                for number, (count, rank) in enumerate(zip(content, ranks, strict=True))
            )
            is_lower = any(
                count and rank < workload.priority
                for count, rank in zip(content, ranks, strict=True)
            )
            if is_lower and not self._is_bound(workload) and self._is_possible(item, kept):
                found.add(index)
        return frozenset(found)

    def _takers(self, item: Bin, content: Counts) -> frozenset[int]:
        if not self._strict or item.units is not None:
            return frozenset()
        pairs = zip(self.workloads, content, strict=True)
        stays = any(
            count and (self._is_bound(one) or one.gang is not None) for one, count in pairs
        )
        return frozenset(
            number
            for number, other in enumerate(self._bins)
            if other.market is CapacityType.RESERVED
            and other.is_new
            and (other.zone == item.zone or not stays)
            and self._is_possible(other, content)
        )

    def _is_bound(self, workload: Workload) -> bool:
        """Whether some rule over zones concerns the workload."""
        for other in self.workloads:
            near = [
                (term.topology_key, term.selector)
                for term in (*other.anti_affinity, *other.affinity)
            ]
            for key, selector in (
                *((rule.topology_key, rule.selector) for rule in other.topology_spread),
                *near,
            ):
                if key == labels.ZONE and (
                    other is workload or selector.matches(workload.labels)
                ):
                    return True
        return False

    def _is_possible(self, item: Bin, content: Counts) -> bool:
        load = Resources.of({"cpu": 0, "memory": 0, "pods": 0})
        for index, count in enumerate(content):
            if count and not self._may_be_in(index, item):
                return False
            load = load + self.workloads[index].requests * count
        if any(load[name] > item.allocatable[name] for name in ("cpu", "memory", "pods")):
            return False
        return all(
            self._host_allows(index, content)
            for index, count in enumerate(content)
            if count
        )

    def _selected(self, selector: LabelSelector, content: Counts) -> int:
        pairs = zip(self.workloads, content, strict=True)
        return sum(count for other, count in pairs if selector.matches(other.labels))

    def _host_allows(self, index: int, content: Counts) -> bool:
        workload = self.workloads[index]
        for rule in workload.topology_spread:
            if (
                rule.topology_key == labels.HOSTNAME
                and self._selected(rule.selector, content) > rule.max_skew
            ):
                return False
        for term in workload.anti_affinity:
            own = term.selector.matches(workload.labels)
            if (
                term.topology_key == labels.HOSTNAME
                and self._selected(term.selector, content) > own
            ):
                return False
        return True

    # -- the search

    def _search(self, state: Chosen, placed: Counts) -> dict[Counts, int]:
        """Return the least further cost by vector of all placed replicas, from this state on."""
        known = self._known.get(state)  # the zones' counts add up to ``placed``
        if known is not None:
            return known
        first = next((index for index, count in enumerate(state.left) if count), None)
        if first is None:
            found = {placed: 0} if self._final(state, placed) else {}
        else:
            found = {}
            # Leave all remaining replicas of this workload out, or put at least one of them into the next node.
            without = tuple(
                0 if index == first else count for index, count in enumerate(state.left)
            )
            self._join(found, self._search(replace(state, left=without), placed), 0)
            for option in self._options:
                following = self._taken(state, option) if option.content[first] else None
                if following is not None:
                    added = tuple(map(sum, zip(placed, option.content, strict=True)))
                    self._join(
                        found, self._search(following, added), self._bins[option.bin].price
                    )
        self._known[state] = found
        return found

    @staticmethod
    def _join(found: dict[Counts, int], more: dict[Counts, int], price: int) -> None:
        for vector, cost in more.items():
            if vector not in found or cost + price < found[vector]:
                found[vector] = cost + price

    def _taken(self, state: Chosen, option: Option) -> Chosen | None:
        item = self._bins[option.bin]
        left = tuple(a - b for a, b in zip(state.left, option.content, strict=True))
        if any(count < 0 for count in left):
            return None
        units = list(state.units)
        if item.units is not None:
            # One reservation is one bin a pool: all of them share its units.
            bins = enumerate(self._bins)
            same = [
                number
                for number, other in bins
                if other.units is not None and other.name == item.name
            ]
            if units[option.bin] < 1:
                return None
            for number in same:
                units[number] -= 1
        used = self._charged(state.used, item)
        if used is None:
            return None
        zones = tuple(
            tuple(map(sum, zip(counts, option.content, strict=True)))
            if zone == item.zone
            else counts
            for zone, counts in zip(self._zones, state.zones, strict=True)
        )
        paid = state.paid
        if self._strict and item.is_new and item.market is not CapacityType.RESERVED:
            paid = paid.union(index for index, count in enumerate(option.content) if count)
        replaceable = (
            state.replaceable | {(option.bin, option.takers)}
            if option.takers
            else state.replaceable
        )
        return Chosen(
            left,
            tuple(units),
            zones,
            used,
            paid,
            state.kept_off | option.kept_off,
            replaceable,
        )

    def _charged(self, used: tuple[Counts, ...], item: Bin) -> tuple[Counts, ...] | None:
        limits = self._snapshot.node_pools[item.pool].limits
        if not item.is_new:
            return used
        nodes, cpu = used[item.pool]
        name = self._snapshot.node_pools[item.pool].name
        existing = [one for one in self._snapshot.nodes if one.node_pool_name == name]
        nodes, cpu = nodes + 1, cpu + item.capacity["cpu"]
        if limits is None:
            return used  # what nobody limits need not be remembered
        has_nodes = nodes + len(existing)
        has_cpu = cpu + sum(one.allocatable["cpu"] for one in existing)
        if ("nodes" in limits and has_nodes > limits["nodes"]) or (
            "cpu" in limits and has_cpu > limits["cpu"]
        ):
            return None
        return tuple(
            (nodes, cpu) if pool == item.pool else one for pool, one in enumerate(used)
        )

    def _could_replace(self, state: Chosen, bought: int, taker: int) -> bool:
        """Whether a unit is left for what one bought node carries, within limits that this node no longer uses."""
        item, other = self._bins[bought], self._bins[taker]
        nodes, cpu = state.used[item.pool]
        without = (max(0, nodes - 1), max(0, cpu - item.capacity["cpu"]))
        used = tuple(
            without if pool == item.pool else one for pool, one in enumerate(state.used)
        )
        return state.units[taker] > 0 and self._charged(used, other) is not None

    # -- the final state

    def _final(self, state: Chosen, placed: Counts) -> bool:
        if any(
            index in state.paid or placed[index] < self.counts[index]
            for index in state.kept_off
        ):
            return False
        if any(
            self._could_replace(state, bought, taker)
            for bought, takers in state.replaceable
            for taker in takers
        ):
            return False
        for index, workload in enumerate(self.workloads):
            if workload.gang is not None and placed[index] not in (0, self.counts[index]):
                return False
            if placed[index] and not self._zones_allow(index, workload, state.zones):
                return False
        return True

    def _zones_allow(
        self, index: int, workload: Workload, zones: tuple[Counts, ...]
    ) -> bool:
        mine = [number for number, counts in enumerate(zones) if counts[index]]
        if (
            workload.gang is not None
            and workload.gang.single_topology_key
            and len(mine) > 1
        ):
            return False
        for rule in workload.topology_spread:
            counts = [self._selected(rule.selector, one) for one in zones]
            eligible = [
                number
                for number, zone in enumerate(self._zones)
                if self._is_domain(index, zone)
            ]
            if rule.topology_key == labels.ZONE and mine:
                least = min(counts[number] for number in eligible)
                most = max(counts[number] for number in mine)
                if most - least > rule.max_skew:
                    return False
        for term in workload.anti_affinity:
            own = term.selector.matches(workload.labels)
            crowded = any(
                self._selected(term.selector, zones[number]) > own for number in mine
            )
            if term.topology_key == labels.ZONE and crowded:
                return False
        return all(
            self._is_beside(term.selector, zones, mine) for term in workload.affinity
        )

    def _is_beside(
        self, selector: LabelSelector, zones: tuple[Counts, ...], mine: list[int]
    ) -> bool:
        """The worlds only have self-affinity by zone: whoever carries it stays together, or joins one who leads."""
        leaders = tuple(0 if item.affinity else 1 for item in self.workloads)
        led, following = set(), set()
        for number, counts in enumerate(zones):
            leading = tuple(a * b for a, b in zip(counts, leaders, strict=True))
            others = tuple(a - b for a, b in zip(counts, leading, strict=True))
            if self._selected(selector, leading):
                led.add(number)
            if self._selected(selector, others):
                following.add(number)
        return len(following - led) <= 1 and set(mine) <= led | following

    def _is_domain(self, index: int, zone: str) -> bool:
        """Whether some node in the zone, existing or new, could ever hold a replica of the workload (or exists)."""
        size = self.workloads[index].requests
        wants = self.workloads[index].node_selector[labels.ZONE]
        # the rules of the worlds count every node, so every zone is a domain
        if self._strict:
            return True
        return any(
            item.zone == zone
            and (
                (not item.is_new and wants.has(zone))
                or (self._may_be_in(index, item) and size.fits_in(item.allocatable))
            )
            for item in self._bins
        )
