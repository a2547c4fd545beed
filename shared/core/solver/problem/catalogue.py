"""Everything that can be launched: a ``LaunchOption`` per pool, instance type and offering, and who accepts it.

Acceptance is a bit mask over *requirement sets* (each complete, with its tolerations and markets), because there
are thousands of options and replicas but few different requirement sets: each is tested once per label value, not once
per option.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from shared.core.capacity.offerings import (
    OFFERING_LABELS,
    ReservedPrices,
    price_atto_usd,
    reservation_labels,
    selected_reservations,
)
from shared.core.model.capacity_reservation import CapacityReservation
from shared.core.model.instance_type import CapacityType, InstanceType
from shared.core.model.node_class import NodeClass
from shared.core.model.node_pool import NodePool
from shared.core.model.plan import OfferingKey
from shared.core.model.policy import NoDurationPolicy, SchedulingPolicy
from shared.core.model.snapshot import Snapshot
from shared.core.scheduling_terms.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TENANCY,
    NODE_CLASS,
    NODE_POOL,
    RESERVATION_LABELS,
    WELL_KNOWN,
    ZONE,
    ZONE_ID,
)
from shared.core.scheduling_terms.requirement import Requirement
from shared.core.scheduling_terms.requirements import Requirements
from shared.core.scheduling_terms.resources import NODES, Resources
from shared.core.scheduling_terms.taint import Taint, binding_taints, tolerates_all
from shared.core.solver.problem.selection import Selection
from shared.core.solver.problem.unsettled_labels import variants
from shared.core.solver.problem.vectors import Dimensions, Vector

_OFFERING_KEYS = OFFERING_LABELS | RESERVATION_LABELS
_place_order = attrgetter("zone_id", "capacity_type")


@dataclass(frozen=True, slots=True)
class RequirementSet:
    """One complete requirement set: a selection with one of its ORed terms."""

    requirements: Requirements
    selection: Selection


@dataclass(frozen=True, slots=True)
class Entry:
    """A pool with one choice of value for each label that it leaves open and some workload asks for (R-14, S-145)."""

    index: int
    pool: NodePool
    node_class: NodeClass
    labels: Mapping[str, str]
    absent: frozenset[str]  # open keys that its nodes do not carry
    tier: int  # 0 for the heaviest weight
    taints: tuple[Taint, ...]  # those that count for placing replicas on a new node


@dataclass(slots=True, eq=False)
class LaunchOption:
    """One thing that can be launched. ``requirement_sets`` is the mask of those that it meets."""

    index: int
    entry: Entry
    instance_type: InstanceType
    key: OfferingKey
    price: int  # atto-USD an hour
    allocatable: Vector
    requirement_sets: int
    place_labels: Mapping[str, str]  # zone, market and reservation; one mapping per place
    reservation: CapacityReservation | None = None
    on_demand_micro_usd: int = 0
    unit_key: str = ""  # of its reservation's units; empty for what is bought


def counted(capacity: Resources, name: str) -> int:
    """Return what a node with this capacity takes of a pool's limit: of ``nodes`` one, of a resource what it has."""
    return 1 if name == NODES else capacity[name]


@dataclass(frozen=True, slots=True)
class OfferedPlace:
    """Where and on which market something is offered; what of an offering requirements can see."""

    zone: str
    zone_id: str
    capacity_type: CapacityType
    reservation_id: str | None = None
    reservation: CapacityReservation | None = field(default=None, compare=False)  # named by its id and its team
    team_name: str | None = None  # whose demand alone it is for

    @classmethod
    def of(cls, reservation: CapacityReservation) -> "OfferedPlace":
        """Return the place of reserved units."""
        zone, zone_id = reservation.zone, reservation.zone_id
        team_name = None if reservation.share is None else reservation.share.team_name
        return cls(zone, zone_id, CapacityType.RESERVED, reservation.id, reservation, team_name)

    def labels(self) -> dict[str, str]:
        """Return the labels that the place gives to a node."""
        found = {ZONE: self.zone, ZONE_ID: self.zone_id, CAPACITY_TYPE: str(self.capacity_type.value)}
        if self.reservation is not None:
            found.update(reservation_labels(self.reservation))
        return found


def accepts(labels: Mapping[str, str], requirements: Iterable[Requirement]) -> bool:
    """Whether a node with exactly these labels meets the requirements (the strict form, R-13)."""
    for requirement in requirements:
        value = labels.get(requirement.key)
        if not (requirement.allows_absence if value is None else requirement.has(value)):
            return False
    return True


@dataclass(slots=True)
class OptionCatalogue:
    """The options of a solve and the requirement sets they are tested against."""

    snapshot: Snapshot
    now: datetime
    policy: SchedulingPolicy
    dimensions: Dimensions
    requirement_sets: Sequence[RequirementSet]
    prices: ReservedPrices = field(init=False)  # asked for where there are reservations, and only there
    entries: list[Entry] = field(default_factory=list)
    options: list[LaunchOption] = field(default_factory=list)
    places: list[tuple[Entry, OfferedPlace]] = field(default_factory=list)  # also what is full or unavailable now
    entry_types: dict[int, list[InstanceType]] = field(default_factory=dict)
    _vectors: dict[str, Vector] = field(default_factory=dict)
    _type_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _labels: dict[int, Mapping[str, str]] = field(default_factory=dict)  # by option
    _places: dict[tuple[str, str, CapacityType], OfferedPlace] = field(default_factory=dict)
    _reserved_places: dict[int, OfferedPlace] = field(default_factory=dict)  # by the reservation's identity
    _bits_of_team: dict[str | None, list[int]] = field(default_factory=dict)  # whose requirement sets are which

    def __post_init__(self) -> None:
        """Enumerate options, heaviest pools first."""
        self.prices = ReservedPrices.of(self.snapshot.instance_types if self.snapshot.reservations else ())
        self._vectors = {item.name: self.dimensions.capacity(item.allocatable) for item in self.snapshot.instance_types}
        self._reserved_places = {id(item): OfferedPlace.of(item) for item in self.snapshot.reservations}
        pools = usable_pools(self.snapshot)
        for bit, alternative in enumerate(self.requirement_sets):
            self._bits_of_team.setdefault(alternative.selection.team_name, []).append(bit)
        tiers = {weight: tier for tier, weight in enumerate(sorted({pool.weight for pool, _ in pools}, reverse=True))}
        for pool, node_class in pools:
            self._add_pool(pool, node_class, tiers[pool.weight])

    def _add_pool(self, pool: NodePool, node_class: NodeClass, tier: int) -> None:
        by_name = sorted(self.snapshot.instance_types, key=lambda item: item.name)
        types = [item for item in by_name if _is_possible(pool, node_class, item)]
        requirement_sets = [alternative.requirements for alternative in self.requirement_sets]
        taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
        closed = {NODE_POOL: pool.name, NODE_CLASS: node_class.name, INSTANCE_TENANCY: node_class.tenancy}
        for chosen in variants(pool.requirements, types, requirement_sets, _OFFERING_KEYS | closed.keys()):
            settled = {key: value for key, value in chosen.items() if value is not None}
            labels = {**pool.requirements.labels(), **settled, **closed}
            absent = frozenset(chosen) - settled.keys()
            entry = Entry(len(self.entries), pool, node_class, labels, absent, tier, taints)
            self.entries.append(entry)
            admitted = [item for item in types if _admits(item, labels)]
            self.entry_types[entry.index] = admitted
            self._add_options(entry, admitted)

    def _add_options(self, entry: Entry, types: Sequence[InstanceType]) -> None:
        tolerating = self._tolerating(entry)
        by_type = self._meeting_types(entry, types, tolerating)
        by_place: dict[int, tuple[int, Mapping[str, str]]] = {}  # by identity: each place is made once
        reserved: dict[str, list[CapacityReservation]] = {}
        for reservation in selected_reservations(self.snapshot, entry.node_class):
            reserved.setdefault(reservation.instance_type, []).append(reservation)
        for instance_type, meeting in zip(types, by_type, strict=True):
            for place, price, is_available in self._offered(instance_type, reserved.get(instance_type.name, ())):
                if id(place) not in by_place:
                    found = place.labels()
                    by_place[id(place)] = self._meeting_place(entry, place, found), found
                mask, labels = by_place[id(place)]
                if is_available and meeting & mask:
                    self._add_option(entry, instance_type, place, price, meeting & mask, labels)

    def _offered(
        self, instance_type: InstanceType, reservations: Sequence[CapacityReservation]
    ) -> Iterable[tuple[OfferedPlace, int, bool]]:
        for reservation in reservations:
            if reservation.is_active(self.now):
                place = self._reserved_places[id(reservation)]
                yield place, self.prices.atto_usd_per_hour(instance_type), reservation.free_units > 0
        for offering in sorted(instance_type.offerings, key=_place_order):
            if offering.capacity_type is not CapacityType.RESERVED:
                key = (offering.zone, offering.zone_id, offering.capacity_type)
                place = self._places.get(key) or self._places.setdefault(key, OfferedPlace(*key))
                yield place, price_atto_usd(offering.price_micro_usd_per_hour), offering.is_available(self.now)

    def _add_option(
        self,
        entry: Entry,
        instance_type: InstanceType,
        place: OfferedPlace,
        price: int,
        mask: int,
        labels: Mapping[str, str],
    ) -> None:
        reservation, index, name = place.reservation, len(self.options), instance_type.name
        key = OfferingKey(name, place.zone, place.zone_id, place.capacity_type, place.reservation_id)
        option = LaunchOption(index, entry, instance_type, key, price, self._vectors[name], mask, labels, reservation)
        if reservation is not None:
            option.on_demand_micro_usd = self.prices.on_demand_micro_usd(instance_type)
            option.unit_key = reservation.unit_key
        self.options.append(option)

    def _tolerating(self, entry: Entry) -> int:
        if not entry.taints:
            return -1
        return self._mask(lambda wanted: tolerates_all(entry.taints, wanted.selection.tolerations) is None)

    def _mask(self, holds: Callable[[RequirementSet], bool]) -> int:
        return sum([1 << bit for bit, alternative in enumerate(self.requirement_sets) if holds(alternative)])

    def _meeting_types(self, entry: Entry, types: Sequence[InstanceType], tolerating: int) -> list[int]:
        """Return, per type, the requirement sets that it meets (as far as zone and market do not matter)."""
        bits: dict[Requirement, int] = {}
        grouped: dict[int, int] = {}
        for bit, alternative in enumerate(self.requirement_sets):
            if not tolerating >> bit & 1:
                continue
            met = -1
            for requirement in alternative.requirements.values():
                if requirement.key in _OFFERING_KEYS:
                    continue
                types_met = bits.get(requirement)
                if types_met is None:
                    types_met = bits[requirement] = _types_meeting(entry, types, requirement)
                met &= types_met
            grouped[met] = grouped.get(met, 0) | 1 << bit
        return [
            sum(requirement_sets for met, requirement_sets in grouped.items() if met >> position & 1)
            for position in range(len(types))
        ]

    def _meeting_place(self, entry: Entry, place: OfferedPlace, labels: Mapping[str, str]) -> int:
        """Return the requirement sets that a place meets, if the pool allows it and may launch there now."""
        wanted = [item for key, item in entry.pool.requirements.items() if key in _OFFERING_KEYS]
        status = entry.node_class.status
        has_subnet = not status.subnets or any(subnet.zone_id == place.zone_id for subnet in status.subnets)
        if not has_subnet or not accepts(labels, wanted):
            return 0
        self.places.append((entry, place))
        if place.zone_id in status.zones_full_until:
            return 0
        if place.team_name is None:
            return self._mask(lambda requirement_set: self._place_meets(labels, place, requirement_set))
        mask = 0
        for bit in self._bits_of_team.get(place.team_name, ()):
            mask |= self._place_meets(labels, place, self.requirement_sets[bit]) << bit
        return mask

    def _place_meets(self, labels: Mapping[str, str], place: OfferedPlace, requirement_set: RequirementSet) -> bool:
        if place.capacity_type not in requirement_set.selection.capacity_types:
            return False
        if place.reservation is not None and not self.outlives(place.reservation, requirement_set.selection):
            return False
        return accepts(labels, (item for key, item in requirement_set.requirements.items() if key in _OFFERING_KEYS))

    def outlives(self, reservation: CapacityReservation, selection: Selection) -> bool:
        """Whether work of this selection, started now, is through before the reservation drains."""
        return self.is_in_time(reservation.drain_at(timedelta(seconds=selection.notice_s)), selection)

    def is_in_time(self, drain_at: datetime | None, selection: Selection) -> bool:
        """Whether such work may start now on a node that drains at ``drain_at`` (its notice already taken off)."""
        if drain_at is None:
            return True
        if selection.duration_s is None:
            return self.policy.no_duration_policy is NoDurationPolicy.PLACE and self.now < drain_at
        return self.now + timedelta(seconds=selection.duration_s) <= drain_at

    def labels(self, option: LaunchOption) -> Mapping[str, str]:
        """Return every label that a node of this option will have, as far as it is known now; one mapping an option."""
        known = self._labels.get(option.index)
        if known is None:
            name, requirements = option.instance_type.name, option.instance_type.requirements
            of_type = self._type_labels.get(name) or self._type_labels.setdefault(name, requirements.labels())
            known = self._labels[option.index] = {**of_type, **option.entry.labels, **option.place_labels}
        return known

    def label(self, option: LaunchOption, key: str) -> str | None:
        """Return one label of a new node."""
        placed = option.place_labels.get(key)
        return self.labels(option).get(key) if placed is None else placed


def usable_pools(snapshot: Snapshot) -> list[tuple[NodePool, NodeClass]]:
    """Return the dynamic pools with a class that may launch: heavier first, equal weights by descending name (R-39)."""
    classes = {node_class.name: node_class for node_class in snapshot.node_classes}
    found = []
    by_name = sorted(snapshot.node_pools, key=lambda item: item.name, reverse=True)
    for pool in sorted(by_name, key=lambda item: -item.weight):
        node_class = classes.get(pool.node_class_name)
        launches = pool.replicas is None and pool.paused is None
        if launches and node_class is not None and node_class.status.launch_blocked_reason is None:
            found.append((pool, node_class))
    return found


def _is_possible(pool: NodePool, node_class: NodeClass, instance_type: InstanceType) -> bool:
    images = node_class.status.machine_images
    architecture = instance_type.requirements[ARCH]
    if images and not any(architecture.has(image.architecture) for image in images):
        return False
    return pool.requirements.intersects(instance_type.requirements) is None


def _admits(instance_type: InstanceType, labels: Mapping[str, str]) -> bool:
    """Whether instances of the type can carry the labels that the pool has settled on."""
    requirements = instance_type.requirements
    return all(key not in requirements or requirements[key].has(value) for key, value in labels.items())


def _types_meeting(entry: Entry, types: Sequence[InstanceType], wanted: Requirement) -> int:
    """Return a mask over ``types``: those whose instances, in this pool, meet one requirement."""
    settled = entry.labels.get(wanted.key)
    if settled is not None:
        return -1 if wanted.has(settled) else 0
    of_pool = entry.pool.requirements.get(wanted.key)
    if wanted.key in entry.absent:
        undefined = wanted.allows_absence
    elif of_pool is None:
        # Nobody defines a well-known key: a node is allowed to turn out right.
        undefined = wanted.allows_absence or wanted.key in WELL_KNOWN
    else:
        undefined = _can_meet(of_pool, wanted)
    mask = 0
    for position, instance_type in enumerate(types):
        of_type = instance_type.requirements.get(wanted.key)
        if undefined if of_type is None else _can_meet(of_type, wanted):
            mask |= 1 << position
    return mask


def _can_meet(offered: Requirement, wanted: Requirement) -> bool:
    return offered.has_intersection(wanted) or (offered.allows_absence and wanted.allows_absence)
