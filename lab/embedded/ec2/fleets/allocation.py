"""Which pool of a fleet gives which instances: targets, options and strategies over the capacity that there is."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from lab.embedded.ec2.account.slots import fits, open_reservations
from lab.embedded.ec2.account.state import (
    CapacityReservation,
    LaunchSpec,
    Market,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.fleets.order import on_demand_order, spot_order
from lab.embedded.ec2.fleets.plan import Plan, fill, fill_evenly, fill_reservations
from lab.embedded.ec2.fleets.request import FleetRequest, Pool
from lab.embedded.ec2.fleets.reserved import reserved_part
from lab.embedded.ec2.instances.placement import Draft, group_members


def plan_fleet(world: World, request: FleetRequest) -> Plan:
    """Return the launches of an instant fleet: its Spot part, its on-demand part, then the rest by the default type.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``.
    """
    plan, draft = Plan(), Draft(world)
    rest = request.total_units - request.on_demand_units - request.spot_units
    on_demand = request.on_demand_units + (
        rest if request.default_market == "on-demand" else 0
    )
    on_spot = request.spot_units + (rest if request.default_market == "spot" else 0)
    if on_demand:
        plan.absorb(_on_demand_part(world, request, draft, on_demand))
    if on_spot:
        plan.absorb(_spot_part(world, request, draft, on_spot))
    if request.default_market == "capacity-block":
        plan.absorb(fill(draft, request.pools, Market.CAPACITY_BLOCK, Fraction(rest)))
    if request.default_market == "reserved-capacity":
        plan.absorb(reserved_part(world, request, draft, Fraction(rest)))
    return plan


def _on_demand_part(world: World, request: FleetRequest, draft: Draft, units: int) -> Plan:
    options = request.on_demand_options
    pools = sorted(
        request.pools,
        key=on_demand_order(options.get("AllocationStrategy", "lowest-price")),
    )
    if not request.uses_reservations_first:
        return _within_options(draft, pools, Market.ON_DEMAND, units, options)
    # Fleet looks for open reservations itself; a template that names a reservation contradicts that and is not used.
    usable = [p for p in pools if p.spec is None or p.spec.target.reservation_id is None]
    plan = Plan()
    for pool in usable:
        if pool.spec is not None and pool.spec.target.preference != "none":
            fill_reservations(
                draft, plan, pool, Fraction(units), _matching(world, pool.spec)
            )
    if plan.units < units:
        plan.absorb(fill(draft, usable, Market.ON_DEMAND, units - plan.units))
    if plan.units < units:
        for pool in pools:
            if pool not in usable:
                plan.refuse(pool, Market.ON_DEMAND, _unused_template())
    enough = plan.units >= options.get("MinTargetCapacity", 0)
    return plan if enough else Plan(refusals=plan.refusals)


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
    pools = sorted(request.pools, key=spot_order(world, draft, strategy, units))
    if strategy == "diversified":
        return fill_evenly(draft, pools, Market.SPOT, Fraction(units))
    return _within_options(draft, pools, Market.SPOT, units, options)


def _within_options(
    draft: Draft, pools: Sequence[Pool], market: Market, units: int, options: dict[str, Any]
) -> Plan:
    """Fill under SingleInstanceType, SingleAvailabilityZone and MinTargetCapacity (all or nothing)."""
    needed = Fraction(units)
    best: tuple[Plan, Draft] | None = None
    refused = Plan()
    for group in _single_groups(pools, options):
        trial = draft.copy()
        plan = fill(trial, group, market, needed)
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


def _unused_template() -> Ec2Error:
    return Ec2Error(
        "UnfulfillableCapacity",
        "A launch template that targets a capacity reservation is not used with use-capacity-reservations-first.",
    )
