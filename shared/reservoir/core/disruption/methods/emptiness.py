"""Empty nodes are ended: on-demand and spot at once, reserved ones last (R-172, with the difference).

An empty reserved node costs nothing to keep, and its unit belongs to all who share the reservation. So it goes back by
default (ODCR RFC, goal 3), but only after more expensive work had its chance to move onto it; a pool can set otherwise.
"""

from datetime import datetime, timedelta

from reservoir.core.disruption.candidate import Candidate, steady_since


def paid_empty(candidates: list[Candidate]) -> list[Candidate]:
    """Return empty on-demand and spot nodes, in disruption order."""
    return [
        candidate
        for candidate in candidates
        if candidate.is_empty and not candidate.is_reserved
    ]


def reserved_empty(candidates: list[Candidate]) -> list[Candidate]:
    """Return empty reserved nodes, in disruption order."""
    return [
        candidate
        for candidate in candidates
        if candidate.is_empty and candidate.is_reserved
    ]


def kept_reason(candidate: Candidate, now: datetime) -> str | None:
    """Say why the pool keeps an empty reserved node for now (``keepReserved``), or None."""
    keep_s = candidate.pool.disruption.keep_reserved_s
    if keep_s is None:
        return None
    if keep_s == 0:
        return f"NodePool {candidate.pool.name} keeps reserved nodes"
    if now - steady_since(candidate.claim) < timedelta(seconds=keep_s):
        return f"NodePool {candidate.pool.name} keeps reserved nodes for {keep_s} s"
    return None
