"""The apply function."""

import time

from shared.core.model.capacity_reservation import CapacityReservation
from shared.runtime.composition.parts.outside import adapters, once
from shared.usecases.policy.apply_policy import ApplyPolicy
from shared.usecases.policy.deploy_policy import DeployPolicy
from shared.usecases.policy.resolve_principals import ResolvePrincipals


@once
def deploy_policy() -> DeployPolicy:
    """Return the application of a deployment's manifests folder."""
    outside = adapters()
    principals = ResolvePrincipals(outside.principals, outside.clock)
    limits = outside.settings.launch_limits

    def reservations() -> list[CapacityReservation]:
        return [record.reservation for record in outside.reservations.list_current()]

    apply = ApplyPolicy(outside.policy, outside.publisher, outside.queue, principals, limits, reservations=reservations)
    return DeployPolicy(apply, pause=time.sleep)
