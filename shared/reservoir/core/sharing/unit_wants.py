"""How many units pending demand would use of each reservation, if it were on that alone; the solve corrects it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reservoir.core.capacity.node_storage import as_launched
from reservoir.core.capacity.offerings import reservation_labels, selected_reservations
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import NO_REQUIREMENTS, Workload
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, NODE_POOL, ZONE, ZONE_ID
from reservoir.core.scheduling_terms.resources import PODS, Resources


@dataclass(frozen=True, slots=True)
class _ReservedPlace:
    """A reservation as a pool reaches it: the certain labels of a node there, and its room."""

    reservation: CapacityReservation
    pool: NodePool
    labels: Mapping[str, str]
    room: Resources


class UnitWants:
    """Answers for one snapshot, each question once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._types = {item.name: item for item in snapshot.instance_types}
        classes = {item.name: item for item in snapshot.node_classes}
        self._places: list[_ReservedPlace] = []
        for pool in snapshot.node_pools:
            node_class = classes.get(pool.node_class_name)
            if node_class is None:
                continue
            for reservation in selected_reservations(snapshot, node_class):
                instance_type = self._types.get(reservation.instance_type)
                if instance_type is not None:
                    room = as_launched(instance_type, node_class).allocatable
                    labels = self._labels(reservation, pool)
                    self._places.append(_ReservedPlace(reservation, pool, labels, room))
        self._accepting: dict[object, tuple[_ReservedPlace, ...]] = {}

    def units(self, workload: Workload, count: int) -> Mapping[str, int]:
        """Return how many units ``count`` replicas would need of each reservation that they could use alone.

        Where classes leave different room on a node of one reservation, the class that leaves most counts.
        """
        most: dict[str, int] = {}
        for place in self._usable(workload):
            per_unit = copies(workload.requests, place.room)
            if per_unit > most.get(place.reservation.id, 0):
                most[place.reservation.id] = per_unit
        return {key: -(-count // per_unit) for key, per_unit in most.items()}

    def _usable(self, workload: Workload) -> Sequence[_ReservedPlace]:
        asked = (workload.node_selector, workload.required_node_terms)
        if asked not in self._accepting:
            self._accepting[asked] = tuple(
                place for place in self._places if _may_accept(workload, place.labels)
            )
        return self._accepting[asked]

    def _labels(
        self, reservation: CapacityReservation, pool: NodePool
    ) -> Mapping[str, str]:
        instance_type: InstanceType = self._types[reservation.instance_type]
        return {
            **instance_type.requirements.labels(),
            **pool.requirements.labels(),
            NODE_POOL: pool.name,
            ZONE: reservation.zone,
            ZONE_ID: reservation.zone_id,
            CAPACITY_TYPE: str(CapacityType.RESERVED.value),
            **reservation_labels(reservation),
        }


def copies(requests: Resources, capacity: Resources) -> int:
    """Return how many replicas with these requests one node of this capacity holds."""
    wanted = {**dict(requests.items()), PODS: max(1, requests[PODS])}
    return min(
        (capacity[name] // amount for name, amount in wanted.items() if amount > 0),
        default=0,
    )


def _may_accept(workload: Workload, labels: Mapping[str, str]) -> bool:
    """Whether the workload may run there, as far as the node's labels are certain."""
    for term in workload.required_node_terms or (NO_REQUIREMENTS,):
        wanted = workload.node_selector.merged(term)
        if all(
            requirement.has(labels[key])
            for key, requirement in wanted.items()
            if key in labels
        ):
            return True
    return False
