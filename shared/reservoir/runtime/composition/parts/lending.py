"""Lending idle units and taking them back."""

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.runtime.outside import Outside
from reservoir.usecases.lending.lend_units import LendUnits
from reservoir.usecases.provisioning.solver import Solve


def lend_units_from(outside: Outside, policy: SchedulingPolicy, solve: Solve) -> LendUnits:
    """Wire what lends."""
    return LendUnits(
        outside.node_claims,
        outside.unit_lender,
        outside.shortage_history,
        outside.publisher,
        outside.ids,
        outside.settings.deployment,
        policy,
        solve,
    )
