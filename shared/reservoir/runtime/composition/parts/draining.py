"""What drains nodes."""

from dataclasses import replace

from reservoir.runtime.composition.parts.safety import envelope_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.draining.draining import Draining


def draining_from(outside: Outside) -> Draining:
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
        longest_notice=outside.settings.longest_notice,
    )


def marking_from(outside: Outside) -> Draining:
    """Return the drain protocol for functions that read strangers' messages: it marks nodes that ``react`` ends."""
    return replace(draining_from(outside), terminator=outside.endings)
