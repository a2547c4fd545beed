"""What follows nodes through their lives."""

from functools import cache

from shared.runtime.composition.draining import draining
from shared.runtime.composition.outside import adapters
from shared.runtime.composition.stored_policy import stored_policy
from shared.usecases.draining.block_drains import BlockDrains
from shared.usecases.node_life.broken_capacity import BrokenCapacity
from shared.usecases.node_life.early_ends import EarlyEnds
from shared.usecases.node_life.node_life import NodeLife


@cache
def broken_capacity() -> BrokenCapacity:
    """Return what suspects units of reservations."""
    outside = adapters()
    return BrokenCapacity(outside.boot_failures, outside.capacity_blocks, outside.reservations, outside.publisher)


@cache
def block_drains() -> BlockDrains:
    """Return the watch over the ends of Capacity Blocks."""
    outside = adapters()
    return BlockDrains(
        claims=outside.node_claims,
        workloads=outside.workloads,
        reservations=outside.reservations,
        reader=outside.reservation_reader,
        timers=outside.timers,
        draining=draining(),
    )


@cache
def node_life() -> NodeLife:
    """Return what makes claims follow their instances."""
    outside = adapters()
    return NodeLife(
        claims=outside.node_claims,
        reservations=outside.reservations,
        offerings=outside.offerings,
        policy=stored_policy(),
        instances=outside.instances,
        draining=draining(),
        early_ends=EarlyEnds(outside.shortage_history, outside.offerings, broken_capacity(), outside.publisher),
        publisher=outside.publisher,
    )
