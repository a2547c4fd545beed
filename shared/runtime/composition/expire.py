"""The expire function."""

from functools import cache

from shared.runtime.composition.draining import draining
from shared.runtime.composition.node_life import block_drains, broken_capacity, node_life
from shared.runtime.composition.outside import adapters
from shared.runtime.composition.stored_policy import stored_policy
from shared.usecases.discovery.observe_reservation import ReservationObserver
from shared.usecases.discovery.reservation_starts import ReservationStarts
from shared.usecases.draining.drain_deadlines import DrainDeadlines
from shared.usecases.node_life.expire import Expire


@cache
def expire() -> Expire:
    """Return the minute's sweep."""
    outside = adapters()
    return Expire(
        claims=outside.node_claims,
        policy=stored_policy(),
        instances=outside.instances,
        health=outside.instances,
        life=node_life(),
        draining=draining(),
        blocks=block_drains(),
        deadlines=DrainDeadlines(outside.node_claims, draining(), outside.timers),
        starts=ReservationStarts(
            reservations=outside.reservations,
            reader=outside.reservation_reader,
            observer=ReservationObserver(outside.reservations, outside.node_claims),
            timers=outside.timers,
            queue=outside.queue,
        ),
        broken=broken_capacity(),
        clock=outside.clock,
        instance_status=outside.settings.instance_status_policy,
    )
