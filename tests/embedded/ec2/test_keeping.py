"""An EC2 that was kept and put back goes on as one that was not: whatever was on its agenda happens, once, in time."""

from datetime import timedelta
from pathlib import Path

import pytest

from lab.embedded.keep.folder import KeepFolder
from lab.worlds.cloud import ZONE_A, Cloud, config, launched
from tests.embedded.ec2.test_blocks_and_lending import GPU, buy, run_in

LENT = "c7i.8xlarge"


def play(cloud: Cloud) -> None:
    """Put something of every kind on the agenda."""
    block = buy(cloud, 2, end_in_s=5400)
    run_in(cloud, block)
    cloud.control(
        "extend_block",
        capacity_reservation_id=buy(cloud, 1, end_in_s=7200),
        hours=24,
        payment_s=60,
    )
    buy(cloud, 1, paid=False, start_in_s=3600, duration_hours=24)
    lender = cloud.reserve(3, InstanceType=LENT)
    lent = cloud.control("create_interruptible", source_reservation_id=lender, count=3)[
        "capacity_reservation_id"
    ]
    run_in(cloud, lent, "interruptible-capacity-reservation")
    cloud.control("reclaim_interruptible", capacity_reservation_id=lent, target_count=0)
    spot = cloud.run(InstanceMarketOptions={"MarketType": "spot"})
    cloud.control("interrupt_spot", instance_id=spot[0])
    stopped = cloud.run()
    cloud.advance(seconds=10)
    cloud.ec2.stop_instances(InstanceIds=stopped)
    cloud.ec2.terminate_instances(
        InstanceIds=launched(cloud.fleet([config(cloud.template())], ClientToken="once"))
    )
    cloud.control(
        "mistreat_events", kind="delay", detail_type="EC2 Instance State", delay_s=30
    )
    cloud.run(2)


def keep_and_put_back(cloud: Cloud, folder: Path) -> None:
    known = {"clock": cloud.clock, "emit": cloud.emulation.world.outbox._emit}
    kept = KeepFolder(folder, known)
    kept.save(cloud.emulation.state(), port=1, now_us=2)
    cloud.emulation.restore(kept.load(port=1))


def story(cloud: Cloud) -> tuple[list[object], list[object]]:
    """Let the agenda run out in strides; return every event, and how the instances and reservations end."""
    for _ in range(40):
        cloud.advance(minutes=5)
    shown = cloud.ec2.describe_capacity_reservations()["CapacityReservations"]
    counted = (
        "CapacityReservationId",
        "State",
        "TotalInstanceCount",
        "AvailableInstanceCount",
        "EndDate",
    )
    reservations = [[it.get(name) for name in counted] for it in shown]
    return list(cloud.events), [
        *reservations,
        *((it["InstanceId"], it["State"]) for it in cloud.instances()),
    ]


@pytest.mark.parametrize("after_s", [0, 20, 90, 3600])
def test_what_is_on_the_agenda_happens_as_if_nothing_had_been_kept(
    tmp_path: Path, after_s: int
) -> None:
    plain, kept = Cloud(), Cloud()
    for cloud in (plain, kept):
        play(cloud)
        cloud.advance(seconds=after_s)
    keep_and_put_back(kept, tmp_path)
    told, shown = story(plain)
    assert len(told) > 20
    assert story(kept) == (told, shown)


def test_an_answered_token_is_remembered(tmp_path: Path) -> None:
    cloud = Cloud()
    template = cloud.template()
    first = launched(cloud.fleet([config(template)], ClientToken="once"))
    keep_and_put_back(cloud, tmp_path)
    assert launched(cloud.fleet([config(template)], ClientToken="once")) == first


def test_moto_s_part_is_kept_too(tmp_path: Path) -> None:
    cloud = Cloud()
    subnet = cloud.ec2.describe_subnets(
        Filters=[{"Name": "availability-zone", "Values": [ZONE_A]}]
    )["Subnets"][0]
    cloud.ec2.create_tags(
        Resources=[subnet["SubnetId"]], Tags=[{"Key": "network", "Value": "private"}]
    )
    image = cloud.ec2.register_image(Name="ours", Architecture="x86_64")["ImageId"]
    cloud.run(3)
    before = cloud.ec2.describe_subnets(SubnetIds=[subnet["SubnetId"]])["Subnets"]
    keep_and_put_back(cloud, tmp_path)
    assert cloud.ec2.describe_subnets(SubnetIds=[subnet["SubnetId"]])["Subnets"] == before
    assert cloud.ec2.describe_images(ImageIds=[image])["Images"][0]["Name"] == "ours"
    cloud.clock.move(timedelta(hours=1))
    cloud.run()
    (after,) = cloud.ec2.describe_subnets(SubnetIds=[subnet["SubnetId"]])["Subnets"]
    assert after["AvailableIpAddressCount"] <= before[0]["AvailableIpAddressCount"]
    assert GPU in {
        it["InstanceType"]
        for it in cloud.ec2.describe_instance_types(InstanceTypes=[GPU])["InstanceTypes"]
    }
