"""What events on the outbound bus are made of."""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from reservoir.core.model.instance_type import CapacityType


class Part(BaseModel):
    """A part of an event's detail."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,  # a cold start pays for the models that it uses only
        strict=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class Event(Part):
    """The detail of one event; ``detail_type`` is EventBridge's detail-type."""

    detail_type: ClassVar[str]

    version: Literal[1] = Field(default=1, description="Version of this detail's form.")

    def detail(self) -> dict[str, Any]:
        """Return the detail as JSON-ready values; absent fields are left out."""
        return self.model_dump(mode="json", exclude_none=True)


class WorkloadRef(Part):
    """Names a workload."""

    namespace: str
    name: str
    generation: int | None = None
    correlation_id: str | None = Field(
        default=None,
        description="The id of the demand message that the workload began with; every line of a log about it has it.",
    )


class PlacedWorkload(WorkloadRef):
    """Replicas of a workload on a node."""

    replicas: int


class OfferingDetail(Part):
    """The offering that was bought, or would have been."""

    instance_type: str
    zone: str
    zone_id: str
    capacity_type: CapacityType
    capacity_reservation_id: str | None = None


class NodeDetail(OfferingDetail):
    """A node with its name here and in EC2."""

    node_claim: str
    node_pool: str
    node_class: str
    instance_id: str | None = None
    price_micro_usd_per_hour: int | None = Field(
        default=None,
        description="Micro-USD an hour; 0 for reserved capacity, which is paid for anyway.",
    )


class NodePlacement(NodeDetail):
    """A node and how many of the workload's replicas are on it."""

    replicas: int
