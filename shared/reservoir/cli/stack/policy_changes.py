"""Changes of policy: sent to the function that writes them, which learns its caller from AWS."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reservoir.cli.stack.connection import Connection
from reservoir.manifests.answers.policy_request import PolicyRequest, RemovedObject
from reservoir.usecases.policy.apply_policy import PolicyChange


@dataclass(frozen=True, slots=True)
class AskForChanges:
    """Implements ``reservoir.usecases.policy.apply_policy.ChangesPolicy``: the function looks at all of it again."""

    stack: Connection

    def change(self, changes: Sequence[PolicyChange]) -> None:
        """Have them written. Raises ManifestError, ConflictError and AwsError."""
        manifests = [_manifest(change) for change in changes if change.after is not None]
        removed = list(_removed(changes))
        if manifests or removed:
            self.stack.change_policy(PolicyRequest(manifests=manifests, removed=removed))


def _manifest(change: PolicyChange) -> dict[str, Any]:
    """Return what is wanted of an object, at the version that was compared with."""
    after = dict(change.after or {})
    version = "" if change.revision is None else str(change.revision)
    return {**after, "metadata": {**after["metadata"], "resourceVersion": version}}


def _removed(changes: Sequence[PolicyChange]) -> Iterator[RemovedObject]:
    for change in changes:
        if change.after is None and change.revision is not None:
            yield RemovedObject(
                kind=change.kind.value, name=change.name, revision=change.revision
            )
