"""Blocks that begin tomorrow, each with something else that would make its first launch fail: all of it is told today.

Every fault has a class, a pool and a block of its own. Some are mistakes of policy; others befell what AWS has, after
the block was bought.
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from lab.embedded.reservoir import IMAGE_PARAMETER, NETWORK_TAG
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World

pytestmark = pytest.mark.embedded
TYPE: Final = "p5.48xlarge"
ZONE, OTHER_ZONE = "us-east-1a", "us-east-1b"
BEGINS_IN: Final = timedelta(hours=26)
ROLE: Final = "somebody-elses"
_TRUST: Final = {
    "Effect": "Allow",
    "Principal": {"Service": "ec2.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
Manifests = list[dict[str, Any]]


def pool_of(name: str, *markets: str, **of_class: Any) -> Manifests:
    return one_type_pool(name, TYPE, markets or ("reserved",), **of_class)


def asking(name: str, key: str, value: str) -> Manifests:
    """Return policy whose pool asks for one thing that the block has not."""
    made = pool_of(name)
    requirements = made[1]["spec"]["template"]["spec"]["requirements"]
    requirements[:] = [each for each in requirements if each["key"] != key]
    requirements.append({"key": key, "operator": "In", "values": [value]})
    return made


def limited(name: str) -> Manifests:
    made = pool_of(name)
    made[1]["spec"]["limits"] = {"cpu": "100"}
    return made


def tagged(name: str) -> list[dict[str, Any]]:
    return [{"tags": {"only": name}}]


class Account:
    """What AWS has for the classes, and what befalls it."""

    def __init__(self, world: World) -> None:
        self.ec2, self.iam = world.aws.client("ec2"), world.aws.client("iam")
        self.ssm = world.aws.client("ssm")
        key, value = NETWORK_TAG["Key"], NETWORK_TAG["Value"]
        (first, *_) = self.ec2.describe_subnets(
            Filters=[{"Name": f"tag:{key}", "Values": [value]}]
        )["Subnets"]
        self.vpc = first["VpcId"]
        (vpc,) = self.ec2.describe_vpcs(VpcIds=[self.vpc])["Vpcs"]
        self.network = ".".join(vpc["CidrBlock"].split(".")[:2])
        self.made: dict[str, str] = {}

    def subnet(self, name: str, zone: str, number: int) -> None:
        made = self.ec2.create_subnet(
            VpcId=self.vpc,
            CidrBlock=f"{self.network}.250.{16 * number}/28",
            AvailabilityZone=zone,
        )["Subnet"]["SubnetId"]
        self._tag(name, made)

    def group(self, name: str) -> None:
        made = self.ec2.create_security_group(
            GroupName=name, Description=name, VpcId=self.vpc
        )["GroupId"]
        self._tag(name, made)

    def image(self, name: str) -> None:
        made = self.ec2.register_image(Name=name, Architecture="x86_64")["ImageId"]
        self._tag(name, made)

    def role(self, name: str) -> None:
        self.iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=json.dumps(
                {"Version": "2012-10-17", "Statement": [_TRUST]}
            ),
        )
        self.iam.create_instance_profile(InstanceProfileName=name)
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)

    def fill(self, name: str) -> None:
        """Take every free address of a subnet."""
        (subnet,) = self.ec2.describe_subnets(SubnetIds=[self.made[name]])["Subnets"]
        free = subnet["AvailableIpAddressCount"]
        image = self.ssm.get_parameter(Name=IMAGE_PARAMETER.format("x86_64"))
        self.ec2.run_instances(
            ImageId=image["Parameter"]["Value"],
            InstanceType="m5.large",
            MinCount=free,
            MaxCount=free,
            SubnetId=self.made[name],
        )

    def _tag(self, name: str, resource: str) -> None:
        self.made[name] = resource
        self.ec2.create_tags(Resources=[resource], Tags=[{"Key": "only", "Value": name}])


def policy(account: Account) -> dict[str, Manifests]:
    """Return the policy of each fault by its name, which is the code in lower case."""
    account.role(ROLE)
    account.group("nosecuritygroup")
    account.image("noimage")
    account.subnet("nosubnet", ZONE, 0)
    account.subnet("nosubnetinzone", OTHER_ZONE, 1)
    account.subnet("nofreeaddress", ZONE, 2)
    zone, kind = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
    reservation_type = "karpenter.k8s.aws/capacity-reservation-type"
    nobody = pool_of("nonodepool")
    nobody[1]["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "nosubnet"
    return {
        "nosecuritygroup": pool_of(
            "nosecuritygroup", securityGroupSelectorTerms=tagged("nosecuritygroup")
        ),
        "noimage": pool_of("noimage", amiSelectorTerms=tagged("noimage")),
        "nosubnet": pool_of("nosubnet", subnetSelectorTerms=tagged("nosubnet")),
        "nosubnetinzone": pool_of(
            "nosubnetinzone", subnetSelectorTerms=tagged("nosubnetinzone")
        ),
        "nofreeaddress": pool_of(
            "nofreeaddress", subnetSelectorTerms=tagged("nofreeaddress")
        ),
        "dryrunrefused": pool_of("dryrunrefused", role=None, instanceProfile=ROLE),
        "marketnotadmitted": pool_of("marketnotadmitted", "on-demand"),
        "typenotadmitted": asking("typenotadmitted", kind, "m5.large"),
        "zonenotadmitted": asking("zonenotadmitted", zone, OTHER_ZONE),
        "labelnotadmitted": asking("labelnotadmitted", reservation_type, "default"),
        "limittoolow": limited("limittoolow"),
        "poolpaused": pool_of("poolpaused"),
        "nonodepool": nobody,
        "notselected": pool_of("notselected"),
        "clean": pool_of("clean"),
        "tenancydiffers": pool_of("tenancydiffers", tenancy="dedicated"),
    }


def befall(world: World, account: Account, blocks: dict[str, str]) -> None:
    """Let happen what comes after the block was bought."""
    account.ec2.delete_security_group(GroupId=account.made["nosecuritygroup"])
    account.ec2.deregister_image(ImageId=account.made["noimage"])
    account.ec2.delete_subnet(SubnetId=account.made["nosubnet"])
    account.fill("nofreeaddress")
    account.ec2.delete_tags(Resources=[blocks["notselected"]], Tags=[{"Key": "purpose"}])
    paused = world.command("pause", "pool", "poolpaused", "--reason", "a test")
    assert paused.returncode == 0, paused.stderr


def _codes(event: dict[str, Any]) -> set[str]:
    return {each["code"].lower() for each in event["problems"]}


def test_each_is_told_more_than_an_hour_before_it_begins_and_the_clean_one_is_not(
    world: World, tmp_path: Path
) -> None:
    account = Account(world)
    manifests = policy(account)
    world.apply(
        write_manifests(tmp_path, [each for made in manifests.values() for each in made])
    )
    begins_in_s = BEGINS_IN.total_seconds()
    blocks = {
        name: world.buy_block(
            name,
            TYPE,
            ZONE,
            1,
            name,
            start_in_s=begins_in_s,
            end_in_s=begins_in_s + 86_400,
        )
        for name in manifests
    }
    begins_at = world.now() + BEGINS_IN
    world.aws.clock.advance(timedelta(minutes=6))  # they have been paid
    world.discover()
    befall(world, account, blocks)
    world.discover()
    assert world.events("Reservation Readiness") == [], "it is more than a day before"

    world.aws.clock.advance(timedelta(hours=3))
    names = {block: name for name, block in blocks.items()}
    faults = set(manifests) - {"clean"}

    def found() -> set[str]:
        return {
            names[it["capacityReservationId"]]
            for it in world.events("Reservation Readiness")
            if names[it["capacityReservationId"]] in _codes(it)
        }

    world.until("each is told by its name", lambda _: faults <= found())
    assert world.now() < begins_at - timedelta(hours=1)
    assert found() == faults
    assert "clean" not in {
        names[it["capacityReservationId"]] for it in world.events("Reservation Readiness")
    }

    world.expected_denials += [line for line in world.denials() if "iam:PassRole" in line]
