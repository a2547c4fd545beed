"""What is too long or too many in a resource, so that CloudFormation or a service refuses it.

docs/aws-limits.md has the sources. A property that is too long is refused as the registry's schemas do
(https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html), a document as its service.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lab.embedded.limits.quotas import QuotaError, characters, checked

Properties = Mapping[str, Any]

# The longest value of a property, by the kind of resource.
_LONGEST: Final[Mapping[str, Mapping[str, int]]] = {
    "AWS::CloudWatch::Alarm": {"AlarmDescription": 1_024, "AlarmName": 255},
    "AWS::Events::Rule": {"Description": 512, "Name": 64},
    "AWS::IAM::ManagedPolicy": {"Description": 1_000},
    "AWS::IAM::Role": {"Description": 1_000, "RoleName": 64},
    "AWS::Lambda::Function": {"Description": 256, "FunctionName": 64},
    "AWS::SQS::Queue": {"QueueName": 80},
    "AWS::Scheduler::ScheduleGroup": {"Name": 64},
}
TRUST_POLICY_CHARACTERS: Final = 2_048
EVENT_PATTERN_CHARACTERS: Final = 2_048
DASHBOARD_WIDGETS: Final = 500
TABLE_INDEXES: Final = 20
PROJECTED_ATTRIBUTES: Final = 100


def install() -> None:
    """Refuse what AWS refuses."""
    for kind, fields in _LONGEST.items():
        checked(kind, _length_check(fields))
    for kind, check in _COUNTED.items():
        checked(kind, check)


def _length_check(fields: Mapping[str, int]) -> Callable[[Properties], None]:
    def check(properties: Properties) -> None:
        for field, longest in fields.items():
            length = len(str(properties.get(field, "")))
            if length > longest:
                raise QuotaError(
                    f"Model validation failed (#/{field}: expected maxLength: {longest}, actual: {length})"
                )

    return check


def check_trust(properties: Properties) -> None:
    """Refuse a trust policy that is too long. Raises QuotaError."""
    if characters(properties["AssumeRolePolicyDocument"]) > TRUST_POLICY_CHARACTERS:
        raise QuotaError(
            f"Cannot exceed quota for ACLSizePerRole: {TRUST_POLICY_CHARACTERS}"
        )


def check_event_pattern(properties: Properties) -> None:
    """Refuse an event pattern that is too long. Raises QuotaError."""
    pattern = properties.get("EventPattern") or ""
    if (
        len(pattern if isinstance(pattern, str) else _compact(pattern))
        > EVENT_PATTERN_CHARACTERS
    ):
        raise QuotaError("Event pattern is not valid. Reason: Filter is too long")


def check_dashboard(properties: Properties) -> None:
    """Refuse a dashboard with too many widgets. Raises QuotaError."""
    widgets = json.loads(properties["DashboardBody"])["widgets"]
    if len(widgets) > DASHBOARD_WIDGETS:
        raise QuotaError(
            f"The dashboard body is invalid: it has {len(widgets)} widgets, at most {DASHBOARD_WIDGETS} are allowed"
        )


def check_indexes(properties: Properties) -> None:
    """Refuse a table with too many indexes, or indexes with too many attributes of others. Raises QuotaError."""
    indexes = properties.get("GlobalSecondaryIndexes") or ()
    if len(indexes) > TABLE_INDEXES:
        raise QuotaError(
            "One or more parameter values were invalid:"
            f" GlobalSecondaryIndex count exceeds the per-table limit of {TABLE_INDEXES}"
        )
    if len(list(_projected(indexes))) > PROJECTED_ATTRIBUTES:
        raise QuotaError(
            "One or more parameter values were invalid: Number of attributes in all non-key attributes lists"
            f" exceeds the limit of {PROJECTED_ATTRIBUTES}"
        )


def _projected(indexes: Any) -> Iterator[str]:
    for index in indexes:
        yield from index["Projection"].get("NonKeyAttributes", ())


def _compact(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


_COUNTED: Final[Mapping[str, Callable[[Properties], None]]] = {
    "AWS::CloudWatch::Dashboard": check_dashboard,
    "AWS::DynamoDB::Table": check_indexes,
    "AWS::Events::Rule": check_event_pattern,
    "AWS::IAM::Role": check_trust,
}
