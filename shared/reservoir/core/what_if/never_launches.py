"""Pools that can never launch anything, by what is known of EC2 and of their class, and why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from reservoir.core.capacity.offerings import (
    OFFERING_LABELS,
    has_image,
    selected_reservations,
)
from reservoir.core.explaining.pool_reasons import out_of_reach
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_TYPE,
    RESERVATION_LABELS,
    closest,
)
from reservoir.core.scheduling_terms.requirement import Requirement
from reservoir.core.scheduling_terms.resources import Resources, counted
from reservoir.core.solver.problem.catalogue import OfferedPlace, accepts

_PLACE_KEYS = OFFERING_LABELS | RESERVATION_LABELS


@dataclass(frozen=True, slots=True)
class NeverLaunches:
    """A pool that can launch nothing, whatever is free and whichever workload asks; ``reason`` completes "because"."""

    node_pool_name: str
    reason: str


def never_launching(snapshot: Snapshot) -> tuple[NeverLaunches, ...]:
    """Return the pools that can never launch, by name.

    What passes by itself is no reason: full or resting capacity, a reservation that is to come, a class that could not
    be resolved. Without a catalogue nothing is known of any pool but whether its class exists.
    """
    classes = {item.name: item for item in snapshot.node_classes}
    found = []
    for pool in sorted(snapshot.node_pools, key=lambda item: item.name):
        reason = next(_reasons(pool, classes.get(pool.node_class_name), snapshot), None)
        if reason is not None:
            found.append(NeverLaunches(pool.name, reason))
    return tuple(found)


# Branches: one reason after the other, the most basic first.
def _reasons(
    pool: NodePool, node_class: NodeClass | None, snapshot: Snapshot
) -> Iterator[str]:
    """Yield reasons, the most basic first; only the first one counts."""
    if node_class is None:
        hint = closest(pool.node_class_name, [item.name for item in snapshot.node_classes])
        yield f"there is no EC2NodeClass {pool.node_class_name}" + (
            f"; did you mean {hint}?" if hint else ""
        )
        return
    if not snapshot.instance_types:
        return
    types = [
        item
        for item in snapshot.instance_types
        if pool.requirements.meets(item.requirements)
    ]
    if not types:
        yield _no_type(pool, snapshot.instance_types)
        return
    types = [item for item in types if has_image(node_class, item)]
    if not types:
        yield f"EC2NodeClass {node_class.name} has no image of the architecture of its instance types"
        return
    places = list(_places(snapshot, node_class, types))
    wanted = [item for key, item in sorted(pool.requirements.items()) if key in _PLACE_KEYS]
    sold = [place for place in places if accepts(place.labels(), wanted)]
    if not sold:
        lost = out_of_reach(snapshot, node_class, types, wanted)
        yield lost or _no_place(node_class, wanted, [place.labels() for place in places])
    yield from _without_subnet(node_class, sold)
    yield from _limited(pool, types)


def _no_type(pool: NodePool, types: Sequence[InstanceType]) -> str:
    for key, wanted in sorted(pool.requirements.items()):
        having = [item.requirements[key] for item in types if key in item.requirements]
        if having and not any(each.has_intersection(wanted) for each in having):
            known = set(chain.from_iterable(each.values for each in having))
            return f"no instance type has {wanted}{_hint(wanted, known)}"
    return "no instance type meets all of its requirements together, though each of them is met by some"


def _places(
    snapshot: Snapshot, node_class: NodeClass, types: Iterable[InstanceType]
) -> Iterator[OfferedPlace]:
    """Yield where the types are sold or reserved for the class, now or later."""
    names = set()
    for kind in types:
        names.add(kind.name)
        for offering in kind.offerings:
            yield OfferedPlace(offering.zone, offering.zone_id, offering.capacity_type)
    for reservation in selected_reservations(snapshot, node_class):
        if reservation.instance_type in names:
            yield OfferedPlace.of(reservation)


def _no_place(
    node_class: NodeClass, wanted: Sequence[Requirement], sold: Sequence[Mapping[str, str]]
) -> str:
    for requirement in wanted:
        if any(accepts(labels, [requirement]) for labels in sold):
            continue
        if requirement.key == CAPACITY_TYPE and requirement.values == frozenset(
            {CapacityType.RESERVED.value}
        ):
            selects = f"EC2NodeClass {node_class.name} selects no reservation of its types"
            return f"it uses reserved capacity only, and {selects}"
        known = {labels[requirement.key] for labels in sold if requirement.key in labels}
        return f"its instance types are sold nowhere with {requirement}{_hint(requirement, known)}"
    return (
        "its instance types are not sold in the zones, on the markets "
        "and in the reservations that it asks for together"
    )


def _without_subnet(node_class: NodeClass, sold: Sequence[OfferedPlace]) -> Iterator[str]:
    zone_ids = {subnet.zone_id for subnet in node_class.status.subnets}
    if zone_ids and sold and not any(place.zone_id in zone_ids for place in sold):
        zones = ", ".join(sorted({place.zone for place in sold}))
        yield f"EC2NodeClass {node_class.name} has no subnet in {zones}, where its instance types are sold"


def _limited(pool: NodePool, types: Sequence[InstanceType]) -> Iterator[str]:
    for name, limit in sorted((pool.limits or {}).items()):
        if all(counted(item.capacity, name) > limit for item in types):
            yield f"its limit of {name} ({Resources.formatted_amount(name, limit)}) is below each of its instance types"


def _hint(wanted: Requirement, known: Iterable[str]) -> str:
    options = set(known)
    meant = {
        hint for value in wanted.values if (hint := closest(value, options)) is not None
    }
    return f"; did you mean {min(meant)}?" if meant else ""
