"""Events about replicas, as their nodes report them."""

from typing import ClassVar

from pydantic import AwareDatetime, Field

from reservoir.manifests.event_parts import Event, NodeDetail, WorkloadRef


class ReplicaReady(Event):
    """Replicas run on a node, by their own command's report."""

    detail_type: ClassVar[str] = "Replica Ready"

    node: NodeDetail
    workload: WorkloadRef
    replicas: int = Field(
        description="How many have run on the node in all, those that have finished included."
    )


class ReplicaFailed(Event):
    """A replica's command ended with a failure; its node starts it again, after a pause that grows."""

    detail_type: ClassVar[str] = "Replica Failed"

    node: NodeDetail
    workload: WorkloadRef
    exit_code: int = Field(description="A negative one is the signal that ended it.")
    restarts: int = Field(description="How often it was started again before, in a row.")
    next_start_in_s: int = Field(
        description="How long the node waits before it starts it again."
    )
    is_crash_loop: bool = Field(
        description="It has failed so often in a row that a person should look."
    )
    log_tail: str = Field(
        description="The end of what it wrote; anybody's text, without control characters."
    )


class ReplicaFinished(Event):
    """Replicas have done what they were for: they leave their node and are not demand again."""

    detail_type: ClassVar[str] = "Replica Finished"

    node: NodeDetail
    workload: WorkloadRef
    replicas: int = Field(description="How many have finished now.")
    finished: int = Field(description="How many of the workload have finished in all.")
    wanted: int = Field(description="How many the workload asks for.")
    log_tail: str = Field(
        description="The end of what they wrote; anybody's text, without control characters."
    )


class WorkloadLeftSpot(Event):
    """Interruptions have cost a workload more than spot saved it: its replicas are placed without spot until then.

    Where on-demand nodes cannot serve it, by its own ladder or by its pools, it stays on spot all the same.
    """

    detail_type: ClassVar[str] = "Workload Left Spot"

    workload: WorkloadRef
    until: AwareDatetime
    times: int = Field(
        description="How often it has left spot in a row; it rests from it longer each time."
    )
    reason: str
