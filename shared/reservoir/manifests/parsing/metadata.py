"""Object metadata, as Kubernetes writes it."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from reservoir.manifests.parsing.fields import (
    Annotations,
    Labels,
    Namespace,
    ObjectName,
    without_nulls,
)
from reservoir.manifests.parsing.model import Model

LARGEST_INTEGER = 2**53 - 1  # what every JSON reader can represent

# What kubectl prints beside the user's own words: accepted, so that printed objects can be applied, and not kept.
ServerSide = Annotated[
    Any,
    Field(
        default=None, exclude=True, repr=False, description="Set by the server; not read."
    ),
]


class Metadata(Model):
    """Metadata of policy objects, which have no namespace."""

    name: ObjectName
    labels: Annotated[Labels, BeforeValidator(without_nulls)] = Field(default_factory=dict)
    annotations: Annotated[Annotations, BeforeValidator(without_nulls)] = Field(
        default_factory=dict
    )
    resource_version: str | None = Field(
        default=None,
        max_length=32,
        exclude=True,
        description="When given, the object is written only if it still has this version.",
    )
    generation: ServerSide
    uid: ServerSide
    creation_timestamp: ServerSide
    managed_fields: ServerSide
    finalizers: ServerSide
    owner_references: ServerSide


class WorkloadMetadata(Model):
    """Metadata of a workload. ``generation`` decides which of two messages is the later one."""

    name: ObjectName
    namespace: Namespace = "default"
    generation: int = Field(
        default=1,
        ge=1,
        le=LARGEST_INTEGER,
        description="Counts the changes; a message with a lower one is old.",
    )
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    uid: ServerSide
    creation_timestamp: ServerSide
    resource_version: ServerSide
