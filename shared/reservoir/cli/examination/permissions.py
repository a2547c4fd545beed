"""Whether the functions' roles still have the permissions that everything depends on, as IAM itself simulates it.

Their policies are the stack's. Permissions are taken away from outside: by a permissions boundary, a policy of the
organization, or a manual change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.stack.connection import Connection
from reservoir.names import (
    EXAMINED,
    METADATA_HTTP_TOKENS,
    OWNER_TAG,
    Function,
    function_name,
)
from reservoir.usecases.policy.policy_objects import policy_of


@dataclass(frozen=True, slots=True)
class _Call:
    """A call on a kind of EC2's resources; an empty kind: on whatever there is."""

    action: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class _Examined:
    """A function with its role, and where EC2's resources are that it is about."""

    function: Function
    role: str
    region: str
    ec2_arn: str  # how the ARNs of EC2's resources begin

    @classmethod
    def of(cls, stack: Connection, function: Function) -> "_Examined":
        name = function_name(stack.outside.settings.deployment, function)
        found = stack.client("lambda").get_function_configuration(FunctionName=name)
        _, partition, _, region, account, *_ = found["FunctionArn"].split(":")
        return cls(
            function, found["Role"], region, f"arn:{partition}:ec2:{region}:{account}"
        )


_CALLS: Final[Mapping[Function, tuple[_Call, ...]]] = {
    Function.DISCOVER_RESERVATIONS: (
        _Call("ec2:DescribeCapacityReservations"),
        _Call("ec2:DescribeSubnets"),
    ),
    Function.DISCOVER_OFFERINGS: (
        _Call("ec2:DescribeInstanceTypes"),
        _Call("pricing:GetProducts"),
    ),
    Function.LAUNCH: (
        _Call("ec2:DescribeInstances"),
        _Call("ec2:CreateLaunchTemplate", "launch-template"),
        _Call("ec2:CreateFleet", "fleet"),
        _Call("ec2:RunInstances", "instance"),
    ),
    Function.EXPIRE: (
        _Call("ec2:DescribeInstances"),
        _Call("ec2:TerminateInstances", "instance"),
    ),
}
_ALLOWED: Final = "allowed"


def permissions(stack: Connection) -> Iterator[Finding]:
    """Yield what functions may not do, though the stack gave them permission."""
    known = {function: _Examined.of(stack, function) for function in EXAMINED}
    for function, examined in known.items():
        for call in _CALLS[function]:
            resource = f"{examined.ec2_arn}:{call.kind}/*" if call.kind else "*"
            yield from _refused(stack, examined, call.action, resource)
    launch = known[Function.LAUNCH]
    account = ":".join(launch.role.split(":")[:5])
    for node_class in policy_of(stack.outside.policy.list_all()).node_classes:
        if node_class.role is not None:
            arn = f"{account}:role/{node_class.role}"
            for finding in _refused(stack, launch, "iam:PassRole", arn):
                message = f"EC2NodeClass/{node_class.name}: {finding.message}"
                advice = "name a role that the deployment's instanceRoles allow, or widen those and deploy"
                yield Finding(Severity.ERROR, "permissions", message, advice)


def _refused(
    stack: Connection, examined: "_Examined", action: str, resource: str
) -> Iterator[Finding]:
    answer = stack.client("iam").simulate_principal_policy(
        PolicySourceArn=examined.role,
        ActionNames=[action],
        ResourceArns=[resource],
        ContextEntries=_context(stack.outside.settings.deployment, examined),
    )
    for result in answer["EvaluationResults"]:
        if result["EvalDecision"] != _ALLOWED:
            message = (
                f"{examined.function.value} may not {action} on {resource}: {_why(result)}"
            )
            yield Finding(
                Severity.ERROR,
                "permissions",
                message,
                "allow it again, or deploy the stack again",
            )


def _why(result: Mapping[str, Any]) -> str:
    if not result.get("OrganizationsDecisionDetail", {}).get(
        "AllowedByOrganizations", True
    ):
        return "a policy of the organization does not allow it"
    if not result.get("PermissionsBoundaryDecisionDetail", {}).get(
        "AllowedByPermissionsBoundary", True
    ):
        return "the role's permissions boundary does not allow it"
    if result["EvalDecision"] == "explicitDeny":
        return "a policy denies it"
    return "no policy of its role allows it"


def _context(owner: str, examined: "_Examined") -> list[dict[str, Any]]:
    """Return the condition keys of a call that keeps every condition of the stack's own policies."""
    values = {
        "aws:RequestedRegion": examined.region,
        f"aws:RequestTag/{OWNER_TAG}": owner,
        f"aws:ResourceTag/{OWNER_TAG}": owner,
        "ec2:MetadataHttpTokens": METADATA_HTTP_TOKENS[0],
        "ec2:LaunchTemplate": f"{examined.ec2_arn}:launch-template/lt-0",
        "iam:PassedToService": "ec2.amazonaws.com",
    }
    return [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for key, value in values.items()
    ]
