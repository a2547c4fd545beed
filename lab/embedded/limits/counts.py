"""How many of a kind an account has room for: AWS's default quotas, which an account can have raised, and tests lower.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html,
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html,
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html,
https://docs.aws.amazon.com/scheduler/latest/UserGuide/scheduler-quotas.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/BucketRestrictions.html,
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ministack.services import (
    cloudwatch,
    cloudwatch_logs,
    dynamodb,
    eventbridge,
    iam,
    s3,
    scheduler,
)
from ministack.services.cloudformation import provisioners

from lab.embedded.limits.parameters import Parameters
from lab.embedded.limits.quotas import QuotaError
from lab.embedded.limits.refusal import Refusal

_SUBSCRIBER: Final = (
    "Subscriber limit exceeded: There is a limit of {} tables per subscriber"
)
_RESOURCE: Final = "The requested resource exceeds the maximum number allowed."
_ALARMS: Final = "The quota for alarms for this customer has already been reached."
_GROUPS: Final = "Schedule group limit exceeded."
# https://github.com/milliHQ/terraform-aws-next-js/issues/15
_BUCKETS: Final = "You have attempted to create more buckets than allowed"
# https://github.com/aws-cloudformation/cfn-lint/issues/773
_LOGS: Final = "Resource limit exceeded."


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of resource: AWS's default, the names of those there are beside which one is made, and how it refuses."""

    limit: int
    others: Callable[[Parameters], list[str]]
    name: str  # the parameter with the name
    call: tuple[str, str]
    refusal: Refusal  # {} in its message is the quota


def _rules_of_bus(asked: Parameters) -> list[str]:
    bus = asked.get("EventBusName") or "default"
    return [
        rule["Name"] for rule in eventbridge._rules.values() if rule["EventBusName"] == bus
    ]


_KINDS: Final[Mapping[str, _Kind]] = {
    "AWS::CloudWatch::Alarm": _Kind(
        5_000,
        lambda _: list(cloudwatch._alarms),
        "AlarmName",
        ("monitoring", "PutMetricAlarm"),
        Refusal("LimitExceeded", _ALARMS),
    ),
    "AWS::DynamoDB::Table": _Kind(
        2_500,
        lambda _: list(dynamodb._tables),
        "TableName",
        ("dynamodb", "CreateTable"),
        Refusal("LimitExceededException", _SUBSCRIBER),
    ),
    "AWS::Events::EventBus": _Kind(
        100,
        lambda _: list(eventbridge._event_buses),
        "Name",
        ("events", "CreateEventBus"),
        Refusal("LimitExceededException", _RESOURCE),
    ),
    "AWS::Events::Rule": _Kind(
        300,
        _rules_of_bus,
        "Name",
        ("events", "PutRule"),
        Refusal("LimitExceededException", _RESOURCE),
    ),
    "AWS::IAM::ManagedPolicy": _Kind(
        1_500,
        lambda _: list(iam._policies),
        "PolicyName",
        ("iam", "CreatePolicy"),
        Refusal("LimitExceeded", "Cannot exceed quota for PoliciesPerAccount: {}", 409),
    ),
    "AWS::IAM::Role": _Kind(
        1_000,
        lambda _: list(iam._roles),
        "RoleName",
        ("iam", "CreateRole"),
        Refusal("LimitExceeded", "Cannot exceed quota for RolesPerAccount: {}", 409),
    ),
    "AWS::Logs::LogGroup": _Kind(
        1_000_000,
        lambda _: list(cloudwatch_logs._log_groups),
        "logGroupName",
        ("logs", "CreateLogGroup"),
        Refusal("LimitExceededException", _LOGS),
    ),
    "AWS::S3::Bucket": _Kind(
        10_000,
        lambda _: list(s3._buckets),
        "Bucket",
        ("s3", "CreateBucket"),
        Refusal("TooManyBuckets", _BUCKETS),
    ),
    "AWS::Scheduler::ScheduleGroup": _Kind(
        500,
        lambda _: list(scheduler._schedule_groups),
        "Name",
        ("scheduler", "CreateScheduleGroup"),
        Refusal("ServiceQuotaExceededException", _GROUPS, 402),
    ),
}
_BY_CALL: Final = {kind.call: name for name, kind in _KINDS.items()}


class AccountCounts:
    """The quotas of the account."""

    def __init__(self) -> None:
        self._lowered: Mapping[str, int] = {}

    def install(self) -> None:
        """Refuse the resources of stacks that there is no room for."""
        for kind in _KINDS:
            handlers = provisioners._RESOURCE_HANDLERS[kind]
            provisioners._RESOURCE_HANDLERS[kind] = {
                **handlers,
                "create": self._counted(kind, handlers["create"]),
            }
        self._count_buckets()

    def set(self, quotas: Mapping[str, Any]) -> dict[str, Any]:
        """Set the quotas of kinds by CloudFormation's names; the others are AWS's defaults.

        Raises
        ------
        ValueError
            A kind is not counted.
        """
        unknown = quotas.keys() - _KINDS.keys()
        if unknown:
            raise ValueError(f"not counted: {', '.join(sorted(unknown))}")
        self._lowered = {kind: int(count) for kind, count in quotas.items()}
        return {}

    def limit(self, kind: str) -> int:
        """Return how many of a kind there may be."""
        return self._lowered.get(kind, _KINDS[kind].limit)

    def refusal(self, service: str, operation: str, asked: Parameters) -> Refusal | None:
        """Say why there is no room for one more; None where there is, or it is there."""
        name = _BY_CALL.get((service, operation))
        return None if name is None else self._refusal(name, asked)

    def _refusal(self, name: str, asked: Parameters) -> Refusal | None:
        kind, limit = _KINDS[name], self.limit(name)
        others = kind.others(asked)
        if len(others) < limit or asked.get(kind.name) in others:
            return None
        found = kind.refusal
        return Refusal(found.code, found.message.format(limit), found.status)

    def _count_buckets(self) -> None:
        # The one service here whose calls are known by method and path alone.
        create = s3._create_bucket

        def checked_create(name: str, *rest: Any, **more: Any) -> Any:
            refused = self.refusal("s3", "CreateBucket", {"Bucket": name})
            if refused is None:
                return create(name, *rest, **more)
            return s3._error(refused.code, refused.message, refused.status, f"/{name}")

        s3._create_bucket = checked_create

    def _counted(self, kind: str, create: Callable[..., Any]) -> Callable[..., Any]:
        def creating(logical_id: str, properties: Parameters, stack: str) -> Any:
            refused = self._refusal(kind, {**properties, _KINDS[kind].name: None})
            if refused is not None:
                raise QuotaError(
                    f"{refused.message} (Status Code: {refused.status}; Error Code: {refused.code})"
                )
            return create(logical_id, properties, stack)

        return creating
