"""The react function."""

from dataclasses import replace

from reservoir.names import Function, function_name
from reservoir.ports.messaging import Redelivery
from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.runtime.composition.parts.node_life import (
    block_drains_from,
    node_life_from,
    reservation_starts_from,
)
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.discovery.freed_units import FreedUnits
from reservoir.usecases.discovery.observe_reservation import ReservationObserver
from reservoir.usecases.draining.termination_batcher import TerminationBatcher
from reservoir.usecases.node_life.leave_spot import LeaveSpot
from reservoir.usecases.node_life.react import React


@once
def react() -> React:
    """Return the reaction to AWS's events."""
    return react_from(process_outside())


def react_from(outside: Outside) -> React:
    """Wire the reaction to AWS's events."""
    terminations = TerminationBatcher(outside.instances)
    draining = replace(draining_from(outside), terminator=terminations)
    return React(
        claims=outside.node_claims,
        reservations=outside.reservations,
        offerings=outside.offerings,
        shortages=outside.shortage_history,
        instances=outside.instances,
        leave_spot=LeaveSpot(
            claims=outside.node_claims,
            workloads=outside.workloads,
            offerings=outside.offerings,
            shortages=outside.shortage_history,
            publisher=outside.publisher,
        ),
        life=node_life_from(outside, draining),
        draining=draining,
        blocks=block_drains_from(outside, draining),
        terminations=terminations,
        freed=FreedUnits(
            reader=outside.reservation_reader,
            reservations=outside.reservations,
            observer=ReservationObserver(
                outside.reservations, outside.node_claims, outside.publisher
            ),
            queue=outside.queue,
        ),
        starts=reservation_starts_from(outside, outside.start_messages),
        publisher=outside.publisher,
        clock=outside.clock,
        rebalance=outside.settings.rebalance_policy,
        instance_status=outside.settings.instance_status_policy,
    )


@once
def marking_functions() -> frozenset[str]:
    """Return the names of the functions that mark nodes, and end none."""
    deployment = process_outside().settings.deployment
    marking = (Function.INTAKE, Function.FOLLOW)
    return frozenset(function_name(deployment, function) for function in marking)


@once
def redelivery() -> Redelivery:
    """Return what brings failed reactions back within seconds."""
    return process_outside().reactions
