"""Policy that a deployment brings along: the manifests folder as a CloudFormation custom resource.

A folder only adds and changes. A file that is missing, a folder that is not given, a stack that is deleted say nothing
about the nodes that run by that policy: only what the deployment names as removed is deleted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import (
    MANIFEST_NAME,
    MANIFEST_TEXT,
    MANIFESTS_PROPERTY,
    REMOVED_PROPERTY,
)
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.policy import PolicyKind
from reservoir.ports.state import ConflictError
from reservoir.usecases.policy.apply_policy import ApplyPolicy, Name, Outcome

Files = list[tuple[str, str]]

APPLIED: Final = "reservoir-policy"
# The id of a creation that failed, which CloudFormation then deletes.
NOT_APPLIED: Final = "reservoir-policy-not-applied"
_ATTEMPTS_MAX: Final = 6
# The function runs moments after its role was given its permissions, and IAM takes seconds to spread them.
_PERMISSION_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class CustomResourceAnswer:
    """The answer to CloudFormation."""

    succeeded: bool
    physical_id: str
    reason: str = ""
    outcome: Outcome = Outcome(())  # noqa: RUF009 # frozen
    repeated: tuple[str, ...] = ()  # why attempts before the last were not enough


@dataclass(frozen=True, slots=True)
class DeployPolicy:
    """Applies the folder of a deployment, and deletes the objects that the deployment lists as removed."""

    applier: ApplyPolicy
    pause: Callable[[float], None]  # seconds

    def handle(self, request: Mapping[str, Any]) -> CustomResourceAnswer:
        """Serve a custom resource request: Create, Update or Delete. Repeats change nothing.

        Raises
        ------
        AwsError
            AWS refuses: AccessDeniedError after as many attempts as a lost race gets, any other at once.
        ValueError
            Something is named as removed that is of no kind of policy.
        """
        before = request.get("PhysicalResourceId", NOT_APPLIED)
        if request["RequestType"] == "Delete":
            return CustomResourceAnswer(True, before)
        repeated: list[str] = []
        try:
            outcome = self._replace(
                files_of(request),
                removed_names(request["ResourceProperties"].get(REMOVED_PROPERTY, [])),
                repeated,
            )
        except (ManifestError, ConflictError) as error:
            return CustomResourceAnswer(False, before, str(error), repeated=tuple(repeated))
        return CustomResourceAnswer(
            True, APPLIED, outcome=outcome, repeated=tuple(repeated)
        )

    def _replace(
        self, given: Files, removed: Sequence[Name], repeated: list[str]
    ) -> Outcome:
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            try:
                return self.applier.replace(given, removed)
            except (ConflictError, AccessDeniedError) as error:
                if attempt == _ATTEMPTS_MAX:
                    raise
                repeated.append(f"{type(error).__name__}: {error}")
                if isinstance(error, AccessDeniedError):
                    self.pause(_PERMISSION_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")


def files_of(request: Mapping[str, Any]) -> Files:
    """Return the files that a request carries."""
    listed: Sequence[Mapping[str, str]] = request["ResourceProperties"].get(
        MANIFESTS_PROPERTY, []
    )
    return [(file[MANIFEST_NAME], file[MANIFEST_TEXT]) for file in listed]


def removed_names(listed: Sequence[str]) -> list[Name]:
    """Read the ``KIND/NAME`` of objects that a deployment lists as removed. Raises ValueError for any other kind."""
    names: list[Name] = []
    for text in listed:
        kind, _, name = text.partition("/")
        names.append((PolicyKind(kind), name))
    return names
