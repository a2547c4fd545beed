"""What each function may do in AWS: one table of duties, and the statements that they come to, each with its reason.

Asserted by ``tests/infra``: a mutating action names its resource or has the owner tag as its condition, and no action
is a pattern. ``docs/security.md`` says the same to people.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from infra import data_key
from infra.iam import ec2_permissions
from infra.iam.grants import Grant, Resources
from reservoir.names import (
    LISTING_KEY,
    MARK_ROW,
    MARKED_TABLES,
    PAUSE_ATTRIBUTES,
    READ_WHOLE,
    STATUS_ATTRIBUTES,
    Function,
    Queue,
    Table,
    indexes,
    otlp_headers_parameter,
)

READ: Final = (
    "dynamodb:BatchGetItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:GetItem",
    "dynamodb:Query",
)
WRITE: Final = ("dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem")


@dataclass(frozen=True, slots=True)
class Duty:
    """What one function needs, beside consuming its own queue and writing its own log."""

    writes: tuple[Table, ...]  # and reads; transactions need the actions of their parts
    reads: tuple[Table, ...] = ()
    sends: tuple[Queue, ...] = (Queue.PLANNING,)
    publishes: bool = True
    describes: tuple[str, ...] = ()  # in EC2
    more: tuple[Callable[[Resources], Iterable[Grant]], ...] = ()


def grants(function: Function, resources: Resources) -> list[Grant]:
    """Return everything that ``function`` may do."""
    duty = DUTIES[function]
    parts = [
        _tables(duty, resources),
        _messages(duty, resources),
        *(more(resources) for more in duty.more),
        data_key.use(resources, data_key.WRITE, ("dynamodb", "s3", "sqs")),
        data_key.read_variables(function, resources),
    ]
    if duty.describes:
        parts.append([ec2_permissions.describe(duty.describes, resources)])
    if resources.deployment.settings.tracing:
        parts.append(send_traces(resources))
    return list(chain.from_iterable(parts))


def _tables(duty: Duty, resources: Resources) -> Iterable[Grant]:
    if duty.writes or duty.reads:
        yield Grant(
            "ReadState",
            "Gathers what it decides on; indexes list what is live.",
            READ,
            arns_with_indexes(resources, (*duty.writes, *duty.reads)),
        )
        yield from revisions(resources, (*duty.writes, *duty.reads))
    if duty.writes:
        yield Grant(
            "WriteState",
            "Applies its decision; transactions need the actions of their parts.",
            WRITE,
            [resources.tables[table].table_arn for table in duty.writes],
        )


def revisions(resources: Resources, tables: Iterable[Table]) -> Iterable[Grant]:
    """Allow reading the indexes that say at which revision rows are, if any of the tables has one."""
    read_whole: list[str] = []
    for table in tables:
        read_whole += [
            resources.index(table, index) for index in indexes(table) if index in READ_WHOLE
        ]
    if read_whole:
        yield Grant(
            "ListRevisions",
            "Finds which rows have changed; these narrow indexes are read as a whole, tables never.",
            ["dynamodb:Scan"],
            read_whole,
        )


def arns_with_indexes(resources: Resources, tables: Iterable[Table]) -> list[str]:
    """Return the ARNs of tables and of their indexes, each by name."""
    arns: list[str] = []
    for table in tables:
        arns += [resources.tables[table].table_arn, *resources.indexes(table)]
    return arns


def _messages(duty: Duty, resources: Resources) -> Iterable[Grant]:
    if duty.sends:
        yield Grant(
            "SendMessages",
            "Wakes the next step.",
            ["sqs:SendMessage"],
            [resources.queues[queue].queue_arn for queue in duty.sends],
        )
    if duty.publishes:
        yield Grant(
            "PublishFacts",
            "Tells workload systems what happened.",
            ["events:PutEvents"],
            [resources.bus.event_bus_arn],
        )
        yield Grant(
            "KeepFacts",
            "Keeps what the bus refuses, so that no decision waits for it.",
            ["sqs:SendMessage"],
            [resources.unpublished_events.queue_arn],
        )


def reject_demand(resources: Resources) -> Iterable[Grant]:
    """Allow putting refused messages aside."""
    yield Grant(
        "RejectDemand",
        "Malformed demand goes straight to the dead letters, with its reason.",
        ["sqs:SendMessage"],
        [resources.dead_letters[Queue.DEMAND].queue_arn],
    )


def publish_kept(resources: Resources) -> Iterable[Grant]:
    """Allow publishing what the bus refused before."""
    yield Grant(
        "PublishKeptFacts",
        "What the bus refused is published when it takes events again.",
        ["sqs:DeleteMessage", "sqs:ReceiveMessage"],
        [resources.unpublished_events.queue_arn],
    )


def set_timers(resources: Resources) -> Iterable[Grant]:
    """Allow the exact timers of Capacity Blocks."""
    yield Grant(
        "SetDrainTimers",
        "One exact timer a Capacity Block, moved when the block is extended.",
        ["scheduler:CreateSchedule", "scheduler:UpdateSchedule"],
        [resources.drain_timers_arn],
    )
    yield Grant(
        "HandRoleToTimers",
        "A timer wakes the expire function with this role, which can do nothing else.",
        ["iam:PassRole"],
        [resources.drain_role_arn],
        {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
    )


def keep_snapshots(resources: Resources) -> Iterable[Grant]:
    """Allow storing what decisions were made from."""
    yield Grant(
        "KeepSnapshots",
        "Keeps what a decision was made from, so that it can be replayed.",
        ["s3:PutObject"],
        [resources.snapshots.arn_for_objects("*")],
    )


def send_traces(resources: Resources) -> Iterable[Grant]:
    """Allow what Lambda does in the function's name when it is traced."""
    yield Grant(
        "SendTraces",
        "X-Ray has no resources to name; nothing can be read with these.",
        ["xray:PutTelemetryRecords", "xray:PutTraceSegments"],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": resources.stack.region}},
    )


def read_prices(_: Resources) -> Iterable[Grant]:
    """Allow reading on-demand prices."""
    yield Grant(
        "ReadPrices",
        "On-demand prices; the price list is public, global and has no resources.",
        ["pricing:GetProducts"],
        ["*"],
    )


def resolve_classes(resources: Resources) -> Iterable[Grant]:
    """Allow looking up what an EC2NodeClass names."""
    stack = resources.stack
    yield Grant(
        "ReadReservationGroups",
        "An EC2NodeClass may select reservations by resource group, its own or a shared one.",
        ["resource-groups:ListGroupResources"],
        [resources.reservation_groups_arn],
    )
    # "To run this command, you must have" these, says the API reference of ListGroupResources.
    yield Grant(
        "ReadStacksOfGroups",
        "Resource Groups lists a group that is made of a CloudFormation stack with its caller's permissions.",
        ["cloudformation:DescribeStacks", "cloudformation:ListStackResources"],
        [f"arn:{stack.partition}:cloudformation:{stack.region}:{stack.account}:stack/*"],
    )
    yield Grant(
        "ReadTagsOfGroups",
        "Resource Groups lists a group that is made of a tag with its caller's permissions; the call has no resources.",
        ["tag:GetResources"],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": stack.region}},
    )
    yield Grant(
        "ResolveImages",
        "AMI aliases such as al2023@latest are AWS's public parameters; a team's own images lie under one path.",
        ["ssm:GetParameters"],
        [
            # public ones have no account
            f"arn:{stack.partition}:ssm:{stack.region}:*:parameter/aws/service/*",
            f"arn:{stack.partition}:ssm:{stack.region}:{stack.account}:parameter{resources.deployment.settings.image_parameters}",
        ],
    )
    yield Grant(
        "ResolveInstanceProfiles",
        "An EC2NodeClass may name a role; EC2 wants its instance profile.",
        ["iam:ListInstanceProfilesForRole"],
        [resources.instance_roles_arn],
    )


def resolve_principals(resources: Resources) -> Iterable[Grant]:
    """Allow finding out who the principals of a team are."""
    stack = resources.stack
    yield Grant(
        "ResolvePrincipals",
        "A Team names its principals by ARN; what counts is the unique id. Roles and users of any name, read only.",
        ["iam:GetRole", "iam:GetUser"],
        [
            f"arn:{stack.partition}:iam::{stack.account}:{kind}/*"
            for kind in ("role", "user")
        ],
    )


def end_instances(resources: Resources) -> Iterable[Grant]:
    """Allow terminating what we launched, and looking whether the tables on whose word it is done are our own."""
    yield from ec2_permissions.end_instances(resources)
    yield from recognise_tables(resources)


def recognise_tables(resources: Resources) -> Iterable[Grant]:
    """Allow looking whether the tables are our own, before a node is marked that somebody else then ends."""
    yield Grant(
        "RecogniseTables",
        "Before anything is ended: a table that was restored or made anew is another one than its mark says.",
        ["dynamodb:DescribeTable"],
        [resources.tables[table].table_arn for table in MARKED_TABLES],
    )


def mark_tables(resources: Resources) -> Iterable[Grant]:
    """Allow marking the one table that the collector does not write otherwise."""
    yield Grant(
        "MarkTables",
        "The tables of a new deployment are marked as its own; no other row of this one can be written.",
        ["dynamodb:PutItem"],
        [resources.tables[Table.POLICY].table_arn],
        {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [MARK_ROW]}},
    )


def keep_history(resources: Resources) -> Iterable[Grant]:
    """Allow adding to what happened."""
    yield Grant(
        "KeepHistory",
        "Writes down what the bus told, many rows at once.",
        ["dynamodb:BatchWriteItem"],
        [resources.tables[Table.HISTORY].table_arn],
    )


def read_otlp_headers(resources: Resources) -> Iterable[Grant]:
    """Allow reading the headers of what is pushed by OTLP."""
    if resources.deployment.settings.otlp_endpoint is None:
        return
    stack = resources.stack
    name = otlp_headers_parameter(resources.deployment.name)
    yield Grant(
        "ReadOtlpHeaders",
        "The receiver of figures wants a key of its own; one parameter of the deployment's name holds it.",
        ["ssm:GetParameters"],
        [f"arn:{stack.partition}:ssm:{stack.region}:{stack.account}:parameter{name}"],
    )


def note_classes(resources: Resources) -> Iterable[Grant]:
    """Allow writing down what was found of EC2NodeClasses."""
    yield _update_policy(
        resources,
        "NoteClasses",
        "What was found of classes is their status; no manifest and no Team is changed.",
        "EC2NodeClass",
        STATUS_ATTRIBUTES,
    )


def note_pools(resources: Resources) -> Iterable[Grant]:
    """Allow writing down what was found of NodePools."""
    yield _update_policy(
        resources,
        "NotePools",
        "Whether a pool is ready is its status; no manifest and no Team is changed.",
        "NodePool",
        STATUS_ATTRIBUTES,
    )


def pause_pools(resources: Resources) -> Iterable[Grant]:
    """Allow pausing NodePools."""
    yield _update_policy(
        resources,
        "PausePools",
        "Operators pause NodePools; what they ask for is written beside the manifest.",
        "NodePool",
        PAUSE_ATTRIBUTES,
    )


def _update_policy(
    resources: Resources, sid: str, why: str, kind: str, attributes: Sequence[str]
) -> Grant:
    """Allow updating these attributes of policy objects of one kind: their rows begin with it."""
    return Grant(
        sid,
        why,
        ["dynamodb:UpdateItem"],
        [resources.tables[Table.POLICY].table_arn],
        {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{kind}/*"]},
            # of all that a request names: in its key, what it sets, and what its condition asks
            # The release before asks in its condition whether the row is listed; it may run during an update.
            "ForAllValues:StringEquals": {
                "dynamodb:Attributes": [*attributes, LISTING_KEY]
            },
            # without a value, ForAllValues holds
            "Null": {"dynamodb:LeadingKeys": "false", "dynamodb:Attributes": "false"},
        },
    )


# what moving a claim may touch
_CLAIMS: Final = (Table.NODE_CLAIMS, Table.WORKLOADS, Table.RESERVATIONS)

DUTIES: Final[Mapping[Function, Duty]] = {
    Function.INTAKE: Duty(
        writes=_CLAIMS,
        reads=(Table.POLICY,),
        # what is marked ends elsewhere: this function reads what strangers write
        sends=(Queue.PLANNING, Queue.REACTIONS),
        more=(reject_demand, recognise_tables),
    ),
    Function.DISCOVER_RESERVATIONS: Duty(
        writes=(Table.RESERVATIONS, Table.NODE_CLAIMS),
        # which classes rest; what was placed in a reservation that ends
        reads=(Table.OFFERINGS, Table.POLICY, Table.HISTORY),
        # classes that want a dry run by the role that launches
        sends=(Queue.PLANNING, Queue.LAUNCHES),
        # Only a block itself says that it is an UltraServer, whose instances EC2 reclaims earlier.
        describes=(
            "AvailabilityZones",
            "CapacityBlocks",
            "CapacityReservationTopology",
            "CapacityReservations",
            "Images",
            "SecurityGroups",
            "Subnets",
        ),
        more=(resolve_classes, note_classes, note_pools, set_timers),
    ),
    Function.DISCOVER_OFFERINGS: Duty(
        writes=(Table.OFFERINGS,),
        publishes=False,
        describes=(
            "AvailabilityZones",
            "InstanceTypeOfferings",
            "InstanceTypes",
            "SpotPriceHistory",
        ),
        more=(read_prices,),
    ),
    Function.PROVISION: Duty(
        writes=(*_CLAIMS, Table.DECISIONS),
        # what is left of a month's budget
        reads=(Table.OFFERINGS, Table.POLICY, Table.ACCOUNTS),
        sends=(Queue.PLANNING, Queue.LAUNCHES),
        describes=("CapacityReservations",),  # what is lent, before it is taken back
        # nodes whose last replica is not wanted any more
        more=(keep_snapshots, end_instances, ec2_permissions.recall_units),
    ),
    Function.LAUNCH: Duty(
        writes=(*_CLAIMS, Table.OFFERINGS),
        reads=(Table.POLICY,),
        # a batch that must wait is sent again with a delay
        sends=(Queue.PLANNING, Queue.LAUNCHES),
        describes=("Instances",),
        more=(
            ec2_permissions.launch,
            ec2_permissions.use_keys,
            end_instances,
            ec2_permissions.name_claims,
            note_classes,
            set_timers,
        ),
    ),
    Function.REACT: Duty(
        writes=(*_CLAIMS, Table.OFFERINGS),
        reads=(Table.POLICY,),
        # to itself: look again for a reservation that is late
        sends=(Queue.PLANNING, Queue.REACTIONS),
        # A warning that a Capacity Block ends starts its drains at once; the end is re-read before.
        # A node that ends before it ran may tell of a broken machine of a block.
        describes=(
            "AvailabilityZones",
            "CapacityBlocks",
            "CapacityBlockStatus",
            "CapacityReservations",
            "Instances",
        ),
        more=(end_instances, set_timers),
    ),
    Function.EXPIRE: Duty(
        # what instances that end before they run let rest
        writes=(*_CLAIMS, Table.OFFERINGS),
        reads=(Table.POLICY,),
        sends=(Queue.PLANNING, Queue.REACTIONS),  # what begins before the next sweep
        describes=(
            "AvailabilityZones",
            "CapacityBlocks",
            "CapacityBlockStatus",
            "CapacityReservations",
            "Instances",
            "InstanceStatus",
        ),
        more=(set_timers, end_instances),
    ),
    Function.DISRUPT: Duty(
        # moves of units that EC2 refused
        writes=(*_CLAIMS, Table.DECISIONS, Table.OFFERINGS),
        reads=(Table.POLICY, Table.ACCOUNTS),
        sends=(Queue.PLANNING, Queue.LAUNCHES),
        describes=("CapacityReservations",),  # what is lent, before that changes
        # An empty node's drain is over as it begins.
        more=(
            keep_snapshots,
            end_instances,
            ec2_permissions.move_units,
            ec2_permissions.split_units,
            ec2_permissions.lend_units,
            ec2_permissions.recall_units,
        ),
    ),
    Function.COLLECT: Duty(
        writes=_CLAIMS,
        reads=(Table.POLICY,),
        sends=(Queue.PLANNING, Queue.LAUNCHES),
        describes=("Instances", "LaunchTemplates"),
        more=(
            end_instances,
            ec2_permissions.name_claims,
            ec2_permissions.delete_templates,
            mark_tables,
            publish_kept,
        ),
    ),
    Function.RECORD: Duty(
        writes=(Table.ACCOUNTS,),
        # what there is, and whose it is, every few minutes
        reads=(*_CLAIMS, Table.OFFERINGS, Table.POLICY),
        sends=(),
        more=(keep_history, read_otlp_headers),
    ),
    Function.APPLY: Duty(
        writes=(Table.POLICY,),
        reads=(Table.RESERVATIONS,),  # whether teams own more units than there are
        more=(resolve_principals,),
    ),
    Function.CHANGE_POLICY: Duty(
        writes=(Table.POLICY,),
        reads=(Table.RESERVATIONS,),  # as apply
        more=(resolve_principals,),
    ),
    # What was released may go; what nodes write is read here, so that it ends elsewhere.
    Function.FOLLOW: Duty(
        writes=_CLAIMS,
        reads=(Table.POLICY,),
        sends=(Queue.PLANNING, Queue.REACTIONS),
        more=(recognise_tables,),
    ),
    Function.OPERATE: Duty(
        writes=_CLAIMS,
        reads=(Table.POLICY,),
        more=(pause_pools, end_instances),
    ),
}
