"""Everything that can be launched: a ``LaunchOption`` per pool, instance type and offering, and what it meets.

Each option has a mask of the *requirement sets* that it meets; a requirement set is complete, with its tolerations and
markets. There are thousands of options and replicas but few different requirement sets, and each of them is tested once
per label value and not once per option.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice, product
from operator import attrgetter

from reservoir.core.capacity.node_storage import as_launched
from reservoir.core.capacity.offerings import (
    OFFERING_LABELS,
    ReservedPrices,
    has_image,
    price_atto_usd,
    reservation_labels,
    selected_reservations,
    usable_pools,
)
from reservoir.core.model.capacity_reservation import BlockDrain, CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.policy import NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TENANCY,
    NODE_CLASS,
    NODE_POOL,
    RESERVATION_LABELS,
    WELL_KNOWN,
    ZONE,
    ZONE_ID,
)
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import EPHEMERAL_STORAGE
from reservoir.core.scheduling_terms.taint import Taint, binding_taints, tolerates_all
from reservoir.core.solver.problem.selection import Selection
from reservoir.core.solver.problem.vectors import Dimensions, Vector, iter_bits, mask_of

_OFFERING_KEYS = OFFERING_LABELS | RESERVATION_LABELS
# Labels that the place or the node itself decides, whatever its pool.
_NOT_OF_POOLS = _OFFERING_KEYS | {HOSTNAME}
_place_order = attrgetter("zone_id", "capacity_type")
_name = attrgetter("name")
# A pool has one entry for each combination of values, but no more than this; later combinations are not offered.
_COMBINATIONS_MAX = 64


@dataclass(frozen=True, slots=True)
class RequirementSet:
    """One complete requirement set: a selection with one of its ORed terms."""

    requirements: Requirements
    selection: Selection


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A pool with one choice of value for each label that it leaves open and some workload asks for (R-14, S-145)."""

    index: int
    pool: NodePool
    node_class: NodeClass
    # the pool's requirements, with the chosen values and the labels that follow from its name and class
    requirements: Requirements
    labels: Mapping[str, str]  # the labels that all of its nodes carry
    types: Sequence[InstanceType]
    tier: int  # 0 for the heaviest weight
    taints: tuple[Taint, ...]  # the taints that count for placing replicas on a new node

    def values(self, key: str) -> Iterable[str]:
        """Return the values that the label could have on its nodes, unless the place decides it."""
        if key in self.labels:
            return (self.labels[key],)
        found: set[str] = set()
        for instance_type in self.types:
            requirement = instance_type.requirements.get(key)
            if requirement is not None and not requirement.complement:
                found.update(requirement.values)
        return found


@dataclass(frozen=True, slots=True)
class OfferedPlace:
    """Where and on which market instance types are offered: the part of an offering that requirements are about."""

    zone: str
    zone_id: str
    capacity_type: CapacityType
    reservation: CapacityReservation | None = None

    @classmethod
    def of(cls, reservation: CapacityReservation) -> "OfferedPlace":
        """Return the place of reserved units."""
        return cls(
            reservation.zone, reservation.zone_id, CapacityType.RESERVED, reservation
        )

    def key(self, instance_type: InstanceType) -> OfferingKey:
        """Return the key of the offering of a type in this place."""
        reservation_id = None if self.reservation is None else self.reservation.id
        return OfferingKey(
            instance_type.name, self.zone, self.zone_id, self.capacity_type, reservation_id
        )

    def labels(self) -> dict[str, str]:
        """Return the labels that the place gives to a node."""
        found = {
            ZONE: self.zone,
            ZONE_ID: self.zone_id,
            CAPACITY_TYPE: str(self.capacity_type.value),
        }
        if self.reservation is not None:
            found.update(reservation_labels(self.reservation))
        return found


@dataclass(eq=False)
class LaunchOption:
    """An instance type that a pool can launch in one place. ``requirement_sets`` is the mask of those that it meets."""

    index: int
    entry: Entry
    instance_type: InstanceType
    place: OfferedPlace
    price: int  # atto-USD an hour
    allocatable: Vector
    requirement_sets: int
    place_labels: Mapping[str, str]  # zone, market and reservation; one mapping per place
    # the reservation of the place, copied here because it is read very often
    reservation: CapacityReservation | None = None
    on_demand_micro_usd: int = 0
    unit_key: str = ""  # names the units of its reservation; empty for a paid option

    @cached_property
    def key(self) -> OfferingKey:
        """The offering's key in a plan; it is made on demand, as plans name few of thousands of options."""
        return self.place.key(self.instance_type)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """All labels known now that a node of this option will have."""
        return {
            **self.instance_type.requirements.labels(),
            **self.entry.labels,
            **self.place_labels,
        }

    def label(self, key: str) -> str | None:
        """Return the value of one label of a new node; None if it will not have the label, as far as is known."""
        placed = self.place_labels.get(key)
        return self.labels.get(key) if placed is None else placed


def accepts(labels: Mapping[str, str], requirements: Iterable[Requirement]) -> bool:
    """Whether a node with exactly these labels meets the requirements (the strict form, R-13)."""
    for requirement in requirements:
        value = labels.get(requirement.key)
        if not (requirement.allows_absence if value is None else requirement.has(value)):
            return False
    return True


# A place, its labels, and the mask of the requirement sets that it meets.
_Met = tuple[OfferedPlace, Mapping[str, str], int]
# A zone, its id, and the capacity type.
_Market = tuple[str, str, CapacityType]


@dataclass(slots=True)
class OptionCatalogue:
    """The options of a solve and the requirement sets that they are tested with.

    ``topology_keys`` are the labels in whose domains topology rules count replicas.
    """

    snapshot: Snapshot
    now: datetime
    policy: SchedulingPolicy
    dimensions: Dimensions
    requirement_sets: Sequence[RequirementSet]
    topology_keys: Set[str] = frozenset()
    # of no types if there are no reservations, as only reserved options need these prices
    prices: ReservedPrices = field(init=False)
    entries: list[Entry] = field(default_factory=list)
    options: list[LaunchOption] = field(default_factory=list)
    # the labels of each place that an entry may launch in, full or unavailable ones included
    places: list[tuple[Entry, Mapping[str, str]]] = field(default_factory=list)
    # For pools that are alike by this key: the requirement sets that each place of the earlier ones meets.
    _earlier: dict[object, list[dict[object, int]]] = field(default_factory=dict)
    # by the name of the type
    _sold: dict[str, list[tuple[_Market, Offering]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Enumerate the options, pool by pool."""
        self.prices = ReservedPrices.of(
            self.snapshot.instance_types if self.snapshot.reservations else ()
        )
        pools = usable_pools(self.snapshot)
        weights = sorted({pool.weight for pool, _ in pools}, reverse=True)
        asked = self._asked_of_pools()
        for pool, node_class in pools:
            self._add_pool(pool, node_class, weights.index(pool.weight), asked)

    def _asked_of_pools(self) -> list[Requirement]:
        """Return the requirements of all requirement sets about labels that pools decide, each once."""
        asked: dict[Requirement, None] = {}
        for requirement_set in self.requirement_sets:
            for requirement in requirement_set.requirements.values():
                if requirement.key not in _NOT_OF_POOLS:
                    asked[requirement] = None
        return list(asked)

    def _add_pool(
        self, pool: NodePool, node_class: NodeClass, tier: int, asked: Sequence[Requirement]
    ) -> None:
        types = self._types_of(pool, node_class)
        own = {
            NODE_POOL: pool.name,
            NODE_CLASS: node_class.name,
            INSTANCE_TENANCY: node_class.tenancy,
        }
        offered = Requirements({**pool.requirements, **Requirements.from_labels(own)})
        taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
        counted_by = self.topology_keys - _NOT_OF_POOLS
        for settled in _variants(offered, types, asked, counted_by):
            admitted = [item for item in types if settled.meets(item.requirements)]
            # A pool without types has an entry too, from which the reason can be given why it sells nothing.
            if admitted or not types:
                entry = Entry(
                    index=len(self.entries),
                    pool=pool,
                    node_class=node_class,
                    requirements=settled,
                    labels=settled.labels(),
                    types=admitted,
                    tier=tier,
                    taints=taints,
                )
                self.entries.append(entry)
                self._add_options(entry)

    def _types_of(self, pool: NodePool, node_class: NodeClass) -> list[InstanceType]:
        """Return the types, by name, that the pool allows and its class has images for.

        If the class's storage or kubelet settings matter, each type has the capacity of a node that the class launches.
        """
        types: list[InstanceType] = []
        for item in sorted(self.snapshot.instance_types, key=_name):
            if has_image(node_class, item) and pool.requirements.meets(item.requirements):
                types.append(item)
        matters = EPHEMERAL_STORAGE in (*self.dimensions.names, *(pool.limits or ()))
        if not matters and node_class.kubelet is None:
            return types
        return [as_launched(item, node_class) for item in types]

    def _add_options(self, entry: Entry) -> None:
        reserved = defaultdict[str, list[CapacityReservation]](list)
        for reservation in selected_reservations(self.snapshot, entry.node_class):
            if reservation.is_active(self.now):
                reserved[reservation.instance_type].append(reservation)
        met = self._places_met(entry, reserved)
        meeting = self._meeting_types(entry)
        if self._is_served(entry, meeting, met):
            return
        for item, meets in zip(entry.types, meeting, strict=True):
            size = self.dimensions.capacity(item.allocatable)
            on_sale = self._on_sale(item, reserved.get(item.name, ()), met)
            for (place, labels, sets), price in on_sale:
                if not meets & sets:
                    continue
                option = LaunchOption(
                    index=len(self.options),
                    entry=entry,
                    instance_type=item,
                    place=place,
                    price=price,
                    allocatable=size,
                    requirement_sets=meets & sets,
                    place_labels=labels,
                    reservation=place.reservation,
                )
                if place.reservation is not None:
                    option.on_demand_micro_usd = self.prices.on_demand_micro_usd(item)
                    option.unit_key = place.reservation.unit_key
                self.options.append(option)

    def _places_met(
        self, entry: Entry, reserved: Mapping[str, Iterable[CapacityReservation]]
    ) -> dict[object, _Met]:
        """Return what each place meets, for all places in which a type of the entry is sold or reserved.

        The keys are the reservation's units, or the market and zone.
        """
        met: dict[object, _Met] = {}
        for item in entry.types:
            for reservation in reserved.get(item.name, ()):
                met[reservation.unit_key] = self._meeting_place(
                    entry, OfferedPlace.of(reservation)
                )
            for market, _ in self._sold_of(item):
                if market not in met:
                    met[market] = self._meeting_place(entry, OfferedPlace(*market))
        return met

    def _sold_of(self, item: InstanceType) -> list[tuple[_Market, Offering]]:
        """Return the markets and offerings of a type, sorted; they are kept, as each pool reads them again."""
        known = self._sold.get(item.name)
        if known is None:
            known = self._sold[item.name] = []
            for offering in sorted(item.offerings, key=_place_order):
                market = (offering.zone, offering.zone_id, offering.capacity_type)
                known.append((market, offering))
        return known

    def _is_served(
        self, entry: Entry, meeting: Sequence[int], met: Mapping[object, _Met]
    ) -> bool:
        """Whether an earlier pool offers the same to all requirement sets that this pool meets; then it adds nothing.

        Plans would use the earlier pool anyway; the order of pools is Karpenter's (R-39). A pool adds something if it
        has limits or minValues, or other values of labels that topology rules count by.
        """
        asked_of_pool = entry.pool.requirements.values()
        wants_variety = any(requirement.min_values for requirement in asked_of_pool)
        if entry.pool.limits is not None or wants_variety:
            return False
        alike = (
            entry.node_class.name,
            entry.tier,
            entry.taints,
            tuple(map(entry.labels.get, sorted(self.topology_keys))),
            tuple(map(_name, entry.types)),
            tuple(meeting),
        )
        masks = {where: sets for where, (_, _, sets) in met.items()}
        earlier = self._earlier.setdefault(alike, [])
        if any(_covers(known, masks) for known in earlier):
            return True
        earlier.append(masks)
        return False

    def _on_sale(
        self,
        item: InstanceType,
        reserved: Iterable[CapacityReservation],
        met: Mapping[object, _Met],
    ) -> Iterator[tuple[_Met, int]]:
        """Yield each place where the type is available now, and its price there; ``met`` is what each place meets."""
        for reservation in reserved:
            if reservation.free_units <= 0:
                continue
            place, labels, sets = met[reservation.unit_key]
            price = self.prices.atto_usd_per_hour(item)
            for together in self.in_time_together(sets, reservation.block_drain()):
                yield (place, labels, together), price
        for market, offering in self._sold_of(item):
            if offering.is_available(self.now):
                yield met[market], price_atto_usd(offering.price_micro_usd_per_hour)

    def _meeting_types(self, entry: Entry) -> list[int]:
        """Return, for each type, the mask of the requirement sets that it meets, zone and market aside."""
        types_meeting: dict[Requirement, int] = {}
        # Requirement sets by the mask of the types that meet them, as many sets are met by the same types.
        grouped = defaultdict[int, int](int)
        for bit, wanted in enumerate(self.requirement_sets):
            if tolerates_all(entry.taints, wanted.selection.tolerations) is None:
                met = -1
                for requirement in wanted.requirements.values():
                    if (types := types_meeting.get(requirement)) is None:
                        types = _types_meeting(entry, requirement)
                        types_meeting[requirement] = types
                    met &= types
                grouped[met] |= 1 << bit
        meeting: list[int] = []
        for position in range(len(entry.types)):
            requirement_sets = 0
            for types, met_by_them in grouped.items():
                if types >> position & 1:
                    requirement_sets |= met_by_them
            meeting.append(requirement_sets)
        return meeting

    def _meeting_place(self, entry: Entry, place: OfferedPlace) -> _Met:
        """Return the requirement sets that a place meets, if the pool allows it and may launch there now."""
        labels, status = place.labels(), entry.node_class.status
        # If the subnets of a class are not known yet, it may have one in any zone.
        has_subnet = not status.subnets or any(
            subnet.zone_id == place.zone_id for subnet in status.subnets
        )
        if not has_subnet or not accepts(labels, _about_places(entry.pool.requirements)):
            return place, labels, 0
        self.places.append((entry, labels))
        if status.is_closed(place.zone_id, place.capacity_type):
            return place, labels, 0
        met: list[int] = []
        for bit, requirement_set in enumerate(self.requirement_sets):
            if self._place_meets(place, labels, requirement_set):
                met.append(bit)
        return place, labels, mask_of(met)

    def _place_meets(
        self, place: OfferedPlace, labels: Mapping[str, str], wanted: RequirementSet
    ) -> bool:
        selection, reservation = wanted.selection, place.reservation
        if place.capacity_type not in selection.capacity_types:
            return False
        if reservation is not None:
            is_of_others = (
                reservation.share is not None
                and reservation.share.team_name != selection.team_name
            )
            if is_of_others or not self.is_in_time(
                reservation.block_drain(), selection, selection.notice_s
            ):
                return False
        return accepts(labels, _about_places(wanted.requirements))

    def is_in_time(
        self, drain: BlockDrain | None, selection: Selection, notice_s: int
    ) -> bool:
        """Whether work that starts now ends before its node drains, with ``notice_s`` seconds of notice."""
        if drain is None:
            return True
        drains_at = drain.for_notice(notice_s).starts_at
        if selection.duration_s is None:
            return (
                self.policy.no_duration_policy is NoDurationPolicy.PLACE
                and self.now < drains_at
            )
        return self.now + timedelta(seconds=selection.duration_s) <= drains_at

    def in_time_together(self, met: int, drain: BlockDrain | None) -> list[int]:
        """Return masks of requirement sets whose work may share a node of this block; each set by itself is in time.

        A node drains as early as the longest notice on it asks for, which may be too early for work that wants a
        shorter one. Masks are as large as that allows and may overlap; those with shorter notices come first.
        """
        if drain is None:
            return [met]
        selections = {bit: self.requirement_sets[bit].selection for bit in iter_bits(met)}
        notices_s = {selection.notice_s for selection in selections.values()}
        found: list[int] = []
        for notice_s in sorted(notices_s, reverse=True):
            together: list[int] = []
            for bit, selection in selections.items():
                wants_no_longer_notice = selection.notice_s <= notice_s
                if wants_no_longer_notice and self.is_in_time(drain, selection, notice_s):
                    together.append(bit)
            mask = mask_of(together)
            is_part_of_longer = any(not mask & ~longer for longer in found)
            if not is_part_of_longer:
                found.append(mask)
        return found[::-1]


def _about_places(requirements: Requirements) -> Iterator[Requirement]:
    """Yield the requirements about labels that the place decides."""
    for key, requirement in requirements.items():
        if key in _OFFERING_KEYS:
            yield requirement


def _variants(
    offered: Requirements,
    types: Sequence[InstanceType],
    asked: Iterable[Requirement],
    counted_by: Set[str],
) -> Iterator[Requirements]:
    """Yield the pool's requirements with a value chosen for each unsettled label, once for each useful choice.

    A label is unsettled if requirement sets ask for it and neither the pool nor the instance types fix its value. Two
    workloads could then want different values, and must not share a node (S-145). A label that topology rules are
    ``counted_by`` is unsettled too, and each of its values is a choice (R-62). Of other labels that the pool lists
    values for, the first value is chosen, as no workload asks for them (R-68).
    """
    by_key = {key: list[Requirement]() for key in counted_by & offered.keys()}
    for requirement in asked:
        by_key.setdefault(requirement.key, []).append(requirement)
    choices: list[list[Requirement]] = []  # by unsettled key
    for key in sorted(by_key):
        if _is_unsettled(key, offered.get(key), types, by_key[key]):
            of_key = _choices(
                offered[key],
                types,
                by_key[key],
                may_lack=key not in offered,
                is_counted=key in counted_by,
            )
            choices.append(of_key)
    settled = dict(offered)
    for of_pool in offered.values():
        if _is_choice(of_pool, types):
            first = min(of_pool.values)
            settled[of_pool.key] = Requirement.new(of_pool.key, Operator.IN, (first,))
    for chosen in islice(product(*choices), _COMBINATIONS_MAX):
        yield Requirements({**settled, **{choice.key: choice for choice in chosen}})


def _is_choice(of_pool: Requirement, types: Sequence[InstanceType]) -> bool:
    """Whether the pool alone lists the values of a label, and has no minValues for it."""
    is_listed = (
        of_pool.key not in WELL_KNOWN and not of_pool.complement and bool(of_pool.values)
    )
    return (
        is_listed
        and of_pool.min_values is None
        and not any(of_pool.key in item.requirements for item in types)
    )


def _is_unsettled(
    key: str,
    of_pool: Requirement | None,
    types: Sequence[InstanceType],
    asked: Sequence[Requirement],
) -> bool:
    names_values = any(
        not requirement.complement and requirement.values for requirement in asked
    )
    # A label that the pool does not name is unsettled only if it is well known, as others have no values to choose
    # from, and if some requirement set names values of it, as otherwise no two of them could differ.
    if of_pool is None and not (key in WELL_KNOWN and names_values):
        return False
    return not _is_settled(of_pool) and not all(
        _is_settled(item.requirements.get(key)) for item in types
    )


def _is_settled(requirement: Requirement | None) -> bool:
    return (
        requirement is not None
        and not requirement.complement
        and len(requirement.values) <= 1
    )


# Branches: three loops: over types, over requirements that name values, and over candidate values.
def _choices(
    offered: Requirement,
    types: Sequence[InstanceType],
    asked: Sequence[Requirement],
    *,
    may_lack: bool,
    is_counted: bool,
) -> list[Requirement]:
    """Return an allowed value for each set of requirements that values meet; if ``may_lack``, also the label's absence.

    Values that meet the same requirements of workloads and types are alike, unless topology rules count by the label.
    """
    key = offered.key
    of_types: dict[Requirement, None] = {}  # each once
    for instance_type in types:
        if key in instance_type.requirements:
            of_types[instance_type.requirements[key]] = None
    others = [*asked, *of_types]
    named = set[str]()
    for requirement in (offered, *others):
        if not requirement.complement:
            named.update(requirement.values)
    unnamed = Requirement(key, True, frozenset(named))
    candidates = set(named)
    for requirement in (offered, unnamed, *others):
        candidates.add(offered.intersection(requirement).any_value())
    by_behaviour: dict[tuple[object, ...], str] = {}
    for value in sorted(candidates - {""}):
        if offered.has(value):
            behaviour = [requirement.has(value) for requirement in others]
            by_behaviour.setdefault((is_counted and value, *behaviour), value)
    found = [
        Requirement.new(key, Operator.IN, (value,))
        for value in sorted(by_behaviour.values())
    ]
    if may_lack:
        found.append(Requirement.new(key, Operator.DOES_NOT_EXIST))
    return found


def _types_meeting(entry: Entry, wanted: Requirement) -> int:
    """Return the mask of the entry's types whose instances could meet one requirement (R-11)."""
    of_pool = entry.requirements.get(wanted.key)
    # If neither pool nor type defines a well-known label, a node may still turn out to have the right value.
    may_turn_out = wanted.allows_absence or wanted.key in WELL_KNOWN
    undefined = may_turn_out if of_pool is None else _can_meet(of_pool, wanted)
    mask = 0
    for position, instance_type in enumerate(entry.types):
        of_type = instance_type.requirements.get(wanted.key)
        if of_type is not None and of_pool is not None:
            of_type = of_pool.intersection(of_type)
        if undefined if of_type is None else _can_meet(of_type, wanted):
            mask |= 1 << position
    return mask


def _can_meet(offered: Requirement, wanted: Requirement) -> bool:
    return offered.has_intersection(wanted) or (
        offered.allows_absence and wanted.allows_absence
    )


def _covers(known: Mapping[object, int], masks: Mapping[object, int]) -> bool:
    """Whether, in each place, the requirement sets of ``masks`` are among those of ``known``."""
    return all(not sets & ~known[about] for about, sets in masks.items())
