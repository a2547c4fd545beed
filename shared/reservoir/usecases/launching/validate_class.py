"""Ask EC2, by the role that launches, whether a class could be launched: a dry run, before a launch needs it.

The answer only warns. A launch is tried whatever the dry run said: EC2's answer to the launch decides (ADR 250).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reservoir.core.launching.class_validation import claim_to_validate, is_due, validated
from reservoir.core.launching.launch_pools import NoLaunchablePoolError
from reservoir.core.launching.launch_request import (
    LaunchFacts,
    LaunchRequest,
    build_launch_request,
)
from reservoir.core.launching.launch_template import NodeClassUnlaunchableError
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import NodeClass, Validation, ValidationOutcome
from reservoir.ports.ec2 import DryRuns, LaunchTemplateStore
from reservoir.ports.errors import AccessDeniedError, AwsError, ConfigurationError
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.state import (
    OfferingStore,
    ReservationRecord,
    ReservationStore,
    UnreadableRowsError,
)
from reservoir.ports.system import Clock

# errors that stay until a person mends them
_REFUSALS = (AccessDeniedError, ConfigurationError)
# Reasons as Karpenter has them, by the call that was refused.
_REASONS = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}


@dataclass(frozen=True, slots=True)
class ValidateClass:
    """The use case. ``tags``: the tags of everything that the deployment launches."""

    policy: LaunchPolicy
    offerings: OfferingStore
    reservations: ReservationStore
    templates: LaunchTemplateStore
    dry_runs: DryRuns
    clock: Clock
    deployment: str
    for_user_data: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)

    def run(self, node_class_name: str) -> Validation | None:
        """Ask and remember the answer; return it if it is news, None where nothing had to be asked.

        Raises AwsError and UnreadableRowsError of the tables; discovery has it tried again.
        """
        now = self.clock.now()
        node_class = self.policy.node_class(node_class_name)
        if node_class is None or not is_due(node_class, now):
            return None
        of, last = validated(node_class), node_class.status.validation
        refusal = self._refusal(node_class)
        found = Validation(
            of, now, *(refusal or (ValidationOutcome.SUCCEEDED, "ValidationSucceeded", ""))
        )
        before = last if last is not None and last.of == of else None
        # A resource that was just made may not be visible yet, and EC2 calls that unauthorized too: a refusal must come
        # twice in a row.
        confirmed = (
            before is not None
            and before.reason == found.reason
            and before.outcome is not _SUCCEEDED
        )
        if found.outcome is ValidationOutcome.REFUSED and not confirmed:
            found = replace(found, outcome=ValidationOutcome.SUSPECTED)
        self.policy.save_validation(node_class_name, found)
        is_news = before is None or (before.outcome, before.reason) != (
            found.outcome,
            found.reason,
        )
        return found if is_news else None

    def _refusal(self, node_class: NodeClass) -> tuple[ValidationOutcome, str, str] | None:
        """Return outcome, reason and message of what EC2 would refuse; None: nothing."""
        asked: LaunchRequest | None = None
        try:
            asked = self._request(node_class)
            if asked is None:
                message = (
                    "no pool of the class could launch anything that could be asked for"
                )
                return ValidationOutcome.UNKNOWN, "NothingToLaunch", message
            for config in asked.configs:
                self.dry_runs.make_template(config.template)
            for config in asked.configs:
                self.templates.ensure(config.template)
            self.dry_runs.ask_for_fleet(asked)
            self.dry_runs.run_instance(asked)
        except NodeClassUnlaunchableError as error:
            return ValidationOutcome.REFUSED, "Unlaunchable", str(error)
        except _REFUSALS as error:
            self._forget(asked)
            return (
                ValidationOutcome.REFUSED,
                _REASONS.get(error.operation, error.operation),
                _message_of(error),
            )
        except AwsError as error:
            # throttled, a lost answer, a template that is not visible yet
            self._forget(asked)
            return ValidationOutcome.UNKNOWN, "NotAnswered", _message_of(error)
        except (NoLaunchablePoolError, UnreadableRowsError) as error:
            return ValidationOutcome.UNKNOWN, "NothingToLaunch", str(error)
        return None

    def _forget(self, asked: LaunchRequest | None) -> None:
        """Do not believe in templates any more that EC2 may have refused because they are gone."""
        if asked is not None:
            self.templates.forget([config.template.name for config in asked.configs])

    def _request(self, node_class: NodeClass) -> LaunchRequest | None:
        now = self.clock.now()
        pools = self.policy.node_pools_of(node_class.name)
        catalogue = self.offerings.load_catalogue()
        selected = set(node_class.status.reservation_ids)
        known = [
            each.reservation
            for each in self.reservations.list_current()
            if each.reservation.id in selected
        ]
        claim = claim_to_validate(node_class, pools, catalogue, known, now)
        if claim is None:
            return None
        reservation = self._reservation(claim)
        facts = LaunchFacts(
            node_class=replace(node_class, tags={**self.tags, **node_class.tags}),
            catalogue={kind.name: kind for kind in catalogue},
            deployment=self.deployment,
            now=now,
            reservation=None if reservation is None else reservation.reservation,
            for_user_data=self.for_user_data,
        )
        return build_launch_request([claim], facts)

    def _reservation(self, claim: NodeClaim) -> ReservationRecord | None:
        reservation_id = claim.offering.reservation_id
        return None if reservation_id is None else self.reservations.get(reservation_id)


_SUCCEEDED = ValidationOutcome.SUCCEEDED


def _message_of(error: AwsError) -> str:
    return f"{error}: {error.detail}" if error.detail else str(error)
