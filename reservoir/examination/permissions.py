"""Whether the functions' roles may still do what everything depends on, as IAM itself simulates it.

Their policies are the stack's; what takes permissions away lies outside: a permissions boundary, a policy of the
organization, somebody's edit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reservoir.connection import Connection
from reservoir.examination.finding import Finding, Severity
from shared.names import EXAMINED, METADATA_HTTP_TOKENS, OWNER_TAG, Function, function_name
from shared.usecases.policy.policy_objects import policy_of


@dataclass(frozen=True, slots=True)
class _Call:
    """A call on a kind of EC2's resources; an empty kind: on whatever there is."""

    action: str
    kind: str = ""


_CALLS: Final[Mapping[Function, tuple[_Call, ...]]] = {
    Function.DISCOVER_RESERVATIONS: (_Call("ec2:DescribeCapacityReservations"), _Call("ec2:DescribeSubnets")),
    Function.DISCOVER_OFFERINGS: (_Call("ec2:DescribeInstanceTypes"), _Call("pricing:GetProducts")),
    Function.LAUNCH: (
        _Call("ec2:DescribeInstances"),
        _Call("ec2:CreateLaunchTemplate", "launch-template"),
        _Call("ec2:CreateFleet", "fleet"),
        _Call("ec2:RunInstances", "instance"),
    ),
    Function.EXPIRE: (_Call("ec2:DescribeInstances"), _Call("ec2:TerminateInstances", "instance")),
}
_ALLOWED: Final = "allowed"


def permissions(stack: Connection) -> Iterator[Finding]:
    """Yield what functions may not do, though the stack gave them permission."""
    roles = {function: _role_of(stack, function) for function in EXAMINED}
    for function, role in roles.items():
        for call in _CALLS[function]:
            resource = f"{_ec2_arn(stack, role)}:{call.kind}/*" if call.kind else "*"
            yield from _refused(stack, role, function, call.action, resource)
    role = roles[Function.LAUNCH]
    account = ":".join(role.split(":")[:5])
    for node_class in policy_of(stack.policy.list_all()).node_classes:
        if node_class.role is not None:
            arn = f"{account}:role/{node_class.role}"
            for finding in _refused(stack, role, Function.LAUNCH, "iam:PassRole", arn):
                message = f"EC2NodeClass/{node_class.name}: {finding.message}"
                advice = "name a role that the deployment's instanceRoles allow, or widen those and deploy"
                yield Finding(Severity.ERROR, "permissions", message, advice)


def _refused(stack: Connection, role: str, function: Function, action: str, resource: str) -> Iterator[Finding]:
    answer = stack.client("iam").simulate_principal_policy(
        PolicySourceArn=role,
        ActionNames=[action],
        ResourceArns=[resource],
        ContextEntries=_context(stack, role),
    )
    for result in answer["EvaluationResults"]:
        if result["EvalDecision"] != _ALLOWED:
            message = f"{function.value} may not {action} on {resource}: {_why(result)}"
            yield Finding(Severity.ERROR, "permissions", message, "have it allowed again, or deploy the stack again")


def _why(result: Mapping[str, Any]) -> str:
    if not result.get("OrganizationsDecisionDetail", {}).get("AllowedByOrganizations", True):
        return "a policy of the organization does not allow it"
    if not result.get("PermissionsBoundaryDecisionDetail", {}).get("AllowedByPermissionsBoundary", True):
        return "the role's permissions boundary does not allow it"
    return "a policy denies it" if result["EvalDecision"] == "explicitDeny" else "no policy of its role allows it"


def _context(stack: Connection, role: str) -> list[dict[str, Any]]:
    """Return the condition keys of a call that keeps every condition of the stack's own policies."""
    owner = stack.deployment
    values = {
        "aws:RequestedRegion": stack.region,
        f"aws:RequestTag/{OWNER_TAG}": owner,
        f"aws:ResourceTag/{OWNER_TAG}": owner,
        "ec2:MetadataHttpTokens": METADATA_HTTP_TOKENS[0],
        "ec2:LaunchTemplate": f"{_ec2_arn(stack, role)}:launch-template/lt-0",
        "iam:PassedToService": "ec2.amazonaws.com",
    }
    return [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for key, value in values.items()
    ]


def _role_of(stack: Connection, function: Function) -> str:
    name = function_name(stack.deployment, function)
    role: str = stack.client("lambda").get_function_configuration(FunctionName=name)["Role"]
    return role


def _ec2_arn(stack: Connection, role: str) -> str:
    """Return the beginning of the ARNs of EC2's resources in the role's account and the stack's region."""
    _, partition, _, _, account, *_ = role.split(":")
    return f"arn:{partition}:ec2:{stack.region}:{account}"
