"""What the host must carry over HTTP: lost answers, refused control actions, prices."""

import pytest
from botocore.exceptions import ConnectionClosedError

from lab.embedded.client import ControlError, EmbeddedAws
from lab.worlds.cloud import TYPE, ZONE_A
from tests.embedded.ec2.contract.sites import GROUP

pytestmark = pytest.mark.embedded


def test_a_lost_response_closes_the_connection_after_the_effect(
    embedded_aws: EmbeddedAws,
) -> None:
    ec2 = embedded_aws.client("ec2")
    request = {
        "InstanceType": TYPE,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONE_A,
        "InstanceCount": 1,
        "InstanceMatchCriteria": "targeted",
        "ClientToken": "lost-over-http",
    }
    before = len(ec2.describe_capacity_reservations()["CapacityReservations"])
    embedded_aws.ec2("lose_response", operation="CreateCapacityReservation")
    with pytest.raises(ConnectionClosedError):
        ec2.create_capacity_reservation(**request)
    ec2.create_capacity_reservation(**request)
    assert len(ec2.describe_capacity_reservations()["CapacityReservations"]) == before + 1


def test_a_refused_control_action_says_why(embedded_aws: EmbeddedAws) -> None:
    with pytest.raises(ControlError, match="no control action 'fly'"):
        embedded_aws.ec2("fly")


def test_prices_are_served_by_the_pricing_endpoint(embedded_aws: EmbeddedAws) -> None:
    filters = [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": TYPE}]
    answer = embedded_aws.client("pricing").get_products(
        ServiceCode="AmazonEC2", Filters=filters
    )
    assert len(answer["PriceList"]) == 5


def test_groups_of_reservations_are_served_by_resource_groups(
    embedded_aws: EmbeddedAws,
) -> None:
    client = embedded_aws.client("resource-groups")
    arn = client.create_group(Name="over-http", Configuration=GROUP)["Group"]["GroupArn"]
    made = embedded_aws.client("ec2").create_capacity_reservation(
        InstanceType=TYPE,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=ZONE_A,
        InstanceCount=1,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationArn"]
    assert client.group_resources(Group=arn, ResourceArns=[made])["Succeeded"] == [made]
    listed = client.list_group_resources(Group=arn)["Resources"]
    assert [each["Identifier"]["ResourceArn"] for each in listed] == [made]
