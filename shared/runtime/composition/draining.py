"""What drains nodes."""

from functools import cache

from shared.runtime.composition.outside import adapters
from shared.runtime.composition.safety import envelope
from shared.runtime.composition.stored_policy import stored_policy
from shared.usecases.draining.draining import Draining


@cache
def draining() -> Draining:
    """Return the drain protocol."""
    outside = adapters()
    return Draining(
        claims=outside.node_claims,
        workloads=outside.workloads,
        policy=stored_policy(),
        terminator=outside.instances,
        envelope=envelope(),
        publisher=outside.publisher,
        queue=outside.queue,
        clock=outside.clock,
    )
