"""Fleets of the target capacity type reserved-capacity."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from lab.embedded.ec2.account.slots import fits, open_reservations
from lab.embedded.ec2.account.state import (
    NOT_STARTED_STATES,
    CapacityReservation,
    LaunchSpec,
    Market,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import (
    Ec2Error,
    insufficient_capacity,
    reservation_exceeded,
)
from lab.embedded.ec2.fleets.order import on_demand_order
from lab.embedded.ec2.fleets.plan import Plan, fill, fill_reservations
from lab.embedded.ec2.fleets.request import FleetRequest, Pool
from lab.embedded.ec2.instances.placement import Draft, group_members


def reserved_part(
    world: World, request: FleetRequest, draft: Draft, units: Fraction
) -> Plan:
    """Fill by reservation type in the given order, then by override priority.

    EC2 chooses at random among several reservations of one type; here they are used in the order in which the request
    (or the resource group) names them, so a test can say which. ``units`` are of target capacity: an instance counts
    with the weight of its pool.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterValue``.
    """
    plan = Plan()
    options = request.reserved_options
    pools = sorted(request.pools, key=lambda p: (p.priority, p.index))
    for kind in map(ReservationKind, options["ReservationTypes"]):
        for pool in pools:
            if pool.spec is None:
                continue
            candidates = [
                r
                for r in _reserved_candidates(world, options, pool.spec)
                if r.kind is kind and fits(r, pool.spec)
            ]
            if candidates:
                fill_reservations(draft, plan, pool, units, candidates)
    fallback = options.get("ReservedCapacityFallbackOptions", {}).get("MarketTypes", [])
    if plan.units < units and "on-demand" in fallback:
        ordered = sorted(
            request.pools,
            key=on_demand_order(
                request.on_demand_options.get("AllocationStrategy", "lowest-price")
            ),
        )
        return _with_fallback(draft, plan, ordered, units)
    if plan.units < units:
        market = ReservationKind(options["ReservationTypes"][0]).market
        for pool in pools:
            plan.refuse(
                pool, market, pool.refusal or _reserved_refusal(world, options, pool)
            )
    return plan


def _reserved_refusal(world: World, options: dict[str, Any], pool: Pool) -> Ec2Error:
    if pool.spec is not None:
        spec = pool.spec
        named = [r for r in _reserved_candidates(world, options, spec) if fits(r, spec)]
        if named and all(r.state in NOT_STARTED_STATES for r in named):
            return insufficient_capacity(spec.instance_type, spec.zone.name)
    return reservation_exceeded()


def _with_fallback(
    draft: Draft, plan: Plan, pools: Sequence[Pool], units: Fraction
) -> Plan:
    for pool in pools:
        if pool.spec is not None:
            loose = replace(
                pool.spec,
                target=replace(
                    pool.spec.target, preference="none", reservation_id=None, group_arn=None
                ),
            )
            plan.absorb(
                fill(
                    draft, [replace(pool, spec=loose)], Market.ON_DEMAND, units - plan.units
                )
            )
    return plan


def _reserved_candidates(
    world: World, options: dict[str, Any], spec: LaunchSpec
) -> Iterator[CapacityReservation]:
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
