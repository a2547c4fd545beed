"""When a workload leaves spot: interruptions have cost it more than the lower price gained (rule 8).

::

    gained = (on-demand price - spot price) x time that its spot nodes have run
    lost   = on-demand price x (time to start + work to do again), of each node that EC2 takes back

It leaves after the interruption that makes lost > gained, and rests from spot longer each time.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Final

from reservoir.core.capacity.back_off import doubled
from reservoir.core.capacity.shortage import Shortage
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.workload import FallbackStep, Workload
from reservoir.core.node_life.drain import INTERRUPTION_NOTICE
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import (
    TOLERATE_ALL_PREFER_NO_SCHEDULE,
    binding_taints,
    tolerates_all,
)

# the explanation for users
LEFT_SPOT: Final = "interruptions cost it more than spot saves"
_FIRST_REST: Final = timedelta(hours=1)
_LONGEST_REST: Final = timedelta(hours=24)
# How long after a rest another loss still counts as one more in a row.
_REMEMBERED_FOR: Final = timedelta(hours=24)
_ON_DEMAND: Final = Requirements.from_labels(
    {labels.CAPACITY_TYPE: CapacityType.ON_DEMAND.value}
)
# Without a ladder of its own, everything but spot is open at once.
_ALL_BUT_SPOT: Final = (
    FallbackStep(CapacityType.RESERVED, 0),
    FallbackStep(CapacityType.ON_DEMAND),
)


@dataclass(frozen=True, slots=True)
class SpotRun:
    """How long a spot node took to start, and has run since; prices by the hour."""

    start_s: int
    run_s: int
    spot_price_atto_usd: int
    on_demand_price_atto_usd: int

    @property
    def gained(self) -> int:
        """What on demand would have cost more."""
        return (self.on_demand_price_atto_usd - self.spot_price_atto_usd) * self.run_s

    def lost(self, workload: Workload) -> int:
        """Return what it costs on demand to start again and to repeat the work that the interruption loses."""
        again_s = _work_to_do_again_s(workload, self.run_s)
        return self.on_demand_price_atto_usd * (self.start_s + again_s)


def run_of(
    claim: NodeClaim, on_demand_prices: Mapping[str, int], now: datetime
) -> SpotRun | None:
    """Return the run of a spot node until now; None where the on-demand price is not known."""
    price = on_demand_prices.get(claim.offering.instance_type)
    if price is None:
        return None
    launched_at = claim.launched_at or claim.created_at
    started_at = claim.running_at or now
    return SpotRun(
        max(0, int((started_at - launched_at).total_seconds())),
        max(0, int((now - started_at).total_seconds())),
        claim.price_atto_usd_per_hour,
        price * ATTO_USD_PER_MICRO_USD,
    )


def _work_to_do_again_s(workload: Workload, run_s: int) -> int:
    """Return how much of the time that a node ran is lost with it.

    Work that EC2's notice suffices to save is not lost. Work with an end and without a checkpointPeriod begins again; a
    service, which has no end, loses no work.
    """
    period_s = workload.checkpoint_period_s
    if period_s is None:
        return 0 if workload.duration_s is None else run_s
    is_saved = timedelta(seconds=period_s) <= INTERRUPTION_NOTICE
    return 0 if is_saved else min(run_s, period_s)


def has_lost_more(
    workload: Workload, interrupted: Sequence[SpotRun], others: Sequence[SpotRun] = ()
) -> bool:
    """Whether interruptions of some of a workload's spot nodes lose more than all of them have gained.

    A gang stops when one of its nodes goes: all of them lose work.
    """
    losing = interrupted if workload.gang is None else [*interrupted, *others]
    gained = sum(run.gained for run in (*interrupted, *others))
    return sum(run.lost(workload) for run in losing) > gained


def after_loss(previous: Shortage | None, now: datetime) -> Shortage:
    """Return how long a workload rests from spot after it has lost more than it gained at ``now``.

    Nodes that were on spot already when the rest began may be interrupted in it: these rest no longer.
    """
    if previous is not None and now < previous.until:
        return previous
    is_again = previous is not None and now <= loss_forgotten_at(previous)
    count = 1 + (previous.failure_count if previous is not None and is_again else 0)
    return Shortage(now + doubled(_FIRST_REST, count, longest=_LONGEST_REST), count)


def loss_forgotten_at(shortage: Shortage) -> datetime:
    """Return when a loss stops counting towards the next rest."""
    return shortage.until + _REMEMBERED_FOR


@dataclass(frozen=True, slots=True)
class OnDemandMarket:
    """What can be bought on demand now."""

    node_pools: Sequence[NodePool]
    instance_types: Sequence[InstanceType]
    now: datetime

    def serves(self, workload: Workload) -> bool:
        """Whether a pool allows on demand to a replica, and a type that is large enough is offered so."""
        wanted = [
            workload.node_selector.merged(term) for term in workload.required_node_terms
        ] or [workload.node_selector]
        on_demand = [term.merged(_ON_DEMAND) for term in wanted]
        tolerated = [pool for pool in self.node_pools if _is_tolerated(workload, pool)]
        return any(
            self._sells(workload, pool, term)
            for pool, term in product(tolerated, on_demand)
        )

    def _sells(self, workload: Workload, pool: NodePool, wanted: Requirements) -> bool:
        if not pool.requirements.admits(wanted, labels.WELL_KNOWN):
            return False
        asked = pool.requirements.merged(wanted)
        return any(
            workload.requests.fits_in(each.allocatable)
            and each.requirements.intersects(asked) is None
            and self._is_offered(each)
            for each in self.instance_types
        )

    def _is_offered(self, instance_type: InstanceType) -> bool:
        """Whether the type is to be had on demand now, in some zone."""
        return any(
            offering.capacity_type is CapacityType.ON_DEMAND
            and offering.is_available(self.now)
            for offering in instance_type.offerings
        )


def _is_tolerated(workload: Workload, pool: NodePool) -> bool:
    taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
    # what a workload merely prefers is given up before it waits
    tolerations = (*workload.tolerations, TOLERATE_ALL_PREFER_NO_SCHEDULE)
    return tolerates_all(taints, tolerations) is None


def off_spot(workload: Workload, serves: Callable[[Workload], bool]) -> Workload:
    """Return it with a ladder without spot, if that leaves it on-demand nodes to be bought; else as it is."""
    ladder = tuple(
        step for step in workload.fallback if step.capacity_type is not CapacityType.SPOT
    )
    if workload.fallback and not any(
        step.capacity_type is CapacityType.ON_DEMAND for step in ladder
    ):
        return workload
    if not serves(workload):
        return workload
    return replace(workload, fallback=ladder if workload.fallback else _ALL_BUT_SPOT)


def with_spot_rests(
    workloads: Mapping[str, Workload], resting: Set[str], market: OnDemandMarket
) -> dict[str, Workload]:
    """Return the workloads; the ones that rest from spot exclude it."""
    return {
        key: off_spot(workload, market.serves) if key in resting else workload
        for key, workload in workloads.items()
    }
