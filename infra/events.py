"""What wakes the functions: AWS's events, schedules, and the exact timers of Capacity Blocks."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import FUNCTIONS
from infra.naming import function_name
from reservoir.names import (
    EVENT_SOURCE,
    HISTORY_RULE_SUFFIX,
    PLANNING_MESSAGE_GROUP,
    Function,
    Queue,
    output_name,
    timers_group,
)

MINUTES_A_DAY: Final = 24 * 60

# Calls of this account that change reservations. EC2 emits no event of its own for most of them; CloudTrail's copy
# needs a trail in the account. Calls of a sharing account never appear: the minute's discovery finds their effect.
RESERVATION_CALLS: Final = (
    "CancelCapacityReservation",
    "CreateCapacityReservation",
    "CreateCapacityReservationBySplitting",
    "CreateInterruptibleCapacityReservationAllocation",
    "ModifyCapacityReservation",
    "MoveCapacityReservationInstances",
    "PurchaseCapacityBlock",
    "PurchaseCapacityBlockExtension",
    "UpdateInterruptibleCapacityReservationAllocation",
)


def _instance_patterns(*, with_rebalance: bool) -> Mapping[str, events.EventPattern]:
    patterns = {
        "InstanceStateChange": events.EventPattern(
            source=["aws.ec2"],
            detail_type=["EC2 Instance State-change Notification"],
            # a launch tells of itself
            detail={"state": events.Match.anything_but("pending")},
        ),
        "SpotInterruption": events.EventPattern(
            source=["aws.ec2"], detail_type=["EC2 Spot Instance Interruption Warning"]
        ),
        "Health": events.EventPattern(
            source=["aws.health"],
            detail_type=["AWS Health Event"],
            # Maintenance, and notices such as that of a reservation which is hardly used; no issues of the service.
            detail={
                "service": ["EC2"],
                "eventTypeCategory": ["scheduledChange", "accountNotification"],
            },
        ),
    }
    if with_rebalance:
        patterns["RebalanceRecommendation"] = events.EventPattern(
            source=["aws.ec2"], detail_type=["EC2 Instance Rebalance Recommendation"]
        )
    return patterns


def _reservation_patterns() -> Mapping[str, events.EventPattern]:
    return {
        # Future-dated reservations' states, and the warning to an instance in a block or interruptible reservation.
        "CapacityReservation": _ec2_prefix("EC2 Capacity Reservation"),
        "CapacityReservationSuspension": _ec2_prefix("EC2 On-Demand Capacity Reservation"),
        "InterruptibleReclamation": _ec2_prefix("EC2 Interruptible Capacity Reservation"),
        # AWS documents both `Capacity Block ...` and `Capacity Block Reservation ...`.
        "CapacityBlock": _ec2_prefix("Capacity Block"),
        "ReservationCall": events.EventPattern(
            source=["aws.ec2"],
            detail_type=["AWS API Call via CloudTrail"],
            detail={
                "eventSource": ["ec2.amazonaws.com"],
                "eventName": list(RESERVATION_CALLS),
                "errorCode": [{"exists": False}],
            },
        ),
        "CapacityBlockCloudTrail": events.EventPattern(
            source=["aws.ec2"],
            detail_type=["AWS Service Event via CloudTrail"],
            detail={"eventName": [{"prefix": "CapacityBlock"}]},
        ),
    }


def _ec2_prefix(prefix: str) -> events.EventPattern:
    return events.EventPattern(source=["aws.ec2"], detail_type=events.Match.prefix(prefix))


def _deployment_done(stack: Stack) -> events.EventPattern:
    return events.EventPattern(
        source=["aws.cloudformation"],
        detail_type=["CloudFormation Stack Status Change"],
        detail={
            "stack-id": [
                {
                    "prefix": stack.format_arn(
                        service="cloudformation",
                        resource="stack",
                        resource_name=f"{stack.stack_name}/",
                    )
                }
            ],
            "status-details": {"status": ["CREATE_COMPLETE", "UPDATE_COMPLETE"]},
        },
    )


class AwsEvents(Construct):
    """Rules on the default bus. Each event is a hint for ``react``; one about reservations also wakes discovery."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        reactions: sqs.Queue,
        senders: Sequence[iam.IRole],
        undelivered: sqs.IQueue,
        discover_reservations: lambda_.IFunction,
        with_rebalance: bool,
    ) -> None:
        super().__init__(scope, construct)
        # By its ARN, or the CDK would add a statement to the queue's policy for each rule.
        by_arn = sqs.Queue.from_queue_arn(self, "ReactionsByArn", reactions.queue_arn)
        react = targets.SqsQueue(by_arn, dead_letter_queue=undelivered)
        # The minute's schedule makes up for a lost wake-up; a late one would tell nothing new.
        discover = targets.LambdaFunction(
            discover_reservations,
            max_event_age=Duration.minutes(1),
            dead_letter_queue=undelivered,
        )
        rules = [
            events.Rule(self, name, event_pattern=pattern, targets=[react])
            for name, pattern in _instance_patterns(with_rebalance=with_rebalance).items()
        ]
        rules += [
            events.Rule(self, name, event_pattern=pattern, targets=[react, discover])
            for name, pattern in _reservation_patterns().items()
        ]
        reactions.add_to_resource_policy(_from_rules(reactions, rules))
        reactions.add_to_resource_policy(_nobody_else(reactions, rules, senders))


def _from_rules(queue: sqs.Queue, rules: Sequence[events.Rule]) -> iam.PolicyStatement:
    """Allow these rules to send, in one statement."""
    return iam.PolicyStatement(
        sid="FromRules",
        principals=[iam.ServicePrincipal("events.amazonaws.com")],
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        conditions={"ArnEquals": {"aws:SourceArn": [rule.rule_arn for rule in rules]}},
    )


def _nobody_else(
    queue: sqs.Queue, rules: Sequence[events.Rule], senders: Sequence[iam.IRole]
) -> iam.PolicyStatement:
    """Refuse messages of anybody but these rules and roles, whatever their own policies allow.

    A spot interruption or a notice of AWS Health cannot be read again anywhere: whoever could put one into the queue
    could drain nodes. ``aws:SourceArn`` is set by services alone; a person's request has none, and differs from all.
    """
    sent_by = {"aws:SourceArn": [rule.rule_arn for rule in rules]}
    if senders:
        sent_by["aws:PrincipalArn"] = [role.role_arn for role in senders]
    return iam.PolicyStatement(
        sid="NobodyElse",
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["sqs:SendMessage"],
        resources=[queue.queue_arn],
        conditions={"ArnNotEquals": sent_by},
    )


class KeptEvents(Construct):
    """The rule on the outbound bus that has everything kept which Reservoir tells there."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        bus: events.IEventBus,
        history: sqs.IQueue,
        undelivered: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct)
        events.Rule(
            self,
            "Everything",
            rule_name=f"{Stack.of(self).stack_name}{HISTORY_RULE_SUFFIX}",
            event_bus=bus,
            event_pattern=events.EventPattern(source=[EVENT_SOURCE]),
            targets=[targets.SqsQueue(history, dead_letter_queue=undelivered)],
        )


class Schedules(Construct):
    """The sweeps that find whatever events did not tell."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        functions: Mapping[Function, lambda_.IFunction],
        queues: Mapping[Queue, sqs.IQueue],
        undelivered: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct)
        self.by_function: dict[Function, events.Rule] = {}
        for function, settings in FUNCTIONS.items():
            if settings.every_min is not None:
                # The next pass does what one did not that could not be delivered in time; but of those that come
                # twice a day each counts, and EventBridge tries for a day.
                age = (
                    Duration.minutes(settings.every_min)
                    if settings.every_min < MINUTES_A_DAY / 4
                    else None
                )
                target: events.IRuleTarget
                if settings.queue is None:
                    target = targets.LambdaFunction(
                        functions[function],
                        max_event_age=age,
                        dead_letter_queue=undelivered,
                    )
                else:
                    target = targets.SqsQueue(
                        queues[settings.queue],
                        max_event_age=age,
                        dead_letter_queue=undelivered,
                    )
                self.by_function[function] = self._every(
                    output_name(function), settings.every_min, target
                )
        # A new deployment must not wait half a day for its catalogue, nor minutes for the marks on its tables, before
        # which nothing is ended by choice. Should the rule be too young to see its own stack, schedules make up for it.
        events.Rule(
            self,
            "Deployed",
            event_pattern=_deployment_done(Stack.of(self)),
            targets=[
                targets.LambdaFunction(functions[function], dead_letter_queue=undelivered)
                for function in (Function.DISCOVER_OFFERINGS, Function.COLLECT)
            ],
        )
        # Its body differs each minute (time and id of the event), so the queue's deduplication keeps every one.
        wake_up = targets.SqsQueue(
            queues[Queue.PLANNING],
            message_group_id=PLANNING_MESSAGE_GROUP,
            max_event_age=Duration.minutes(1),
            dead_letter_queue=undelivered,
        )
        self.by_function[Function.PROVISION] = self._every("Provision", 1, wake_up)

    def _every(self, name: str, minutes: int, target: events.IRuleTarget) -> events.Rule:
        return events.Rule(
            self,
            name,
            schedule=events.Schedule.rate(Duration.minutes(minutes)),
            targets=[target],
        )


class DrainTimers(Construct):
    """Group and role of the one-time schedules that discovery sets, one a Capacity Block, to wake ``expire``."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        undelivered: sqs.IQueue,
        key_arn: str | None,
    ) -> None:
        super().__init__(scope, construct)
        stack = Stack.of(self)
        self.dead_letters_arn = undelivered.queue_arn
        self.group = scheduler.ScheduleGroup(
            self,
            "Group",
            schedule_group_name=timers_group(stack.stack_name),
            # The CDK retains groups: one would outlive a create that fails, and its name be taken in the next.
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.target_arn = stack.format_arn(
            service="lambda",
            resource="function",
            resource_name=function_name(stack.stack_name, Function.EXPIRE),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self.timers_arn = stack.format_arn(
            service="scheduler",
            resource="schedule",
            resource_name=f"{self.group.schedule_group_name}/*",
        )
        # The group, not a schedule, is what Scheduler names as its source; without the conditions any account's
        # schedule could be pointed at this role.
        trusted = iam.ServicePrincipal("scheduler.amazonaws.com").with_conditions(
            {
                "StringEquals": {
                    "aws:SourceAccount": stack.account,
                    "aws:SourceArn": self.group.schedule_group_arn,
                }
            }
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=trusted,
            description="Wakes the expire function, or says it cannot",
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid="WakeExpire",
                actions=["lambda:InvokeFunction"],
                resources=[self.target_arn],
            )
        )
        self.role.add_to_policy(
            iam.PolicyStatement(
                sid="KeepUndelivered",
                actions=["sqs:SendMessage"],
                resources=[undelivered.queue_arn],
            )
        )
        if key_arn is not None:
            self.role.add_to_policy(
                iam.PolicyStatement(
                    sid="UseDataKey",
                    actions=["kms:Decrypt", "kms:GenerateDataKey"],
                    resources=[key_arn],
                    conditions={
                        "StringEquals": {
                            "kms:ViaService": f"sqs.{stack.region}.amazonaws.com"
                        }
                    },
                )
            )
