"""What an operator decides about a solve: budgets, preferences, floors and shares. All of it is an argument."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD


class MinValuesPolicy(StrEnum):
    """What happens when a pool's minValues cannot be met (R-53)."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class PreferencePolicy(StrEnum):
    """Whether preferences count as requirements until they must be given up (R-47)."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class NoDurationPolicy(StrEnum):
    """Whether work without a duration hint may run in a Capacity Block, whose end it may not survive."""

    PLACE = "Place"
    AVOID = "Avoid"


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """How to decide.

    ``node_overhead_micro_usd_per_hour`` is what a node costs beside its price (root volume, agents, API calls); it is
    part of what is minimised and of the plan's cost, else the optimum buys many small nodes.
    ``spot_pool_share_percent`` bounds how much of the plan's spot nodes one spot pool (type and zone) may hold, once a
    plan has at least ``spot_share_from_nodes`` spot nodes (below that a share has no meaning).
    ``spot_to_spot_consolidation``: whether spot nodes may be replaced by cheaper spot nodes (R-181).
    ``reserved_floor_percent``: replicas that would use less than this part of a reserved slot, and can be bought
    elsewhere, leave the slot alone; 0 keeps rule 3 without exception.
    ``expired`` is asked between steps (a deadline), ``used_percent`` how much of the time until then is used up.
    ``with_certificate``: improve the first plan, and bound its cost.
    """

    node_overhead_micro_usd_per_hour: int = 2_000
    spot_pool_share_percent: int = 100
    spot_share_from_nodes: int = 10
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    no_duration_policy: NoDurationPolicy = NoDurationPolicy.PLACE
    spot_to_spot_consolidation: bool = False
    reserved_floor_percent: int = 0
    alternatives_max: int = 60
    expired: Callable[[], bool] = _never
    with_certificate: bool = False
    used_percent: Callable[[], int] | None = None

    @property
    def overhead_atto_usd(self) -> int:
        """What a node costs beside its price, in atto-USD an hour."""
        return self.node_overhead_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD

    def until(self, percent: int) -> "SchedulingPolicy":
        """Return the policy for a part of the work that must leave time for another part.

        Without a measure of time it is the same policy. ``percent`` may exceed 100: work that began late has a little
        time of its own.
        """
        used_percent = self.used_percent
        if used_percent is None:
            return self
        return replace(
            self,
            expired=lambda: used_percent() >= percent,
            used_percent=lambda: used_percent() * 100 // percent,
        )

    def within_share(self, percent: int) -> Callable[[], bool]:
        """Return whether so much of the time that is left now is used up; without a measure it never is."""
        used_percent = self.used_percent
        if used_percent is None:
            return _never
        began_percent = used_percent()
        end_percent = began_percent + max(0, 100 - began_percent) * percent // 100
        return lambda: used_percent() > end_percent

    def without_deadline(self) -> "SchedulingPolicy":
        """Return the policy with all the time there is."""
        return replace(self, expired=_never, used_percent=None)
