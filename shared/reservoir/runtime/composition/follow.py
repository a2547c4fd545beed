"""The follow function."""

from reservoir.runtime.composition.parts.draining import marking_from
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.runtime.outside import Outside
from reservoir.usecases.node_life.follow_replicas import FollowReplicas


@once
def follow_replicas() -> FollowReplicas:
    """Return the use case that reads reports about replicas."""
    return follow_replicas_from(process_outside())


def follow_replicas_from(outside: Outside) -> FollowReplicas:
    """Wire the use case that reads reports about replicas."""
    return FollowReplicas(
        claims=outside.node_claims,
        workloads=outside.workloads,
        draining=marking_from(outside),
        publisher=outside.publisher,
        queue=outside.queue,
        clock=outside.clock,
    )
