"""Which reasons to wait end in a way that can be foreseen."""

from collections.abc import Iterable
from typing import Final

from reservoir.core.model.plan import ReasonCode

# What ends when units become free, reservations begin, or the ladder goes on. Of quotas, limits, refusals and rules
# about where others are nobody knows when they let something through.
FORESEEN: Final = frozenset(
    {
        ReasonCode.RESERVATION_FULL,
        ReasonCode.RESERVATION_NOT_STARTED,
        ReasonCode.DURATION_DOES_NOT_FIT,
        ReasonCode.FALLBACK_NOT_YET,
        ReasonCode.GANG_INCOMPLETE,
    }
)


def is_foreseen(codes: Iterable[ReasonCode]) -> bool:
    """Whether replicas that wait for these reasons wait for something that can be foreseen."""
    return set(codes) <= FORESEEN
