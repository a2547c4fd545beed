"""Finds out who the principals of a team are, once, when the team is applied.

A role or user that is deleted and created again has another id, so that no principal inherits a team by taking over a
name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reservoir.core.model.conditions import ConditionStatus, ConditionType, team_conditions
from reservoir.manifests.kinds.team import TeamManifest, is_unique_id
from reservoir.ports.policy import PolicyStatus
from reservoir.ports.principals import PrincipalReader
from reservoir.ports.system import Clock


@dataclass(frozen=True, slots=True)
class ResolvePrincipals:
    """Asks IAM."""

    reader: PrincipalReader
    clock: Clock

    def status_of(self, manifest: TeamManifest, before: PolicyStatus) -> PolicyStatus:
        """Return the status of a team that is being applied. Raises AwsError when IAM does not answer."""
        asked = sorted(each for each in manifest.spec.principals if not is_unique_id(each))
        found: Mapping[str, str | None] = {arn: self.reader.unique_id(arn) for arn in asked}
        unresolved = [arn for arn, unique_id in found.items() if unique_id is None]
        return PolicyStatus(
            conditions=team_conditions(
                unresolved, previous=before.conditions, now=self.clock.now()
            ),
            principals={
                arn: unique_id for arn, unique_id in found.items() if unique_id is not None
            },
        )


def unresolved(status: PolicyStatus) -> str | None:
    """Say which principals IAM did not know, or None."""
    for condition in status.conditions:
        if (
            condition.type is ConditionType.PRINCIPALS_RESOLVED
            and condition.status is ConditionStatus.FALSE
        ):
            return condition.message
    return None
