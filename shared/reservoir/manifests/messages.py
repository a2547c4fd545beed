"""Messages of the demand queue.

A body is JSON: ``{"schemaVersion": 1, "action": ..., ...}``, with an action of ``MESSAGES``. A body without
``schemaVersion`` is version 1. Every version that was ever published stays readable.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field

from reservoir.manifests.kinds.workload import MOST_REPLICAS, WorkloadManifest
from reservoir.manifests.parsing.fields import ObjectName, matching
from reservoir.manifests.parsing.message import SchemaVersion, read_message
from reservoir.manifests.parsing.metadata import ServerSide, WorkloadMetadata
from reservoir.manifests.parsing.model import Model


class SubmitMessage(Model):
    """A workload is wanted, or wanted differently; the higher ``metadata.generation`` wins in any order of arrival."""

    schema_version: SchemaVersion = 1
    action: Literal["submit", "update"]
    workload: WorkloadManifest


class WorkloadReference(Model):
    """Names a workload; the whole manifest may be given, of which only the metadata is read."""

    api_version: Literal["reservoir/v1"] = "reservoir/v1"
    kind: Literal["Workload"] = "Workload"
    metadata: WorkloadMetadata
    spec: Annotated[Any, Field(default=None, exclude=True, description="Not read.")]
    status: ServerSide

    @property
    def key(self) -> str:
        """The identity: ``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class WithdrawMessage(Model):
    """A workload is no longer wanted: its replicas are drained, and submits of its generation or older are ignored."""

    schema_version: SchemaVersion = 1
    action: Literal["withdraw"]
    workload: WorkloadReference


class ReleaseMessage(Model):
    """The answer to ``Node Draining``: replicas of the workload have left the node, ahead of the deadline."""

    schema_version: SchemaVersion = 1
    action: Literal["release"]
    workload: WorkloadReference
    node_claim: ObjectName = Field(description="The nodeClaim of the Node Draining event.")
    replicas: int | None = Field(
        default=None,
        ge=1,
        le=MOST_REPLICAS,
        description="How many have left; absent: all of them.",
    )


class WorkloadInQuestion(WorkloadReference):
    """Names a workload. With a ``spec``, the answer says whether that spec is the stored one."""

    spec: Annotated[
        Any,
        Field(
            default=None,
            description="As it would be submitted; one that no submit could have is not compared.",
        ),
    ]


class DescribeMessage(Model):
    """A question about what is known of the workload. ``Workload Described`` answers on the bus; nothing changes."""

    schema_version: SchemaVersion = 1
    action: Literal["describe"]
    workload: WorkloadInQuestion
    request_id: Annotated[
        str,
        Field(
            max_length=64,
            description="Repeated in the answer, which so tells that it is younger than the question.",
        ),
        AfterValidator(
            matching(
                "request-id",
                r"^[A-Za-z0-9._-]+$",
                "must be letters, digits, '.', '_' and '-'",
            )
        ),
    ]


DemandMessage: TypeAlias = SubmitMessage | WithdrawMessage | ReleaseMessage
AnyMessage: TypeAlias = DemandMessage | DescribeMessage

MESSAGES: Final[dict[str, type[AnyMessage]]] = {
    "submit": SubmitMessage,
    "update": SubmitMessage,
    "withdraw": WithdrawMessage,
    "release": ReleaseMessage,
    "describe": DescribeMessage,
}


def parse_demand(body: str | bytes) -> AnyMessage:
    """Read the body of a demand message.

    Raises
    ------
    ManifestError
        The body is not a message; with all problems that can be found.
    """
    return read_message(body, "action", MESSAGES)
