"""Groups of capacity reservations, and what instances that target one do when a reservation joins."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from lab.worlds.cloud import (
    TYPE,
    ZONE_B,
    Cloud,
    code_of,
    config,
    launched,
    override,
    refused,
)
from tests.embedded.ec2.contract.sites import GROUP

# two minutes, the emulation's default, and a little
MOVE_S = 121


def group(cloud: Cloud, name: str = "mine") -> str:
    client = cloud.emulation.client("resource-groups")
    made = client.create_group(Name=name, Configuration=GROUP)
    arn: str = made["Group"]["GroupArn"]
    return arn


def join(cloud: Cloud, arn: str, reservation_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = cloud.emulation.client("resource-groups").group_resources(
        Group=arn,
        ResourceArns=[cloud.reservation(reservation_id)["CapacityReservationArn"]],
    )
    return answer


def launch_at(cloud: Cloud, arn: str, count: int = 1, zone: str | None = None) -> list[str]:
    pool = override() if zone is None else override(zone=zone)
    return launched(cloud.fleet([config(cloud.template(target=arn), pool)], total=count))


def reservation_of(cloud: Cloud, instance_id: str) -> str | None:
    found: str | None = cloud.instance(instance_id).get("CapacityReservationId")
    return found


def test_an_instance_at_an_empty_group_runs_on_demand(cloud: Cloud) -> None:
    (instance,) = launch_at(cloud, group(cloud))
    assert reservation_of(cloud, instance) is None


def test_an_instance_moves_into_a_reservation_that_joins_its_group_and_runs_on(
    cloud: Cloud,
) -> None:
    arn = group(cloud)
    (instance,) = launch_at(cloud, arn)
    cloud.advance(seconds=60)
    events = len(cloud.events)
    joined = cloud.reserve(1)
    assert join(cloud, arn, joined)["Failed"] == []
    assert reservation_of(cloud, instance) is None, "EC2 takes its time"
    cloud.advance(seconds=MOVE_S)
    assert reservation_of(cloud, instance) == joined
    assert cloud.available(joined) == 0
    assert cloud.instance(instance)["State"]["Name"] == "running"
    assert len(cloud.events) == events, "EC2 tells nobody of it"


def test_as_many_instances_move_as_the_reservation_has_units_free(cloud: Cloud) -> None:
    arn = group(cloud)
    instances = launch_at(cloud, arn, 3)
    join(cloud, arn, cloud.reserve(2))
    cloud.advance(seconds=MOVE_S)
    inside = [each for each in instances if reservation_of(cloud, each) is not None]
    assert len(inside) == 2


def test_others_stay_where_they_are(cloud: Cloud) -> None:
    arn, another = group(cloud), group(cloud, "another")
    elsewhere = launch_at(cloud, arn, zone=ZONE_B)
    of_another = launch_at(cloud, another)
    untargeted = cloud.run()
    joined = cloud.reserve(3)
    join(cloud, arn, joined)
    cloud.advance(seconds=MOVE_S)
    assert cloud.available(joined) == 3
    for instance in (*elsewhere, *of_another, *untargeted):
        assert reservation_of(cloud, instance) is None


def test_a_reservation_that_left_the_group_meanwhile_takes_nobody(cloud: Cloud) -> None:
    arn = group(cloud)
    (instance,) = launch_at(cloud, arn)
    joined = cloud.reserve(1)
    join(cloud, arn, joined)
    cloud.emulation.client("resource-groups").ungroup_resources(
        Group=arn, ResourceArns=[cloud.reservation(joined)["CapacityReservationArn"]]
    )
    cloud.advance(seconds=MOVE_S)
    assert reservation_of(cloud, instance) is None


def test_a_member_that_grows_takes_nobody(cloud: Cloud) -> None:
    arn, source = group(cloud), cloud.reserve(3)
    joined = cloud.reserve(1)
    join(cloud, arn, joined)
    cloud.advance(seconds=MOVE_S)
    inside, outside = launch_at(cloud, arn, 2)
    cloud.ec2.move_capacity_reservation_instances(
        SourceCapacityReservationId=source,
        DestinationCapacityReservationId=joined,
        InstanceCount=1,
    )
    cloud.advance(seconds=MOVE_S)
    assert (reservation_of(cloud, inside), reservation_of(cloud, outside)) == (joined, None)
    assert cloud.available(joined) == 1


def test_only_active_reservations_join(cloud: Cloud) -> None:
    arn, ended = group(cloud), cloud.reserve(1)
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=ended)
    answer = join(cloud, arn, ended)
    assert answer["Succeeded"] == []
    assert len(answer["Failed"]) == 1


def test_joining_twice_is_joining_once(cloud: Cloud) -> None:
    arn, joined = group(cloud), cloud.reserve(1)
    for _ in range(2):
        assert len(join(cloud, arn, joined)["Succeeded"]) == 1
    client = cloud.emulation.client("resource-groups")
    assert len(client.list_group_resources(Group=arn)["Resources"]) == 1


def test_a_group_is_made_once_and_launches_need_it(cloud: Cloud) -> None:
    arn = group(cloud)
    assert code_of(lambda: group(cloud)) == "BadRequestException"
    cloud.emulation.client("resource-groups").delete_group(Group=arn)
    assert code_of(lambda: join(cloud, arn, cloud.reserve(1))) == "NotFoundException"
    assert launch_at(cloud, arn) == []


@pytest.mark.parametrize("name", ["AWSmine", "no spaces", ""])
def test_names_of_groups_are_checked(cloud: Cloud, name: str) -> None:
    client = cloud.emulation.client("resource-groups")
    with pytest.raises((ClientError, ParamValidationError)):
        client.create_group(Name=name, Configuration=GROUP)


def split(cloud: Cloud, source: str, count: int, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = cloud.ec2.create_capacity_reservation_by_splitting(
        SourceCapacityReservationId=source, InstanceCount=count, **more
    )
    return answer


def test_splitting_makes_a_reservation_like_its_source_without_its_tags(
    cloud: Cloud,
) -> None:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "a", "Value": "b"}]}]
    source = cloud.reserve(5, TagSpecifications=tags)
    answer = split(cloud, source, 2)
    made = answer["DestinationCapacityReservation"]
    shown = cloud.reservation(source)
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (3, 3)
    assert (made["TotalInstanceCount"], made["AvailableInstanceCount"]) == (2, 2)
    assert made["State"] == "active"
    assert made["InstanceMatchCriteria"] == "targeted"
    assert made.get("Tags", []) == []


def test_a_token_splits_once(cloud: Cloud) -> None:
    source = cloud.reserve(5)
    first = split(cloud, source, 1, ClientToken="once")
    again = split(cloud, source, 1, ClientToken="once")
    made = "DestinationCapacityReservation"
    assert first[made]["CapacityReservationId"] == again[made]["CapacityReservationId"]
    assert cloud.reservation(source)["TotalInstanceCount"] == 4
    with refused("IdempotentParameterMismatch"):
        split(cloud, source, 2, ClientToken="once")


def test_one_unit_stays_and_used_ones_of_a_targeted_reservation_do(cloud: Cloud) -> None:
    source = cloud.reserve(3)
    with refused("InvalidParameterValue"):
        split(cloud, source, 3)
    with refused("InvalidParameterValue"):
        split(cloud, source, 0)
    cloud.fleet([config(cloud.template(target=source))], total=2)
    with refused("InvalidParameterValue"):
        split(cloud, source, 2)
    assert split(cloud, source, 1)["InstanceCount"] == 1
    assert cloud.available(source) == 0


def test_a_used_unit_of_an_open_reservation_splits_off_with_its_instance(
    cloud: Cloud,
) -> None:
    source = cloud.reserve(3, InstanceMatchCriteria="open")
    instances = cloud.run(2)
    made = split(cloud, source, 2)["DestinationCapacityReservation"]
    inside = [each for each in instances if reservation_of(cloud, each) == source]
    assert len(inside) == 1
    assert made["AvailableInstanceCount"] == 1


def test_only_ones_own_active_reservations_are_split(cloud: Cloud) -> None:
    shared = cloud.control(
        "share_reservation", instance_type=TYPE, zone="us-east-1a", count=3
    )
    with refused("UnauthorizedOperation"):
        split(cloud, shared["capacity_reservation_id"], 1)
    ended = cloud.reserve(3)
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=ended)
    with refused("InvalidCapacityReservationState"):
        split(cloud, ended, 1)


def test_a_split_off_unit_takes_a_running_instance_in_and_goes_back_when_it_ends(
    cloud: Cloud,
) -> None:
    arn, source = group(cloud), cloud.reserve(4)
    (instance,) = launch_at(cloud, arn)
    made = split(cloud, source, 1)["DestinationCapacityReservation"][
        "CapacityReservationId"
    ]
    join(cloud, arn, made)
    cloud.advance(seconds=MOVE_S)
    assert reservation_of(cloud, instance) == made
    back = {"SourceCapacityReservationId": made, "DestinationCapacityReservationId": source}
    with refused("InvalidParameterValue"):
        cloud.ec2.move_capacity_reservation_instances(**back, InstanceCount=1)
    cloud.ec2.terminate_instances(InstanceIds=[instance])
    cloud.advance(seconds=60)
    cloud.ec2.move_capacity_reservation_instances(**back, InstanceCount=1)
    assert cloud.reservation(made)["State"] == "cancelled"
    assert cloud.available(source) == 4
