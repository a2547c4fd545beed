"""What can be launched: offerings by name, what a node from one would be, and who may run on it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from shared.core import labels
from shared.core.capacity_reservation import CapacityReservation, ReservationKind
from shared.core.checking.wishes import Wishes
from shared.core.instance_type import CapacityType, Offering
from shared.core.money import ATTO_USD_PER_MICRO_USD, reserved_price_atto_usd, reserved_price_divisor
from shared.core.node_class import NodeClass
from shared.core.node_pool import NodePool
from shared.core.plan import OfferingKey, Plan, PlannedNodes
from shared.core.policy import SchedulingPolicy
from shared.core.requirement import Operator, Requirement
from shared.core.requirements import Requirements
from shared.core.snapshot import Snapshot
from shared.core.workload import Workload

_OF_A_PLACE: Final = frozenset({labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE}) | labels.RESERVATION_LABELS


def in_words(key: OfferingKey) -> str:
    """Name an offering for a message."""
    where = f"{key.instance_type} {key.capacity_type} in {key.zone}"
    return where if key.reservation_id is None else f"{where} of {key.reservation_id}"


def reserved_key(reservation: CapacityReservation) -> OfferingKey:
    """Name the offering that a reservation is."""
    return OfferingKey(
        reservation.instance_type, reservation.zone, reservation.zone_id, CapacityType.RESERVED, reservation.id
    )


@dataclass(slots=True, eq=False)
class Listed:
    """A list of alternatives as a pool sees it: usually few lists serve many launches, so it is looked at once."""

    keys: tuple[OfferingKey, ...]
    problem: str | None
    least: Mapping[str, int]  # of each resource, over all of them
    zone_ids: frozenset[str]
    fine: set[int] = field(default_factory=set)  # manners of workloads that all of them may run


class Offers(Wishes):
    """Adds the supply side. Answers are remembered by type and by place, because their product is large."""

    def __init__(self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy) -> None:
        super().__init__(snapshot, plan, now, policy)
        self._numbers: dict[int, int] = {}
        self._number_of: dict[OfferingKey, int] = {}
        self._descriptions: dict[tuple[str, OfferingKey], Requirements | None] = {}
        self._bases: dict[tuple[str, str], Requirements | None] = {}
        self._type_facts: dict[tuple[str, str], Requirements] = {}
        self._wishes: dict[int, tuple[tuple[Requirements, Requirements], ...]] = {}
        self._fitting: dict[tuple[str, str, int], tuple[Requirements, ...]] = {}
        self._places: dict[tuple[object, ...], bool] = {}
        self._offerings: dict[str, dict[tuple[str, str, CapacityType], Offering]] = {}
        self._labels: dict[str | None, tuple[Requirement, ...]] = {}
        self._tuples: dict[int, tuple[OfferingKey, ...]] = {}
        self._equal: dict[tuple[OfferingKey, ...], tuple[OfferingKey, ...]] = {}
        self._listed: dict[tuple[str, int, int, int], Listed] = {}
        self._zone_ids: dict[str, frozenset[str]] = {}
        self._imaged: dict[tuple[str, str], bool] = {}
        self._min_values: dict[str, Mapping[str, int]] = {}
        self._ever_offered: dict[str, tuple[OfferingKey, ...]] = {}
        self._bought: dict[str, tuple[OfferingKey, ...]] = {}
        self._reserved: dict[str, tuple[OfferingKey, ...]] = {}

    def number(self, key: OfferingKey) -> int:
        """Return a number for an offering of the plan, which keeps the key alive: comparing names takes time."""
        known = self._numbers.get(id(key))
        if known is None:
            known = self._numbers[id(key)] = self._number_of.setdefault(key, len(self._number_of))
        return known

    def offering(self, key: OfferingKey) -> Offering | None:
        """Return the spot or on-demand offering that the key names."""
        name = key.instance_type
        known = self._offerings.get(name)
        if known is None:
            offerings = self.types[name].offerings if name in self.types else ()
            # Of offerings with one name the first counts.
            known = self._offerings[name] = {
                (item.zone, item.zone_id, item.capacity_type): item for item in reversed(offerings)
            }
        return known.get((key.zone, key.zone_id, key.capacity_type))

    def reservation_problem(self, reservation: CapacityReservation, node_class: NodeClass) -> str | None:
        """Say why nothing of this class can be launched into the reservation now, or None."""
        if not reservation.is_active(self.now):
            return "is not active or already drains"
        if reservation.id not in node_class.status.reservation_ids:
            return f"is not selected by class {node_class.name}"
        if (reservation.platform, reservation.tenancy) != (node_class.platform, node_class.tenancy):
            return f"has another platform or tenancy than class {node_class.name}"
        return None

    def class_problem(self, node_class: NodeClass, key: OfferingKey) -> str | None:
        """Say why the class cannot launch this offering, or None. Lists that discovery left empty do not forbid."""
        if node_class.status.launch_blocked_reason is not None:
            return "is not ready"
        zone_ids = self._zone_ids.get(node_class.name)
        if zone_ids is None:
            zone_ids = frozenset([subnet.zone_id for subnet in node_class.status.subnets])
            self._zone_ids[node_class.name] = zone_ids
        if zone_ids and key.zone_id not in zone_ids:
            return f"has no subnet in {key.zone}"
        known = (node_class.name, key.instance_type)
        if known not in self._imaged:
            images = node_class.status.machine_images
            architecture = self.types[key.instance_type].requirements[labels.ARCH]
            self._imaged[known] = not images or any(architecture.has(image.architecture) for image in images)
        return None if self._imaged[known] else f"has no image for {key.instance_type}"

    # -- what a node would be

    def _base(self, pool: NodePool, type_name: str) -> Requirements | None:
        """Return what is true of the pool's nodes of a type wherever they are; None when the pool excludes the type."""
        known = (pool.name, type_name)
        if known not in self._bases:
            node_class = self.classes[pool.node_class_name]
            facts = {
                labels.NODE_POOL: pool.name,
                labels.NODE_CLASS: node_class.name,
                labels.INSTANCE_TENANCY: node_class.tenancy,
            }
            described = (Requirement.new(name, Operator.IN, (value,)) for name, value in facts.items())
            offered = self.types[type_name].requirements.add(*described)
            is_possible = pool.requirements.intersects(offered) is None
            self._bases[known] = pool.requirements.merged(offered) if is_possible else None
        return self._bases[known]

    def description(self, pool: NodePool, key: OfferingKey) -> Requirements | None:
        """Return what a node of the pool from this offering will be, or None when the pool does not allow it."""
        known = (pool.name, key)
        if known not in self._descriptions:
            base = self._base(pool, key.instance_type)
            is_possible = base is not None and self._place_allows(pool.requirements, key)
            self._descriptions[known] = base.add(*self._place(key)) if base is not None and is_possible else None
        return self._descriptions[known]

    def _place(self, key: OfferingKey) -> tuple[Requirement, ...]:
        facts = {labels.ZONE: key.zone, labels.ZONE_ID: key.zone_id, labels.CAPACITY_TYPE: str(key.capacity_type)}
        where = (Requirement.new(name, Operator.IN, (value,)) for name, value in facts.items())
        return (*where, *self._reservation_labels(key.reservation_id))

    def _place_allows(self, wanted: Requirements, key: OfferingKey) -> bool:
        """Whether requirements accept where and how the offering is bought, whatever the type."""
        facts = ((labels.ZONE, key.zone), (labels.ZONE_ID, key.zone_id), (labels.CAPACITY_TYPE, key.capacity_type))
        for name, value in facts:
            requirement = wanted.get(name)
            if requirement is not None and not requirement.has(value):
                return False
        for fact in self._reservation_labels(key.reservation_id):
            requirement = wanted.get(fact.key)
            if requirement is None or requirement.has_intersection(fact):
                continue
            if not (requirement.allows_absence and fact.allows_absence):
                return False
        return True

    def _reservation_labels(self, reservation_id: str | None) -> tuple[Requirement, ...]:
        """Return the labels that only reserved nodes have; "must not exist" for the others (R-23)."""
        known = self._labels.get(reservation_id)
        if known is None:
            known = self._labels[reservation_id] = tuple(self._found_labels(reservation_id))
        return known

    def _found_labels(self, reservation_id: str | None) -> Iterator[Requirement]:
        if reservation_id is None:
            for key in sorted(labels.RESERVATION_LABELS):
                yield Requirement.new(key, Operator.DOES_NOT_EXIST)
            return
        kind = self.reservations[reservation_id].kind
        block = ReservationKind.CAPACITY_BLOCK
        facts = {
            labels.CAPACITY_RESERVATION_ID: reservation_id,
            labels.CAPACITY_RESERVATION_TYPE: str(block if kind is block else ReservationKind.DEFAULT),
            labels.CAPACITY_RESERVATION_INTERRUPTIBLE: "true" if kind is ReservationKind.INTERRUPTIBLE else "false",
            labels.CAPACITY_RESERVATION_SETTING: "target",  # a planned launch names its reservation
        }
        for name, value in facts.items():
            yield Requirement.new(name, Operator.IN, (value,))

    # -- what is open

    def open_offerings(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return everything that can be launched for the pool now; reservations while the snapshot has units free."""
        return self.open_bought(pool) + self.open_reserved(pool)

    def all_offerings(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return also what is unavailable or full now: domains do not come and go with that (R-62)."""
        if pool.name not in self._ever_offered:
            node_class = self._launching(pool)
            found: list[OfferingKey] = []
            if node_class is not None:
                found.extend(self._find_bought(pool, node_class, only_now=False))
                found.extend(self._find_reserved(pool, node_class, only_now=False))
            self._ever_offered[pool.name] = tuple(found)
        return self._ever_offered[pool.name]

    def open_bought(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return the spot and on-demand offerings that can be launched for the pool now."""
        if pool.name not in self._bought:
            node_class = self._launching(pool)
            found = () if node_class is None else self._find_bought(pool, node_class, only_now=True)
            self._bought[pool.name] = tuple(found)
        return self._bought[pool.name]

    def _find_bought(self, pool: NodePool, node_class: NodeClass, *, only_now: bool) -> Iterator[OfferingKey]:
        places: dict[tuple[str, str, CapacityType], bool] = {}
        for instance_type in self.snapshot.instance_types:
            if self._base(pool, instance_type.name) is None:
                continue
            for offering in instance_type.offerings:
                if only_now and not offering.is_available(self.now):
                    continue
                key = OfferingKey(instance_type.name, offering.zone, offering.zone_id, offering.capacity_type)
                place = (key.zone, key.zone_id, key.capacity_type)
                if place not in places:
                    places[place] = self._place_allows(pool.requirements, key)
                if places[place] and self.class_problem(node_class, key) is None:
                    yield key

    def open_reserved(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return the reservations that have units free and can be launched into for the pool now."""
        if pool.name not in self._reserved:
            node_class = self._launching(pool)
            found = () if node_class is None else self._find_reserved(pool, node_class, only_now=True)
            self._reserved[pool.name] = tuple(found)
        return self._reserved[pool.name]

    def _find_reserved(self, pool: NodePool, node_class: NodeClass, *, only_now: bool) -> Iterator[OfferingKey]:
        for item in self.snapshot.reservations:
            key = OfferingKey(item.instance_type, item.zone, item.zone_id, CapacityType.RESERVED, item.id)
            if (
                (item.free_units > 0 or not only_now)
                and item.instance_type in self.types
                and self.reservation_problem(item, node_class) is None
                and self.class_problem(node_class, key) is None
                and self.description(pool, key) is not None
            ):
                yield key

    def _launching(self, pool: NodePool) -> NodeClass | None:
        """Return the pool's class, or None when nothing is ever launched for it here."""
        return self.classes.get(pool.node_class_name) if pool.replicas is None else None

    # -- prices

    def price_atto_usd(self, key: OfferingKey) -> int:
        """Return the price of a spot or on-demand offering an hour; 0 when there is no such offering."""
        offering = self.offering(key)
        return 0 if offering is None else offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD

    def is_reserved_price(self, key: OfferingKey, price_atto_usd: int) -> bool:
        """Whether this is the price of a reserved unit: the ODCR RFC's ratio over all discovered prices (rule 4).

        Where the ratio cannot be formed (no on-demand price, no spot price) any price counts that is more than nothing
        and less than whatever can be bought.
        """
        dearest, cheapest_spot, cheapest = self._extremes
        on_demand = self.types[key.instance_type].on_demand_price_micro_usd_per_hour
        if on_demand is None or cheapest_spot is None:
            return 0 < price_atto_usd < max(1, cheapest) * ATTO_USD_PER_MICRO_USD
        divisor = reserved_price_divisor(dearest, cheapest_spot)
        return price_atto_usd == reserved_price_atto_usd(on_demand, divisor)

    @cached_property
    def _extremes(self) -> tuple[int, int | None, int]:
        """Return the dearest on-demand, the cheapest spot and the cheapest price of all, in micro-USD an hour."""
        types = self.snapshot.instance_types
        on_demand: list[int] = [0]
        spot: list[int] = []
        for instance_type in types:
            on_demand.append(instance_type.on_demand_price_micro_usd_per_hour or 0)
            for offering in instance_type.offerings:
                is_spot = offering.capacity_type is CapacityType.SPOT
                (spot if is_spot else on_demand).append(offering.price_micro_usd_per_hour)
        paid = [price for price in (*on_demand, *spot) if price]
        return max(on_demand), min((price for price in spot if price), default=None), min(paid, default=1)

    # -- who may run there

    def accepts(self, pool: NodePool, key: OfferingKey, workload: Workload) -> bool:
        """Whether requirements and ladder let a replica run on a node of the pool from the offering."""
        if key.capacity_type not in self.markets(workload):
            return False
        kind = self.kind(workload)
        known = (pool.name, key.instance_type, kind)
        fitting = self._fitting.get(known)
        if fitting is None:
            fitting = self._fitting[known] = tuple(self._find_fitting(pool, key.instance_type, workload, kind))
        where = (pool.name, fitting, key.zone, key.zone_id, key.capacity_type, key.reservation_id)
        allowed = self._places.get(where)
        if allowed is None:
            wanted = any(self._place_allows(term, key) for term in fitting)
            allowed = self._places[where] = wanted and self._place_allows(pool.requirements, key)
        return allowed

    def _find_fitting(self, pool: NodePool, type_name: str, workload: Workload, kind: int) -> Iterator[Requirements]:
        """Yield the terms that the pool's nodes of this type meet, wherever they are."""
        base = self._base(pool, type_name)
        if base is None:
            return
        wishes = self._wishes.get(kind)
        if wishes is None:
            wishes = self._wishes[kind] = tuple((term.without(_OF_A_PLACE), term) for term in self.terms(workload))
        known = (pool.name, type_name)
        facts = self._type_facts.get(known)
        if facts is None:
            facts = self._type_facts[known] = base.without(_OF_A_PLACE)
        yield from (term for rest, term in wishes if facts.admits(rest, labels.WELL_KNOWN))

    def listed(self, pool: NodePool, launch: PlannedNodes) -> Listed:
        """Return what can be said about a launch's alternatives, whatever is to run on them."""
        # Comparing long lists takes time, and the plan keeps its tuples alive: equal ones are found by identity first.
        keys = self._tuples.get(id(launch.alternatives))
        if keys is None:
            keys = self._equal.setdefault(launch.alternatives, launch.alternatives)
            self._tuples[id(launch.alternatives)] = keys
        known = (pool.name, self.number(launch.offering), launch.price_atto_usd_per_hour, id(keys))
        if known not in self._listed:
            problem = self._list_problem(pool, launch)
            types = [self.types[key.instance_type].allocatable for key in keys if key.instance_type in self.types]
            names = {name for allocatable in types for name in allocatable}
            least = {name: min(allocatable[name] for allocatable in types) for name in sorted(names)}
            self._listed[known] = Listed(keys, problem, least, frozenset(key.zone_id for key in keys))
        return self._listed[known]

    def _list_problem(self, pool: NodePool, launch: PlannedNodes) -> str | None:
        seen, lowest = {launch.offering}, launch.price_atto_usd_per_hour
        for key in launch.alternatives:
            offering = self.offering(key)
            if offering is None or key.reservation_id is not None or not offering.is_available(self.now):
                return f"{in_words(key)} cannot be bought"
            problem = self.class_problem(self.classes[pool.node_class_name], key)
            if problem is not None:
                return f"{in_words(key)}: class {problem}"
            price = self.price_atto_usd(key)
            if key in seen or price < lowest:
                return f"{in_words(key)} is listed twice or after a dearer one"
            seen.add(key)
            lowest = price
        return None

    def all_accept(self, pool: NodePool, listed: Listed, workload: Workload) -> bool:
        """Whether every alternative of the list may run the workload."""
        return all(self.accepts(pool, key, workload) for key in listed.keys)

    def min_values(self, pool: NodePool) -> Mapping[str, int]:
        """Return how many distinct values the pool asks for, by label."""
        known = self._min_values.get(pool.name)
        if known is None:
            wanted = {key: least for key, item in sorted(pool.requirements.items()) if (least := item.min_values)}
            known = self._min_values[pool.name] = wanted
        return known
