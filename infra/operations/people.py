"""What people, workload systems and nodes may do: managed policies to attach to their roles.

A sender may send demand; a viewer may read what the deployment knows, but not the Policy table, whose classes hold user
data; an operator may also change policy and work off what was given up, and is attached beside a viewer. A team's
operator may ask the function `operate` alone, which knows what is the team's. A node may read what it is for, and
report what becomes of it; one whose agent copies what its commands write may also write to the log group of nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import data_key
from infra.iam.acknowledgements import acknowledge_wildcards
from infra.iam.grants import Grant, Resources
from infra.iam.permissions import (
    READ,
    arns_with_indexes,
    resolve_principals,
    revisions,
)
from reservoir.names import (
    EXAMINED,
    IDENTITY_INDEX,
    Function,
    Queue,
    Table,
    function_name,
)

# Everything but what holds user data.
_VIEWED: Final = tuple(table for table in Table if table is not Table.POLICY)
# Reactions cannot be sent again: their queue takes events from EventBridge alone, and every fact is found by a sweep.
# Nor can reports: AWS would say that the operator is the node. What is told on the bus, operators may tell anyway.
_SENT_AGAIN: Final = (Queue.DEMAND, Queue.PLANNING, Queue.LAUNCHES, Queue.HISTORY)


class People(Construct):
    """The six policies; the stack's outputs carry their ARNs."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        resources: Resources,
        functions: Mapping[Function, lambda_.IFunction],
        letters: Sequence[sqs.IQueue],
        schedules: Iterable[events.IRule],
        node_logs: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, construct)
        policies: Mapping[str, Sequence[Grant]] = {
            "Sender": list(_sender(resources)),
            "Viewer": list(_viewer(resources)),
            "Operator": [
                *_operator(resources, letters, schedules),
                _read_logs(node_logs),
                *_examine(resources, functions),
            ],
            "TeamOperator": [_operate(resources)],
            "Node": list(_node(resources)),
            "NodeLogs": [_write_logs(node_logs)],
        }
        for name, grants in policies.items():
            policy = iam.ManagedPolicy(
                self,
                name,
                description=f"{name} of {Stack.of(self).stack_name}",
                statements=[grant.statement() for grant in grants],
            )
            acknowledge_wildcards(policy, grants)
            CfnOutput(Stack.of(self), f"{name}PolicyArn", value=policy.managed_policy_arn)


def _sender(resources: Resources) -> Iterable[Grant]:
    yield Grant(
        "SendDemand",
        "Workload systems send demand, and nothing else.",
        ["sqs:SendMessage"],
        [resources.queues[Queue.DEMAND].queue_arn],
    )
    yield from data_key.use(resources, data_key.SEND, ["sqs"])


def _viewer(resources: Resources) -> Iterable[Grant]:
    stack = resources.stack
    yield Grant(
        "FindTheStack",
        "The command line finds tables and queues by the stack's outputs.",
        ["cloudformation:DescribeStacks"],
        [
            stack.format_arn(
                service="cloudformation",
                resource="stack",
                resource_name=f"{stack.stack_name}/*",
            )
        ],
    )
    yield Grant(
        "ReadWhatIsKnown",
        "Workloads, nodes, reservations, offerings, decisions, history; classes hold user data and are not among them.",
        READ,
        arns_with_indexes(resources, _VIEWED),
    )
    yield from revisions(resources, _VIEWED)
    yield Grant(
        "ReadDecisions",
        "What decisions were made from; snapshots hold no user data.",
        ["s3:GetObject"],
        [resources.snapshots.arn_for_objects("*")],
    )
    yield Grant(
        "LookAtTheBus",
        "Where facts are published.",
        ["events:DescribeEventBus"],
        [resources.bus.event_bus_arn],
    )
    yield Grant(
        "LookAtSchedules",
        "Which rules are switched off; the call knows no narrower resource.",
        ["events:ListRules"],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": stack.region}},
    )
    yield Grant(
        "CountMessages",
        "How much waits in the queues; no message is read.",
        ["sqs:GetQueueAttributes"],
        [queue.queue_arn for queue in resources.queues.values()],
    )
    yield Grant(
        "AskForBlocks",
        "Blocks and extensions that EC2 would sell, and for how much; the calls know no resource, and buy nothing.",
        [
            "ec2:DescribeCapacityBlockExtensionOfferings",
            "ec2:DescribeCapacityBlockOfferings",
        ],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": stack.region}},
    )
    yield Grant(
        "LookAtAlarms",
        "Alarms and what they watch; the calls know no narrower resource.",
        ["cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData"],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": stack.region}},
    )
    yield from data_key.use(resources, data_key.READ, ["dynamodb", "s3"])


def _operator(
    resources: Resources, letters: Sequence[sqs.IQueue], schedules: Iterable[events.IRule]
) -> Iterable[Grant]:
    yield Grant(
        "ReadPolicy",
        "What is to be changed is read first.",
        READ,
        arns_with_indexes(resources, [Table.POLICY]),
    )
    yield from resolve_principals(resources)
    yield _call(
        resources,
        Function.CHANGE_POLICY,
        "ChangePolicy",
        "Applies and deletes policy, through the function that does it and says who.",
    )
    yield _operate(resources)
    yield Grant(
        "WorkOffLetters",
        "Messages that were given up are looked at, sent again or thrown away.",
        [
            "sqs:CancelMessageMoveTask",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ListMessageMoveTasks",
            "sqs:PurgeQueue",
            "sqs:ReceiveMessage",
            "sqs:StartMessageMoveTask",
        ],
        [queue.queue_arn for queue in letters],
    )
    yield Grant(
        "SendAgain",
        "Wakes the planner, and sends again what was given up, to the queues that people may send to.",
        ["sqs:SendMessage"],
        [resources.queues[queue].queue_arn for queue in _SENT_AGAIN],
    )
    yield Grant(
        "SwitchSchedulesOn",
        "Enables a schedule that somebody has disabled.",
        ["events:EnableRule"],
        [rule.rule_arn for rule in schedules],
    )
    yield from data_key.use(resources, data_key.WRITE, ["dynamodb", "sqs"])


def _operate(resources: Resources) -> Grant:
    return _call(
        resources,
        Function.OPERATE,
        "OperateByHand",
        "Cordons, drains and deletes nodes, pauses pools and lifts the envelope, through the function that does it,"
        " says who, and refuses a team's principal what is not its team's.",
    )


def _call(resources: Resources, function: Function, sid: str, why: str) -> Grant:
    name = function_name(resources.deployment.stack, function)
    arn = Stack.of(resources.stack).format_arn(
        service="lambda", resource=f"function:{name}"
    )
    return Grant(sid, why, ["lambda:InvokeFunction"], [arn])


def _examine(
    resources: Resources, functions: Mapping[Function, lambda_.IFunction]
) -> Iterable[Grant]:
    examined = [functions[function] for function in EXAMINED]
    yield Grant(
        "LookAtFunctions",
        "The doctor asks with which role a function runs.",
        ["lambda:GetFunctionConfiguration"],
        [function.function_arn for function in examined],
    )
    yield Grant(
        "SimulateFunctions",
        "The doctor has IAM simulate what these functions' roles may do; of no other role.",
        ["iam:SimulatePrincipalPolicy"],
        [function.role.role_arn for function in examined if function.role is not None],
    )
    yield Grant(
        "LookAtTheAccount",
        "The doctor asks for quotas, trails, concurrency and who reads queues; the calls know no narrower resource.",
        [
            "cloudtrail:DescribeTrails",
            "cloudtrail:GetEventSelectors",
            "cloudtrail:GetTrailStatus",
            "lambda:GetAccountSettings",
            "lambda:ListEventSourceMappings",
            "servicequotas:GetServiceQuota",
        ],
        ["*"],
        {"StringEquals": {"aws:RequestedRegion": resources.stack.region}},
    )


def _node(resources: Resources) -> Iterable[Grant]:
    yield Grant(
        "ReadOwnIdentity",
        "An instance reads what it is for under its own ARN, which EC2 puts into its credentials; no other row.",
        ["dynamodb:Query"],
        [resources.index(Table.NODE_CLAIMS, IDENTITY_INDEX)],
        {
            "ForAllValues:StringEquals": {
                "dynamodb:LeadingKeys": ["${ec2:SourceInstanceARN}"]
            },
            "Null": {"dynamodb:LeadingKeys": "false"},  # without a key, ForAllValues holds
        },
    )
    yield Grant(
        "ReportReplicas",
        "An instance says what becomes of its replicas; AWS says which instance it is.",
        ["sqs:SendMessage"],
        [resources.queues[Queue.REPORTS].queue_arn],
    )
    yield from data_key.use(
        resources, [*data_key.READ, "kms:GenerateDataKey"], ["dynamodb", "sqs"]
    )


def _read_logs(group: logs.ILogGroup) -> Grant:
    return Grant(
        "ReadNodeLogs",
        "What commands on nodes wrote, as far as agents copy it.",
        ["logs:FilterLogEvents"],
        [group.log_group_arn],
    )


def _write_logs(group: logs.ILogGroup) -> Grant:
    return Grant(
        "WriteNodeLogs",
        "An agent copies what its commands write. Streams have no owner: an instance can write to each of them.",
        ["logs:CreateLogStream", "logs:PutLogEvents"],
        [group.log_group_arn],
    )
