"""What an account has before Reservoir comes: a tagged network, an image, and a role for nodes."""

import json
from typing import Any, Final

from lab.embedded.client import EmbeddedAws

# what the examples' classes select
NETWORK_TAG: Final = {"Key": "network", "Value": "private"}
NODE_ROLE: Final = "reservoir-node"
# as teams publish their own images; what examples/demo selects
IMAGE_PARAMETER: Final = "/images/node/{}"
_TRUST_EC2: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


def make_network(aws: EmbeddedAws) -> None:
    """Tag the default subnets and security group, publish an image, and make a role that nodes may use."""
    ec2, iam, ssm = aws.client("ec2"), aws.client("iam"), aws.client("ssm")
    subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]]
    group = ec2.describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["default"]}]
    )["SecurityGroups"][0]
    ec2.create_tags(Resources=[*subnets, group["GroupId"]], Tags=[NETWORK_TAG])
    for architecture in ("x86_64", "arm64"):
        ssm.put_parameter(
            Name=IMAGE_PARAMETER.format(architecture),
            Value=_image(ec2, architecture),
            Type="String",
            Overwrite=True,
        )
    iam.create_role(RoleName=NODE_ROLE, AssumeRolePolicyDocument=json.dumps(_TRUST_EC2))
    iam.create_instance_profile(InstanceProfileName=NODE_ROLE)
    iam.add_role_to_instance_profile(InstanceProfileName=NODE_ROLE, RoleName=NODE_ROLE)


def make_way_out(aws: EmbeddedAws) -> dict[str, list[str]]:
    """Make a VPC whose private subnet leads to a NAT gateway; return it as the settings name it."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]
    in_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
    (table,) = ec2.describe_route_tables(Filters=in_vpc)["RouteTables"]
    ec2.create_route(
        RouteTableId=table["RouteTableId"],
        DestinationCidrBlock="0.0.0.0/0",
        NatGatewayId=gateway["NatGatewayId"],
    )
    group = ec2.create_security_group(
        VpcId=vpc, GroupName="functions", Description="HTTPS out"
    )["GroupId"]
    return {"subnets": [subnet], "securityGroups": [group]}


def _image(ec2: Any, architecture: str) -> str:
    filters = [{"Name": "architecture", "Values": [architecture]}]
    found = ec2.describe_images(Filters=filters)["Images"]
    if found:
        return str(found[0]["ImageId"])
    return str(
        ec2.register_image(Name=f"al2023-{architecture}", Architecture=architecture)[
            "ImageId"
        ]
    )
