"""CreateFleet instant: shapes, allocation, all-or-nothing, idempotency, refusals, deletion."""

import base64
from typing import Any

import pytest

from lab.worlds.cloud import (
    TYPE,
    ZONE_A,
    ZONE_B,
    ZONE_C,
    Cloud,
    code_of,
    config,
    error_codes,
    launched,
    override,
    refused,
)

TOO_MANY_TAGS = [
    {"ResourceType": "volume", "Tags": [{"Key": str(n), "Value": ""} for n in range(51)]}
]


def limit(
    cloud: Cloud,
    capacity: int,
    instance_type: str = TYPE,
    zone: str = ZONE_A,
    market: str = "on-demand",
) -> None:
    cloud.control(
        "set_pool_capacity",
        instance_type=instance_type,
        zone=zone,
        market=market,
        capacity=capacity,
    )


def test_partial_success_has_instances_and_errors_in_ec2_shapes(cloud: Cloud) -> None:
    limit(cloud, 2)
    template = cloud.template()
    answer = cloud.fleet([config(template)], total=3)
    assert answer["FleetId"].startswith("fleet-")
    (entry,) = answer["Instances"]
    assert entry["LaunchTemplateAndOverrides"] == {
        "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
        "Overrides": {"InstanceType": TYPE, "AvailabilityZone": ZONE_A},
    }
    assert len(entry["InstanceIds"]) == 2
    assert (entry["Lifecycle"], entry["InstanceType"]) == ("on-demand", TYPE)
    assert (entry["AvailabilityZone"], entry["AvailabilityZoneId"]) == (ZONE_A, "use1-az1")
    assert entry["SubnetId"].startswith("subnet-")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert ZONE_A in error["ErrorMessage"]
    assert error["Lifecycle"] == "on-demand"
    assert error["LaunchTemplateAndOverrides"] == entry["LaunchTemplateAndOverrides"]


def test_tags_reach_what_they_name(cloud: Cloud) -> None:
    specifications = [
        {"ResourceType": kind, "Tags": [{"Key": "kind", "Value": kind}]}
        for kind in ("fleet", "instance", "volume", "network-interface")
    ]
    own = [
        {
            "ResourceType": "instance",
            "Tags": [{"Key": "kind", "Value": "template"}, {"Key": "own", "Value": "1"}],
        }
    ]
    answer = cloud.fleet(
        [config(cloud.template(TagSpecifications=own))], TagSpecifications=specifications
    )
    instance = cloud.instance(launched(answer)[0])
    tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
    assert (tags["kind"], tags["own"]) == ("instance", "1")
    assert tags["aws:ec2:fleet-id"] == answer["FleetId"]
    volume = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    assert cloud.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Tags"] == [
        {"Key": "kind", "Value": "volume"}
    ]
    described = cloud.ec2.describe_tags(Filters=[{"Name": "key", "Values": ["kind"]}])[
        "Tags"
    ]
    kinds = {t["ResourceType"]: t["Value"] for t in described}
    assert kinds == {k: k for k in ("fleet", "instance", "volume", "network-interface")}


def test_the_cheapest_pool_gives_first_and_the_next_takes_the_rest(cloud: Cloud) -> None:
    limit(cloud, 1, "c5.large")
    answer = cloud.fleet(
        [config(cloud.template(), override("m5.large"), override("c5.large"))], total=3
    )
    assert [(e["InstanceType"], len(e["InstanceIds"])) for e in answer["Instances"]] == [
        ("c5.large", 1),
        ("m5.large", 2),
    ]
    assert error_codes(answer) == ["InsufficientInstanceCapacity"]


def test_everything_in_an_override_reaches_the_instance_and_is_repeated(
    cloud: Cloud,
) -> None:
    full = {
        "InstanceType": TYPE,
        "AvailabilityZoneId": "use1-az1",
        "ImageId": "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
        "Priority": 1.0,
        "WeightedCapacity": 2.0,
        "MaxPrice": "1.5",
        "KeyName": "key",
        "Placement": {"GroupName": "rack", "Tenancy": "default"},
        "IamInstanceProfile": {"Name": "nodes"},
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeSize": 50,
                    "VolumeType": "gp3",
                    "Encrypted": True,
                    "DeleteOnTermination": True,
                },
            }
        ],
    }
    answer = cloud.fleet([config(cloud.template(), full)], total=2, default="spot")
    (entry,) = answer["Instances"]
    assert len(entry["InstanceIds"]) == 1
    repeated = {
        k: v
        for k, v in full.items()
        if k not in {"KeyName", "IamInstanceProfile", "MetadataOptions"}
    }
    repeated |= {"AvailabilityZone": ZONE_A, "Placement": {"GroupName": "rack"}}
    assert entry["LaunchTemplateAndOverrides"]["Overrides"] == repeated
    shown = cloud.instance(entry["InstanceIds"][0])
    assert (
        shown["IamInstanceProfile"]["Arn"]
        == "arn:aws:iam::123456789012:instance-profile/nodes"
    )
    assert shown["KeyName"] == "key"
    assert shown["MetadataOptions"]["HttpTokens"] == "required"
    volume = shown["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    described = cloud.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
    assert (described["Size"], described["VolumeType"], described["Encrypted"]) == (
        50,
        "gp3",
        True,
    )


def test_priorities_come_before_prices_when_prioritized(cloud: Cloud) -> None:
    overrides = (
        override("c5.large"),
        override("m5.large", Priority=0),
        override("r5.large", Priority=7),
    )
    options = {"AllocationStrategy": "prioritized"}
    answer = cloud.fleet([config(cloud.template(), *overrides)], OnDemandOptions=options)
    assert answer["Instances"][0]["InstanceType"] == "m5.large"


def test_weights_count_towards_the_target(cloud: Cloud) -> None:
    overrides = (
        override("m5.large", WeightedCapacity=2),
        override("m5.4xlarge", WeightedCapacity=3),
    )
    answer = cloud.fleet([config(cloud.template(), *overrides)], total=5)
    assert [(e["InstanceType"], len(e["InstanceIds"])) for e in answer["Instances"]] == [
        ("m5.large", 3)
    ]


@pytest.mark.parametrize(
    ("options", "capacity_a", "capacity_b", "expected"),
    [
        ({"SingleAvailabilityZone": True}, 1, 3, {ZONE_B: 3}),
        ({"SingleAvailabilityZone": True}, 1, 2, {ZONE_B: 2}),
        ({"SingleAvailabilityZone": True, "MinTargetCapacity": 3}, 2, 2, {}),
        ({"SingleAvailabilityZone": True, "MinTargetCapacity": 2}, 1, 2, {ZONE_B: 2}),
        ({}, 1, 1, {ZONE_A: 1, ZONE_B: 1}),
    ],
)
def test_single_zone_and_minimum(
    cloud: Cloud,
    options: dict[str, Any],
    capacity_a: int,
    capacity_b: int,
    expected: dict[str, int],
) -> None:
    limit(cloud, capacity_a, zone=ZONE_A)
    limit(cloud, capacity_b, zone=ZONE_B)
    overrides = (override(zone=ZONE_A), override(zone=ZONE_B))
    answer = cloud.fleet(
        [config(cloud.template(), *overrides)], total=3, OnDemandOptions=options
    )
    assert {
        e["AvailabilityZone"]: len(e["InstanceIds"]) for e in answer["Instances"]
    } == expected
    if sum(expected.values()) < 3:
        assert set(error_codes(answer)) == {"InsufficientInstanceCapacity"}
    assert len(cloud.instances()) == sum(expected.values())


def test_single_instance_type_keeps_to_the_type_that_holds_most(cloud: Cloud) -> None:
    limit(cloud, 1, "c5.large")
    overrides = (override("c5.large"), override("m5.large"))
    options = {"SingleInstanceType": True, "MinTargetCapacity": 2}
    answer = cloud.fleet(
        [config(cloud.template(), *overrides)], total=2, OnDemandOptions=options
    )
    assert [(e["InstanceType"], len(e["InstanceIds"])) for e in answer["Instances"]] == [
        ("m5.large", 2)
    ]


SPOT_POOLS = (
    override(zone=ZONE_A, Priority=3),
    override(zone=ZONE_B, Priority=1),
    override(zone=ZONE_C, Priority=2),
)


@pytest.mark.parametrize(
    ("strategy", "zone"),
    [
        (None, ZONE_A),
        ("lowest-price", ZONE_A),
        ("price-capacity-optimized", ZONE_B),
        ("capacity-optimized", ZONE_B),
        ("capacity-optimized-prioritized", ZONE_C),
    ],
)
def test_spot_strategies(cloud: Cloud, strategy: str | None, zone: str) -> None:
    """A is cheapest but nearly full; B is cheaper than C; B's priority is lost with its capacity in the last case."""
    for name, price in ((ZONE_A, 10_000), (ZONE_B, 20_000), (ZONE_C, 30_000)):
        cloud.control(
            "set_spot_price", instance_type=TYPE, zone=name, micro_usd_per_hour=price
        )
    limit(cloud, 1, zone=ZONE_A, market="spot")
    if strategy == "capacity-optimized-prioritized":
        limit(cloud, 1, zone=ZONE_B, market="spot")
    options = {"AllocationStrategy": strategy} if strategy else {}
    answer = cloud.fleet(
        [config(cloud.template(), *SPOT_POOLS)],
        total=2,
        default="spot",
        SpotOptions=options,
    )
    first = answer["Instances"][0]
    assert (first["AvailabilityZone"], first["Lifecycle"]) == (zone, "spot")
    assert len(launched(answer)) == 2
    assert {cloud.instance(i)["InstanceLifecycle"] for i in launched(answer)} == {"spot"}


def test_diversified_spot_uses_every_pool(cloud: Cloud) -> None:
    options = {"AllocationStrategy": "diversified"}
    answer = cloud.fleet(
        [config(cloud.template(), *SPOT_POOLS)],
        total=3,
        default="spot",
        SpotOptions=options,
    )
    assert {e["AvailabilityZone"]: len(e["InstanceIds"]) for e in answer["Instances"]} == {
        ZONE_A: 1,
        ZONE_B: 1,
        ZONE_C: 1,
    }


def test_spot_pools_run_dry_and_bids_may_be_too_low(cloud: Cloud) -> None:
    limit(cloud, 0, market="spot")
    pools = (override(), override(zone=ZONE_B, MaxPrice="0.000001"))
    answer = cloud.fleet([config(cloud.template(), *pools)], default="spot")
    assert set(error_codes(answer)) == {
        "InsufficientInstanceCapacity",
        "SpotMaxPriceTooLow",
    }
    assert {e["Lifecycle"] for e in answer["Errors"]} == {"spot"}


def test_a_target_may_be_split_between_markets(cloud: Cloud) -> None:
    target = {
        "TotalTargetCapacity": 4,
        "OnDemandTargetCapacity": 1,
        "SpotTargetCapacity": 2,
        "DefaultTargetCapacityType": "spot",
    }
    answer = cloud.ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[config(cloud.template())],
        TargetCapacitySpecification=target,
    )
    assert {e["Lifecycle"]: len(e["InstanceIds"]) for e in answer["Instances"]} == {
        "on-demand": 1,
        "spot": 3,
    }


def test_a_client_token_repeats_the_answer_and_launches_once(cloud: Cloud) -> None:
    configs = [config(cloud.template())]
    first = cloud.fleet(configs, total=2, ClientToken="batch-1")
    again = cloud.fleet(configs, total=2, ClientToken="batch-1")
    assert (again["FleetId"], again["Instances"]) == (first["FleetId"], first["Instances"])
    assert len(cloud.instances()) == 2
    with refused("IdempotentParameterMismatch"):
        cloud.fleet(configs, total=3, ClientToken="batch-1")


def test_one_template_cannot_name_a_pool_twice_nor_two_subnets_of_a_zone(
    cloud: Cloud,
) -> None:
    template = cloud.template()
    with refused("InvalidFleetConfig"):
        cloud.fleet([config(template, override(), override())])
    vpc = cloud.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = [
        cloud.ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"172.31.{200 + n}.0/24", AvailabilityZone=ZONE_A
        )["Subnet"]["SubnetId"]
        for n in range(2)
    ]
    with refused("InvalidFleetConfig"):
        cloud.fleet(
            [config(template, *({"InstanceType": TYPE, "SubnetId": s} for s in subnets))]
        )


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"total": 0}, "InvalidParameterValue"),
        ({"total": 10_001}, "InvalidParameterValue"),
        ({"OnDemandOptions": {"MinTargetCapacity": 1}}, "InvalidParameterCombination"),
        ({"OnDemandOptions": {"AllocationStrategy": "cheapest"}}, "InvalidParameterValue"),
        ({"default": "reserved-capacity"}, "MissingParameter"),
        (
            {"ReservedCapacityOptions": {"ReservationTypes": ["capacity-block"]}},
            "InvalidParameterCombination",
        ),
        ({"default": "capacity-block"}, "InvalidParameterCombination"),
        (
            {"TagSpecifications": [{"ResourceType": "subnet", "Tags": []}]},
            "InvalidParameterValue",
        ),
    ],
)
def test_what_refuses_the_whole_request(
    cloud: Cloud, parameters: dict[str, Any], code: str
) -> None:
    configs = [config(cloud.template())]
    assert code_of(lambda: cloud.fleet(configs, **parameters)) == code
    assert cloud.instances() == []


def test_missing_templates_and_versions_refuse_the_request(cloud: Cloud) -> None:
    with refused("InvalidLaunchTemplateId.NotFound"):
        cloud.fleet([config("lt-00000000000000000")])
    by_name = {
        "LaunchTemplateSpecification": {"LaunchTemplateName": "nobody", "Version": "1"}
    }
    with refused("InvalidLaunchTemplateName.NotFoundException"):
        cloud.fleet([by_name])
    old = {
        "LaunchTemplateSpecification": {
            "LaunchTemplateId": cloud.template(),
            "Version": "9",
        }
    }
    with refused("InvalidLaunchTemplateId.VersionNotFound"):
        cloud.fleet([old])


@pytest.mark.parametrize(
    ("data", "pool", "code"),
    [
        (
            {},
            {"InstanceType": "zz9.huge", "AvailabilityZone": ZONE_A},
            "InvalidParameterValue",
        ),
        ({}, override("p4d.24xlarge", "us-east-1e"), "Unsupported"),
        (
            {},
            {"InstanceType": TYPE, "SubnetId": "subnet-00000000"},
            "InvalidSubnetID.NotFound",
        ),
        ({"ImageId": "ami-00000000000000000"}, override(), "InvalidAMIID.NotFound"),
        ({"ImageId": "banana"}, override(), "InvalidAMIID.Malformed"),
        ({}, override("m6g.large"), "InvalidParameterValue"),
        ({"SecurityGroupIds": ["sg-00000000"]}, override(), "InvalidGroup.NotFound"),
        (
            {"UserData": base64.b64encode(b"x" * 16_385).decode()},
            override(),
            "InvalidParameterValue",
        ),
        ({"UserData": "not base64"}, override(), "InvalidUserData.Malformed"),
        ({"TagSpecifications": TOO_MANY_TAGS}, override(), "TagLimitExceeded"),
    ],
)
def test_what_fails_one_pool_only(
    cloud: Cloud, data: dict[str, Any], pool: dict[str, Any], code: str
) -> None:
    good = config(cloud.template(), override("c5.xlarge"))
    bad = config(cloud.template(**data), {"Priority": 0, **pool})
    answer = cloud.fleet([bad, good], OnDemandOptions={"AllocationStrategy": "prioritized"})
    assert error_codes(answer) == [code]
    assert [e["InstanceType"] for e in answer["Instances"]] == ["c5.xlarge"]


DOCUMENTED_CODES = (
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "UnfulfillableCapacity",
    "UnauthorizedOperation",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "PendingVerification",
    "InternalError",
    "InvalidLaunchTargets",
)


@pytest.mark.parametrize("code", DOCUMENTED_CODES)
def test_any_error_code_can_be_ordered_for_a_pool(cloud: Cloud, code: str) -> None:
    cloud.control("refuse_launches", code=code, zone=ZONE_A, count=1)
    answer = cloud.fleet(
        [config(cloud.template(), override(zone=ZONE_A), override(zone=ZONE_B))]
    )
    assert error_codes(answer) == [code]
    assert answer["Instances"][0]["AvailabilityZone"] == ZONE_B


def test_a_subnet_runs_out_of_addresses(cloud: Cloud) -> None:
    vpc = cloud.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    made = cloud.ec2.create_subnet(
        VpcId=vpc, CidrBlock="172.31.250.0/28", AvailabilityZone=ZONE_A
    )["Subnet"]
    subnet = {"InstanceType": TYPE, "SubnetId": made["SubnetId"]}
    answer = cloud.fleet([config(cloud.template(), subnet)], total=12)
    assert len(launched(answer)) == 11
    assert error_codes(answer) == ["InsufficientFreeAddressesInSubnet"]
    described = cloud.ec2.describe_subnets(SubnetIds=[made["SubnetId"]])["Subnets"][0]
    assert described["AvailableIpAddressCount"] == 0
    cloud.ec2.terminate_instances(InstanceIds=launched(answer))
    cloud.advance(minutes=1)
    described = cloud.ec2.describe_subnets(SubnetIds=[made["SubnetId"]])["Subnets"][0]
    assert described["AvailableIpAddressCount"] == 11


def test_deleting_an_instant_fleet_terminates_its_instances(cloud: Cloud) -> None:
    answer = cloud.fleet([config(cloud.template())], total=2)
    with refused("InvalidParameterValue"):
        cloud.ec2.delete_fleets(FleetIds=[answer["FleetId"]], TerminateInstances=False)
    deleted = cloud.ec2.delete_fleets(FleetIds=[answer["FleetId"]], TerminateInstances=True)
    assert (
        deleted["SuccessfulFleetDeletions"][0]["CurrentFleetState"] == "deleted_terminating"
    )
    assert {i["State"]["Name"] for i in cloud.instances()} == {"shutting-down"}


def test_instant_fleets_are_described_only_by_id(cloud: Cloud) -> None:
    answer = cloud.fleet([config(cloud.template())])
    assert cloud.ec2.describe_fleets()["Fleets"] == []
    (fleet,) = cloud.ec2.describe_fleets(FleetIds=[answer["FleetId"]])["Fleets"]
    assert fleet["Instances"][0]["InstanceIds"] == launched(answer)
    with refused("InvalidFleetId.NotFound"):
        cloud.ec2.describe_fleets(FleetIds=["fleet-00000000-0000-0000-0000-000000000000"])


def test_only_instant_fleets_are_emulated(cloud: Cloud) -> None:
    target = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"}
    with refused("UnsupportedOperation"):
        cloud.ec2.create_fleet(
            Type="maintain",
            LaunchTemplateConfigs=[config(cloud.template())],
            TargetCapacitySpecification=target,
        )
