"""The collect function."""

from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.composition.parts.safety import envelope_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.node_life.collect import Collect


@once
def collect() -> Collect:
    """Return the collector."""
    return collect_from(process_outside())


def collect_from(outside: Outside) -> Collect:
    """Wire the collector."""
    return Collect(
        claims=outside.node_claims,
        workloads=outside.workloads,
        attempts=outside.launch_attempts,
        reservations=outside.reservations,
        policy=outside.launch_policy,
        instances=outside.instances,
        terminator=outside.instances,
        tagger=outside.instances,
        templates=outside.launch_templates,
        envelope=envelope_from(outside),
        queue=outside.queue,
        unpublished=outside.unpublished_events,
        clock=outside.clock,
    )
