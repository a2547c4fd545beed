"""The expire function."""

from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.runtime.composition.parts.node_life import (
    block_drains_from,
    broken_capacity_from,
    node_life_from,
    reservation_starts_from,
)
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.draining.drain_deadlines import DrainDeadlines
from reservoir.usecases.node_life.expire import Expire


@once
def expire() -> Expire:
    """Return the minute's sweep."""
    return expire_from(process_outside())


def expire_from(outside: Outside) -> Expire:
    """Wire the minute's sweep."""
    draining = draining_from(outside)
    return Expire(
        claims=outside.node_claims,
        policy=outside.launch_policy,
        instances=outside.instances,
        health=outside.instances,
        life=node_life_from(outside, draining),
        draining=draining,
        blocks=block_drains_from(outside, draining),
        deadlines=DrainDeadlines(outside.node_claims, draining, outside.timers),
        starts=reservation_starts_from(outside, outside.timers),
        near_starts=outside.start_messages,
        broken=broken_capacity_from(outside),
        clock=outside.clock,
        instance_status=outside.settings.instance_status_policy,
    )
