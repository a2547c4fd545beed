"""A deployment whose functions run in a VPC: endpoints are enough, and what none leads to is found before.

The tests tell one story in their order, on one deployment.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from lab.embedded.client import EmbeddedAws
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.adapters.clients import is_served
from reservoir.adapters.ec2.network import Ec2LaunchEnvironment
from reservoir.cli.examination.network import SERVICES, vpc
from reservoir.cli.examination.place import Place
from reservoir.deployment.deployment import read
from reservoir.names import Function

pytestmark = pytest.mark.embedded

STEADY: Final = "m7i.large"
GATEWAYS: Final = ("dynamodb", "s3")
REGION: Final = "us-east-1"
OF_ENDPOINTS: Final = "endpoints"
FROM_VPC: Final = [
    {
        "IpProtocol": "tcp",
        "FromPort": 443,
        "ToPort": 443,
        "IpRanges": [{"CidrIp": "10.0.0.0/16"}],
    }
]


def prepare(aws: EmbeddedAws) -> dict[str, Any]:
    """Make a VPC without a way out, and an endpoint for each service that functions call."""
    ec2 = aws.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(
            VpcId=vpc_id,
            CidrBlock=f"10.0.{number}.0/24",
            AvailabilityZone=f"{REGION}{zone}",
        )["Subnet"]["SubnetId"]
        for number, zone in enumerate("ab")
    ]
    group = ec2.create_security_group(
        VpcId=vpc_id, GroupName="functions", Description="HTTPS out"
    )["GroupId"]
    of_endpoints = ec2.create_security_group(
        VpcId=vpc_id, GroupName=OF_ENDPOINTS, Description="HTTPS from functions"
    )["GroupId"]
    ec2.authorize_security_group_ingress(GroupId=of_endpoints, IpPermissions=FROM_VPC)
    for service in SERVICES:
        make_endpoint(aws, vpc_id, service, of_endpoints)
    return {"vpc": {"subnets": subnets, "securityGroups": [group]}}


def make_endpoint(aws: EmbeddedAws, vpc_id: str, service: str, group: str) -> None:
    ec2 = aws.client("ec2")
    name = (
        f"com.amazonaws.{service}"
        if service == "iam"
        else f"com.amazonaws.{REGION}.{service}"
    )
    if service not in GATEWAYS:
        ec2.create_vpc_endpoint(
            VpcId=vpc_id,
            ServiceName=name,
            VpcEndpointType="Interface",
            SecurityGroupIds=[group],
            PrivateDnsEnabled=True,
        )
        return
    in_vpc = [{"Name": "vpc-id", "Values": [vpc_id]}]
    (table,) = ec2.describe_route_tables(Filters=in_vpc)["RouteTables"]
    ec2.create_vpc_endpoint(
        VpcId=vpc_id,
        ServiceName=name,
        VpcEndpointType="Gateway",
        RouteTableIds=[table["RouteTableId"]],
    )


def network_of(world: World) -> dict[str, Any]:
    """Return the settings of the functions' network, as Lambda has them."""
    name = f"{world.reservoir.outputs['ReservoirDeployment']}-{Function.LAUNCH}"
    config = world.aws.client("lambda").get_function_configuration(FunctionName=name)
    found = config["VpcConfig"]
    return {"subnets": found["SubnetIds"], "securityGroups": found["SecurityGroupIds"]}


def missing(world: World, folder: Path) -> list[str]:
    """Return what the check before a deployment says of that network."""
    path = folder / "production.yaml"
    path.write_text(json.dumps({"vpc": network_of(world)}))
    return found_of(world.aws, path)


def found_of(aws: EmbeddedAws, path: Path) -> list[str]:
    """Return what the check before a deployment says of the network of its settings."""
    environment = Ec2LaunchEnvironment(
        aws.client("ec2"), aws.client("ssm"), aws.client("iam"), aws.clock
    )
    prices = aws.client("pricing")
    place = Place(read(path), aws.client, lambda _: prices, REGION, environment, is_served)
    return [each.message for each in vpc(place)]


def test_endpoints_for_what_functions_call_are_enough(world: World, tmp_path: Path) -> None:
    assert missing(world, tmp_path) == []
    world.reserve("steady-1", STEADY, f"{REGION}a", 1, "steady")
    pool = one_type_pool("steady", STEADY, ["reserved", "on-demand"])
    world.apply(write_manifests(tmp_path, pool))
    world.discover()
    world.send({"action": "submit", "workload": story_workload("steady", 1, "1")})
    world.until("it runs", lambda seen: bool(seen.launched))


def test_endpoints_that_let_nobody_in_are_found_and_reached_by_no_function(
    world: World, tmp_path: Path
) -> None:
    ec2 = world.aws.client("ec2")
    named = [{"Name": "group-name", "Values": [OF_ENDPOINTS]}]
    (group,) = ec2.describe_security_groups(Filters=named)["SecurityGroups"]
    rules = {"GroupId": group["GroupId"], "IpPermissions": FROM_VPC}
    world.aws.clock.pause()
    ec2.revoke_security_group_ingress(**rules)
    told = missing(world, tmp_path)
    assert len(told) == 2  # of each subnet
    assert all("let no HTTPS in" in message for message in told)
    with pytest.raises(RuntimeError, match="ec2"):
        world.reservoir.invoke(Function.DISCOVER_OFFERINGS)
    ec2.authorize_security_group_ingress(**rules)
    assert missing(world, tmp_path) == []
    world.aws.clock.resume()


def test_what_no_endpoint_leads_to_is_found_and_reached_by_no_function(
    world: World, tmp_path: Path
) -> None:
    ec2 = world.aws.client("ec2")
    (found,) = [
        each
        for each in ec2.describe_vpc_endpoints()["VpcEndpoints"]
        if each["ServiceName"].endswith(".dynamodb")
    ]
    ec2.delete_vpc_endpoints(VpcEndpointIds=[found["VpcEndpointId"]])
    told = missing(world, tmp_path)
    assert len(told) == 2  # of each subnet
    assert all(message.endswith("nothing leads to dynamodb") for message in told)
    with pytest.raises(RuntimeError, match="dynamodb"):
        world.reservoir.invoke(Function.EXPIRE)


def test_lambda_makes_no_function_whose_role_may_make_no_interfaces(world: World) -> None:
    network = network_of(world)
    answered = create(world, "poor", network, actions=["logs:PutLogEvents"])
    assert "permissions to call CreateNetworkInterface on EC2" in answered
    allowed = ["ec2:*NetworkInterface*", "ec2:DescribeSubnets"]
    elsewhere = {**network, "subnets": ["subnet-0123456789abcdef0"]}
    assert "InvalidSubnetID.NotFound" in create(world, "lost", elsewhere, actions=allowed)
    assert create(world, "good", network, actions=allowed) == "made"


def test_lambda_makes_no_interface_in_a_subnet_without_addresses(
    world: World, tmp_path: Path
) -> None:
    full = full_subnet(world)
    in_it = {**network_of(world), "subnets": [full]}
    allowed = ["ec2:*NetworkInterface*", "ec2:DescribeSubnets"]
    assert "no available IP addresses" in create(
        world, "no-address", in_it, actions=allowed
    )
    path = tmp_path / "another.yaml"
    path.write_text(json.dumps({"stack": "Another", "vpc": in_it}))
    assert f"no address is free in {full}" in " ".join(found_of(world.aws, path))


def test_functions_share_interfaces_of_which_a_vpc_has_room_for_500(world: World) -> None:
    ec2 = world.aws.client("ec2")
    in_vpc = vpc_of_functions(world)
    subnets = [
        ec2.create_subnet(CidrBlock=f"10.0.{100 + number}.0/24", **in_vpc)["Subnet"]
        for number in range(16)
    ]
    network = {"subnets": [each["SubnetId"] for each in subnets]}
    allowed = ["ec2:*NetworkInterface*", "ec2:DescribeSubnets"]

    def made(name: str, group: str) -> str:
        shared = {**network, "securityGroups": [group]}
        return create(world, name, shared, actions=allowed)

    groups = [
        ec2.create_security_group(GroupName=name, Description=name, **in_vpc)["GroupId"]
        for name in map("of-many-{}".format, range(32))
    ]
    *fitting, beyond = groups
    for number, group in enumerate(fitting):
        assert made(f"many-{number}", group) == "made"
    assert "maximum limit for Lambda HyperPlane ENIs" in made("beyond", beyond)
    assert made("sharing", fitting[0]) == "made"


def vpc_of_functions(world: World) -> dict[str, str]:
    subnet, _ = network_of(world)["subnets"]
    (found,) = world.aws.client("ec2").describe_subnets(SubnetIds=[subnet])["Subnets"]
    return {"VpcId": found["VpcId"]}


def full_subnet(world: World) -> str:
    """Make a subnet of the functions' VPC all of whose addresses are taken."""
    ec2 = world.aws.client("ec2")
    made = ec2.create_subnet(CidrBlock="10.0.200.0/28", **vpc_of_functions(world))["Subnet"]
    for _ in range(made["AvailableIpAddressCount"]):
        ec2.create_network_interface(SubnetId=made["SubnetId"])
    return str(made["SubnetId"])


def create(world: World, name: str, network: dict[str, Any], *, actions: list[str]) -> str:
    """Make a function with a role of its own; return why not, or that it is made."""
    iam = world.aws.client("iam")
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}
    role = iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps(
            {"Statement": [{**trust, "Action": "sts:AssumeRole"}]}
        ),
    )["Role"]["Arn"]
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    iam.put_role_policy(
        RoleName=name,
        PolicyName="own",
        PolicyDocument=json.dumps({"Statement": [statement]}),
    )
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", "def handler(*_): pass")
    try:
        world.aws.client("lambda").create_function(
            FunctionName=name,
            Role=role,
            Runtime="python3.13",
            Handler="index.handler",
            Code={"ZipFile": code.getvalue()},
            VpcConfig={
                "SubnetIds": network["subnets"],
                "SecurityGroupIds": network["securityGroups"],
            },
        )
    except ClientError as error:
        return str(error)
    return "made"
