"""The amount that a change of on-demand reservations counts as: what it commits to, or what it may cost in a month.

An on-demand reservation is billed by the second for as long as it is there, at on-demand rates at most.
"""

from datetime import datetime, timedelta
from typing import Final

COUNTED_AT_MOST: Final = timedelta(days=30)
_CENT_MICRO_USD: Final = 10_000
_HOUR_S: Final = 3600


def counted_until(start_at: datetime, end_at: datetime | None) -> datetime:
    """Return until when a reservation without a commitment counts: its end, within thirty days."""
    latest = start_at + COUNTED_AT_MOST
    return latest if end_at is None else min(end_at, latest)


def cost_micro_usd(price_micro_usd_per_hour: int, count: int, seconds: int) -> int:
    """Return what so many units cost for so long, rounded up to a cent."""
    exact = -(-price_micro_usd_per_hour * count * seconds // _HOUR_S)
    return -(-exact // _CENT_MICRO_USD) * _CENT_MICRO_USD
