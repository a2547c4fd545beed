"""What a fleet will launch, and taking it from pools and reservations one instance after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lab.embedded.ec2.account.state import CapacityReservation, LaunchSpec, Market
from lab.embedded.ec2.api.errors import (
    INSUFFICIENT_CAPACITY,
    Ec2Error,
    reservation_exceeded,
)
from lab.embedded.ec2.fleets.request import Pool
from lab.embedded.ec2.instances.placement import Draft, Slot


@dataclass(frozen=True)
class PlannedLaunch:
    """One instance to start."""

    pool: Pool
    spec: LaunchSpec
    slot: Slot


@dataclass
class Plan:
    """What a fleet will launch and what it could not; ``units`` is the capacity that the launches cover."""

    launches: list[PlannedLaunch] = field(default_factory=list)
    refusals: dict[tuple[int, Market, str], tuple[Pool, Market, Ec2Error]] = field(
        default_factory=dict
    )
    units: Fraction = Fraction(0)

    def add(self, pool: Pool, spec: LaunchSpec, slot: Slot) -> None:
        """Count one launch."""
        self.launches.append(PlannedLaunch(pool, spec, slot))
        self.units += pool.weight

    def refuse(self, pool: Pool, market: Market, error: Ec2Error) -> None:
        """Remember why a pool gave no more; one error per pool, market and code."""
        if error.code == "InvalidCapacityReservationState.PendingActivation":
            # RunInstances names the state; Fleet reports a block that has not started as missing capacity.
            error = Ec2Error(INSUFFICIENT_CAPACITY, error.message)
        self.refusals.setdefault((pool.index, market, error.code), (pool, market, error))

    def absorb(self, other: "Plan") -> None:
        """Add what another plan found."""
        self.launches.extend(other.launches)
        self.units += other.units
        for key, refusal in other.refusals.items():
            self.refusals.setdefault(key, refusal)


def fill(draft: Draft, pools: Sequence[Pool], market: Market, units: Fraction) -> Plan:
    """Take all that each pool gives, in order, until the target is covered."""
    plan = Plan()
    for pool in pools:
        while plan.units < units and _fill_one(draft, plan, pool, market):
            pass
    return plan


def fill_evenly(
    draft: Draft, pools: Sequence[Pool], market: Market, units: Fraction
) -> Plan:
    """Take one instance from each pool in turn."""
    plan, open_pools = Plan(), list(pools)
    while plan.units < units and open_pools:
        for pool in list(open_pools):
            if plan.units < units and not _fill_one(draft, plan, pool, market):
                open_pools.remove(pool)
    return plan


def fill_reservations(
    draft: Draft,
    plan: Plan,
    pool: Pool,
    units: Fraction,
    candidates: list[CapacityReservation],
) -> None:
    """Take the free slots of ``candidates`` in order until ``plan`` covers the target."""
    if pool.spec is None:
        return
    for reservation in candidates:
        market = reservation.kind.market
        while plan.units < units and draft.free_slots(reservation) > 0:
            try:
                spec = replace(pool.spec, market=market)
                plan.add(pool, spec, draft.place_in(spec, reservation))
            except Ec2Error as error:
                plan.refuse(pool, market, error)
                break


def _fill_one(draft: Draft, plan: Plan, pool: Pool, market: Market) -> bool:
    if pool.spec is None:
        plan.refuse(pool, market, pool.refusal or reservation_exceeded())
        return False
    spec = replace(pool.spec, market=market)
    try:
        plan.add(pool, spec, draft.place(spec))
    except Ec2Error as error:
        plan.refuse(pool, market, error)
        return False
    return True
