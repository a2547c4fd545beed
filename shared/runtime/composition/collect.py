"""The collect function."""

from functools import cache

from shared.runtime.composition.node_life import node_life
from shared.runtime.composition.outside import adapters
from shared.runtime.composition.safety import envelope
from shared.runtime.composition.stored_policy import stored_policy
from shared.usecases.node_life.collect import Collect


@cache
def collect() -> Collect:
    """Return the collector."""
    outside = adapters()
    return Collect(
        claims=outside.node_claims,
        workloads=outside.workloads,
        attempts=outside.launch_attempts,
        reservations=outside.reservations,
        policy=stored_policy(),
        instances=outside.instances,
        terminator=outside.instances,
        tagger=outside.instances,
        templates=outside.launch_templates,
        life=node_life(),
        envelope=envelope(),
        queue=outside.queue,
        clock=outside.clock,
    )
