"""Behaviours of EC2 on which the product relies, written so that a real account can confirm or refute each of them.

What an account cannot show on demand (blocks, interruptions, missing capacity) is tested on the emulation only.
"""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.worlds.cloud import launched
from tests.embedded.ec2.contract.sites import POLL_S, Site

FIRST = {"CapacityReservationOptions": {"UsageStrategy": "use-capacity-reservations-first"}}


def targeting(reservation_id: str, preference: str | None = None) -> dict[str, Any]:
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation_id}}
    return target | ({"CapacityReservationPreference": preference} if preference else {})


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = error.value.response["Error"]["Code"]
    return code


def test_a_new_reservation_shows_its_size_as_available(site: Site) -> None:
    shown = site.reservation(site.reserve(2))
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (2, 2)


def test_a_reservation_token_makes_one_reservation(site: Site) -> None:
    token = secrets.token_hex(16)
    request = {
        "InstanceType": site.small,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": site.zone(),
        "InstanceMatchCriteria": "targeted",
        "ClientToken": token,
    }
    first = site.ec2.create_capacity_reservation(**request, InstanceCount=1)[
        "CapacityReservation"
    ]
    made = first["CapacityReservationId"]
    site.undo.append(
        lambda: site.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    )
    again = site.ec2.create_capacity_reservation(**request, InstanceCount=1)[
        "CapacityReservation"
    ]
    assert again["CapacityReservationId"] == made
    with pytest.raises(ClientError) as error:
        site.ec2.create_capacity_reservation(**request, InstanceCount=2)
    assert code_of(error) == "IdempotentParameterMismatch"


def test_unknown_reservations_are_not_found(site: Site) -> None:
    with pytest.raises(ClientError) as error:
        site.reservation("cr-0123456789abcdef0")
    assert code_of(error) == "InvalidCapacityReservationId.NotFound"


@pytest.mark.parametrize("preference", [None, "capacity-reservations-only"])
def test_a_targeted_fleet_fills_the_reservation_and_then_fails(
    site: Site, preference: str | None
) -> None:
    reserved = site.reserve(1)
    template = site.template(targeting(reserved, preference))
    answer = site.fleet({template: [site.pool()]}, total=2)
    (instance,) = site.instances(launched(answer))
    assert instance["CapacityReservationId"] == reserved
    assert {e["ErrorCode"] for e in answer["Errors"]} == {"ReservationCapacityExceeded"}
    assert {e["Lifecycle"] for e in answer["Instances"] + answer["Errors"]} == {"on-demand"}
    site.until(lambda: site.reservation(reserved)["AvailableInstanceCount"] == 0)


def test_two_templates_may_target_two_reservations_of_different_types(site: Site) -> None:
    small, large = site.reserve(1), site.reserve(1, site.large)
    overrides = {
        site.template(targeting(small)): [site.pool()],
        site.template(targeting(large)): [site.pool(site.large)],
    }
    answer = site.fleet(overrides, total=2)
    assert {i["CapacityReservationId"] for i in site.instances(launched(answer))} == {
        small,
        large,
    }


def test_the_same_pool_in_two_templates_is_refused(site: Site) -> None:
    overrides = {site.template(targeting(site.reserve(1))): [site.pool()] for _ in range(2)}
    with pytest.raises(ClientError) as error:
        site.fleet(overrides)
    assert code_of(error) == "InvalidFleetConfig"


def test_a_target_with_the_preference_none_launches_nothing(site: Site) -> None:
    answer = site.fleet({site.template(targeting(site.reserve(1), "none")): [site.pool()]})
    assert launched(answer) == []
    assert answer["Errors"]


def test_reservations_first_ignores_templates_with_a_target(site: Site) -> None:
    answer = site.fleet(
        {site.template(targeting(site.reserve(1))): [site.pool()]}, OnDemandOptions=FIRST
    )
    assert launched(answer) == []


def test_reservations_first_fills_open_reservations_and_then_on_demand(site: Site) -> None:
    reserved = site.reserve(1, criteria="open")
    answer = site.fleet({site.template(): [site.pool()]}, total=2, OnDemandOptions=FIRST)
    where = sorted(
        i.get("CapacityReservationId", "") for i in site.instances(launched(answer))
    )
    assert where == ["", reserved]


def test_an_untargeted_launch_enters_an_open_reservation_by_itself(site: Site) -> None:
    reserved = site.reserve(1, criteria="open")
    (instance,) = site.instances(launched(site.fleet({site.template(): [site.pool()]})))
    assert instance["CapacityReservationId"] == reserved


def test_the_preference_none_stays_out_of_open_reservations(site: Site) -> None:
    site.reserve(1, criteria="open")
    template = site.template({"CapacityReservationPreference": "none"})
    (instance,) = site.instances(launched(site.fleet({template: [site.pool()]})))
    assert "CapacityReservationId" not in instance


def test_an_instance_at_a_group_moves_into_a_unit_that_is_split_off_and_runs_on(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    """What AWS's guide promises of groups; how long it takes is what a real run tells (``move_s``)."""
    group, source = site.group(), site.reserve(2)
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group}}
    ids = launched(site.fleet({site.template(target): [site.pool()]}))
    site.until(lambda: site.instances(ids)[0]["State"]["Name"] == "running")
    assert "CapacityReservationId" not in site.instances(ids)[0]
    token = secrets.token_hex(16)
    made = site.split(source, 1, ClientToken=token)
    assert site.split(source, 1, ClientToken=token) == made
    assert site.reservation(source)["TotalInstanceCount"] == 1
    site.join(group, made)
    polls = 0

    def is_inside() -> bool:
        nonlocal polls
        polls += 1
        return site.instances(ids)[0].get("CapacityReservationId") == made

    site.until(is_inside)
    record_property("move_s", polls * POLL_S)
    assert site.instances(ids)[0]["State"]["Name"] == "running"
    site.until(lambda: site.reservation(made)["AvailableInstanceCount"] == 0)


def test_a_split_off_reservation_that_is_emptied_into_its_source_goes(site: Site) -> None:
    source = site.reserve(2)
    made = site.split(source, 1)
    site.ec2.move_capacity_reservation_instances(
        SourceCapacityReservationId=made,
        DestinationCapacityReservationId=source,
        InstanceCount=1,
    )
    site.until(lambda: site.reservation(made)["State"] == "cancelled")
    assert site.reservation(source)["TotalInstanceCount"] == 2


def test_the_last_unit_cannot_be_split_off(site: Site) -> None:
    source = site.reserve(1)
    with pytest.raises(ClientError):
        site.split(source, 1)


def test_units_are_lent_more_are_lent_and_all_come_back(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    """What AWS's guide promises owners; how soon free units come back is what a real run tells (``back_s``)."""
    source, token = site.reserve(3), secrets.token_hex(16)
    lent = site.lend(source, 1, ClientToken=token, ZeroSizePreference="retain")
    assert site.lend(source, 1, ClientToken=token, ZeroSizePreference="retain") == lent
    site.until(lambda: site.sizes(source, lent) == [2, 1])
    site.lend_only(source, 2)
    site.until(lambda: site.sizes(source, lent) == [1, 2])
    site.lend_only(source, 0)
    polls = 0

    def are_back() -> bool:
        nonlocal polls
        polls += 1
        return site.sizes(source, lent) == [3, 0]

    site.until(are_back)
    record_property("back_s", polls * POLL_S)
    assert site.reservation(lent)["State"] == "active"


def test_a_reservation_lends_in_one_allocation_alone(site: Site) -> None:
    source = site.reserve(2)
    site.lend(source, 1)
    with pytest.raises(ClientError):
        site.lend(source, 1)


def test_a_fleet_token_launches_once(site: Site) -> None:
    token = secrets.token_hex(16)
    overrides = {site.template(): [site.pool()]}
    first = site.fleet(overrides, ClientToken=token)
    assert launched(site.fleet(overrides, ClientToken=token)) == launched(first)
    with pytest.raises(ClientError) as error:
        site.fleet(overrides, total=2, ClientToken=token)
    assert code_of(error) == "IdempotentParameterMismatch"


def test_a_missing_template_refuses_the_request(site: Site) -> None:
    with pytest.raises(ClientError) as error:
        site.fleet({"lt-0123456789abcdef0": [site.pool()]})
    assert code_of(error) == "InvalidLaunchTemplateId.NotFound"


def test_one_unknown_id_terminates_nothing(site: Site) -> None:
    ids = launched(site.fleet({site.template(): [site.pool()]}))
    with pytest.raises(ClientError) as error:
        site.ec2.terminate_instances(InstanceIds=[*ids, "i-0123456789abcdef0"])
    assert code_of(error) == "InvalidInstanceID.NotFound"
    assert {i["State"]["Name"] for i in site.instances(ids)} <= {"pending", "running"}


def test_a_slot_is_free_again_after_termination(site: Site) -> None:
    reserved = site.reserve(1)
    ids = launched(site.fleet({site.template(targeting(reserved)): [site.pool()]}))
    site.until(lambda: site.reservation(reserved)["AvailableInstanceCount"] == 0)
    site.ec2.terminate_instances(InstanceIds=ids)
    site.until(lambda: site.reservation(reserved)["AvailableInstanceCount"] == 1)


def test_cancelling_a_reservation_leaves_its_instances_running(site: Site) -> None:
    reserved = site.reserve(1)
    ids = launched(site.fleet({site.template(targeting(reserved)): [site.pool()]}))
    site.until(lambda: site.instances(ids)[0]["State"]["Name"] == "running")
    site.ec2.cancel_capacity_reservation(CapacityReservationId=reserved)
    site.until(lambda: "CapacityReservationId" not in site.instances(ids)[0])
    assert site.instances(ids)[0]["State"]["Name"] == "running"


def test_deleting_an_instant_fleet_terminates_its_instances(site: Site) -> None:
    answer = site.fleet({site.template(): [site.pool()]})
    site.ec2.delete_fleets(FleetIds=[answer["FleetId"]], TerminateInstances=True)
    site.until(
        lambda: (
            site.instances(launched(answer))[0]["State"]["Name"]
            in {"shutting-down", "terminated"}
        )
    )


def test_all_or_nothing_launches_nothing_when_it_cannot_have_all(site: Site) -> None:
    template = site.template(targeting(site.reserve(1), "capacity-reservations-only"))
    options = {
        "SingleInstanceType": True,
        "SingleAvailabilityZone": True,
        "MinTargetCapacity": 2,
    }
    answer = site.fleet({template: [site.pool()]}, total=2, OnDemandOptions=options)
    assert launched(answer) == []
    assert answer["Errors"]


def test_unknown_filters_are_errors(site: Site) -> None:
    for call in (site.ec2.describe_instances, site.ec2.describe_capacity_reservations):
        with pytest.raises(ClientError) as error:
            call(Filters=[{"Name": "no-such-filter", "Values": ["x"]}])
        assert code_of(error) == "InvalidParameterValue"


def test_instance_types_come_in_pages_of_at_most_100(site: Site) -> None:
    page = site.ec2.describe_instance_types()
    assert len(page["InstanceTypes"]) == 100
    assert page["NextToken"]
