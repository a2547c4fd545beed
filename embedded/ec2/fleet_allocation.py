"""Which pool of a fleet gives which instances: allocation strategies over the capacity that there is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from embedded.ec2 import spot
from embedded.ec2.catalogue import instance_types
from embedded.ec2.errors import INSUFFICIENT_CAPACITY, Ec2Error, insufficient_capacity, reservation_exceeded
from embedded.ec2.fleet_request import FleetRequest, Pool
from embedded.ec2.placement import Draft, Slot, group_members
from embedded.ec2.prices import on_demand_micro_usd_per_hour
from embedded.ec2.slots import fits, open_reservations
from embedded.ec2.state import NOT_STARTED_STATES, CapacityReservation, LaunchSpec, Market, ReservationKind
from embedded.ec2.world import World

SortKey = Callable[[Pool], tuple[Any, ...]]


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
    refusals: dict[tuple[int, Market, str], tuple[Pool, Market, Ec2Error]] = field(default_factory=dict)
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


def plan_fleet(world: World, request: FleetRequest) -> Plan:
    """Return the launches of an instant fleet: its Spot part, its on-demand part, then the rest by the default type."""
    plan, draft = Plan(), Draft(world)
    rest = request.total_units - request.on_demand_units - request.spot_units
    on_demand = request.on_demand_units + (rest if request.default_market == "on-demand" else 0)
    on_spot = request.spot_units + (rest if request.default_market == "spot" else 0)
    if on_demand:
        plan.absorb(_on_demand_part(world, request, draft, on_demand))
    if on_spot:
        plan.absorb(_spot_part(world, request, draft, on_spot))
    if request.default_market == "capacity-block":
        plan.absorb(_fill(draft, request.pools, Market.CAPACITY_BLOCK, Fraction(rest)))
    if request.default_market == "reserved-capacity":
        plan.absorb(_reserved_part(world, request, draft, Fraction(rest)))
    return plan


def _on_demand_part(world: World, request: FleetRequest, draft: Draft, units: int) -> Plan:
    options = request.on_demand_options
    pools = sorted(request.pools, key=_on_demand_key(options.get("AllocationStrategy", "lowest-price")))
    if not request.uses_reservations_first:
        return _within_options(draft, pools, Market.ON_DEMAND, units, options)
    # Fleet looks for open reservations itself; a template that names a reservation contradicts that and is not used.
    usable = [p for p in pools if p.spec is None or p.spec.target.reservation_id is None]
    plan = Plan()
    for pool in usable:
        if pool.spec is not None and pool.spec.target.preference != "none":
            _fill_reservations(draft, plan, pool, Fraction(units), _matching(world, pool.spec))
    if plan.units < units:
        plan.absorb(_fill(draft, usable, Market.ON_DEMAND, units - plan.units))
    if plan.units < units:
        for pool in pools:
            if pool not in usable:
                plan.refuse(pool, Market.ON_DEMAND, _unused_template())
    return plan


def _matching(world: World, spec: LaunchSpec) -> list[CapacityReservation]:
    if spec.target.group_arn is not None:
        return [
            r
            for r in group_members(world, spec.target.group_arn)
            if r.kind is ReservationKind.ON_DEMAND and fits(r, spec)
        ]
    return open_reservations(world, spec)


def _spot_part(world: World, request: FleetRequest, draft: Draft, units: int) -> Plan:
    options = request.spot_options
    strategy = options.get("AllocationStrategy", "lowest-price")
    pools = sorted(request.pools, key=_spot_key(world, draft, strategy, units))
    if strategy == "diversified":
        return _fill_evenly(draft, pools, Market.SPOT, Fraction(units))
    return _within_options(draft, pools, Market.SPOT, units, options)


def _reserved_part(world: World, request: FleetRequest, draft: Draft, units: Fraction) -> Plan:
    """Fill by reservation type in the given order, then by override priority.

    EC2 chooses at random among several reservations of one type; here they are used in the order in which the request
    (or the resource group) names them, so a test can say which.
    """
    plan = Plan()
    options = request.reserved_options
    pools = sorted(request.pools, key=lambda p: (p.priority, p.index))
    for kind in map(ReservationKind, options["ReservationTypes"]):
        for pool in pools:
            if pool.spec is None:
                continue
            candidates = [
                r for r in _reserved_candidates(world, options, pool.spec) if r.kind is kind and fits(r, pool.spec)
            ]
            if candidates:
                _fill_reservations(draft, plan, pool, units, candidates)
    fallback = options.get("ReservedCapacityFallbackOptions", {}).get("MarketTypes", [])
    if plan.units < units and "on-demand" in fallback:
        ordered = sorted(
            request.pools, key=_on_demand_key(request.on_demand_options.get("AllocationStrategy", "lowest-price"))
        )
        return _with_fallback(draft, plan, ordered, units)
    if plan.units < units:
        market = ReservationKind(options["ReservationTypes"][0]).market
        for pool in pools:
            plan.refuse(pool, market, pool.refusal or _reserved_refusal(world, options, pool))
    return plan


def _reserved_refusal(world: World, options: dict[str, Any], pool: Pool) -> Ec2Error:
    if pool.spec is not None:
        spec = pool.spec
        named = [r for r in _reserved_candidates(world, options, spec) if fits(r, spec)]
        if named and all(r.state in NOT_STARTED_STATES for r in named):
            return insufficient_capacity(spec.instance_type, spec.zone.name)
    return reservation_exceeded()


def _with_fallback(draft: Draft, plan: Plan, pools: Sequence[Pool], units: Fraction) -> Plan:
    for pool in pools:
        if pool.spec is not None:
            loose = replace(
                pool.spec, target=replace(pool.spec.target, preference="none", reservation_id=None, group_arn=None)
            )
            plan.absorb(_fill(draft, [replace(pool, spec=loose)], Market.ON_DEMAND, units - plan.units))
    return plan


def _reserved_candidates(world: World, options: dict[str, Any], spec: LaunchSpec) -> Iterator[CapacityReservation]:
    target = options.get("CapacityReservationTarget", {})
    ids = list(target.get("CapacityReservationIds", []))
    groups = list(target.get("CapacityReservationResourceGroupArns", []))
    if not ids and not groups:
        ids = [spec.target.reservation_id] if spec.target.reservation_id else []
        groups = [spec.target.group_arn] if spec.target.group_arn else []
    yield from (world.reservation(i) for i in ids)
    for arn in groups:
        yield from group_members(world, arn)
    if not ids and not groups:
        yield from open_reservations(world, spec)


def _fill_reservations(
    draft: Draft, plan: Plan, pool: Pool, units: Fraction, candidates: list[CapacityReservation]
) -> None:
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


def _within_options(draft: Draft, pools: Sequence[Pool], market: Market, units: int, options: dict[str, Any]) -> Plan:
    """Fill under SingleInstanceType, SingleAvailabilityZone and MinTargetCapacity (all or nothing)."""
    needed = Fraction(units)
    best: tuple[Plan, Draft] | None = None
    refused = Plan()
    for group in _single_groups(pools, options):
        trial = draft.copy()
        plan = _fill(trial, group, market, needed)
        refused.refusals.update(plan.refusals)
        if best is None or plan.units > best[0].units:
            best = (plan, trial)
        if plan.units >= needed:
            break
    if best is None or best[0].units < options.get("MinTargetCapacity", 0):
        return Plan(refusals=refused.refusals)
    draft.adopt(best[1])
    if best[0].units >= needed:
        return best[0]
    return Plan(best[0].launches, refused.refusals, best[0].units)


def _single_groups(pools: Sequence[Pool], options: dict[str, Any]) -> list[list[Pool]]:
    """Return the pools grouped by what must be single, in the order of each group's first pool."""
    groups: dict[tuple[str, ...], list[Pool]] = {}
    for pool in pools:
        key: list[str] = []
        if pool.spec is not None and options.get("SingleInstanceType"):
            key.append(pool.spec.instance_type)
        if pool.spec is not None and options.get("SingleAvailabilityZone"):
            key.append(pool.spec.zone.name)
        groups.setdefault(tuple(key), []).append(pool)
    return list(groups.values())


def _fill(draft: Draft, pools: Sequence[Pool], market: Market, units: Fraction) -> Plan:
    """Take all that each pool gives, in order, until the target is covered."""
    plan = Plan()
    for pool in pools:
        while plan.units < units and _fill_one(draft, plan, pool, market):
            pass
    return plan


def _fill_evenly(draft: Draft, pools: Sequence[Pool], market: Market, units: Fraction) -> Plan:
    """Take one instance from each pool in turn."""
    plan, open_pools = Plan(), list(pools)
    while plan.units < units and open_pools:
        for pool in list(open_pools):
            if plan.units < units and not _fill_one(draft, plan, pool, market):
                open_pools.remove(pool)
    return plan


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


def _on_demand_key(strategy: str) -> SortKey:
    def by_price(pool: Pool) -> tuple[Any, ...]:
        return (_unit_price(pool, _on_demand_price(pool)), pool.index)

    def by_priority(pool: Pool) -> tuple[Any, ...]:
        return (pool.priority, pool.index)

    return by_priority if strategy == "prioritized" else by_price


def _spot_key(world: World, draft: Draft, strategy: str, units: int) -> SortKey:
    """Return the order of Spot pools.

    EC2 does not publish how it rates capacity. Here a pool either can hold the whole request or has as much as it has;
    strategies that look at capacity first compare that, and only then price or priority.
    """

    def price(pool: Pool) -> Fraction:
        if pool.spec is None or pool.spec.instance_type not in instance_types():
            return Fraction(0)
        return _unit_price(pool, spot.price_micro_usd_per_hour(world, pool.spec.instance_type, pool.spec.zone.name))

    def missing(pool: Pool) -> int:
        free = draft.free_hardware(replace(pool.spec, market=Market.SPOT)) if pool.spec is not None else 0
        return 0 if free is None else max(0, units - free)

    if strategy in {"price-capacity-optimized", "capacity-optimized"}:
        return lambda pool: (missing(pool), price(pool), pool.index)
    if strategy == "capacity-optimized-prioritized":
        return lambda pool: (missing(pool), pool.priority, price(pool), pool.index)
    return lambda pool: (price(pool), pool.index)


def _on_demand_price(pool: Pool) -> int:
    known = pool.spec is not None and pool.spec.instance_type in instance_types()
    return on_demand_micro_usd_per_hour(pool.spec.instance_type) if known and pool.spec is not None else 0


def _unit_price(pool: Pool, micro_usd_per_hour: int) -> Fraction:
    return Fraction(micro_usd_per_hour) / pool.weight


def _unused_template() -> Ec2Error:
    return Ec2Error(
        "UnfulfillableCapacity",
        "A launch template that targets a capacity reservation is not used with use-capacity-reservations-first.",
    )
