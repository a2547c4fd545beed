"""Edits of a snapshot: capacity that comes or goes, other prices, changed pools and classes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.capacity.reservation_selection import selected_ids
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
    by_resource_group,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import CapacityReservationSelectorTerm, NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Demand
from reservoir.core.scheduling_terms.labels import closest
from reservoir.core.what_if.added_capacity import AddedCapacity, EditError

ADDED_PREFIX: Final = "with-"  # ids of reservations that do not exist: with-1, with-2 ...
_NOBODY: Final = ""  # their owner
_SCHEDULED: Final = "scheduled"


@dataclass(frozen=True, slots=True)
class WorldEdits:
    """What shall be different. Prices are on-demand prices by instance type, in micro-USD an hour."""

    added: tuple[AddedCapacity, ...] = ()
    removed_ids: tuple[str, ...] = ()
    on_demand_micro_usd_per_hour: Mapping[str, int] = field(default_factory=dict)
    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is different."""
        parts = (
            self.added,
            self.removed_ids,
            self.on_demand_micro_usd_per_hour,
            self.node_pools,
            self.node_classes,
        )
        return any(parts)


@dataclass(frozen=True, slots=True)
class EditedWorld:
    """The snapshot with the edits; ``notes`` are the assumptions that they needed."""

    snapshot: Snapshot
    notes: tuple[str, ...] = ()


def edited(snapshot: Snapshot, edits: WorldEdits, now: datetime) -> EditedWorld:
    """Return the world with the edits: policy first, then what goes, what comes, and prices.

    Raises
    ------
    EditError
        With everything in the edits that names nothing of the snapshot, a line each.
    """
    problems = list(_problems(snapshot, edits))
    if problems:
        raise EditError("\n".join(problems))
    notes: list[str] = []
    world = _with_policy(snapshot, edits, now, notes)
    world = _without(world, frozenset(edits.removed_ids), now, notes)
    for number, added in enumerate(edits.added, start=1):
        world = _with_added(world, added, f"{ADDED_PREFIX}{number}", now)
    types = tuple(
        _priced(item, edits.on_demand_micro_usd_per_hour) for item in world.instance_types
    )
    return EditedWorld(replace(world, instance_types=types), tuple(notes))


# --- what names nothing


def _problems(snapshot: Snapshot, edits: WorldEdits) -> Iterator[str]:
    types = frozenset(item.name for item in snapshot.instance_types)
    zones = zone_ids(snapshot)
    classes = {item.name for item in (*snapshot.node_classes, *edits.node_classes)}
    for added in edits.added:
        yield from _unknown("instance type", added.instance_type, types)
        yield from _unknown("zone", added.zone, {*zones, *zones.values()})
        if added.node_class_name is not None:
            yield from _unknown("EC2NodeClass", added.node_class_name, classes)
    ids = frozenset(item.id for item in snapshot.reservations)
    for removed_id in edits.removed_ids:
        yield from _unknown("reservation", removed_id, ids)
    for name in edits.on_demand_micro_usd_per_hour:
        yield from _unknown("instance type", name, types)


def _unknown(what: str, name: str, known: Collection[str]) -> Iterator[str]:
    if name not in known:
        hint = closest(name, known)
        yield f"there is no {what} {name!a}" + (f"; did you mean {hint}?" if hint else "")


def zone_ids(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the ids of all zones that the snapshot knows, by name."""
    offerings = chain.from_iterable(kind.offerings for kind in snapshot.instance_types)
    subnets = chain.from_iterable(each.status.subnets for each in snapshot.node_classes)
    found = {offering.zone: offering.zone_id for offering in offerings}
    found |= {
        reservation.zone: reservation.zone_id for reservation in snapshot.reservations
    }
    found |= {subnet.zone: subnet.zone_id for subnet in subnets}
    return found


# --- policy


def _with_policy(
    snapshot: Snapshot, edits: WorldEdits, now: datetime, notes: list[str]
) -> Snapshot:
    pools = {item.name: item for item in (*snapshot.node_pools, *edits.node_pools)}
    classes = {item.name: item for item in snapshot.node_classes}
    groups = by_resource_group(snapshot.reservations)
    for node_class in edits.node_classes:
        known = classes.get(node_class.name)
        if known is None:
            notes.append(
                f"EC2NodeClass {node_class.name} is new: assumed that its subnets, security groups, images and instance"
                " profile are found, in every zone"
            )
        elif _selects_otherwise(node_class, known):
            notes.append(
                f"EC2NodeClass {node_class.name}: what its selectors found before is assumed to be found still"
            )
        if node_class.capacity_reservation_selector_terms != _terms(known):
            notes.append(
                f"EC2NodeClass {node_class.name} selects other reservations: those that no class selected before are"
                " not known, and would have to be added"
            )
        status = (
            node_class.status
            if known is None
            else replace(known.status, launch_blocked_reason=None)
        )
        ids = selected_ids(node_class, snapshot.reservations, groups, now)
        # The planner never sees user data either: the edited and the stored class have one form.
        classes[node_class.name] = replace(
            node_class, user_data=None, status=replace(status, reservation_ids=ids)
        )
    by_name = (
        tuple(pools[key] for key in sorted(pools)),
        tuple(classes[key] for key in sorted(classes)),
    )
    return replace(snapshot, node_pools=by_name[0], node_classes=by_name[1])


def _terms(node_class: NodeClass | None) -> tuple[CapacityReservationSelectorTerm, ...]:
    return () if node_class is None else node_class.capacity_reservation_selector_terms


def _selects_otherwise(node_class: NodeClass, known: NodeClass) -> bool:
    return (
        node_class.subnet_selector_terms != known.subnet_selector_terms
        or node_class.security_group_selector_terms != known.security_group_selector_terms
        or node_class.ami_selector_terms != known.ami_selector_terms
    )


# --- what goes


# Branches: comprehensions of a line each, one for each part of the snapshot that changes.
def _without(
    snapshot: Snapshot, ids: frozenset[str], now: datetime, notes: list[str]
) -> Snapshot:
    """Take reservations away. Instances in an on-demand one run on and are paid for; in others they end."""
    if not ids:
        return snapshot
    going = {
        item.id
        for item in snapshot.reservations
        if item.id in ids and item.kind is not ReservationKind.DEFAULT
    }
    ended = [node for node in snapshot.nodes if node.reservation_id in going]
    demoted = sum(node.reservation_id in ids - going for node in snapshot.nodes)
    if ended:
        notes.append(
            f"{_nodes(len(ended))} in {', '.join(sorted(going))} would end, and their replicas be demand again"
        )
    if demoted:
        notes.append(
            f"{_nodes(demoted)} in {', '.join(sorted(ids - going))} would run on, on demand"
        )
    return replace(
        snapshot,
        reservations=tuple(item for item in snapshot.reservations if item.id not in ids),
        node_classes=tuple(_deselected(item, ids) for item in snapshot.node_classes),
        nodes=tuple(
            _demoted(node, ids)
            for node in snapshot.nodes
            if node.reservation_id not in going
        ),
        demands=_demand_again(snapshot, ended, now),
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _deselected(node_class: NodeClass, ids: frozenset[str]) -> NodeClass:
    kept = tuple(each for each in node_class.status.reservation_ids if each not in ids)
    return replace(node_class, status=replace(node_class.status, reservation_ids=kept))


def _demoted(node: Node, ids: frozenset[str]) -> Node:
    if node.reservation_id not in ids:
        return node
    return replace(node, capacity_type=CapacityType.ON_DEMAND, reservation_id=None)


def _demand_again(
    snapshot: Snapshot, ended: Sequence[Node], now: datetime
) -> tuple[Demand, ...]:
    demands = {item.workload.key: item for item in snapshot.demands}
    for node in ended:
        for placed in node.placements:
            workload = snapshot.workloads.get(placed.workload_key)
            if workload is not None:
                known = demands.get(workload.key) or Demand(workload, 0, now)
                demands[workload.key] = replace(
                    known, pending_count=known.pending_count + placed.count
                )
    return tuple(demands[key] for key in sorted(demands))


# --- what comes


# Branches: fields of one reservation, most with a default of their own.
def _with_added(
    snapshot: Snapshot, added: AddedCapacity, identity: str, now: datetime
) -> Snapshot:
    by_name = zone_ids(snapshot)
    by_id = {zone_id: zone for zone, zone_id in by_name.items()}
    zone = by_id.get(added.zone, added.zone)
    users = _users(snapshot.node_classes, added)
    if not users:
        raise EditError(
            f"no EC2NodeClass selects reservations: say who may use {added.count} {added.instance_type}, with for NAME"
        )
    first = users[0]
    is_block = added.end_at is not None
    reservation = CapacityReservation(
        id=identity,
        owner_id=_NOBODY,
        instance_type=added.instance_type,
        zone=zone,
        zone_id=by_name[zone],
        kind=ReservationKind.CAPACITY_BLOCK if is_block else ReservationKind.DEFAULT,
        state=ACTIVE if added.start_at is None or added.start_at <= now else _SCHEDULED,
        total_count=added.count,
        available_count=added.count,
        platform=first.platform,
        tenancy=first.tenancy,
        start_at=added.start_at,
        end_at=added.end_at,
        ultra_server=any(
            it.name == added.instance_type and it.ultra_server
            for it in snapshot.instance_types
        ),
        free_units=added.count,
    )
    names = {item.name for item in users}
    classes = (
        _selecting(item, identity) if item.name in names else item
        for item in snapshot.node_classes
    )
    return replace(
        snapshot,
        reservations=(*snapshot.reservations, reservation),
        node_classes=tuple(classes),
    )


def _users(node_classes: Sequence[NodeClass], added: AddedCapacity) -> list[NodeClass]:
    """Return the classes that may use it; all have one platform and tenancy, as a reservation has."""
    if added.node_class_name is not None:
        return [item for item in node_classes if item.name == added.node_class_name]
    found = [item for item in node_classes if item.capacity_reservation_selector_terms]
    return [
        item
        for item in found
        if (item.platform, item.tenancy) == (found[0].platform, found[0].tenancy)
    ]


def _selecting(node_class: NodeClass, identity: str) -> NodeClass:
    ids = tuple(sorted({*node_class.status.reservation_ids, identity}))
    return replace(node_class, status=replace(node_class.status, reservation_ids=ids))


# --- prices


def _priced(instance_type: InstanceType, prices: Mapping[str, int]) -> InstanceType:
    price = prices.get(instance_type.name)
    if price is None:
        return instance_type
    offerings = tuple(
        replace(item, price_micro_usd_per_hour=price)
        if item.capacity_type is CapacityType.ON_DEMAND
        else item
        for item in instance_type.offerings
    )
    return replace(
        instance_type, offerings=offerings, on_demand_price_micro_usd_per_hour=price
    )
