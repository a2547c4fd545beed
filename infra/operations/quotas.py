"""What AWS allows of what the template makes, and how much of it this template uses, at one name, region and partition.

Sizes depend on names, and names on the stack's: a template that AWS takes under one name may be refused under a longer
one. ``docs/aws-limits.md`` has the same quotas with what else Reservoir meets at run time.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Properties = Mapping[str, Any]
Template = Mapping[str, Any]

_ACCOUNT: Final = "123456789012"
_SUFFIX: Final = "-ABCDEFGHIJKL"  # of a name that CloudFormation chooses
_GUIDE: Final = "https://docs.aws.amazon.com/"


@dataclass(frozen=True, slots=True)
class Quota:
    """A published limit, and where it is published."""

    what: str
    limit: int
    unit: str
    source: str


QUEUE_POLICY_BYTES: Final = Quota(
    "policy of an SQS queue",
    8_192,
    "bytes",
    f"{_GUIDE}AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html",
)
QUEUE_POLICY_STATEMENTS: Final = Quota(
    "statements in the policy of an SQS queue", 20, "statements", QUEUE_POLICY_BYTES.source
)
QUEUE_POLICY_PRINCIPALS: Final = Quota(
    "principals in the policy of an SQS queue", 50, "principals", QUEUE_POLICY_BYTES.source
)
QUEUE_POLICY_CONDITIONS: Final = Quota(
    "conditions of a statement in the policy of an SQS queue",
    10,
    "conditions",
    QUEUE_POLICY_BYTES.source,
)
_IAM: Final = f"{_GUIDE}IAM/latest/UserGuide/reference_iam-quotas.html"
INLINE_POLICIES: Final = Quota("all inline policies of a role", 10_240, "characters", _IAM)
MANAGED_POLICY: Final = Quota("a managed policy", 6_144, "characters", _IAM)
MANAGED_POLICIES_OF_ROLE: Final = Quota("managed policies of a role", 10, "policies", _IAM)
TRUST_POLICY: Final = Quota("trust policy of a role", 2_048, "characters", _IAM)
ROLE_DESCRIPTION: Final = Quota(
    "description of a role or policy", 1_000, "characters", _IAM
)
_LAMBDA: Final = f"{_GUIDE}lambda/latest/dg/gettingstarted-limits.html"
FUNCTION_NAME: Final = Quota(
    "name of a function",
    64,
    "characters",
    f"{_GUIDE}lambda/latest/api/API_CreateFunction.html",
)
FUNCTION_VARIABLES: Final = Quota(
    "environment variables of a function", 4_096, "bytes", _LAMBDA
)
FUNCTION_POLICY: Final = Quota("resource policy of a function", 20_480, "bytes", _LAMBDA)
_CLOUDFORMATION: Final = (
    f"{_GUIDE}AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"
)
TEMPLATE_BYTES: Final = Quota("template in S3", 1_000_000, "bytes", _CLOUDFORMATION)
RESOURCES: Final = Quota("resources of a template", 500, "resources", _CLOUDFORMATION)
OUTPUTS: Final = Quota("outputs of a template", 200, "outputs", _CLOUDFORMATION)
OUTPUT_BYTES: Final = Quota("value of an output", 1_024, "bytes", _CLOUDFORMATION)
_EVENTS: Final = f"{_GUIDE}eventbridge/latest/userguide/eb-quota.html"
RULE_TARGETS: Final = Quota("targets of a rule", 5, "targets", _EVENTS)
RULE_NAME: Final = Quota(
    "name of a rule",
    64,
    "characters",
    f"{_GUIDE}eventbridge/latest/APIReference/API_PutRule.html",
)
EVENT_PATTERN: Final = Quota("event pattern", 2_048, "characters", _EVENTS)
RULES: Final = Quota(
    "rules of a bus (fewest by default, of any region)", 100, "rules", _EVENTS
)
SCHEDULE_GROUP_NAME: Final = Quota(
    "name of a schedule group",
    64,
    "characters",
    f"{_GUIDE}scheduler/latest/APIReference/API_CreateScheduleGroup.html",
)
INDEXES: Final = Quota(
    "global secondary indexes of a table",
    20,
    "indexes",
    f"{_GUIDE}amazondynamodb/latest/developerguide/ServiceQuotas.html",
)
PROJECTED_ATTRIBUTES: Final = Quota(
    "attributes that all indexes of a table include", 100, "attributes", INDEXES.source
)
_CLOUDWATCH: Final = f"{_GUIDE}AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html"
DASHBOARD_WIDGETS: Final = Quota("widgets of a dashboard", 500, "widgets", _CLOUDWATCH)
ALARM_DESCRIPTION: Final = Quota(
    "description of an alarm",
    1_024,
    "characters",
    f"{_GUIDE}AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html",
)


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a quota one resource uses."""

    quota: Quota
    resource: str
    used: int

    @property
    def is_too_much(self) -> bool:
        """Whether AWS would refuse it."""
        return self.used > self.quota.limit

    def __str__(self) -> str:
        """Say it as people read it."""
        quota = self.quota
        return f"{self.resource}: {quota.what} has {self.used} {quota.unit}, AWS allows {quota.limit}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a template is deployed."""

    stack: str
    region: str = "us-east-1"
    partition: str = "aws"


def uses(template: Template, place: Place) -> list[Use]:
    """Return how much of each quota a template uses at a place; of a name that AWS chooses, the longest."""
    reader = _Reader(template, place)
    return [
        *reader.of_template(),
        *reader.of_queues(),
        *reader.of_roles(),
        *reader.of_functions(),
        *reader.of_rules(),
        *reader.of_tables(),
        *reader.of_watching(),
    ]


def exceeded(template: Template, place: Place) -> list[Use]:
    """Return what AWS would refuse."""
    return [use for use in uses(template, place) if use.is_too_much]


class _Reader:
    def __init__(self, template: Template, place: Place) -> None:
        self._template = template
        self._resources: Mapping[str, Mapping[str, Any]] = template["Resources"]
        self._place = place

    # --- what AWS sees

    def _value(self, value: Any) -> Any:
        """Return a property as AWS gets it, with every name as long as it can be."""
        match value:
            case {"Ref": str(name)}:
                return self._reference(name)
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return self._attribute(name, attribute)
            case {"Fn::Join": [str(separator), list(parts)]}:
                return separator.join(str(self._value(part)) for part in parts)
            case {"Fn::Select": [index, {"Fn::Split": [str(separator), text]}]}:
                return str(self._value(text)).split(separator)[int(index)]
            case dict():
                return {key: self._value(part) for key, part in value.items()}
            case list():
                return [self._value(part) for part in value]
        return value

    def _reference(self, name: str) -> str:
        place = self._place
        pseudo = {
            "AWS::AccountId": _ACCOUNT,
            "AWS::Partition": place.partition,
            "AWS::Region": place.region,
            "AWS::StackName": place.stack,
            "AWS::URLSuffix": "amazonaws.com.cn"
            if place.partition == "aws-cn"
            else "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name not in self._resources:
            return name  # a parameter
        if self._resources[name]["Type"] == "AWS::SQS::Queue":
            return (
                f"https://sqs.{place.region}.amazonaws.com/{_ACCOUNT}/{self._named(name)}"
            )
        if self._resources[name]["Type"] == "AWS::IAM::ManagedPolicy":
            return f"arn:{place.partition}:iam::{_ACCOUNT}:policy/{self._named(name)}"
        return self._named(name)

    def _attribute(self, name: str, attribute: str) -> str:
        kind = self._resources[name]["Type"]
        if attribute not in ("Arn", "StreamArn"):
            return self._named(name)
        resource = {
            "AWS::DynamoDB::Table": "dynamodb:{region}:{account}:table/{name}",
            "AWS::Events::EventBus": "events:{region}:{account}:event-bus/{name}",
            "AWS::Events::Rule": "events:{region}:{account}:rule/{bus}{name}",
            "AWS::IAM::Role": "iam::{account}:role/{name}",
            "AWS::Lambda::Function": "lambda:{region}:{account}:function:{name}",
            "AWS::Logs::LogGroup": "logs:{region}:{account}:log-group:{name}:*",
            "AWS::S3::Bucket": "s3:::{name}",
            "AWS::SQS::Queue": "sqs:{region}:{account}:{name}",
        }.get(kind, "service:{region}:{account}:kind/{name}")
        bus = self._resources[name].get("Properties", {}).get("EventBusName")
        text = resource.format(
            region=self._place.region,
            account=_ACCOUNT,
            name=self._named(name),
            bus="" if bus is None else f"{self._value(bus)}/",
        )
        return f"arn:{self._place.partition}:{text}"

    def _named(self, name: str) -> str:
        """Return the name that a resource gets: its own, or CloudFormation's, which shortens what is too long."""
        kind = self._resources[name]["Type"]
        properties = self._resources[name].get("Properties", {})
        for field, value in properties.items():
            if field in _NAME_FIELDS.get(kind, ()):
                return str(self._value(value))
        longest = _NAME_LENGTHS.get(kind, 255)
        return f"{self._place.stack}-{name}"[: longest - len(_SUFFIX)] + _SUFFIX

    def _all(self, kind: str) -> Iterator[tuple[str, Properties]]:
        for name, resource in self._resources.items():
            if resource["Type"] == kind:
                yield name, resource.get("Properties", {})

    def _length(self, value: Any) -> int:
        return len(json.dumps(self._value(value), separators=(",", ":")))

    # --- what is counted

    def of_template(self) -> Iterator[Use]:
        outputs = self._template.get("Outputs", {})
        yield Use(
            TEMPLATE_BYTES, "template", len(json.dumps(self._template, indent=1).encode())
        )
        yield Use(RESOURCES, "template", len(self._resources))
        yield Use(OUTPUTS, "template", len(outputs))
        for name, output in outputs.items():
            yield Use(OUTPUT_BYTES, name, len(str(self._value(output["Value"])).encode()))

    def of_queues(self) -> Iterator[Use]:
        for name, properties in self._all("AWS::SQS::QueuePolicy"):
            document = properties["PolicyDocument"]
            conditions = [
                sum(map(len, statement.get("Condition", {}).values()))
                for statement in document["Statement"]
            ]
            yield Use(QUEUE_POLICY_BYTES, name, self._length(document))
            yield Use(QUEUE_POLICY_STATEMENTS, name, len(document["Statement"]))
            yield Use(QUEUE_POLICY_PRINCIPALS, name, len(document["Statement"]))
            yield Use(QUEUE_POLICY_CONDITIONS, name, max(conditions))

    def of_roles(self) -> Iterator[Use]:
        inline = {name: 0 for name, _ in self._all("AWS::IAM::Role")}
        managed = dict.fromkeys(inline, 0)
        for name, properties in self._all("AWS::IAM::Role"):
            yield Use(
                TRUST_POLICY, name, self._length(properties["AssumeRolePolicyDocument"])
            )
            yield Use(ROLE_DESCRIPTION, name, len(properties.get("Description", "")))
            managed[name] += len(properties.get("ManagedPolicyArns", ()))
            for policy in properties.get("Policies", ()):
                inline[name] += self._length(policy["PolicyDocument"])
        for _, properties in self._all("AWS::IAM::Policy"):
            for role in properties.get("Roles", ()):
                inline[role["Ref"]] += self._length(properties["PolicyDocument"])
        for name, properties in self._all("AWS::IAM::ManagedPolicy"):
            yield Use(MANAGED_POLICY, name, self._length(properties["PolicyDocument"]))
            yield Use(ROLE_DESCRIPTION, name, len(properties.get("Description", "")))
            for role in properties.get("Roles", ()):
                managed[role["Ref"]] += 1
        for name, length in inline.items():
            yield Use(INLINE_POLICIES, name, length)
        for name, count in managed.items():
            yield Use(MANAGED_POLICIES_OF_ROLE, name, count)

    def of_functions(self) -> Iterator[Use]:
        permissions: dict[str, int] = {}
        for _, properties in self._all("AWS::Lambda::Permission"):
            function = json.dumps(properties["FunctionName"])
            permissions[function] = (
                permissions.get(function, 0) + _PERMISSION_BYTES + self._length(properties)
            )
        for function, length in permissions.items():
            yield Use(FUNCTION_POLICY, function, length)
        for name, properties in self._all("AWS::Lambda::Function"):
            yield Use(FUNCTION_NAME, name, len(self._named(name)))
            yield Use(
                FUNCTION_VARIABLES,
                name,
                self._length(properties.get("Environment", {}).get("Variables", {})),
            )

    def of_rules(self) -> Iterator[Use]:
        by_bus: dict[str, int] = {}
        for name, properties in self._all("AWS::Events::Rule"):
            bus = json.dumps(properties.get("EventBusName", "default"))
            by_bus[bus] = by_bus.get(bus, 0) + 1
            yield Use(RULE_TARGETS, name, len(properties.get("Targets", ())))
            yield Use(RULE_NAME, name, len(self._named(name)))
            if "EventPattern" in properties:
                yield Use(EVENT_PATTERN, name, self._length(properties["EventPattern"]))
        for bus, count in by_bus.items():
            yield Use(RULES, bus, count)
        for name, _ in self._all("AWS::Scheduler::ScheduleGroup"):
            yield Use(SCHEDULE_GROUP_NAME, name, len(self._named(name)))

    def of_tables(self) -> Iterator[Use]:
        for name, properties in self._all("AWS::DynamoDB::Table"):
            indexes = properties.get("GlobalSecondaryIndexes", ())
            included = sum(
                len(index["Projection"].get("NonKeyAttributes", ())) for index in indexes
            )
            yield Use(INDEXES, name, len(indexes))
            yield Use(PROJECTED_ATTRIBUTES, name, included)

    def of_watching(self) -> Iterator[Use]:
        for name, properties in self._all("AWS::CloudWatch::Dashboard"):
            widgets = json.loads(str(self._value(properties["DashboardBody"])))["widgets"]
            yield Use(DASHBOARD_WIDGETS, name, len(widgets))
        for name, properties in self._all("AWS::CloudWatch::Alarm"):
            yield Use(ALARM_DESCRIPTION, name, len(properties.get("AlarmDescription", "")))


_PERMISSION_BYTES: Final = 300  # what Lambda writes around a permission's own words
_NAME_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "AWS::CloudWatch::Dashboard": ("DashboardName",),
    "AWS::DynamoDB::Table": ("TableName",),
    "AWS::Events::EventBus": ("Name",),
    "AWS::Events::Rule": ("Name",),
    "AWS::IAM::Role": ("RoleName",),
    "AWS::Lambda::Function": ("FunctionName",),
    "AWS::S3::Bucket": ("BucketName",),
    "AWS::SQS::Queue": ("QueueName",),
    "AWS::Scheduler::ScheduleGroup": ("Name",),
}
_NAME_LENGTHS: Final[Mapping[str, int]] = {
    "AWS::Events::Rule": 64,
    "AWS::IAM::ManagedPolicy": 128,
    "AWS::IAM::Role": 64,
    "AWS::Lambda::Function": 64,
    "AWS::S3::Bucket": 63,
    "AWS::SQS::Queue": 80,
}
