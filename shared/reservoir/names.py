"""Names on which infrastructure and code must agree; the only product module that ``infra`` imports."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

VERSION: Final = "0.2.0"  # of the release
CHANGE_POLICY_OUTPUT: Final = "ChangePolicyFunctionName"  # absent from stacks of 0.2.0
RELEASE_OUTPUT: Final = "Release"  # the stack's: what it was deployed from
DEFAULT_STACK: Final = "Reservoir"


class Function(StrEnum):
    """The Lambda functions, one a verb; each lives in ``functions/<value>/handler.py``."""

    INTAKE = "intake"
    DISCOVER_RESERVATIONS = "discover_reservations"
    DISCOVER_OFFERINGS = "discover_offerings"
    PROVISION = "provision"
    LAUNCH = "launch"
    REACT = "react"
    EXPIRE = "expire"
    DISRUPT = "disrupt"
    COLLECT = "collect"
    RECORD = "record"
    FOLLOW = "follow"
    APPLY = "apply"  # custom resource: applies the manifests folder of a deployment
    CHANGE_POLICY = "change_policy"  # what people apply and delete
    OPERATE = "operate"  # what operators do by hand


class Table(StrEnum):
    """The DynamoDB tables; the value names the environment variable that carries the table's name."""

    RESERVATIONS = "RESERVATIONS_TABLE"
    OFFERINGS = "OFFERINGS_TABLE"
    WORKLOADS = "WORKLOADS_TABLE"
    NODE_CLAIMS = "NODE_CLAIMS_TABLE"
    POLICY = "POLICY_TABLE"
    DECISIONS = "DECISIONS_TABLE"
    HISTORY = "HISTORY_TABLE"
    ACCOUNTS = "ACCOUNTS_TABLE"


# Every table: partition key "id" (string). Rows that a hot path lists carry LISTING_KEY, the partition key of the
# sparse index LISTING_INDEX (sort key "id", all attributes); rows that nobody needs to list leave it out. It is one
# partition, which takes 1,000 write units a second: tables that each node writes to have none (see below).
KEY: Final = "id"
# History has a second part of the key, an instant, and no index: what happened to one object is read in order of time.
# So has Accounts: under a month the account, under what runs the claim.
SORT_KEY: Final = "at"
_SORTED_TABLES: Final = frozenset({Table.HISTORY, Table.ACCOUNTS})
LISTING_INDEX: Final = "listing"
LISTING_KEY: Final = "listing"
TTL_ATTRIBUTE: Final = "expires_at_s"  # epoch seconds; rows past it are filtered on read

# NodeClaims has three more sparse indexes (partition key as named, sort key "id"): two of keys only, and one of what an
# instance may know of itself, which it reads there under its own ARN and finds nowhere else.
INSTANCE_INDEX: Final = "by-instance"
INSTANCE_KEY: Final = "instance_id"
LEASE_INDEX: Final = "by-lease"
LEASE_KEY: Final = "leased_reservation_id"
IDENTITY_INDEX: Final = "node-identity"
IDENTITY_KEY: Final = "instance_arn"
IDENTITY: Final = "identity"  # the attribute: JSON of reservoir.manifests.node_identity

# Three narrow indexes that say at which revision the rows are that a large fleet has many of: claims that live or whose
# units are on their way (LISTING_KEY); workloads that wait for the planner (LISTING_KEY); those with replicas placed
# (PLACED_KEY). Their partition key is the table's, so that each row is written to a partition of its own; the sort key
# makes them sparse. They are read as a whole.
LIVE_REVISIONS_INDEX: Final = "live-revisions"
WAITING_REVISIONS_INDEX: Final = "waiting-revisions"
PLACED_REVISIONS_INDEX: Final = "placed-revisions"
PLACED_KEY: Final = "placed"
ROW_REVISION: Final = "revision"  # the attribute: counted up by every write of the row

# What status and pause of a row of the Policy table are called. Whoever notes what was found, or pauses, may name no
# other attribute of it, and so cannot change a manifest.
STATUS: Final = "status"
LATER_CONDITIONS: Final = "laterConditions"
"""Conditions of types that the release before does not know: it cannot read a status that has one of them."""
PAUSE: Final = "pause"  # absent: nobody ever paused the pool
STATUS_ATTRIBUTES: Final = (KEY, STATUS, LATER_CONDITIONS)
PAUSE_ATTRIBUTES: Final = (KEY, STATUS, PAUSE)

# The tables of which each holds a row that says to which deployment, and together with which others, it belongs.
MARK_ROW: Final = "#mark"
MARKED_TABLES: Final = (
    Table.RESERVATIONS,
    Table.WORKLOADS,
    Table.NODE_CLAIMS,
    Table.POLICY,
)
# In NodeClaims, what ended within the hour: one row a kind. No claim's id begins with "#".
ENDINGS_ROW_PREFIX: Final = "#endings "
# In Policy, what was bought: the book, and one row a purchase. No object's key begins with "#".
PURCHASE_BOOK_ROW: Final = "#purchases"
PURCHASE_ROW_PREFIX: Final = "#purchase "


# The partition key and the sort key of each index, and what DynamoDB is told to copy into it.
INDEX_KEYS: Final = {
    LISTING_INDEX: (LISTING_KEY, KEY),
    INSTANCE_INDEX: (INSTANCE_KEY, KEY),
    LEASE_INDEX: (LEASE_KEY, KEY),
    IDENTITY_INDEX: (IDENTITY_KEY, KEY),
    LIVE_REVISIONS_INDEX: (KEY, LISTING_KEY),
    WAITING_REVISIONS_INDEX: (KEY, LISTING_KEY),
    PLACED_REVISIONS_INDEX: (KEY, PLACED_KEY),
}
INDEX_PROJECTIONS: Final[Mapping[str, Literal["ALL", "KEYS_ONLY", "INCLUDE"]]] = {
    LISTING_INDEX: "ALL",
    INSTANCE_INDEX: "KEYS_ONLY",
    LEASE_INDEX: "KEYS_ONLY",
    IDENTITY_INDEX: "INCLUDE",
    LIVE_REVISIONS_INDEX: "INCLUDE",
    WAITING_REVISIONS_INDEX: "INCLUDE",
    PLACED_REVISIONS_INDEX: "INCLUDE",
}
INDEX_INCLUDES: Final[Mapping[str, tuple[str, ...]]] = {  # beside the keys
    IDENTITY_INDEX: (IDENTITY,),
    LIVE_REVISIONS_INDEX: (ROW_REVISION,),
    WAITING_REVISIONS_INDEX: (ROW_REVISION,),
    PLACED_REVISIONS_INDEX: (ROW_REVISION,),
}
READ_WHOLE: Final = frozenset(  # by Scan, which names no key
    {LIVE_REVISIONS_INDEX, WAITING_REVISIONS_INDEX, PLACED_REVISIONS_INDEX}
)
# What the release before reads, and this one does not need: an update takes them away when no function of that
# release is left.
_OLDER_INDEXES: Final = {
    Table.NODE_CLAIMS: (LISTING_INDEX,),
    Table.WORKLOADS: (LISTING_INDEX,),
}


def indexes(table: Table, *, with_older: bool = False) -> tuple[str, ...]:
    """Return the names of a table's indexes; ``with_older`` adds those that the release before reads."""
    if table in _SORTED_TABLES:
        return ()
    older = _OLDER_INDEXES.get(table, ()) if with_older else ()
    if table is Table.NODE_CLAIMS:
        return (*older, INSTANCE_INDEX, LEASE_INDEX, IDENTITY_INDEX, LIVE_REVISIONS_INDEX)
    if table is Table.WORKLOADS:
        return (*older, PLACED_REVISIONS_INDEX, WAITING_REVISIONS_INDEX)
    return (LISTING_INDEX,)


def key_attributes(table: Table) -> tuple[str, ...]:
    """Return the names of the attributes that are a table's key: the partition's, and the sort key's if it has one."""
    return (KEY, SORT_KEY) if table in _SORTED_TABLES else (KEY,)


class Queue(StrEnum):
    """The queues; the value names the environment variable that carries the queue's URL. Each has a DLQ."""

    DEMAND = "DEMAND_QUEUE_URL"  # standard: workload messages
    # FIFO, a message group for each group of NodePools: wake-ups. Senders name a deduplication id (content-based
    # deduplication is on only for the minute's schedule, which cannot).
    PLANNING = "PLANNING_QUEUE_URL"
    LAUNCHES = "LAUNCHES_QUEUE_URL"  # standard: one message a launch batch
    REACTIONS = "REACTIONS_QUEUE_URL"  # standard: EC2, Health and reservation events
    HISTORY = "HISTORY_QUEUE_URL"  # standard: the outbound bus's own events, to be kept
    REPORTS = "REPORTS_QUEUE_URL"  # standard: what nodes say of their replicas


# One pass at a time: a wake-up that is sent while a pass runs is delivered after it, and so begins a pass of its own.
# This is the message group of wake-ups for whoever finds out which groups of NodePools they concern; groups that are
# planned by themselves have message groups whose names begin with it.
PLANNING_MESSAGE_GROUP: Final = "plan"

EVENT_BUS: Final = "EVENT_BUS_NAME"  # environment variable: name of the outbound bus
EVENT_SOURCE: Final = "reservoir"
# with what they bought, the one fact that people may publish
POLICY_CHANGED: Final = "Policy Changed"
# of the stack's name: the rule on the outbound bus that has everything kept
HISTORY_RULE_SUFFIX: Final = "-history"
PUBLISH_METRICS: Final = "PUBLISH_METRICS"  # environment variable: "true" or "false"
OTLP_ENDPOINT: Final = "OTLP_ENDPOINT"  # environment variable: where figures are pushed
HISTORY_DAYS: Final = "HISTORY_DAYS"  # environment variable: how long what happened is kept
# Behind the bucket's name, the name of the queue of what the outbound bus refused. All variables of a function share
# 4 KB, and SQS takes no name for a minute after a queue of that name was deleted: CloudFormation's buckets differ.
UNPUBLISHED_EVENTS_SUFFIX: Final = "-unpublished"
# Environment variables: where intake puts rejected messages with their reason, the snapshots, the drain timers.
DEMAND_DEAD_LETTER_QUEUE: Final = "DEMAND_DEAD_LETTER_QUEUE_URL"
SNAPSHOTS_BUCKET: Final = "SNAPSHOTS_BUCKET"
DRAIN_SCHEDULE_GROUP: Final = "DRAIN_SCHEDULE_GROUP"  # of EventBridge Scheduler
DRAIN_SCHEDULE_ROLE_ARN: Final = "DRAIN_SCHEDULE_ROLE_ARN"
DRAIN_SCHEDULE_TARGET_ARN: Final = "DRAIN_SCHEDULE_TARGET_ARN"  # the expire function
# what timers could not deliver
DRAIN_SCHEDULE_DEAD_LETTERS_ARN: Final = "DRAIN_SCHEDULE_DEAD_LETTERS_ARN"
# of the account's instances in the region; an id follows
INSTANCE_ARN_PREFIX: Final = "INSTANCE_ARN_PREFIX"
# Environment variables: what a spot rebalance recommendation does (values with the default first), and what failed
# status checks and planned maintenance do.
REBALANCE_POLICY: Final = "REBALANCE_POLICY"
REBALANCE_POLICIES: Final = ("ignore", "launch-before-drain")
INSTANCE_STATUS_POLICY: Final = "INSTANCE_STATUS_POLICY"
# What launches of the deployment may do, for those who write EC2NodeClasses: whether instances must read metadata by
# token, and the ARNs of the keys that volumes may be encrypted with, with commas between.
METADATA_HTTP_TOKENS_POLICY: Final = "METADATA_HTTP_TOKENS"
METADATA_HTTP_TOKENS: Final = ("required", "optional")
KMS_KEYS: Final = "KMS_KEYS"
# Tags of what is launched, as JSON, beside those of its class.
LAUNCH_TAGS: Final = "LAUNCH_TAGS"
# How the planner decides. The first two are named and spelt as Karpenter's settings.
PREFERENCE_POLICY: Final = "PREFERENCE_POLICY"
MIN_VALUES_POLICY: Final = "MIN_VALUES_POLICY"
NO_DURATION_POLICY: Final = "NO_DURATION_POLICY"
SPOT_TO_SPOT_CONSOLIDATION: Final = "SPOT_TO_SPOT_CONSOLIDATION"  # "true" or "false"
SPOT_POOL_SHARE_PERCENT: Final = "SPOT_POOL_SHARE_PERCENT"
RESERVED_FLOOR_PERCENT: Final = "RESERVED_FLOOR_PERCENT"
NODE_OVERHEAD_MICRO_USD_PER_HOUR: Final = "NODE_OVERHEAD_MICRO_USD_PER_HOUR"
SOLVE_BUDGET_S: Final = "SOLVE_BUDGET_S"
# What everything that is bought may cost, in micro-USD, or NO_CEILING.
CEILING_MICRO_USD_PER_HOUR: Final = "CEILING_MICRO_USD_PER_HOUR"
CEILING_MICRO_USD_PER_MONTH: Final = "CEILING_MICRO_USD_PER_MONTH"
NO_CEILING: Final = "none"
# All of them; the stack outputs them, so that the command line asks the planner's own questions.
PLANNER_SETTINGS: Final = (
    PREFERENCE_POLICY,
    MIN_VALUES_POLICY,
    NO_DURATION_POLICY,
    SPOT_TO_SPOT_CONSOLIDATION,
    SPOT_POOL_SHARE_PERCENT,
    RESERVED_FLOOR_PERCENT,
    NODE_OVERHEAD_MICRO_USD_PER_HOUR,
    SOLVE_BUDGET_S,
    CEILING_MICRO_USD_PER_HOUR,
    CEILING_MICRO_USD_PER_MONTH,
)
# What one purchase of capacity, and all of a month, may cost, in micro-USD, or NO_CEILING: nothing may be bought. No
# function reads them; the stack outputs them for the command line, which alone buys.
PURCHASE_CEILING_MICRO_USD: Final = "PURCHASE_CEILING_MICRO_USD"
PURCHASE_CEILING_MICRO_USD_PER_MONTH: Final = "PURCHASE_CEILING_MICRO_USD_PER_MONTH"
# How much notice work gets at most before its node goes, in seconds.
LONGEST_NOTICE_S: Final = "LONGEST_NOTICE_S"
# How many may end within an hour, by kind, as JSON; kinds that it leaves out have the defaults of the core.
ENDING_BOUNDS: Final = "ENDING_BOUNDS"
ENDING_NUMBERS: Final = ("sharePercent", "leastCount", "mostCount")
METRICS_NAMESPACE: Final = "Reservoir"
# What any function may count stands under this instead of its name, so that one alarm is enough for all of them.
ANY_FUNCTION: Final = "any"
ROWS_UNREADABLE: Final = "RowsUnreadable"
# who says which rows cannot be read; each line is counted as one
ROWS_LOGGER: Final = "reservoir.rows"

# Tags on everything that Reservoir creates in EC2; IAM conditions name OWNER_TAG.
OWNER_TAG: Final = "reservoir:deployment"
SELF_TEST_TAG: Final = (
    "reservoir:self-test"  # of a reservation of a self-test: the deployment
)
PURCHASE_TAG: Final = "reservoir:purchase"  # of what was bought: the id of the offering
NODE_CLAIM_TAG: Final = "reservoir:nodeclaim"
BATCH_TAG: Final = "reservoir:batch"
# On both of two equal reservations: units may move between them. Set by their owner, never by Reservoir.
MOVABLE_TAG: Final = "reservoir:units-may-move"
MOVABLE_VALUE: Final = "true"
# On a reservation whose owner lets Reservoir lend its idle units as an interruptible reservation.
LENDABLE_TAG: Final = "reservoir:units-may-be-lent"
LENDABLE_VALUE: Final = "true"
# On that interruptible reservation: whose units these are.
LENT_FROM_TAG: Final = "reservoir:lent-from"
# On a reservation that Reservoir split off: from which one, for which resource group, and when (ISO 8601). It carries
# the owner tag and the tags of the other one, too.
SPLIT_FROM_TAG: Final = "reservoir:split-from"
SPLIT_GROUP_TAG: Final = "reservoir:split-group"
SPLIT_AT_TAG: Final = "reservoir:split-at"
TEAM_TAG: Final = "reservoir:team"  # of a node that was planned for one team's work alone
NODE_POOL_TAG: Final = "karpenter.sh/nodepool"
NODE_CLASS_TAG: Final = "karpenter.k8s.aws/ec2nodeclass"
# environment variable: value of OWNER_TAG, the stack's name
DEPLOYMENT: Final = "RESERVOIR_DEPLOYMENT"

# The stack's output that names its settings file: production of deployments/production.yaml.
DEPLOYMENT_NAME_OUTPUT: Final = "DeploymentName"

# Properties of the custom resource that hands policy to the apply function: the manifests folder, a list of name and
# text, and what is to be removed, a list of KIND/NAME.
MANIFESTS_PROPERTY: Final = "Manifests"
REMOVED_PROPERTY: Final = "Removed"
MANIFEST_NAME: Final = "Name"
MANIFEST_TEXT: Final = "Text"


def dead_letters_output(queue: Queue) -> str:
    """Return the stack output that carries the URL of a queue's dead letters: ``DemandDeadLettersUrl``."""
    return f"{output_name(queue.name)}DeadLettersUrl"


# In the signature with which an operator's request proves who sent it: the request's digest.
SIGNED_REQUEST_HEADER: Final = "x-reservoir-request"


# Whose permissions the doctor has simulated: what they may not do stops everybody.
EXAMINED: Final = (
    Function.DISCOVER_RESERVATIONS,
    Function.DISCOVER_OFFERINGS,
    Function.LAUNCH,
    Function.EXPIRE,
)


def timers_group(stack: str) -> str:
    """Return the name of the schedule group that a stack's timers are in."""
    return f"{stack}-drain"


def function_name(stack: str, function: Function) -> str:
    """Return the Lambda function's name.

    Chosen, not generated: the ARN is then known before the function exists, so that the drain timers' role and
    variables can name the function that they wake without a dependency circle; and the command line knows it.
    """
    return f"{stack}-{function.replace('_', '-')}"


def node_log_group(stack: str) -> str:
    """Return the log group that nodes may copy to; user data writes it with ``{{reservoir.deployment}}``."""
    return f"{stack}-NodeLogs"


def otlp_headers_parameter(stack: str) -> str:
    """Return the parameter of Systems Manager that holds the headers of what a stack pushes by OTLP."""
    return f"/reservoir/{stack}/otlp-headers"


def output_name(variable: str) -> str:
    """Return the stack output that carries an environment variable's value: ``EVENT_BUS_NAME`` -> ``EventBusName``."""
    return variable.title().replace("_", "")
