"""What each function may do in AWS, statement by statement, each with its reason.

Rules, asserted by ``tests/infra``: a mutating action names its resource; where EC2 knows no name beforehand (what is
about to be launched), the owner tag is the condition, so that nothing of anybody else's can be made, changed or ended.
EC2's ``Describe*`` calls know no resources at all; they are held to the stack's region.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from infra.config import StackConfig
from infra.tables import indexes
from shared import names
from shared.names import Function, Queue, Table

READ: Final = ("dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query")
WRITE: Final = ("dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem")

# The tables that a function writes, and those that it only reads. Transactions need the actions of their parts.
WRITES: Final[Mapping[Function, tuple[Table, ...]]] = {
    Function.INTAKE: (Table.WORKLOADS, Table.NODE_CLAIMS, Table.RESERVATIONS),
    Function.DISCOVER_RESERVATIONS: (Table.RESERVATIONS, Table.NODE_CLAIMS, Table.POLICY),
    Function.DISCOVER_OFFERINGS: (Table.OFFERINGS,),
    Function.PROVISION: (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS, Table.DECISIONS),
    Function.LAUNCH: (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS, Table.OFFERINGS, Table.POLICY),
    Function.REACT: (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS, Table.OFFERINGS),
    Function.EXPIRE: (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS),
    Function.DISRUPT: (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS, Table.DECISIONS),
    Function.COLLECT: (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS),
    Function.APPLY: (Table.POLICY,),
}
READS: Final[Mapping[Function, tuple[Table, ...]]] = {
    Function.INTAKE: (Table.POLICY,),
    Function.DISCOVER_OFFERINGS: (Table.POLICY,),
    Function.PROVISION: (Table.OFFERINGS, Table.POLICY),
    Function.LAUNCH: (),
    Function.REACT: (Table.POLICY,),
    Function.EXPIRE: (Table.OFFERINGS, Table.POLICY),
    Function.DISRUPT: (Table.OFFERINGS, Table.POLICY),
    Function.COLLECT: (Table.POLICY,),
}
SENDS: Final[Mapping[Function, tuple[Queue, ...]]] = {
    Function.INTAKE: (Queue.PLANNING,),
    Function.DISCOVER_RESERVATIONS: (Queue.PLANNING,),
    Function.DISCOVER_OFFERINGS: (Queue.PLANNING,),
    Function.PROVISION: (Queue.PLANNING, Queue.LAUNCHES),
    Function.LAUNCH: (Queue.PLANNING, Queue.LAUNCHES),  # a batch that must wait is sent again with a delay
    Function.REACT: (Queue.PLANNING,),
    Function.EXPIRE: (Queue.PLANNING,),
    Function.DISRUPT: (Queue.PLANNING, Queue.LAUNCHES),
    Function.COLLECT: (Queue.PLANNING, Queue.LAUNCHES),
    Function.APPLY: (Queue.PLANNING,),
}
SETS_TIMERS: Final = frozenset({Function.DISCOVER_RESERVATIONS, Function.EXPIRE})
STORES_SNAPSHOTS: Final = frozenset({Function.PROVISION, Function.DISRUPT})
ENDS_INSTANCES: Final = frozenset(
    {Function.INTAKE, Function.LAUNCH, Function.REACT, Function.EXPIRE, Function.DISRUPT, Function.COLLECT}
)
NAMES_CLAIMS: Final = frozenset({Function.LAUNCH, Function.COLLECT})
DESCRIBES: Final[Mapping[Function, tuple[str, ...]]] = {
    Function.INTAKE: ("Instances",),
    Function.DISCOVER_RESERVATIONS: (
        *("AvailabilityZones", "CapacityReservations", "Images", "Instances", "SecurityGroups", "Subnets"),
    ),
    Function.DISCOVER_OFFERINGS: (
        *("AvailabilityZones", "InstanceTypeOfferings", "InstanceTypes", "SpotPriceHistory"),
    ),
    Function.LAUNCH: (
        *("CapacityReservations", "Fleets", "Images", "Instances", "LaunchTemplates", "LaunchTemplateVersions"),
        *("SecurityGroups", "Subnets"),
    ),
    Function.REACT: ("CapacityReservations", "Instances", "InstanceStatus"),
    Function.EXPIRE: ("CapacityReservations", "Instances"),
    Function.DISRUPT: ("CapacityReservations", "Instances"),
    Function.COLLECT: ("Instances", "InstanceStatus", "LaunchTemplates", "Volumes"),
}
# What a launch creates: everything is tagged at birth, or the launch is refused.
LAUNCHED_KINDS: Final = ("fleet", "instance", "launch-template", "network-interface", "volume")
# What a launch refers to. No tag guards these: without an instance, which needs the tag, they launch nothing.
REFERRED_KINDS: Final = (
    "capacity-reservation",
    "placement-group",
    "security-group",
    "spot-instances-request",
    "subnet",
)


@dataclass(frozen=True, slots=True)
class Grant:
    """One IAM statement and why it is needed; ``sid`` is how docs/security.md calls it."""

    sid: str
    reason: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def statement(self) -> iam.PolicyStatement:
        """Return it in the CDK's form."""
        return iam.PolicyStatement(
            sid=self.sid, actions=list(self.actions), resources=list(self.resources), conditions=self.conditions
        )


@dataclass(frozen=True, slots=True)
class Resources:
    """What statements name."""

    stack: Stack
    config: StackConfig
    tables: Mapping[Table, dynamodb.ITable]
    queues: Mapping[Queue, sqs.IQueue]
    dead_letters: Mapping[Queue, sqs.IQueue]
    bus: events.IEventBus
    snapshots: s3.IBucket
    drain_timers_arn: str
    drain_role_arn: str

    def ec2(self, *kinds: str, any_account: bool = False) -> list[str]:
        """Return the ARNs of all EC2 resources of these kinds in the stack's region."""
        account = "*" if any_account else self.stack.account
        return [f"arn:{self.stack.partition}:ec2:{self.stack.region}:{account}:{kind}/*" for kind in kinds]

    @property
    def instance_roles_arn(self) -> str:
        """Return the ARN (pattern) of the roles that launches may hand to instances."""
        return f"arn:{self.stack.partition}:iam::{self.stack.account}:role/{self.config.instance_role}"

    @property
    def reservation_groups_arn(self) -> str:
        """Return the ARNs of resource groups; those of reservations may be shared by other accounts."""
        return f"arn:{self.stack.partition}:resource-groups:{self.stack.region}:*:group/*"

    @property
    def owner(self) -> str:
        """Return the value of the owner tag."""
        return self.config.stack


def grants(function: Function, resources: Resources) -> list[Grant]:
    """Return everything that ``function`` may do, beside consuming its own queue and writing its own log."""
    parts: list[Iterable[Grant]] = [
        _tables(function, resources),
        _messages(function, resources),
        _timers(function, resources),
        _snapshots(function, resources),
        _describes(function, resources),
    ]
    if function is Function.DISCOVER_OFFERINGS:
        parts.append(_prices())
    if function is Function.DISCOVER_RESERVATIONS:
        parts.append(_class_lookups(resources))
    if function is Function.LAUNCH:
        parts.append(_launches(resources))
    if function in ENDS_INSTANCES:
        parts.append(_ends(resources))
    if function in NAMES_CLAIMS:
        parts.append(_claim_names(resources))
    if function is Function.COLLECT:
        parts.append(_leftovers(resources))
    return [grant for part in parts for grant in part]


def _tables(function: Function, resources: Resources) -> Iterable[Grant]:
    written = WRITES.get(function, ())
    read = (*written, *READS.get(function, ()))
    yield Grant(
        "ReadState",
        "Gathers what it decides on; indexes list what is live.",
        READ,
        [
            arn
            for table in read
            for arn in (
                resources.tables[table].table_arn,
                *(f"{resources.tables[table].table_arn}/index/{index}" for index in indexes(table)),
            )
        ],
    )
    yield Grant(
        "WriteState",
        "Applies its decision; transactions need the actions of their parts.",
        WRITE,
        [resources.tables[table].table_arn for table in written],
    )


def _messages(function: Function, resources: Resources) -> Iterable[Grant]:
    targets = [resources.queues[queue].queue_arn for queue in SENDS[function]]
    if function is Function.INTAKE:
        targets.append(resources.dead_letters[Queue.DEMAND].queue_arn)  # malformed demand, with its reason
    yield Grant("SendMessages", "Wakes the next step.", ["sqs:SendMessage"], targets)
    yield Grant(
        "PublishFacts",
        "Tells workload systems what happened; the source cannot be forged.",
        ["events:PutEvents"],
        [resources.bus.event_bus_arn],
        {"StringEquals": {"events:source": names.EVENT_SOURCE}},
    )


def _timers(function: Function, resources: Resources) -> Iterable[Grant]:
    if function not in SETS_TIMERS:
        return
    yield Grant(
        "SetDrainTimers",
        "One exact timer a Capacity Block, moved when the block is extended.",
        ["scheduler:CreateSchedule", "scheduler:DeleteSchedule", "scheduler:GetSchedule", "scheduler:UpdateSchedule"],
        [resources.drain_timers_arn],
    )
    yield Grant(
        "HandRoleToTimers",
        "A timer wakes the expire function with this role, which can do nothing else.",
        ["iam:PassRole"],
        [resources.drain_role_arn],
        {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
    )


def _snapshots(function: Function, resources: Resources) -> Iterable[Grant]:
    if function in STORES_SNAPSHOTS:
        yield Grant(
            "KeepSnapshots",
            "Keeps what a decision was made from, so that it can be replayed.",
            ["s3:PutObject"],
            [resources.snapshots.arn_for_objects("*")],
        )


def _describes(function: Function, resources: Resources) -> Iterable[Grant]:
    if function in DESCRIBES:
        yield Grant(
            "DescribeEc2",
            "Re-reads the truth; EC2 has no narrower resource for Describe calls.",
            [f"ec2:Describe{what}" for what in DESCRIBES[function]],
            ["*"],
            {"StringEquals": {"aws:RequestedRegion": resources.stack.region}},
        )


def _prices() -> Iterable[Grant]:
    yield Grant(
        "ReadPrices",
        "On-demand prices; the price list is public, global and has no resources.",
        ["pricing:GetProducts"],
        ["*"],
    )


def _class_lookups(resources: Resources) -> Iterable[Grant]:
    stack = resources.stack
    yield Grant(
        "ReadReservationGroups",
        "An EC2NodeClass may select reservations by resource group, its own or a shared one.",
        ["resource-groups:ListGroupResources"],
        [resources.reservation_groups_arn],
    )
    yield Grant(
        "ResolveImageAliases",
        "AMI aliases such as al2023@latest are AWS's public parameters.",
        ["ssm:GetParameter", "ssm:GetParameters"],
        [f"arn:{stack.partition}:ssm:{stack.region}::parameter/aws/service/*"],
    )
    yield Grant(
        "ResolveInstanceProfiles",
        "An EC2NodeClass may name a role; EC2 wants its instance profile.",
        ["iam:ListInstanceProfilesForRole"],
        [resources.instance_roles_arn],
    )


def _launches(resources: Resources) -> Iterable[Grant]:
    stack, owner_tag = resources.stack, names.OWNER_TAG
    requested = {"StringEquals": {f"aws:RequestTag/{owner_tag}": resources.owner}}
    owned = {"StringEquals": {f"aws:ResourceTag/{owner_tag}": resources.owner}}
    yield Grant(
        "LaunchWhatIsTaggedOurs",
        "Everything that a launch creates carries the owner tag from birth.",
        ["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"],
        resources.ec2(*LAUNCHED_KINDS),
        requested,
    )
    yield Grant(
        "LaunchFromOurTemplates",
        "Launches use launch templates that carry the owner tag, and no others.",
        ["ec2:CreateFleet", "ec2:RunInstances"],
        resources.ec2("launch-template"),
        owned,
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
        resources.ec2(*LAUNCHED_KINDS),
        {
            "StringEquals": {
                **requested["StringEquals"],
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


def _ends(resources: Resources) -> Iterable[Grant]:
    yield Grant(
        "EndOurInstances",
        "Only what Reservoir launched can be terminated.",
        ["ec2:TerminateInstances"],
        resources.ec2("instance"),
        {"StringEquals": {f"aws:ResourceTag/{names.OWNER_TAG}": resources.owner}},
    )


def _claim_names(resources: Resources) -> Iterable[Grant]:
    yield Grant(
        "NameTheClaim",
        "An instance of ours gets the tag that names its claim; no other tag can be changed.",
        ["ec2:CreateTags"],
        resources.ec2("instance"),
        {
            "StringEquals": {f"aws:ResourceTag/{names.OWNER_TAG}": resources.owner},
            "ForAllValues:StringEquals": {"aws:TagKeys": [names.NODE_CLAIM_TAG]},
            "Null": {"aws:TagKeys": "false"},  # the line above holds for no tags too
        },
    )


def _leftovers(resources: Resources) -> Iterable[Grant]:
    yield Grant(
        "DeleteOurTemplates",
        "A region holds 5,000 launch templates; unused ones of ours go.",
        ["ec2:DeleteLaunchTemplate"],
        resources.ec2("launch-template"),
        {"StringEquals": {f"aws:ResourceTag/{names.OWNER_TAG}": resources.owner}},
    )
