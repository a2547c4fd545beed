"""Which pools a launch offers to EC2: Karpenter's launch filters on a claim that names its alternatives."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from lab.fakes.values import instance_type, node_claim
from reservoir.core.launching.launch_pools import (
    INSTANCE_TYPES_MAX,
    NoLaunchablePoolError,
    launch_pools,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms import labels

ZONES = {"a": ("us-east-1a", "use1-az1"), "b": ("us-east-1b", "use1-az2")}


def kind(
    name: str, on_demand: dict[str, int], spot: dict[str, int] | None = None, gpus: int = 0
) -> InstanceType:
    """Prices in micro-USD by zone."""
    offerings = [
        Offering(*ZONES[z], CapacityType.ON_DEMAND, price) for z, price in on_demand.items()
    ]
    offerings += [
        Offering(*ZONES[z], CapacityType.SPOT, price) for z, price in (spot or {}).items()
    ]
    return instance_type(
        name, 4, 16, offerings, extra={"nvidia.com/gpu": gpus} if gpus else {}
    )


def key(
    name: str, zone: str = "a", capacity_type: CapacityType = CapacityType.ON_DEMAND
) -> OfferingKey:
    return OfferingKey(name, *ZONES[zone], capacity_type)


def claim(first: OfferingKey, *alternatives: OfferingKey) -> NodeClaim:
    return node_claim("nc-1", offering=first, alternatives=alternatives)


def chosen(
    wanted: NodeClaim,
    *types: InstanceType,
    resting: frozenset[OfferingKey] = frozenset(),
    min_values: Mapping[str, int] = MappingProxyType({}),
) -> list[tuple[str, str]]:
    catalogue = {each.name: each for each in types}
    pools = launch_pools(replace(wanted, min_values=min_values), catalogue, resting)
    return [(pool.offering.instance_type, pool.offering.zone[-1]) for pool in pools]


# S-47, S-50: one block, one pool
def test_a_reserved_claim_has_exactly_its_own_reservation() -> None:
    bound = replace(
        key("p5.48xlarge", capacity_type=CapacityType.RESERVED), reservation_id="cr-1"
    )
    types = (kind("p5.48xlarge", {"a": 98}, gpus=8), kind("m5.large", {"a": 1}))
    assert chosen(claim(bound, key("m5.large")), *types) == [("p5.48xlarge", "a")]


def test_a_reserved_claim_of_an_unknown_type_cannot_launch() -> None:
    bound = replace(
        key("new.large", capacity_type=CapacityType.RESERVED), reservation_id="cr-1"
    )
    with pytest.raises(NoLaunchablePoolError):
        chosen(claim(bound), kind("m5.large", {"a": 1}))


def test_pools_are_in_price_order_with_ties_by_name_and_zone() -> None:
    types = (
        kind("b.large", {"a": 5, "b": 5}),
        kind("a.large", {"a": 5}),
        kind("c.large", {"a": 1}),
    )
    wanted = claim(key("b.large"), key("b.large", "b"), key("a.large"), key("c.large"))
    assert chosen(wanted, *types) == [
        ("c.large", "a"),
        ("a.large", "a"),
        ("b.large", "a"),
        ("b.large", "b"),
    ]


def test_gpu_and_metal_types_go_when_a_plain_one_remains() -> None:  # S-52
    types = (
        kind("g5.large", {"a": 1}, gpus=1),
        kind("m5.metal", {"a": 2}),
        kind("m5.large", {"a": 3}),
    )
    wanted = claim(key("m5.large"), key("g5.large"), key("m5.metal"))
    assert chosen(wanted, *types) == [("m5.large", "a")]
    assert chosen(claim(key("g5.large"), key("m5.metal")), *types) == [
        ("g5.large", "a"),
        ("m5.metal", "a"),
    ]


def test_gpu_types_stay_when_min_values_asks_for_variety() -> None:
    types = (kind("g5.large", {"a": 1}, gpus=1), kind("m5.large", {"a": 3}))
    wanted = claim(key("m5.large"), key("g5.large"))
    assert chosen(wanted, *types, min_values={labels.INSTANCE_TYPE: 2}) == [
        ("g5.large", "a"),
        ("m5.large", "a"),
    ]


def test_spot_dearer_than_the_cheapest_on_demand_goes() -> None:  # S-53
    types = (
        kind("a.large", {"a": 5, "b": 10}),
        kind("b.large", {}, {"a": 1, "b": 2}),
        kind("c.large", {}, {"a": 1, "b": 10}),
    )
    spot = CapacityType.SPOT
    wanted = claim(
        key("b.large", "a", spot),
        key("b.large", "b", spot),
        key("c.large", "a", spot),
        key("c.large", "b", spot),
        key("a.large"),
        key("a.large", "b"),
    )
    assert chosen(wanted, *types) == [("b.large", "a"), ("c.large", "a"), ("b.large", "b")]


def test_without_an_on_demand_alternative_every_spot_price_is_fine() -> None:  # S-55
    types = (kind("b.large", {}, {"a": 1, "b": 200}),)
    spot = CapacityType.SPOT
    assert (
        len(chosen(claim(key("b.large", "a", spot), key("b.large", "b", spot)), *types))
        == 2
    )


def test_only_dear_spot_is_as_nothing() -> None:
    types = (kind("a.large", {"a": 5}, {"a": 9}),)
    with pytest.raises(NoLaunchablePoolError, match="costs more than on-demand"):
        chosen(claim(key("a.large", "a", CapacityType.SPOT), key("a.large")), *types)


def test_on_demand_that_rests_is_no_reason_to_leave_spot_out() -> None:
    """It cannot be had for now: measured by its price, spot would be left out, and the work would wait for it."""
    types = (kind("a.large", {"a": 5, "b": 12}, {"a": 9}),)
    wanted = claim(
        key("a.large", "a", CapacityType.SPOT), key("a.large"), key("a.large", "b")
    )
    assert chosen(wanted, *types, resting=frozenset({key("a.large")})) == [("a.large", "a")]


def test_on_demand_requests_hold_no_spot_pools() -> None:
    types = (kind("a.large", {"a": 5}, {"a": 1}),)
    assert chosen(
        claim(key("a.large"), key("a.large", "a", CapacityType.SPOT)), *types
    ) == [("a.large", "a")]


def test_resting_pools_are_left_out_and_all_resting_is_as_nothing() -> None:
    types = (kind("a.large", {"a": 5, "b": 5}),)
    wanted = claim(key("a.large"), key("a.large", "b"))
    assert chosen(wanted, *types, resting=frozenset({key("a.large")})) == [("a.large", "b")]
    with pytest.raises(NoLaunchablePoolError, match="rests"):
        chosen(wanted, *types, resting=frozenset({key("a.large"), key("a.large", "b")}))


def test_the_sixty_cheapest_types_are_sent_with_all_their_zones() -> None:
    types = [
        kind(f"t{number:03d}.large", {"a": 1000 - number, "b": 1000 - number})
        for number in range(80)
    ]
    keys = [key(each.name, zone) for each in types for zone in "ab"]
    found = chosen(claim(*keys), *types)
    assert len(found) == 2 * INSTANCE_TYPES_MAX
    assert {name for name, _ in found} == {
        f"t{number:03d}.large" for number in range(20, 80)
    }


def test_a_cut_that_breaks_min_values_is_refused_before_ec2_is_called() -> None:  # S-62
    types = [kind(f"t{number:03d}.large", {"a": 1}) for number in range(80)]
    wanted = claim(*(key(each.name) for each in types))
    for asked in ({labels.INSTANCE_TYPE: 70}, {labels.ZONE: 2}):
        with pytest.raises(NoLaunchablePoolError, match="minValues"):
            chosen(wanted, *types, min_values=asked)


def test_an_unknown_price_sorts_last_and_is_not_dropped() -> None:
    types = (kind("a.large", {}), kind("b.large", {"a": 900}))
    assert chosen(claim(key("a.large"), key("b.large")), *types) == [
        ("b.large", "a"),
        ("a.large", "a"),
    ]
