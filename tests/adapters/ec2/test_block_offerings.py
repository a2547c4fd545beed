"""What EC2 would sell, as it says it."""

from datetime import timedelta

import pytest

from lab.worlds.cloud import START, Cloud
from reservoir.adapters.ec2.capacity_blocks import Ec2CapacityBlocks
from reservoir.ports.errors import AwsError


def test_blocks_on_sale_are_read_with_their_price() -> None:
    offerings = Ec2CapacityBlocks(Cloud().ec2).offerings("p5en.48xlarge", count=4, hours=48)
    assert [(each.zone, each.count) for each in offerings] == [
        ("us-east-1a", 4),
        ("us-east-1c", 4),
    ]
    first = offerings[0]
    assert first.start_at > START
    assert first.end_at - first.start_at == timedelta(hours=48)
    assert (float(first.fee) > 0, first.currency, first.ultra_server_type) == (
        True,
        "USD",
        None,
    )


def test_what_ec2_refuses_is_an_error() -> None:
    with pytest.raises(AwsError, match="InvalidParameterValue"):
        Ec2CapacityBlocks(Cloud().ec2).offerings("m5.large", count=1, hours=24)
