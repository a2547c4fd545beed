"""The apply function."""

import time

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.runtime.composition.parts.outside import once, process_outside
from reservoir.usecases.policy.apply_policy import ApplyPolicy
from reservoir.usecases.policy.deploy_policy import DeployPolicy
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals


@once
def deploy_policy() -> DeployPolicy:
    """Return the application of a deployment's manifests folder."""
    outside = process_outside()
    principals = ResolvePrincipals(outside.principals, outside.clock)
    limits = outside.settings.launch_limits

    def reservations() -> list[CapacityReservation]:
        return [record.reservation for record in outside.reservations.list_current()]

    apply = ApplyPolicy(
        outside.policy,
        outside.publisher,
        outside.queue,
        principals,
        limits,
        reservations=reservations,
    )
    return DeployPolicy(apply, pause=time.sleep)
