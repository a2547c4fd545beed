"""Applying policy, in somebody's name."""

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.runtime.outside import Outside
from reservoir.usecases.policy.apply_policy import ApplyPolicy
from reservoir.usecases.policy.resolve_principals import ResolvePrincipals
from reservoir.usecases.policy.write_policy import WritePolicy


def apply_policy_from(outside: Outside, by: str) -> ApplyPolicy:
    """Wire it. ``by``: who changes policy, as AWS knows them."""

    def reservations() -> list[CapacityReservation]:
        return [record.reservation for record in outside.reservations.list_current()]

    return ApplyPolicy(
        outside.policy,
        WritePolicy(outside.policy, outside.queue, outside.publisher, by),
        ResolvePrincipals(outside.principals, outside.clock),
        outside.settings.launch_limits,
        reservations=reservations,
    )
