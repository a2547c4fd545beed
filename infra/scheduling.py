"""How the planner decides, as far as a deployment chooses it."""

from reservoir import names
from reservoir.deployment.settings import DeploymentSettings


def planner_environment(settings: DeploymentSettings) -> dict[str, str]:
    """Return the variables that tell the functions."""
    return {
        names.PREFERENCE_POLICY: settings.preference_policy,
        names.MIN_VALUES_POLICY: settings.min_values_policy,
        names.NO_DURATION_POLICY: settings.no_duration_policy,
        names.SPOT_TO_SPOT_CONSOLIDATION: str(settings.spot_to_spot_consolidation).lower(),
        names.SPOT_POOL_SHARE_PERCENT: str(settings.spot_pool_share_percent),
        names.RESERVED_FLOOR_PERCENT: str(settings.reserved_floor_percent),
        names.NODE_OVERHEAD_MICRO_USD_PER_HOUR: str(
            settings.node_overhead_micro_usd_per_hour
        ),
        names.SOLVE_BUDGET_S: str(settings.solve_budget_s),
        names.CEILING_MICRO_USD_PER_HOUR: _ceiling(settings.ceiling_micro_usd_per_hour),
        names.CEILING_MICRO_USD_PER_MONTH: _ceiling(settings.ceiling_micro_usd_per_month),
    }


def purchase_ceilings(settings: DeploymentSettings) -> dict[str, str]:
    """Return what the command line is told of what may be bought; no function is."""
    return {
        names.PURCHASE_CEILING_MICRO_USD: _ceiling(settings.purchase_ceiling_micro_usd),
        names.PURCHASE_CEILING_MICRO_USD_PER_MONTH: _ceiling(
            settings.purchase_ceiling_micro_usd_per_month
        ),
    }


def _ceiling(micro_usd: int | None) -> str:
    return names.NO_CEILING if micro_usd is None else str(micro_usd)
