"""Events about replicas, as their nodes report them."""

from typing import ClassVar

from pydantic import Field

from reservoir.manifests.event_parts import Event, NodeDetail, WorkloadRef


class ReplicaReady(Event):
    """Replicas run on a node, as far as their own command says."""

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
        description="It has failed so often in a row that somebody should look."
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
