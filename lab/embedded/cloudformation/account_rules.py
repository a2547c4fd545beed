"""What an account with rules denies: a service control policy for who calls, and guards for what stacks make.

A service control policy bounds every principal but the account's root, as a permissions boundary does; its denials are
those of a list of statements, everything else stays allowed. They bind CloudFormation's role, too, but what policies
and hooks demand of a request's tags and keys is asked of the resources themselves.
https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_scps_evaluation.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ministack.core import iam_evaluator

from lab.embedded.functions.roles import ORGANIZATION
from lab.embedded.limits.quotas import QuotaError, checked

Properties = Mapping[str, Any]

_ALLOW_ALL: Final = {"Effect": "Allow", "Action": "*", "Resource": "*"}
# Where a resource names the key that encrypts what it stores.
_KEYS: Final[Mapping[str, Callable[[Properties], Any]]] = {
    "AWS::DynamoDB::Table": lambda it: (it.get("SSESpecification") or {}).get(
        "KMSMasterKeyId"
    ),
    "AWS::Lambda::Function": lambda it: it.get("KmsKeyArn"),
    "AWS::Logs::LogGroup": lambda it: it.get("KmsKeyId"),
    "AWS::S3::Bucket": lambda it: "KMSMasterKeyID" in str(it.get("BucketEncryption")),
    "AWS::SQS::Queue": lambda it: it.get("KmsMasterKeyId"),
}
_TAGGED: Final = (
    *("AWS::CloudWatch::Alarm", "AWS::DynamoDB::Table", "AWS::Events::EventBus"),
    *("AWS::IAM::Role", "AWS::Lambda::Function", "AWS::Logs::LogGroup"),
    *("AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::Scheduler::ScheduleGroup"),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an account demands; nothing at first."""

    boundary: str | None = None  # of every role
    tags: tuple[str, ...] = ()  # keys that everything has that takes tags
    with_keys: bool = (
        False  # what stores something is encrypted with a key of the account's
    )
    in_vpc: bool = False  # functions
    denied: tuple[Mapping[str, Any], ...] = ()  # statements of the service control policy


class AccountRules:
    """The rules in force."""

    def __init__(self) -> None:
        self.rules = Rules()

    def install(self) -> None:
        """Ask every caller, and every resource of a stack."""
        resolve = iam_evaluator.resolve_principal

        def resolve_principal(*asked: Any, **more: Any) -> Any:
            found = resolve(*asked, **more)
            policies = getattr(found, "policies", None)
            if policies is None:  # the root, or nobody
                return found
            return replace(found, limits=[*found.limits, *self._control_policies()])

        iam_evaluator.resolve_principal = resolve_principal
        ORGANIZATION.append(self._control_policies)
        for kind in {*_KEYS, *_TAGGED}:
            checked(kind, self._guard(kind))

    def set(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Set the rules; what is left out is not demanded."""
        self.rules = Rules(
            boundary=payload.get("boundary"),
            tags=tuple(payload.get("tags", ())),
            with_keys=bool(payload.get("with_keys")),
            in_vpc=bool(payload.get("in_vpc")),
            denied=tuple(payload.get("denied", ())),
        )
        return {}

    def _control_policies(self) -> list[Any]:
        if not self.rules.denied:
            return []
        denied = [{**each, "Effect": "Deny"} for each in self.rules.denied]
        document = {"Version": "2012-10-17", "Statement": [_ALLOW_ALL, *denied]}
        return [[iam_evaluator.parse_policy_document(document)]]

    def _guard(self, kind: str) -> Callable[[Properties], None]:
        def check(properties: Properties) -> None:
            missing = self._missing(kind, properties)
            if missing is not None:
                raise QuotaError(
                    f"{kind} {missing}: explicit deny in a service control policy"
                )

        return check

    def _missing(self, kind: str, properties: Properties) -> str | None:
        rules = self.rules
        if kind == "AWS::IAM::Role" and rules.boundary is not None:
            found = properties.get("PermissionsBoundary")
            if found != rules.boundary:
                return f"without the boundary {rules.boundary}"
        if kind == "AWS::Lambda::Function" and rules.in_vpc:
            network = properties.get("VpcConfig") or {}
            if not network.get("SubnetIds"):
                return "in no VPC"
        if kind in _KEYS and rules.with_keys and not _KEYS[kind](properties):
            return "without a key of the account's"
        if kind in _TAGGED:
            lacking = [key for key in rules.tags if key not in _tag_keys(properties)]
            if lacking:
                return f"without the tag {lacking[0]}"
        return None


def _tag_keys(properties: Properties) -> set[str]:
    tags = properties.get("Tags") or []
    return set(tags) if isinstance(tags, Mapping) else {each["Key"] for each in tags}
