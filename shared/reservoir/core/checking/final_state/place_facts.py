"""What a node would be: of a pool, of a type, in a place. Answers are remembered by type and by place."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from reservoir.core.checking.final_state.demand_facts import DemandFacts
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements

_OF_A_PLACE: Final = (
    frozenset({labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE})
    | labels.RESERVATION_LABELS
    | labels.NETWORK_LABELS
)


class Place(NamedTuple):
    """Where and how offerings are bought, whatever the type."""

    zone: str
    zone_id: str
    capacity_type: CapacityType
    reservation_id: str | None


def place_of(key: OfferingKey) -> Place:
    """Return an offering's place."""
    return Place(key.zone, key.zone_id, key.capacity_type, key.reservation_id)


class PlaceFacts(DemandFacts):
    """Adds facts about types and places, and which workloads accept them."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
    ) -> None:
        super().__init__(snapshot, plan, now, policy)
        self._described: dict[str, Requirements] = {}
        self._possible: dict[tuple[str, str], bool] = {}
        self._bases: dict[tuple[str, str], Requirements] = {}
        self._descriptions: dict[tuple[str, OfferingKey], Requirements | None] = {}
        self._labels: dict[str | None, tuple[Requirement, ...]] = {}
        self._terms_elsewhere: dict[int, tuple[Requirements, ...]] = {}
        self._fitting: dict[tuple[str, str, int], int] = {}
        self._accepted: dict[tuple[str, int, int], dict[Place, bool]] = {}

    # -- types

    def _pool_facts(self, pool: NodePool) -> Requirements:
        """Return what is true of all nodes of the pool."""
        known = self._described.get(pool.name)
        if known is None:
            node_class = self.classes[pool.node_class_name]
            facts = {
                labels.NODE_POOL: pool.name,
                labels.NODE_CLASS: node_class.name,
                labels.INSTANCE_TENANCY: node_class.tenancy,
            }
            known = self._described[pool.name] = Requirements.from_labels(facts)
        return known

    def allows_type(self, pool: NodePool, type_name: str) -> bool:
        """Whether the pool's requirements accept nodes of this type somewhere."""
        known = self._possible.get((pool.name, type_name))
        if known is None:
            wanted = pool.requirements
            ours = self._pool_facts(pool)
            its = self.types[type_name].requirements
            # then only one of them requires each key, and nothing needs to be merged
            if ours.keys().isdisjoint(its):
                known = wanted.intersects(ours) is None and wanted.intersects(its) is None
            else:
                known = wanted.intersects(its.merged(ours)) is None
            self._possible[pool.name, type_name] = known
        return known

    def _base(self, pool: NodePool, type_name: str) -> Requirements:
        """Return what is true of the pool's nodes of a type that it allows, in every place."""
        known = self._bases.get((pool.name, type_name))
        if known is None:
            offered = self.types[type_name].requirements.merged(self._pool_facts(pool))
            known = self._bases[pool.name, type_name] = pool.requirements.merged(offered)
        return known

    # -- places

    def description(self, pool: NodePool, key: OfferingKey) -> Requirements | None:
        """Return what a node of the pool from this offering will be, or None when the pool does not allow it."""
        known = (pool.name, key)
        if known not in self._descriptions:
            is_possible = self.allows_type(pool, key.instance_type)
            place = place_of(key)
            self._descriptions[known] = (
                self._base(pool, key.instance_type).add(*self._place_facts(place))
                if is_possible and self.place_allows(pool.requirements, place)
                else None
            )
        return self._descriptions[known]

    def _place_facts(self, place: Place) -> tuple[Requirement, ...]:
        facts = {
            labels.ZONE: place.zone,
            labels.ZONE_ID: place.zone_id,
            labels.CAPACITY_TYPE: str(place.capacity_type),
        }
        where = (
            Requirement.new(name, Operator.IN, (value,)) for name, value in facts.items()
        )
        return (*where, *self._reservation_labels(place.reservation_id))

    def place_allows(self, wanted: Requirements, place: Place) -> bool:
        """Whether requirements accept where and how something is bought, whatever the type."""
        facts = (
            (labels.ZONE, place.zone),
            (labels.ZONE_ID, place.zone_id),
            (labels.CAPACITY_TYPE, place.capacity_type),
        )
        for name, value in facts:
            requirement = wanted.get(name)
            if requirement is not None and not requirement.has(value):
                return False
        for fact in self._reservation_labels(place.reservation_id):
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
            for key in sorted(labels.RESERVATION_LABELS | labels.NETWORK_LABELS):
                yield Requirement.new(key, Operator.DOES_NOT_EXIST)
            return
        reservation = self.reservations[reservation_id]
        kind = reservation.kind
        block = ReservationKind.CAPACITY_BLOCK
        facts = {
            labels.CAPACITY_RESERVATION_ID: reservation_id,
            labels.CAPACITY_RESERVATION_TYPE: str(
                block if kind is block else ReservationKind.DEFAULT
            ),
            labels.CAPACITY_RESERVATION_INTERRUPTIBLE: "true"
            if kind is ReservationKind.INTERRUPTIBLE
            else "false",
            # a planned launch names its reservation
            labels.CAPACITY_RESERVATION_SETTING: "target",
        }
        if reservation.ultra_server and reservation.capacity_block_id is not None:
            facts[labels.ULTRA_SERVER_ID] = reservation.capacity_block_id
        for layer, node in enumerate(reservation.network_nodes[:3], 1):
            facts[f"topology.k8s.aws/network-node-layer-{layer}"] = node
        for name, value in facts.items():
            yield Requirement.new(name, Operator.IN, (value,))
        for name in sorted(labels.NETWORK_LABELS - facts.keys()):
            yield Requirement.new(name, Operator.DOES_NOT_EXIST)

    # -- which replicas may run there

    def accepts(
        self, pool: NodePool, type_name: str, places: Iterable[Place], workload: Workload
    ) -> bool:
        """Whether requirements and ladder let a replica run on a node of the pool and type in each of the places."""
        offering_class = self.offering_class(workload)
        fitting = self._fitting.get((pool.name, type_name, offering_class))
        if fitting is None:
            fitting = self._fitting[pool.name, type_name, offering_class] = (
                self._fitting_terms(pool, type_name, workload, offering_class)
            )
        accepted = self._accepted.setdefault((pool.name, offering_class, fitting), {})
        for place in places:
            known = accepted.get(place)
            if known is None:
                known = accepted[place] = self._accepts_place(
                    pool, place, workload, fitting
                )
            if not known:
                return False
        return True

    def _accepts_place(
        self, pool: NodePool, place: Place, workload: Workload, fitting: int
    ) -> bool:
        met = [
            term for index, term in enumerate(self.terms(workload)) if fitting >> index & 1
        ]
        return (
            place.capacity_type in self.markets(workload)
            and any(self.place_allows(term, place) for term in met)
            and self.place_allows(pool.requirements, place)
        )

    def _fitting_terms(
        self, pool: NodePool, type_name: str, workload: Workload, offering_class: int
    ) -> int:
        """Return which terms the pool's nodes of this type meet, wherever they are: a bit each."""
        if not self.allows_type(pool, type_name):
            return 0
        terms = self._terms_elsewhere.get(offering_class)
        if terms is None:
            terms = self._terms_elsewhere[offering_class] = tuple(
                term.without(_OF_A_PLACE) for term in self.terms(workload)
            )
        return sum(
            1 << index
            for index, term in enumerate(terms)
            if not term or self._meets(pool, type_name, term)
        )

    def _meets(self, pool: NodePool, type_name: str, term: Requirements) -> bool:
        # Only the requirements of the keys in question: merging all of them for each type would take most of the time.
        said = (
            pool.requirements,
            self.types[type_name].requirements,
            self._pool_facts(pool),
        )
        about_term: list[Requirement] = []
        for key in term:
            about_term.extend(part[key] for part in said if key in part)
        facts = Requirements.of(*about_term)
        return facts.admits(term, labels.WELL_KNOWN)
