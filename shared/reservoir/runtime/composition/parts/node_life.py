"""What follows nodes through their lives."""

from reservoir.ports.messaging import StartTimers
from reservoir.runtime.outside import Outside
from reservoir.usecases.discovery.observe_reservation import ReservationObserver
from reservoir.usecases.discovery.reservation_starts import ReservationStarts
from reservoir.usecases.draining.block_drains import BlockDrains
from reservoir.usecases.draining.draining import Draining
from reservoir.usecases.node_life.broken_capacity import BrokenCapacity
from reservoir.usecases.node_life.early_ends import EarlyEnds
from reservoir.usecases.node_life.node_life import NodeLife


def broken_capacity_from(outside: Outside) -> BrokenCapacity:
    """Return what suspects units of reservations."""
    return BrokenCapacity(
        outside.boot_failures,
        outside.capacity_blocks,
        outside.reservations,
        outside.publisher,
    )


def block_drains_from(outside: Outside, draining: Draining) -> BlockDrains:
    """Return the watch over the ends of Capacity Blocks."""
    return BlockDrains(
        claims=outside.node_claims,
        workloads=outside.workloads,
        reservations=outside.reservations,
        reader=outside.reservation_reader,
        timers=outside.timers,
        draining=draining,
    )


def reservation_starts_from(outside: Outside, timers: StartTimers) -> ReservationStarts:
    """Return what sees reservations begin."""
    return ReservationStarts(
        reservations=outside.reservations,
        reader=outside.reservation_reader,
        observer=ReservationObserver(
            outside.reservations, outside.node_claims, outside.publisher
        ),
        timers=timers,
        queue=outside.queue,
    )


def node_life_from(outside: Outside, draining: Draining) -> NodeLife:
    """Return what makes claims follow their instances."""
    broken = broken_capacity_from(outside)
    return NodeLife(
        claims=outside.node_claims,
        reservations=outside.reservations,
        offerings=outside.offerings,
        policy=outside.launch_policy,
        draining=draining,
        early_ends=EarlyEnds(
            outside.shortage_history, outside.offerings, broken, outside.publisher
        ),
        publisher=outside.publisher,
    )
