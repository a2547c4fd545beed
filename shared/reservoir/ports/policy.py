"""The policy that operators apply: NodePools, EC2NodeClasses and Teams, with their status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from reservoir.core.model.conditions import Condition
from reservoir.core.model.node_claim import Operation
from reservoir.core.model.node_class import NodeClassStatus

CHANGES_MAX = 100  # DynamoDB's limit of items in one transaction


class PolicyKind(StrEnum):
    """Kinds of policy objects; the value is the manifest's kind."""

    NODE_CLASS = "EC2NodeClass"
    NODE_POOL = "NodePool"
    TEAM = "Team"


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What the product found out about an object.

    ``node_class`` is for classes only. ``principals`` is for teams only: unique ids by the ARN that they had.
    """

    conditions: tuple[Condition, ...] = ()
    node_class: NodeClassStatus = field(default_factory=NodeClassStatus)
    principals: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """Whether operators let a NodePool launch, and their operations, the latest last."""

    is_paused: bool = False
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyObject:
    """A stored object. ``manifest`` is its wire form without status.

    ``generation`` counts changes of the manifest and starts at 1; ``revision`` is the one that an apply must have read,
    and is never used again for the same kind and name, even when the object is deleted and created again. Writing the
    status or the pause changes neither, so that discovery and operators do not disturb each other. Of an object that is
    not ``is_readable`` (a newer release wrote it, or it was damaged) only kind and name are known.
    """

    kind: PolicyKind
    name: str
    manifest: Mapping[str, Any]
    generation: int
    revision: int
    status: PolicyStatus = field(default_factory=PolicyStatus)
    is_readable: bool = True
    pause: Pause = field(default_factory=Pause)


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """Write a manifest; ``expected_revision`` None: there is no such object yet. ``status`` None: as it was."""

    kind: PolicyKind
    name: str
    manifest: Mapping[str, Any]
    generation: int
    expected_revision: int | None
    status: PolicyStatus | None = None


@dataclass(frozen=True, slots=True)
class DeletePolicy:
    """Delete an object."""

    kind: PolicyKind
    name: str
    expected_revision: int


PolicyWrite = PutPolicy | DeletePolicy


class PolicyStore(Protocol):
    """Policy objects."""

    def list_all(self) -> tuple[PolicyObject, ...]:
        """Return all objects by kind and name (consistent enough for a planner: may lag a write by moments).

        Unreadable ones are among them; kinds that this release does not know are not.
        """
        ...

    def get(self, kind: PolicyKind, name: str) -> PolicyObject | None:
        """Return an object (consistent read), None when there is none. Raises UnreadableRowsError."""
        ...

    def commit(self, writes: Sequence[PolicyWrite]) -> None:
        """Write all or nothing, at most ``CHANGES_MAX``.

        A put increases the revision, and keeps the status unless it brings one. Raises ConflictError when an object is
        not at its expected revision.
        """
        ...

    def save_pause(self, name: str, pause: Pause, *, expected: Pause) -> None:
        """Replace a NodePool's pause. Raises ConflictError when it is not the expected one, or the pool is gone."""
        ...

    def save_status(self, kind: PolicyKind, name: str, status: PolicyStatus) -> bool:
        """Replace an object's status; False when nothing was written, as it is equal or the object is gone."""
        ...
