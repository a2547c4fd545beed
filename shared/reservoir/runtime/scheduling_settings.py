"""How the planner decides, as the deployment chose it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from reservoir import names
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.team import Ceiling
from reservoir.core.purchasing.book import Ceilings
from reservoir.runtime.environment import choice, switch, whole_number

_DEFAULT: Final = SchedulingPolicy()
_DEFAULT_SOLVE_BUDGET_S: Final = 10


def scheduling_policy(environment: Mapping[str, str]) -> SchedulingPolicy:
    """Read the operator's part of the policy; absent variables keep the core's defaults. Raises SettingsError."""
    overhead = names.NODE_OVERHEAD_MICRO_USD_PER_HOUR
    share, floor = names.SPOT_POOL_SHARE_PERCENT, names.RESERVED_FLOOR_PERCENT
    return SchedulingPolicy(
        preference_policy=choice(
            environment, names.PREFERENCE_POLICY, _DEFAULT.preference_policy
        ),
        min_values_policy=choice(
            environment, names.MIN_VALUES_POLICY, _DEFAULT.min_values_policy
        ),
        no_duration_policy=choice(
            environment, names.NO_DURATION_POLICY, _DEFAULT.no_duration_policy
        ),
        spot_to_spot_consolidation=switch(
            environment,
            names.SPOT_TO_SPOT_CONSOLIDATION,
            default=_DEFAULT.spot_to_spot_consolidation,
        ),
        spot_pool_share_percent=whole_number(
            environment, share, _DEFAULT.spot_pool_share_percent
        ),
        reserved_floor_percent=whole_number(
            environment, floor, _DEFAULT.reserved_floor_percent
        ),
        node_overhead_micro_usd_per_hour=whole_number(
            environment, overhead, _DEFAULT.node_overhead_micro_usd_per_hour
        ),
    )


def ceiling(environment: Mapping[str, str]) -> Ceiling:
    """Return what everything that is bought may cost. Raises SettingsError."""
    hour = _amount(environment, names.CEILING_MICRO_USD_PER_HOUR)
    return Ceiling(hour, _amount(environment, names.CEILING_MICRO_USD_PER_MONTH))


def purchase_ceilings(environment: Mapping[str, str]) -> Ceilings:
    """Return what purchases of capacity may cost. Raises SettingsError."""
    once = _amount(environment, names.PURCHASE_CEILING_MICRO_USD)
    return Ceilings(once, _amount(environment, names.PURCHASE_CEILING_MICRO_USD_PER_MONTH))


def _amount(environment: Mapping[str, str], name: str) -> int | None:
    is_absent = environment.get(name, names.NO_CEILING) == names.NO_CEILING
    return None if is_absent else whole_number(environment, name, 0)


def solve_budget(environment: Mapping[str, str]) -> timedelta:
    """Return how long a plan may be improved. Raises SettingsError."""
    return timedelta(
        seconds=whole_number(environment, names.SOLVE_BUDGET_S, _DEFAULT_SOLVE_BUDGET_S)
    )
