"""What functions may do in EC2.

EC2 does not know the names of what is about to be launched, so the owner tag is the condition of everything that
creates, changes or ends: nothing of anybody else's can be touched. ``Describe*`` calls know no resources at all; they
are held to the stack's region.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from infra.grants import Grant, Resources
from shared import names

# What a launch creates: everything is tagged at birth, or the launch is refused.
LAUNCHED_KINDS: Final = ("fleet", "instance", "network-interface", "volume")
# What a launch refers to. No tag guards these: without an instance, which needs the tag, they launch nothing.
REFERRED_KINDS: Final = (
    "capacity-reservation",
    "placement-group",
    "security-group",
    "spot-instances-request",
    "subnet",
)


def describe(what: Sequence[str], resources: Resources) -> Grant:
    """Allow ``Describe`` calls."""
    return Grant(
        "DescribeEc2",
        "Re-reads the truth; EC2 has no narrower resource for Describe calls.",
        [f"ec2:Describe{each}" for each in what],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": resources.stack.region}},
    )


def launch(resources: Resources) -> Iterable[Grant]:
    """Allow launching, with everything that it creates tagged as ours."""
    stack = resources.stack
    yield Grant(
        "LaunchWhatIsTaggedOurs",
        "Everything that a launch creates carries the owner tag from birth.",
        ["ec2:CreateFleet", "ec2:RunInstances"],
        resources.ec2(*LAUNCHED_KINDS),
        {"StringEquals": resources.owner_requested},
    )
    yield Grant(
        "MakeOurTemplates",
        "Launch templates carry the owner tag from birth, too.",
        ["ec2:CreateLaunchTemplate"],
        resources.ec2("launch-template"),
        {"StringEquals": resources.owner_requested},
    )
    yield Grant(
        "LaunchFromOurTemplates",
        "Launches use launch templates that carry the owner tag, and no others.",
        ["ec2:CreateFleet", "ec2:RunInstances"],
        resources.ec2("launch-template"),
        {"StringEquals": resources.owner_present},
    )
    yield Grant(
        "LaunchInto",
        "What a launch refers to; reservations and subnets may belong to accounts that share them.",
        ["ec2:CreateFleet", "ec2:RunInstances"],
        [
            *resources.ec2(*REFERRED_KINDS, any_account=True),
            *(f"arn:{stack.partition}:ec2:{stack.region}::{kind}/*" for kind in ("image", "snapshot")),
            resources.reservation_groups_arn,
        ],
        {"StringEquals": {"aws:RequestedRegion": stack.region}},
    )
    yield Grant(
        "TagAtLaunch",
        "The owner tag is set only together with a launch, never afterwards.",
        ["ec2:CreateTags"],
        resources.ec2(*LAUNCHED_KINDS, "launch-template"),
        {
            "StringEquals": {
                **resources.owner_requested,
                "ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate", "RunInstances"],
            }
        },
    )
    yield Grant(
        "HandRoleToInstances",
        "Instances run with the role of their EC2NodeClass, of those that the deployment allows.",
        ["iam:PassRole"],
        [resources.instance_roles_arn],
        {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    )


def move_units(resources: Resources) -> Iterable[Grant]:
    """Allow moving units between reservations whose owner says so."""
    yield Grant(
        "MoveUnits",
        "Units move only between reservations of this account that both carry the tag that allows it.",
        ["ec2:MoveCapacityReservationInstances"],
        resources.ec2("capacity-reservation"),
        {"StringEquals": {f"aws:ResourceTag/{names.MOVABLE_TAG}": names.MOVABLE_VALUE}},
    )


def end_instances(resources: Resources) -> Iterable[Grant]:
    """Allow terminating what we launched."""
    yield Grant(
        "EndOurInstances",
        "Only what Reservoir launched can be terminated.",
        ["ec2:TerminateInstances"],
        resources.ec2("instance"),
        {"StringEquals": resources.owner_present},
    )


def name_claims(resources: Resources) -> Iterable[Grant]:
    """Allow tagging an instance with its claim."""
    yield Grant(
        "NameTheClaim",
        "An instance of ours gets the tag that names its claim; no other tag can be changed.",
        ["ec2:CreateTags"],
        resources.ec2("instance"),
        {
            "StringEquals": resources.owner_present,
            "ForAllValues:StringEquals": {"aws:TagKeys": [names.NODE_CLAIM_TAG]},
            "Null": {"aws:TagKeys": "false"},  # the line above holds for no tags too
        },
    )


def delete_templates(resources: Resources) -> Iterable[Grant]:
    """Allow deleting launch templates that we made."""
    yield Grant(
        "DeleteOurTemplates",
        "A region holds 5,000 launch templates; unused ones of ours go.",
        ["ec2:DeleteLaunchTemplate"],
        resources.ec2("launch-template"),
        {"StringEquals": resources.owner_present},
    )
