"""What can be launched: offerings by name, their prices, and lists of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from reservoir.core.capacity.node_storage import as_launched
from reservoir.core.checking.final_state.numbering import Numbering
from reservoir.core.checking.final_state.place_facts import Place, PlaceFacts, place_of
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import (
    ATTO_USD_PER_MICRO_USD,
    reserved_price_atto_usd,
    reserved_price_divisor,
)
from reservoir.core.scheduling_terms.resources import CPU


def in_words(key: OfferingKey) -> str:
    """Name an offering for a message."""
    where = f"{key.instance_type} {key.capacity_type} in {key.zone}"
    return where if key.reservation_id is None else f"{where} of {key.reservation_id}"


@dataclass(slots=True, eq=False)
class Listed:
    """A list of alternatives as a pool sees it: usually few lists serve many launches, so it is looked at once."""

    problem: str | None
    least: Sequence[int]  # room over all of them, by ``resource_names``
    zone_ids: frozenset[str]
    places: Mapping[str, tuple[Place, ...]]  # by instance type
    fine: int = 0  # placement classes of workloads that all of them may run


class _Bought(NamedTuple):
    """The spot and on-demand offerings for a pool, as places by type."""

    open: dict[str, list[Place]]  # can be launched now
    ever: dict[str, list[Place]]


class OfferingFacts(PlaceFacts):
    """Adds the supply side. Answers are remembered by type and by place, because their product is large."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
    ) -> None:
        super().__init__(snapshot, plan, now, policy)
        # of offerings and lists in the plan, which keeps them alive
        self.offering_numbers = Numbering()
        self._offerings: dict[str, dict[tuple[str, str, CapacityType], Offering]] = {}
        self._tuples: dict[int, tuple[OfferingKey, ...]] = {}
        self._equal: dict[tuple[OfferingKey, ...], tuple[OfferingKey, ...]] = {}
        self._listed: dict[tuple[str, int, int, int], Listed] = {}
        self._zone_ids: dict[str, frozenset[str]] = {}
        self._imaged: dict[tuple[str, str], bool] = {}
        self._min_values: dict[str, Mapping[str, int]] = {}
        self._sold: dict[str, dict[int, tuple[int, str | None, int]]] = {}
        self._bought: dict[str, _Bought] = {}
        self._open: dict[str, tuple[OfferingKey, ...]] = {}
        self._rooms: dict[tuple[str, str], Sequence[int]] = {}
        self._as_launched: dict[tuple[str, str], InstanceType] = {}
        self._open_places: dict[str, Mapping[str, tuple[Place, ...]]] = {}
        self._on_demand: dict[tuple[str, str], Sequence[OfferingKey]] = {}
        self._reserved: dict[str, tuple[OfferingKey, ...]] = {}

    def offering(self, key: OfferingKey) -> Offering | None:
        """Return the spot or on-demand offering that the key names."""
        name = key.instance_type
        known = self._offerings.get(name)
        if known is None:
            offerings = self.types[name].offerings if name in self.types else ()
            # Of offerings with one name the first counts.
            known = self._offerings[name] = {
                (item.zone, item.zone_id, item.capacity_type): item
                for item in reversed(offerings)
            }
        return known.get((key.zone, key.zone_id, key.capacity_type))

    def reservation_problem(
        self, reservation: CapacityReservation, node_class: NodeClass
    ) -> str | None:
        """Say why nothing of this class can be launched into the reservation now, or None."""
        if not reservation.is_active(self.now):
            return "is not active or already drains"
        if reservation.id not in node_class.status.reservation_ids:
            return f"is not selected by class {node_class.name}"
        if (reservation.platform, reservation.tenancy) != (
            node_class.platform,
            node_class.tenancy,
        ):
            return f"has another platform or tenancy than class {node_class.name}"
        return None

    def class_problem(self, node_class: NodeClass, key: OfferingKey) -> str | None:
        """Say why the class cannot launch this offering, or None. Lists that discovery left empty do not forbid."""
        if key.zone_id in node_class.status.zones_full_until:
            return f"has no free address in {key.zone}"
        if key.capacity_type in node_class.status.resting_markets:
            return f"rests on {key.capacity_type}"
        return self._lasting_problem(node_class, key)

    def _lasting_problem(self, node_class: NodeClass, key: OfferingKey) -> str | None:
        return self._place_problem(node_class, key) or self._type_problem(
            node_class, key.instance_type
        )

    def _place_problem(
        self, node_class: NodeClass, place: OfferingKey | Place
    ) -> str | None:
        if node_class.status.launch_blocked_reason is not None:
            return "is not ready"
        zone_ids = self._zone_ids.get(node_class.name)
        if zone_ids is None:
            zone_ids = frozenset([subnet.zone_id for subnet in node_class.status.subnets])
            self._zone_ids[node_class.name] = zone_ids
        if zone_ids and place.zone_id not in zone_ids:
            return f"has no subnet in {place.zone}"
        return None

    def _type_problem(self, node_class: NodeClass, type_name: str) -> str | None:
        known = (node_class.name, type_name)
        if known not in self._imaged:
            images = node_class.status.machine_images
            architecture = self.types[type_name].requirements[labels.ARCH]
            self._imaged[known] = not images or any(
                architecture.has(image.architecture) for image in images
            )
        return None if self._imaged[known] else f"has no image for {type_name}"

    # -- which offerings are open

    def open_offerings(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return everything that can be launched for the pool now; reservations while the snapshot has units free."""
        known = self._open.get(pool.name)
        if known is None:
            bought = self._bought_places(pool).open
            keys: list[OfferingKey] = []
            for name, places in bought.items():
                keys.extend(
                    OfferingKey(name, place.zone, place.zone_id, place.capacity_type)
                    for place in places
                )
            known = self._open[pool.name] = (*keys, *self.open_reserved(pool))
        return known

    def open_places(self, pool: NodePool) -> Mapping[str, tuple[Place, ...]]:
        """Return the same by type, the largest type first."""
        known = self._open_places.get(pool.name)
        if known is None:
            found = {
                name: [*places] for name, places in self._bought_places(pool).open.items()
            }
            for key in self.open_reserved(pool):
                found.setdefault(key.instance_type, []).append(place_of(key))
            largest_first = sorted(
                found, key=lambda name: (-self.types[name].allocatable[CPU], name)
            )
            known = self._open_places[pool.name] = {
                name: tuple(found[name]) for name in largest_first
            }
        return known

    def sold_on_demand(
        self, pool: NodePool, instance_type: InstanceType
    ) -> Sequence[OfferingKey]:
        """Return what can be bought of a type now, for a pool that may have it, the cheapest first."""
        known = self._on_demand.get((pool.name, instance_type.name))
        if known is None:
            node_class = self._launching(pool)
            places = [
                (it.zone, it.zone_id, it.capacity_type) for it in instance_type.offerings
            ]
            keys = [
                OfferingKey(instance_type.name, *place)
                for place in places
                if CapacityType.ON_DEMAND in place
            ]
            sold = [
                key
                for key in keys
                if node_class is not None and self._sale_problem(node_class, key) is None
            ]
            known = self._on_demand[pool.name, instance_type.name] = sorted(
                sold, key=self.price_atto_usd
            )
        return known

    def ever_offered(self, pool: NodePool) -> Iterator[tuple[str, Iterable[Place]]]:
        """Yield types with places, unavailable or full ones too: domains do not come and go with that (R-62)."""
        yield from self._bought_places(pool).ever.items()
        node_class = self._launching(pool)
        for key in (
            ()
            if node_class is None
            else self._find_reserved(pool, node_class, only_now=False)
        ):
            yield key.instance_type, (place_of(key),)

    def _bought_places(self, pool: NodePool) -> "_Bought":
        known = self._bought.get(pool.name)
        if known is None:
            node_class = self._launching(pool)
            known = (
                _Bought({}, {})
                if node_class is None
                else self._find_bought(pool, node_class)
            )
            self._bought[pool.name] = known
        return known

    def _find_bought(self, pool: NodePool, node_class: NodeClass) -> "_Bought":
        found = _Bought({}, {})
        places: dict[tuple[str, str, CapacityType], Place | None] = {}
        for instance_type in self.snapshot.instance_types:
            name = instance_type.name
            if (
                not self.allows_type(pool, name)
                or self._type_problem(node_class, name) is not None
            ):
                continue
            ever, now = found.ever.setdefault(name, []), found.open.setdefault(name, [])
            for offering in instance_type.offerings:
                where = (offering.zone, offering.zone_id, offering.capacity_type)
                if where not in places:
                    places[where] = self._allowed_place(
                        pool, node_class, Place(*where, None)
                    )
                place = places[where]
                if place is not None:
                    ever.append(place)
                    is_closed = node_class.status.is_closed(
                        place.zone_id, place.capacity_type
                    )
                    if offering.is_available(self.now) and not is_closed:
                        now.append(place)
        return found

    def _allowed_place(
        self, pool: NodePool, node_class: NodeClass, place: Place
    ) -> Place | None:
        is_allowed = (
            self.place_allows(pool.requirements, place)
            and self._place_problem(node_class, place) is None
        )
        return place if is_allowed else None

    def open_reserved(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return the reservations that have units free and can be launched into for the pool now."""
        if pool.name not in self._reserved:
            node_class = self._launching(pool)
            found = (
                ()
                if node_class is None
                else self._find_reserved(pool, node_class, only_now=True)
            )
            self._reserved[pool.name] = tuple(found)
        return self._reserved[pool.name]

    def _find_reserved(
        self, pool: NodePool, node_class: NodeClass, *, only_now: bool
    ) -> Iterator[OfferingKey]:
        for item in self.snapshot.reservations:
            key = OfferingKey(
                item.instance_type, item.zone, item.zone_id, CapacityType.RESERVED, item.id
            )
            is_open = item.free_units > 0 and not node_class.status.is_closed(
                item.zone_id, key.capacity_type
            )
            if (
                (is_open or not only_now)
                and item.instance_type in self.types
                and self.reservation_problem(item, node_class) is None
                and self._lasting_problem(node_class, key) is None
                and self.description(pool, key) is not None
            ):
                yield key

    def _launching(self, pool: NodePool) -> NodeClass | None:
        """Return the pool's class, or None when nothing is ever launched for it here."""
        launches = pool.replicas is None and pool.paused is None
        return self.classes.get(pool.node_class_name) if launches else None

    # -- prices

    def price_atto_usd(self, key: OfferingKey) -> int:
        """Return the price of a spot or on-demand offering an hour; 0 when there is no such offering."""
        offering = self.offering(key)
        if offering is None:
            return 0
        return offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD

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
        """Return the highest on-demand, the lowest spot and the lowest price of all, in micro-USD an hour."""
        types = self.snapshot.instance_types
        on_demand: list[int] = [0]
        spot: list[int] = []
        for instance_type in types:
            on_demand.append(instance_type.on_demand_price_micro_usd_per_hour or 0)
            for offering in instance_type.offerings:
                is_spot = offering.capacity_type is CapacityType.SPOT
                (spot if is_spot else on_demand).append(offering.price_micro_usd_per_hour)
        paid = [price for price in (*on_demand, *spot) if price]
        return (
            max(on_demand),
            min((price for price in spot if price), default=None),
            min(paid, default=1),
        )

    # -- lists of alternatives

    def listed(self, pool: NodePool, launch: PlannedNodes) -> Listed:
        """Return the facts about a launch's alternatives, whichever replicas are to run on them."""
        # Comparing long lists takes time, and the plan keeps its tuples alive: equal ones are found by identity first.
        keys = self._tuples.get(id(launch.alternatives))
        if keys is None:
            keys = self._equal.setdefault(launch.alternatives, launch.alternatives)
            self._tuples[id(launch.alternatives)] = keys
        known = (
            pool.name,
            self.offering_numbers.of(launch.offering),
            launch.price_atto_usd_per_hour,
            id(keys),
        )
        listed = self._listed.get(known)
        if listed is None:
            listed = self._listed[known] = self._find_listed(pool, launch)
        return listed

    def _find_listed(self, pool: NodePool, launch: PlannedNodes) -> Listed:
        places: dict[str, list[Place]] = {}
        for key in launch.alternatives:
            if key.instance_type in self.types:
                places.setdefault(key.instance_type, []).append(place_of(key))
        rooms = [self.type_room(pool, name) for name in places]
        return Listed(
            problem=self._list_problem(pool, launch),
            least=[min(amounts) for amounts in zip(*rooms, strict=True)],
            zone_ids=frozenset([key.zone_id for key in launch.alternatives]),
            places={name: tuple(found) for name, found in places.items()},
        )

    def type_room(self, pool: NodePool, name: str) -> Sequence[int]:
        """Return what a new node of a type has for replicas in the pool, by ``resource_names``."""
        known = self._rooms.get((pool.node_class_name, name))
        if known is None:
            room = self.by_name(self.launched_as(pool, name).allocatable)
            known = self._rooms[pool.node_class_name, name] = room
        return known

    def launched_as(self, pool: NodePool, name: str) -> InstanceType:
        """Return a type as the pool's class launches it, which decides about storage."""
        known = self._as_launched.get((pool.node_class_name, name))
        if known is None:
            node_class, known = self.classes.get(pool.node_class_name), self.types[name]
            known = known if node_class is None else as_launched(known, node_class)
            self._as_launched[pool.node_class_name, name] = known
        return known

    def _list_problem(self, pool: NodePool, launch: PlannedNodes) -> str | None:
        seen = {self.offering_numbers.of(launch.offering)}
        lowest = launch.price_atto_usd_per_hour
        node_class = self.classes[pool.node_class_name]
        sold = self._sold.setdefault(node_class.name, {})
        for key in launch.alternatives:
            known = sold.get(id(key))  # which the plan keeps alive
            if known is None:
                number = self.offering_numbers.of(key)
                known = sold[id(key)] = (
                    number,
                    self._sale_problem(node_class, key),
                    self.price_atto_usd(key),
                )
            number, problem, price = known
            if problem is not None:
                return f"{in_words(key)}{problem}"
            if number in seen or price < lowest:
                return f"{in_words(key)} is listed twice or after a more expensive one"
            seen.add(number)
            lowest = price
        return None

    def _sale_problem(self, node_class: NodeClass, key: OfferingKey) -> str | None:
        offering = self.offering(key)
        if (
            offering is None
            or key.reservation_id is not None
            or not offering.is_available(self.now)
        ):
            return " cannot be bought"
        problem = self.class_problem(node_class, key)
        return None if problem is None else f": class {problem}"

    def all_accept(self, pool: NodePool, listed: Listed, workload: Workload) -> bool:
        """Whether every alternative of the list may run the workload."""
        return all(
            self.accepts(pool, name, places, workload)
            for name, places in listed.places.items()
        )

    def min_values(self, pool: NodePool) -> Mapping[str, int]:
        """Return how many distinct values the pool asks for, by label."""
        known = self._min_values.get(pool.name)
        if known is None:
            wanted = {
                key: least
                for key, item in sorted(pool.requirements.items())
                if (least := item.min_values)
            }
            known = self._min_values[pool.name] = wanted
        return known
