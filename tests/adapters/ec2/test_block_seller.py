"""Blocks and extensions are bought from the emulated EC2, once, and found again by what they were bought as."""

from typing import Any

import pytest

from lab.worlds.cloud import Cloud
from reservoir.adapters.ec2.block_seller import Ec2BlockSeller
from reservoir.adapters.ec2.capacity_blocks import Ec2CapacityBlocks
from reservoir.core.purchasing.purchase import BlockOrder
from reservoir.ports.capacity_blocks import BlockOffering
from reservoir.ports.errors import AccessDeniedError, RefusedError, UnknownOutcomeError

GPU = "p5en.48xlarge"


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def seller(cloud: Cloud) -> Ec2BlockSeller:
    return Ec2BlockSeller(cloud.ec2, cloud.ec2)


def order_of(offering: BlockOffering, extends: str | None = None) -> BlockOrder:
    where = (
        offering.instance_type,
        offering.zone,
        offering.count,
        offering.start_at,
        offering.end_at,
    )
    return BlockOrder(offering.id, *where, 1, tags=(("team", "training"),), extends=extends)


def on_sale(cloud: Cloud) -> BlockOrder:
    return order_of(Ec2CapacityBlocks(cloud.ec2).offerings(GPU, count=2, hours=24)[0])


def extension_on_sale(cloud: Cloud, block: str) -> BlockOrder:
    (offering,) = Ec2CapacityBlocks(cloud.ec2).extensions(block, hours=48)
    return order_of(offering, block)


def test_a_block_is_bought_with_its_tags_and_found_by_the_offering(
    cloud: Cloud, seller: Ec2BlockSeller
) -> None:
    order = on_sale(cloud)
    assert seller.bought(order) == ()
    (block,) = seller.buy(order)
    assert seller.bought(order) == (block,)
    tags = {each["Key"]: each["Value"] for each in cloud.reservation(block)["Tags"]}
    assert tags["team"] == "training"


def test_an_extension_is_bought_and_found_in_the_history_of_its_block(
    cloud: Cloud, seller: Ec2BlockSeller
) -> None:
    (block,) = seller.buy(on_sale(cloud))
    cloud.advance(seconds=300)
    end = cloud.reservation(block)["EndDate"]
    order = extension_on_sale(cloud, block)
    assert seller.bought(order) == ()
    assert seller.buy(order) == (block,)
    assert seller.bought(order) == (block,)
    cloud.advance(seconds=300)
    assert cloud.reservation(block)["EndDate"] == order.end_at > end


def test_trying_buys_nothing(cloud: Cloud, seller: Ec2BlockSeller) -> None:
    order = on_sale(cloud)
    seller.try_to_buy(order)
    assert seller.bought(order) == ()
    cloud.control(
        "fail_calls", operation="PurchaseCapacityBlock", code="UnauthorizedOperation"
    )
    with pytest.raises(AccessDeniedError):
        seller.try_to_buy(order)


def test_a_lost_answer_is_an_unknown_outcome_and_a_refusal_is_none(
    cloud: Cloud, seller: Ec2BlockSeller
) -> None:
    order = on_sale(cloud)
    cloud.control("lose_response", operation="PurchaseCapacityBlock")
    with pytest.raises(UnknownOutcomeError):
        seller.buy(order)
    assert len(seller.bought(order)) == 1
    with pytest.raises(RefusedError, match="InvalidCapacityBlockOfferingIdExpired"):
        seller.buy(order)


def test_the_deployment_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that repeats would buy twice: EC2 knows no token for it."""
    from reservoir.adapters.clients import ONE_PURCHASE, make_client

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    client: Any = make_client("ec2", "us-east-1", ONE_PURCHASE)
    assert client.meta.config.retries["total_max_attempts"] == 1
