"""What functions may do in EC2.

EC2 does not know the names of what is about to be launched, so the owner tag is the condition of everything that
creates, changes or ends: nothing of anybody else's can be touched. ``Describe*`` calls know no resources at all; they
are held to the stack's region.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from infra.iam.grants import Grant, Resources
from reservoir import names

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
    """Allow launching, with everything that it creates tagged as ours, from launch templates of ours."""
    yield from _launch_what_is_ours(resources)
    yield from _launch_from_templates(resources)
    yield from _launch_into(resources)
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


def _launch_what_is_ours(resources: Resources) -> Iterable[Grant]:
    from_template = {"ArnLike": {"ec2:LaunchTemplate": resources.ec2("launch-template")[0]}}
    yield Grant(
        "AskForFleets",
        "A fleet, and what it creates, carries the owner tag from birth; EC2 takes no fleet without a launch template.",
        ["ec2:CreateFleet"],
        resources.ec2(*LAUNCHED_KINDS),
        {"StringEquals": resources.owner_requested},
    )
    yield Grant(
        "LaunchInstances",
        "An instance carries the owner tag from birth, comes from a launch template, and asks for metadata by token.",
        ["ec2:RunInstances"],
        resources.ec2("instance"),
        {
            "StringEquals": {**resources.owner_requested, **_tokens_required(resources)},
            **from_template,
        },
    )
    yield Grant(
        "AttachToInstances",
        "What an instance is born with carries the owner tag too, and comes from a launch template.",
        ["ec2:RunInstances"],
        resources.ec2("network-interface", "volume"),
        {"StringEquals": resources.owner_requested, **from_template},
    )


def _launch_from_templates(resources: Resources) -> Iterable[Grant]:
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
        "AskFromOurTemplates",
        "EC2 asks whether a fleet may use a template before it looks whether there is one, when it has no tag to show."
        " Instances still want a template that carries the owner tag.",
        ["ec2:CreateFleet"],
        resources.ec2("launch-template"),
        {"StringEquals": resources.owner_requested},
    )
    images = [f"arn:{resources.stack.partition}:ec2:{resources.stack.region}::image/*"]
    yield Grant(
        "AskForImages",
        "A fleet launches the image of its launch template.",
        ["ec2:CreateFleet"],
        images,
        {"StringEquals": {"aws:RequestedRegion": resources.stack.region}},
    )
    yield Grant(
        "LaunchImagesOfTemplates",
        "An instance boots the image that its launch template names, and no other that a request puts in its place.",
        ["ec2:RunInstances"],
        images,
        {"Bool": {"ec2:IsLaunchTemplateResource": "true"}},
    )


def _launch_into(resources: Resources) -> Iterable[Grant]:
    stack = resources.stack
    yield Grant(
        "LaunchInto",
        "What a launch refers to; reservations and subnets may belong to accounts that share them.",
        ["ec2:CreateFleet", "ec2:RunInstances"],
        [
            *resources.ec2(*REFERRED_KINDS, any_account=True),
            f"arn:{stack.partition}:ec2:{stack.region}::snapshot/*",
            resources.reservation_groups_arn,
        ],
        {"StringEquals": {"aws:RequestedRegion": stack.region}},
    )


def use_keys(resources: Resources) -> Iterable[Grant]:
    """Allow EC2 to encrypt volumes of launches with the deployment's keys; their own policies must agree."""
    keys = resources.deployment.settings.kms_keys
    if not keys:
        return
    through_ec2 = {"kms:ViaService": f"ec2.{resources.stack.region}.amazonaws.com"}
    yield Grant(
        "EncryptVolumes",
        "EC2 makes the volumes of a launch with the launching role's permission to use their key.",
        [
            "kms:Decrypt",
            "kms:DescribeKey",
            "kms:GenerateDataKeyWithoutPlaintext",
            "kms:ReEncryptFrom",
            "kms:ReEncryptTo",
        ],
        keys,
        {"StringEquals": through_ec2},
    )
    yield Grant(
        "LendKeysToVolumes",
        "A volume holds its key by a grant; only AWS's own services can be given one.",
        ["kms:CreateGrant"],
        keys,
        {"StringEquals": through_ec2, "Bool": {"kms:GrantIsForAWSResource": "true"}},
    )


def _tokens_required(resources: Resources) -> dict[str, object]:
    """Return the test that the metadata service answers to tokens only (IMDSv2), unless the deployment lets it."""
    tokens = resources.deployment.settings.metadata_http_tokens
    return {"ec2:MetadataHttpTokens": tokens} if tokens == "required" else {}


def move_units(resources: Resources) -> Iterable[Grant]:
    """Allow moving units between reservations whose owner says so."""
    yield Grant(
        "MoveUnits",
        "Units move only between reservations of this account that both carry the tag that allows it.",
        ["ec2:MoveCapacityReservationInstances"],
        resources.ec2("capacity-reservation"),
        {"StringEquals": {f"aws:ResourceTag/{names.MOVABLE_TAG}": names.MOVABLE_VALUE}},
    )


def split_units(resources: Resources) -> Iterable[Grant]:
    """Allow splitting units off for nodes that EC2 moves into them, and giving them back (``move_units``)."""
    reservations = resources.ec2("capacity-reservation")
    movable = {f"aws:ResourceTag/{names.MOVABLE_TAG}": names.MOVABLE_VALUE}
    yield Grant(
        "SplitUnits",
        "Units are split off reservations of this account that carry the tag that allows it.",
        ["ec2:CreateCapacityReservationBySplitting"],
        reservations,
        {"StringEquals": movable},
    )
    made = {
        **resources.owner_requested,
        f"aws:RequestTag/{names.MOVABLE_TAG}": names.MOVABLE_VALUE,
    }
    yield Grant(
        "MakeOfUnits",
        "What is split off carries the owner tag, and the tag by which its units may go back.",
        ["ec2:CreateCapacityReservationBySplitting"],
        reservations,
        {"StringEquals": made},
    )
    of_splitting = {"ec2:CreateAction": "CreateCapacityReservationBySplitting"}
    yield Grant(
        "TagOfUnits",
        "What is split off is tagged at its birth, and never later.",
        ["ec2:CreateTags"],
        reservations,
        {"StringEquals": {**resources.owner_requested, **of_splitting}},
    )
    stack = resources.stack
    yield Grant(
        "JoinGroups",
        "What was split off joins a resource group of this account whose name begins with reservoir-.",
        ["resource-groups:GroupResources"],
        [
            f"arn:{stack.partition}:resource-groups:{stack.region}:{stack.account}:group/reservoir-*"
        ],
    )


def recall_units(resources: Resources) -> Iterable[Grant]:
    """Allow taking lent units back, and lending more of what is lent already."""
    yield Grant(
        "RecallUnits",
        "What is lent changes only of reservations of this account that carry the tag that allows it.",
        ["ec2:UpdateInterruptibleCapacityReservationAllocation"],
        resources.ec2("capacity-reservation"),
        {"StringEquals": {f"aws:ResourceTag/{names.LENDABLE_TAG}": names.LENDABLE_VALUE}},
    )


def lend_units(resources: Resources) -> Iterable[Grant]:
    """Allow lending idle units (with ``recall_units``)."""
    reservations = resources.ec2("capacity-reservation")
    yield Grant(
        "LendUnits",
        "Units are lent of reservations of this account that carry the tag that allows it.",
        ["ec2:CreateInterruptibleCapacityReservationAllocation"],
        reservations,
        {"StringEquals": {f"aws:ResourceTag/{names.LENDABLE_TAG}": names.LENDABLE_VALUE}},
    )
    yield Grant(
        "MakeOfLentUnits",
        "What is lent carries the owner tag.",
        ["ec2:CreateInterruptibleCapacityReservationAllocation"],
        reservations,
        {"StringEquals": resources.owner_requested},
    )
    of_lending = {"ec2:CreateAction": "CreateInterruptibleCapacityReservationAllocation"}
    yield Grant(
        "TagOfLentUnits",
        "What is lent is tagged at its birth, and never later.",
        ["ec2:CreateTags"],
        reservations,
        {"StringEquals": {**resources.owner_requested, **of_lending}},
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
