"""How the planner decides, as far as a deployment chooses it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from constructs import Node

from shared import names

# A node is charged with less than 1,000 USD an hour beside its price; more is a mistake in the unit.
_OVERHEAD_MAX_MICRO_USD: Final = 1_000_000_000
# The planner's time-out is 90 s; reading, checking and committing need the rest.
_SOLVE_BUDGET_MAX_S: Final = 45


@dataclass(frozen=True, slots=True)
class SchedulingConfig:
    """Choices of the planner; each is a context key of the same spelling in camelCase."""

    # Whether preferences of workloads count until they must be given up, or not at all.
    preference_policy: str = names.PREFERENCE_POLICIES[0]
    # Whether a pool's minValues must be met or are wishes.
    min_values_policy: str = names.MIN_VALUES_POLICIES[0]
    # Whether work that says no duration may run in a Capacity Block, whose end it may not survive.
    no_duration_policy: str = names.NO_DURATION_POLICIES[0]
    # How much of the spot nodes of one plan may be of one type in one zone; 100 is no bound.
    spot_pool_share_percent: int = 100
    # Replicas that use less than this part of a reserved slot leave it alone when they can be bought elsewhere.
    reserved_floor_percent: int = 0
    # What a node costs beside its price: volume, agents, calls.
    node_overhead_micro_usd_per_hour: int = 2_000
    # How long a plan may be improved; the first plan is complete long before.
    solve_budget_s: int = 10

    def __post_init__(self) -> None:
        """Refuse what the planner would only refuse at its first start."""
        require_one_of("preferencePolicy", self.preference_policy, names.PREFERENCE_POLICIES)
        require_one_of("minValuesPolicy", self.min_values_policy, names.MIN_VALUES_POLICIES)
        require_one_of("noDurationPolicy", self.no_duration_policy, names.NO_DURATION_POLICIES)
        _require_between("spotPoolSharePercent", self.spot_pool_share_percent, 1, 100)
        _require_between("reservedFloorPercent", self.reserved_floor_percent, 0, 100)
        overhead = self.node_overhead_micro_usd_per_hour
        _require_between("nodeOverheadMicroUsdPerHour", overhead, 0, _OVERHEAD_MAX_MICRO_USD)
        _require_between("solveBudgetS", self.solve_budget_s, 1, _SOLVE_BUDGET_MAX_S)

    @classmethod
    def from_context(cls, node: Node) -> "SchedulingConfig":
        """Read the context of a CDK app; absent keys keep their defaults."""
        given: dict[str, Any] = {
            "preference_policy": node.try_get_context("preferencePolicy"),
            "min_values_policy": node.try_get_context("minValuesPolicy"),
            "no_duration_policy": node.try_get_context("noDurationPolicy"),
            "spot_pool_share_percent": _count(node, "spotPoolSharePercent"),
            "reserved_floor_percent": _count(node, "reservedFloorPercent"),
            "node_overhead_micro_usd_per_hour": _count(node, "nodeOverheadMicroUsdPerHour"),
            "solve_budget_s": _count(node, "solveBudgetS"),
        }
        return cls(**{name: value for name, value in given.items() if value is not None})

    def environment(self) -> dict[str, str]:
        """Return the variables that tell the functions."""
        return {
            names.PREFERENCE_POLICY: self.preference_policy,
            names.MIN_VALUES_POLICY: self.min_values_policy,
            names.NO_DURATION_POLICY: self.no_duration_policy,
            names.SPOT_POOL_SHARE_PERCENT: str(self.spot_pool_share_percent),
            names.RESERVED_FLOOR_PERCENT: str(self.reserved_floor_percent),
            names.NODE_OVERHEAD_MICRO_USD_PER_HOUR: str(self.node_overhead_micro_usd_per_hour),
            names.SOLVE_BUDGET_S: str(self.solve_budget_s),
        }


def require_one_of(key: str, value: str, known: Sequence[str]) -> None:
    """Raise ValueError unless the context key's value is known."""
    if value not in known:
        message = f"{key}: {value!r} must be one of {', '.join(known)}"
        raise ValueError(message)


def _require_between(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        message = f"{key}: {value} must be from {least} to {most}"
        raise ValueError(message)


def _count(node: Node, key: str) -> int | None:
    """Read a whole number; the command line (`-c key=25`) hands over text, JSON numbers may come as floats."""
    value = node.try_get_context(key)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.5
    if isinstance(value, bool) or not number.is_integer():
        message = f"{key}: {value!r} must be a whole number"
        raise ValueError(message)
    return int(number)
