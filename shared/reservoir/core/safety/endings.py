"""Kinds of endings that could happen by mistake, and how many of each may happen in a time.

Endings that EC2 forces are of no kind: a block's end, an interruption, planned maintenance, an instance that stopped or
never started. Holding these back would save nothing, and the work would get no warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.model.node_claim import DrainReason

# Bounds count over this time: an accident that comes in small batches meets them like one that comes at once.
WINDOW: Final = timedelta(hours=1)


class EndingKind(StrEnum):
    """Endings that are counted together against one bound."""

    ORPHANS = "orphans"  # instances that no claim knows
    VANISHED = "vanished"  # claims whose instances EC2 does not show any more
    DELETED_POOLS = "deleted-pools"  # nodes whose NodePool was deleted
    # drift, consolidation, units that were lent, rebalance recommendations
    DISRUPTION = "disruption"
    EXPIRY = "expiry"  # nodes older than expireAfter
    UNHEALTHY = "unhealthy"  # nodes whose status checks fail
    # nodes that are empty, surplus in a static pool, or whose last replicas were withdrawn
    SURPLUS = "surplus"
    REQUESTED = "requested"  # nodes that operators drain or delete by hand


_KINDS: Final[Mapping[DrainReason, EndingKind]] = {
    DrainReason.NODE_POOL_DELETED: EndingKind.DELETED_POOLS,
    DrainReason.DRIFT: EndingKind.DISRUPTION,
    DrainReason.CONSOLIDATION: EndingKind.DISRUPTION,
    DrainReason.RECLAIMED: EndingKind.DISRUPTION,
    DrainReason.REBALANCE: EndingKind.DISRUPTION,
    DrainReason.EXPIRED: EndingKind.EXPIRY,
    DrainReason.UNHEALTHY: EndingKind.UNHEALTHY,
    DrainReason.EMPTY: EndingKind.SURPLUS,
    DrainReason.WITHDRAWN: EndingKind.SURPLUS,
    DrainReason.SCALED_DOWN: EndingKind.SURPLUS,
    DrainReason.REQUESTED: EndingKind.REQUESTED,
}


def kind_of(reason: DrainReason) -> EndingKind | None:
    """Return what a drain for this reason is counted as; None when EC2 forces it."""
    return _KINDS.get(reason)


@dataclass(frozen=True, slots=True)
class Bound:
    """How many may end within the window: a share of the fleet, but some always, and never more than ``most_count``.

    A bound that ``latches`` lets nothing more pass once too much was asked for, until a person has looked; without it,
    time makes room again.
    """

    share_percent: int
    least_count: int
    most_count: int
    latches: bool = False

    def limit(self, fleet_count: int) -> int:
        """Return how many nodes of a fleet of this size may end."""
        return min(
            self.most_count, max(self.least_count, fleet_count * self.share_percent // 100)
        )


# What a healthy deployment does not reach in an hour (ADR 58). A training run that is over takes its whole fleet along;
# nothing but a mistake leaves a tenth of it without claims.
DEFAULT_BOUNDS: Final[Mapping[EndingKind, Bound]] = {
    EndingKind.ORPHANS: Bound(10, 3, 50, latches=True),
    EndingKind.VANISHED: Bound(10, 5, 50),
    EndingKind.DELETED_POOLS: Bound(25, 5, 100, latches=True),
    EndingKind.DISRUPTION: Bound(50, 20, 500),
    EndingKind.EXPIRY: Bound(50, 20, 500),
    EndingKind.UNHEALTHY: Bound(20, 3, 50),
    EndingKind.SURPLUS: Bound(100, 100, 1000),
    EndingKind.REQUESTED: Bound(20, 10, 100),
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a deployment; kinds that it does not choose have the defaults."""

    chosen: Mapping[EndingKind, Bound] = field(default_factory=dict)

    def of(self, kind: EndingKind) -> Bound:
        """Return the bound of a kind."""
        return self.chosen.get(kind, DEFAULT_BOUNDS[kind])
