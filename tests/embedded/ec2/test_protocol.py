"""The query protocol: validation against the service model, errors, thread safety, what is left to moto."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from lab.worlds.cloud import TYPE, ZONE_A, Cloud, config, error_codes, launched, refused


def send(cloud: Cloud, **parameters: str) -> tuple[int, str]:
    """Send a raw request, as a client without botocore's own checks would."""
    body = urlencode({"Version": "2016-11-15", **parameters}).encode()
    status, _, answer = cloud.emulation.dispatch("POST", {}, body)
    return status, answer.decode()


RESERVE = {
    "Action": "CreateCapacityReservation",
    "InstanceType": TYPE,
    "InstancePlatform": "Linux/UNIX",
    "AvailabilityZone": ZONE_A,
    "InstanceCount": "1",
}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Action": "ReserveEverything"}, "InvalidAction"),
        ({"InstanceCont": "1"}, "UnknownParameter"),
        ({"InstanceCount": "many"}, "InvalidParameterValue"),
        ({"InstancePlatform": "BeOS"}, "InvalidParameterValue"),
        ({"InstanceCount": None}, "MissingParameter"),
        ({"EndDate": "tomorrow"}, "InvalidParameterValue"),
    ],
)
def test_bad_requests_are_refused_by_the_model(
    cloud: Cloud, change: dict[str, str | None], code: str
) -> None:
    request = {
        name: value for name, value in (RESERVE | change).items() if value is not None
    }
    status, answer = send(cloud, **request)
    assert status == 400
    assert f"<Code>{code}</Code>" in answer
    assert cloud.ec2.describe_capacity_reservations()["CapacityReservations"] == []


def test_good_raw_requests_are_answered(cloud: Cloud) -> None:
    status, answer = send(cloud, **RESERVE)
    assert status == 200
    assert "<capacityReservationId>cr-" in answer


def test_error_texts_are_escaped(cloud: Cloud) -> None:
    _, answer = send(cloud, Action="<script>")
    assert "<script>" not in answer
    assert "&lt;script&gt;" in answer


def test_dry_run_changes_nothing(cloud: Cloud) -> None:
    with refused("DryRunOperation"):
        cloud.run(DryRun=True)
    assert cloud.instances() == []


def test_a_dry_run_looks_at_the_request_before_it_says_yes(cloud: Cloud) -> None:
    template = cloud.template()
    with refused("InvalidSubnetID.NotFound"):
        cloud.run(DryRun=True, SubnetId="subnet-0123456789abcdef0")
    with refused("InvalidParameterValue"):
        cloud.run(DryRun=True, MinCount=2, MaxCount=1)
    with refused("DryRunOperation"):
        cloud.fleet([config(template, {"InstanceType": TYPE})], DryRun=True)
    with refused("InvalidLaunchTemplateId.NotFound"):
        cloud.fleet([config("lt-0123456789abcdef0", {"InstanceType": TYPE})], DryRun=True)
    name = cloud.ec2.describe_launch_templates()["LaunchTemplates"][0]["LaunchTemplateName"]
    with refused("InvalidLaunchTemplateName.AlreadyExistsException"):
        cloud.ec2.create_launch_template(
            LaunchTemplateName=name, LaunchTemplateData={"ImageId": "ami-1"}, DryRun=True
        )
    assert cloud.instances() == []


def test_a_subnet_is_refused_beside_network_interfaces_of_a_template(cloud: Cloud) -> None:
    template = cloud.template(NetworkInterfaces=[{"DeviceIndex": 0}])
    subnet = cloud.ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    run = {
        "LaunchTemplate": {"LaunchTemplateId": template},
        "InstanceType": TYPE,
        "MinCount": 1,
        "MaxCount": 1,
    }
    with refused("InvalidParameterCombination"):
        cloud.ec2.run_instances(**run, SubnetId=subnet)
    with refused("DryRunOperation"):
        cloud.ec2.run_instances(
            **run, NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet}], DryRun=True
        )


def test_moto_answers_for_networks_and_images(cloud: Cloud) -> None:
    vpc = cloud.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = cloud.ec2.create_subnet(
        VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=ZONE_A
    )["Subnet"]
    assert subnet["AvailableIpAddressCount"] == 251
    group = cloud.ec2.create_security_group(
        GroupName="nodes", Description="nodes", VpcId=vpc
    )["GroupId"]
    template = cloud.template(SecurityGroupIds=[group])
    answer = cloud.fleet(
        [config(template, {"InstanceType": TYPE, "SubnetId": subnet["SubnetId"]})]
    )
    shown = cloud.instance(launched(answer)[0])
    assert (shown["VpcId"], shown["SubnetId"]) == (vpc, subnet["SubnetId"])
    assert shown["SecurityGroups"] == [{"GroupId": group, "GroupName": "nodes"}]
    names = {i["Name"] for i in cloud.ec2.describe_images(Owners=["amazon"])["Images"]}
    assert any(name.startswith("al2023-ami") for name in names)


def test_what_nobody_emulates_is_refused_not_answered_empty(cloud: Cloud) -> None:
    with refused("UnsupportedOperation"):
        cloud.ec2.describe_spot_fleet_requests()
    with refused("UnsupportedOperation"):
        cloud.ec2.describe_reserved_instances()
    with refused("UnsupportedOperation"):
        cloud.ec2.describe_subnets(Filters=[{"Name": "colour", "Values": ["red"]}])


def test_launch_templates_have_versions_and_a_default(cloud: Cloud) -> None:
    template = cloud.template()
    second = cloud.ec2.create_launch_template_version(
        LaunchTemplateId=template,
        SourceVersion="1",
        LaunchTemplateData={"InstanceType": "c5.large"},
    )["LaunchTemplateVersion"]
    assert (second["VersionNumber"], second["LaunchTemplateData"]["ImageId"]) == (
        2,
        cloud.image_id,
    )
    cloud.ec2.modify_launch_template(LaunchTemplateId=template, DefaultVersion="2")
    (described,) = cloud.ec2.describe_launch_templates(LaunchTemplateIds=[template])[
        "LaunchTemplates"
    ]
    assert (described["DefaultVersionNumber"], described["LatestVersionNumber"]) == (2, 2)
    versions = cloud.ec2.describe_launch_template_versions(
        LaunchTemplateId=template, Versions=["$Latest", "1"]
    )
    assert [v["VersionNumber"] for v in versions["LaunchTemplateVersions"]] == [2, 1]
    deleted = cloud.ec2.delete_launch_template_versions(
        LaunchTemplateId=template, Versions=["1", "2"]
    )
    assert [
        v["VersionNumber"] for v in deleted["SuccessfullyDeletedLaunchTemplateVersions"]
    ] == [1]
    assert [
        v["VersionNumber"] for v in deleted["UnsuccessfullyDeletedLaunchTemplateVersions"]
    ] == [2]
    cloud.ec2.delete_launch_template(LaunchTemplateId=template)
    with refused("InvalidLaunchTemplateId.NotFound"):
        cloud.ec2.describe_launch_templates(LaunchTemplateIds=[template])


def test_all_launch_templates_are_listed(cloud: Cloud) -> None:
    """More than fit in one page of the usual size, where a listing that stops silently would lose some."""
    made = {cloud.template() for _ in range(40)}
    pages = cloud.ec2.get_paginator("describe_launch_templates").paginate(
        PaginationConfig={"PageSize": 15}
    )
    assert {
        t["LaunchTemplateId"] for page in pages for t in page["LaunchTemplates"]
    } == made
    with refused("InvalidLaunchTemplateName.AlreadyExistsException"):
        cloud.ec2.create_launch_template(
            LaunchTemplateName="template-1", LaunchTemplateData={"ImageId": cloud.image_id}
        )


def test_tags_of_any_resource_can_be_changed(cloud: Cloud) -> None:
    reserved, template = cloud.reserve(), cloud.template()
    cloud.ec2.create_tags(
        Resources=[reserved, template],
        Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}],
    )
    cloud.ec2.delete_tags(Resources=[reserved], Tags=[{"Key": "a"}])
    cloud.ec2.delete_tags(Resources=[template], Tags=[{"Key": "b", "Value": "other"}])
    assert cloud.reservation(reserved)["Tags"] == [{"Key": "b", "Value": "2"}]
    assert (
        len(
            cloud.ec2.describe_tags(
                Filters=[{"Name": "resource-id", "Values": [template]}]
            )["Tags"]
        )
        == 2
    )
    with refused("InvalidCapacityReservationId.NotFound"):
        cloud.ec2.create_tags(
            Resources=[template, "cr-00000000000000000"], Tags=[{"Key": "c", "Value": "3"}]
        )
    with refused("InvalidParameterValue"):
        cloud.ec2.create_tags(Resources=[template], Tags=[{"Key": "aws:x", "Value": "3"}])
    with refused("TagLimitExceeded"):
        cloud.ec2.create_tags(
            Resources=[template], Tags=[{"Key": str(n), "Value": ""} for n in range(51)]
        )


def test_placement_groups_can_be_named(cloud: Cloud) -> None:
    made = cloud.ec2.create_placement_group(GroupName="rack", Strategy="cluster")[
        "PlacementGroup"
    ]
    assert cloud.ec2.describe_placement_groups(GroupNames=["rack"])["PlacementGroups"] == [
        made
    ]
    with refused("InvalidPlacementGroup.Duplicate"):
        cloud.ec2.create_placement_group(GroupName="rack")
    cloud.ec2.delete_placement_group(GroupName="rack")
    with refused("InvalidPlacementGroup.Unknown"):
        cloud.ec2.describe_placement_groups(GroupNames=["rack"])


def test_racing_fleets_never_share_a_slot(cloud: Cloud) -> None:
    reserved = cloud.reserve(5)
    configs = [
        config(cloud.template(target=reserved, preference="capacity-reservations-only"))
    ]
    clients = [cloud.emulation.client() for _ in range(12)]
    target = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"}
    with ThreadPoolExecutor(12) as pool:
        answers = list(
            pool.map(
                lambda client: client.create_fleet(
                    Type="instant",
                    LaunchTemplateConfigs=configs,
                    TargetCapacitySpecification=target,
                ),
                clients,
            )
        )
    assert sum(len(launched(a)) for a in answers) == 5
    assert sum(error_codes(a) == ["ReservationCapacityExceeded"] for a in answers) == 7
    assert cloud.available(reserved) == 0


def test_two_runs_make_the_same_ids() -> None:
    def ids() -> list[str]:
        cloud = Cloud()
        return [cloud.reserve(), cloud.template(), *cloud.run(2)]

    assert ids() == ids()
