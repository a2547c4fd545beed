"""Fleets of the target capacity types capacity-block and reserved-capacity."""

from typing import Any

import pytest

from lab.worlds.cloud import (
    TYPE,
    ZONE_A,
    ZONE_B,
    Cloud,
    config,
    error_codes,
    launched,
    override,
    refused,
)

GPU = "p5.48xlarge"
BLOCK: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}
INTERRUPTIBLE: dict[str, Any] = {
    "InstanceMarketOptions": {"MarketType": "interruptible-capacity-reservation"}
}


def block(cloud: Cloud, count: int = 2, **payload: Any) -> str:
    request = {"instance_type": GPU, "zone": ZONE_A, "count": count} | payload
    reservation_id: str = cloud.control("purchase_capacity_block", **request)[
        "capacity_reservation_id"
    ]
    return reservation_id


def interruptible(cloud: Cloud, count: int = 2, instance_type: str = TYPE) -> str:
    answer = cloud.control(
        "create_interruptible", instance_type=instance_type, zone=ZONE_A, count=count
    )
    reservation_id: str = answer["capacity_reservation_id"]
    return reservation_id


def options(
    *kinds: str, ids: list[str] | None = None, groups: list[str] | None = None, **more: Any
) -> dict[str, Any]:
    target: dict[str, Any] = {}
    if ids:
        target = {"CapacityReservationTarget": {"CapacityReservationIds": ids}}
    if groups:
        target = {
            "CapacityReservationTarget": {"CapacityReservationResourceGroupArns": groups}
        }
    return {
        "ReservationTypes": list(kinds),
        "AllocationStrategy": "prioritized",
        **target,
        **more,
    }


ODCR, CB, ICR = (
    "on-demand-capacity-reservation",
    "capacity-block",
    "interruptible-capacity-reservation",
)


def test_a_block_fleet_launches_into_the_block_and_nowhere_else(cloud: Cloud) -> None:
    reserved = block(cloud)
    answer = cloud.fleet(
        [config(cloud.template(target=reserved, **BLOCK), override(GPU))],
        total=3,
        default="capacity-block",
    )
    assert [e["Lifecycle"] for e in answer["Instances"]] == ["capacity-block"]
    assert error_codes(answer) == ["ReservationCapacityExceeded"]
    shown = cloud.instance(launched(answer)[0])
    assert (shown["CapacityReservationId"], shown["InstanceLifecycle"]) == (
        reserved,
        "capacity-block",
    )
    assert shown["CapacityBlockId"] == cloud.reservation(reserved)["CapacityBlockId"]


def test_a_block_fleet_uses_one_block_only(cloud: Cloud) -> None:
    first, second = block(cloud), block(cloud, zone=ZONE_B)
    configs = [
        config(cloud.template(target=first, **BLOCK), override(GPU)),
        config(cloud.template(target=second, **BLOCK), override(GPU, ZONE_B)),
    ]
    with refused("InvalidParameterCombination"):
        cloud.fleet(configs, default="capacity-block")


def test_a_block_that_has_not_started_is_missing_capacity_for_fleet_and_a_state_for_run(
    cloud: Cloud,
) -> None:
    reserved = block(cloud, start_in_s=3600)
    template = cloud.template(target=reserved, **BLOCK)
    answer = cloud.fleet([config(template, override(GPU))], default="capacity-block")
    assert error_codes(answer) == ["InsufficientInstanceCapacity"]
    by_id = cloud.fleet(
        [config(cloud.template(), override(GPU))],
        default="reserved-capacity",
        ReservedCapacityOptions=options(CB, ids=[reserved]),
    )
    assert error_codes(by_id) == ["InsufficientInstanceCapacity"]
    with refused("InvalidCapacityReservationState.PendingActivation"):
        cloud.run(InstanceType=GPU, LaunchTemplate={"LaunchTemplateId": template})


@pytest.mark.parametrize("default", ["on-demand", "spot"])
def test_a_block_template_does_not_fit_other_markets(cloud: Cloud, default: str) -> None:
    with refused("InvalidParameterCombination"):
        cloud.fleet(
            [config(cloud.template(target=block(cloud), **BLOCK), override(GPU))],
            default=default,
        )


def test_a_block_is_not_entered_without_its_market_type(cloud: Cloud) -> None:
    answer = cloud.fleet([config(cloud.template(target=block(cloud)), override(GPU))])
    assert error_codes(answer) == ["InvalidParameterCombination"]


def test_types_are_used_up_in_the_order_given(cloud: Cloud) -> None:
    plain = cloud.reserve(1, InstanceType=GPU)
    bought, lent = block(cloud, 1), interruptible(cloud, 1, GPU)
    configs = [config(cloud.template(), override(GPU))]
    answer = cloud.fleet(
        configs,
        total=3,
        default="reserved-capacity",
        ReservedCapacityOptions=options(ICR, CB, ODCR, ids=[plain, bought, lent]),
    )
    used = [
        (e["Lifecycle"], cloud.instance(e["InstanceIds"][0])["CapacityReservationId"])
        for e in answer["Instances"]
    ]
    assert used == [(ICR, lent), (CB, bought), ("on-demand", plain)]
    shown = [cloud.instance(i).get("InstanceLifecycle") for i in launched(answer)]
    assert shown == [ICR, CB, None]


def test_types_that_are_not_listed_are_not_used(cloud: Cloud) -> None:
    plain, bought = cloud.reserve(1, InstanceType=GPU), block(cloud, 1)
    configs = [config(cloud.template(), override(GPU))]
    answer = cloud.fleet(
        configs,
        total=2,
        default="reserved-capacity",
        ReservedCapacityOptions=options(CB, ids=[plain, bought]),
    )
    assert [cloud.instance(i)["CapacityReservationId"] for i in launched(answer)] == [
        bought
    ]
    assert [(e["Lifecycle"], e["ErrorCode"]) for e in answer["Errors"]] == [
        (CB, "ReservationCapacityExceeded")
    ]


def test_priorities_of_overrides_order_the_pools(cloud: Cloud) -> None:
    cheap, dear = cloud.reserve(1, InstanceType="c5.large"), cloud.reserve(1)
    overrides = (override("c5.large", Priority=2), override(TYPE, Priority=1))
    answer = cloud.fleet(
        [config(cloud.template(), *overrides)],
        default="reserved-capacity",
        ReservedCapacityOptions=options(ODCR, ids=[cheap, dear]),
    )
    assert cloud.instance(launched(answer)[0])["CapacityReservationId"] == dear


def test_several_reservations_of_one_pool_are_used_in_the_order_named(cloud: Cloud) -> None:
    first, second = cloud.reserve(1), cloud.reserve(2)
    answer = cloud.fleet(
        [config(cloud.template())],
        total=3,
        default="reserved-capacity",
        ReservedCapacityOptions=options(ODCR, ids=[second, first]),
    )
    assert [cloud.instance(i)["CapacityReservationId"] for i in launched(answer)] == [
        second,
        second,
        first,
    ]


def test_a_group_may_mix_kinds(cloud: Cloud) -> None:
    plain, bought = cloud.reserve(1, InstanceType=GPU), block(cloud, 1)
    arn = cloud.control(
        "create_group", name="mixed", capacity_reservation_ids=[plain, bought]
    )["arn"]
    ways: tuple[dict[str, Any], ...] = ({"groups": [arn]}, {})
    for how in ways:
        answer = cloud.fleet(
            [config(cloud.template(target=arn), override(GPU))],
            default="reserved-capacity",
            ReservedCapacityOptions=options(CB, ODCR, **how),
        )
        assert len(launched(answer)) == 1
    assert (cloud.available(plain), cloud.available(bought)) == (0, 0)


def test_a_template_may_name_its_interruptible_reservation(cloud: Cloud) -> None:
    lent, other = interruptible(cloud, 1), interruptible(cloud, 1, "c5.large")
    configs = [
        config(cloud.template(target=lent, **INTERRUPTIBLE)),
        config(cloud.template(target=other, **INTERRUPTIBLE), override("c5.large")),
    ]
    answer = cloud.fleet(
        configs, total=2, default="reserved-capacity", ReservedCapacityOptions=options(ICR)
    )
    assert {cloud.instance(i)["CapacityReservationId"] for i in launched(answer)} == {
        lent,
        other,
    }


def test_on_demand_fallback_only_when_asked_and_never_into_a_reservation(
    cloud: Cloud,
) -> None:
    named, open_one = cloud.reserve(1), cloud.reserve(5, InstanceMatchCriteria="open")
    fallback: dict[str, Any] = {
        "ReservedCapacityFallbackOptions": {"MarketTypes": ["on-demand"]}
    }
    answer = cloud.fleet(
        [config(cloud.template())],
        total=3,
        default="reserved-capacity",
        ReservedCapacityOptions=options(ODCR, ids=[named], **fallback),
    )
    assert [cloud.instance(i).get("CapacityReservationId") for i in launched(answer)] == [
        named,
        None,
        None,
    ]
    assert answer["Errors"] == []
    assert cloud.available(open_one) == 5


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        (
            {"ReservedCapacityOptions": options(ODCR, ids=["cr-00000000000000000"])},
            "InvalidCapacityReservationId.NotFound",
        ),
        (
            {
                "ReservedCapacityOptions": {
                    "ReservationTypes": [ODCR],
                    "CapacityReservationTarget": {
                        "CapacityReservationIds": ["cr-00000000000000000"],
                        "CapacityReservationResourceGroupArns": [
                            "arn:aws:resource-groups:us-east-1:1:group/a"
                        ],
                    },
                }
            },
            "InvalidParameterCombination",
        ),
        (
            {
                "ReservedCapacityOptions": options(ODCR),
                "OnDemandOptions": {
                    "CapacityReservationOptions": {
                        "UsageStrategy": "use-capacity-reservations-first"
                    }
                },
            },
            "InvalidParameterCombination",
        ),
    ],
)
def test_what_does_not_go_with_reserved_capacity(
    cloud: Cloud, parameters: dict[str, Any], code: str
) -> None:
    with refused(code):
        cloud.fleet([config(cloud.template())], default="reserved-capacity", **parameters)
