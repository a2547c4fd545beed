"""A warm node's unit is free: plans are made as if the node were not there.

What a plan then launches into the unit goes onto the node, or the node goes first (``taking``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Snapshot

WarmNodes = Mapping[str, tuple[NodeClaim, ...]]  # by reservation


def warm_nodes(claims: Iterable[NodeClaim]) -> WarmNodes:
    """Return the nodes that keep units of reservations warm, each reservation's by id."""
    found: dict[str, list[NodeClaim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.id):
        reservation_id = claim.offering.reservation_id
        if claim.is_kept_warm and reservation_id is not None:
            found.setdefault(reservation_id, []).append(claim)
    return {key: tuple(nodes) for key, nodes in found.items()}


def offered(
    warm: WarmNodes, reservations: Iterable[CapacityReservation]
) -> tuple[tuple[CapacityReservation, ...], WarmNodes]:
    """Return the reservations with the units of warm nodes as free ones, and the nodes whose units these are.

    While EC2 refuses to launch into a reservation, a node that went would not come again: its warm nodes stay nodes.
    """
    counted: list[CapacityReservation] = []
    given: dict[str, tuple[NodeClaim, ...]] = {}
    for reservation in reservations:
        nodes = warm.get(reservation.id, ())
        if nodes and reservation.refusal is None:
            given[reservation.id] = nodes
            free_units = min(reservation.free_units + len(nodes), reservation.total_count)
            counted.append(replace(reservation, free_units=free_units))
        else:
            counted.append(reservation)
    return tuple(counted), given


def without_warm_nodes(
    snapshot: Snapshot, claims: Iterable[NodeClaim]
) -> tuple[Snapshot, WarmNodes]:
    """Return the world as if warm nodes were not there, and the nodes that it does not show."""
    reservations, unseen = offered(warm_nodes(claims), snapshot.reservations)
    ids = {node.id for nodes in unseen.values() for node in nodes}
    nodes = tuple(node for node in snapshot.nodes if node.claim_id not in ids)
    return replace(snapshot, reservations=reservations, nodes=nodes), unseen
