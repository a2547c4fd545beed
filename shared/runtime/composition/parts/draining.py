"""What drains nodes."""

from shared.runtime.adapters import Adapters
from shared.runtime.composition.parts.safety import envelope_from
from shared.usecases.draining.draining import Draining


def draining_from(outside: Adapters) -> Draining:
    """Return the drain protocol."""
    return Draining(
        claims=outside.node_claims,
        workloads=outside.workloads,
        policy=outside.launch_policy,
        terminator=outside.instances,
        envelope=envelope_from(outside),
        publisher=outside.publisher,
        queue=outside.queue,
        clock=outside.clock,
    )
