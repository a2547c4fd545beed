"""Why a static pool has fewer nodes than it wants: who paused it, who uses its units, or what its last plan lacked."""

from dataclasses import dataclass
from datetime import datetime

from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.static_pools.census import Census


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The binding constraint; ``earliest_at`` is when it could change by itself."""

    code: ReasonCode
    message: str
    earliest_at: datetime | None = None


def growth_decision_id(pool_name: str) -> str:
    """Return the id under which the last plan of a static pool's growth is kept."""
    return f"static-pool-{pool_name}"


def shortfall(
    counted: Census, paused: str | None, planned: Plan | None
) -> Shortfall | None:
    """Return why nodes are missing and not on their way; None where none are missing, or where the reason is not known.

    ``paused``: who paused the pool; ``planned``: the stored reason of the last plan of its growth.
    """
    lacking = counted.wanted - counted.there - counted.coming
    if lacking <= 0:
        return None
    if paused is not None:
        return Shortfall(ReasonCode.NODE_POOL_PAUSED, f"paused {paused}")
    in_use = lacking - counted.missing
    if in_use > 0:
        units = "1 unit is" if in_use == 1 else f"{in_use} units are"
        by = "used or held by others, or by nodes that leave"
        return Shortfall(ReasonCode.RESERVATION_FULL, f"{units} {by}")
    if planned is None or not planned.unplaced:
        return None
    why = planned.unplaced[0]
    return Shortfall(why.code, why.message, why.earliest_at)
