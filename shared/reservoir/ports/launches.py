"""What launches remember (attempts, failures in a row) and what they need to know of the policy."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from reservoir.core.capacity.shortage import Shortage
from reservoir.core.capacity.unavailable_offerings import Remembered
from reservoir.core.launching.launch_outcome import LaunchAttempt, LaunchOutcome
from reservoir.core.model.node_class import NodeClass, Validation
from reservoir.core.model.node_pool import NodePool

R = TypeVar("R", bound=Remembered)


class LaunchAttemptStore(Protocol):
    """The latest attempt of each batch. Reads are consistent, writes are conditional, the first writer wins."""

    def latest(self, batch_id: str) -> LaunchAttempt | None:
        """Return the batch's latest attempt. Raises UnreadableRowsError."""
        ...

    def begin(self, attempt: LaunchAttempt) -> LaunchAttempt:
        """Record an intent if the attempt before it (number - 1) is completed; return the attempt that is stored.

        Raises UnreadableRowsError, and ConflictError when the attempt that was in the way is gone.
        """
        ...

    def leave_unanswered(
        self, attempt: LaunchAttempt, code: str, now: datetime
    ) -> LaunchAttempt:
        """Record that EC2 gave no answer, unless the attempt has an outcome; return the attempt that is stored.

        Raises UnreadableRowsError, and ConflictError when the attempt is gone.
        """
        ...

    def resolve(self, attempt: LaunchAttempt, outcome: LaunchOutcome) -> LaunchAttempt:
        """Record the outcome unless the attempt has one; return the attempt that is stored.

        Raises UnreadableRowsError, and ConflictError when the attempt is gone.
        """
        ...

    def complete(self, attempt: LaunchAttempt) -> None:
        """Close the attempt; one that is closed stays so.

        Raises UnreadableRowsError, and ConflictError when the attempt is gone.
        """
        ...


class ShortageHistory(Protocol):
    """Shortages, including those that are over, for as long as a failed probe would count."""

    def get_many(self, offerings: Collection[Remembered]) -> Mapping[Remembered, Shortage]:
        """Return the shortages of the offerings."""
        ...

    def put(self, shortages: Mapping[Remembered, Shortage]) -> None:
        """Remember shortages."""
        ...

    def begin_probes(
        self, offerings: Collection[R], batch_id: str, now: datetime
    ) -> frozenset[R]:
        """Let the batch probe the offerings that were short; return the ones that others are probing.

        A repeat by the same batch changes nothing. Offerings that were not short lately need no probe. A class is
        probed by a single claim instead of a batch.
        """
        ...

    def forget(self, offerings: Collection[Remembered]) -> None:
        """Delete the shortages: EC2 had capacity again."""
        ...


class LaunchPolicy(Protocol):
    """Pools and classes, as far as launches and drains need them."""

    def node_class(self, name: str) -> NodeClass | None:
        """Return the class with its status (consistent read). Raises UnreadableRowsError."""
        ...

    def node_pool(self, name: str) -> NodePool | None:
        """Return the pool. Raises UnreadableRowsError."""
        ...

    def node_classes(self) -> tuple[NodeClass, ...]:
        """Return all classes, by name. Raises UnreadableRowsError."""
        ...

    def node_pools_of(self, node_class_name: str) -> tuple[NodePool, ...]:
        """Return the readable pools of the class, by name."""
        ...

    def save_validation(self, node_class_name: str, validation: Validation) -> None:
        """Store the result of a dry run of the class; discovery makes a condition of it. Raises UnreadableRowsError."""
        ...

    def block_launches(self, node_class_name: str, reason: str) -> None:
        """Stop launches of the class until it changes: sets ``launch_blocked_reason`` and the condition for users.

        Raises UnreadableRowsError.
        """
        ...
