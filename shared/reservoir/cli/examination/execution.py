"""Whether CloudFormation may make the stack: IAM simulates the role that the CDK's bootstrap has for it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from reservoir.cli.deployment.cdk import ROOT
from reservoir.cli.deployment.deployer import CDK_QUALIFIER
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.examination.place import Place

_CHECK: Final = "execution-role"
_NEEDED: Final = ROOT / "examples" / "iam" / "execution.json"
# Begins of actions without which nothing is made; the others update and delete.
_MAKING: Final = ("Add", "Attach", "Create", "Get", "Pass", "Publish", "Put")
_NAMED: Final = 4  # actions that a message names


def execution_role(place: Place) -> Iterator[Finding]:
    """Whether the role of CloudFormation may do all that the stack takes, within its boundary and the organization."""
    account = place.account()
    name = f"cdk-{place.qualifier}-cfn-exec-role-{account}-{place.region}"
    client = place.clients("iam")
    try:
        role = client.get_role(RoleName=name)["Role"]["Arn"]
    except client.exceptions.NoSuchEntityException:
        return  # the bootstrap is missing, or its roles have other names
    needed = json.loads(_NEEDED.read_text(encoding="utf-8"))["Statement"]
    refused: list[str] = []
    for statement in needed:
        refused += _refused(client, place, account, role, statement)
    making = [each for each in refused if each.partition(":")[2].startswith(_MAKING)]
    for actions, severity, what in (
        (making, Severity.ERROR, "making"),
        (sorted({*refused} - {*making}), Severity.WARNING, "updating or deleting"),
    ):
        if actions:
            more = ", …" if len(actions) > _NAMED else ""
            message = f"{name} may not {', '.join(actions[:_NAMED])}{more}, which {what} the stack takes"
            advice = "allow it what examples/iam/execution.json says, also by boundary and organization"
            yield Finding(severity, _CHECK, message, advice)


def _refused(
    client: Any, place: Place, account: str, role: str, statement: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the actions of a statement that the role may do on none of its resources, if the stack asks for them."""
    refused = [each for each in _listed(statement["Action"]) if _is_asked(place, each)]
    for resource in _listed(statement["Resource"]):
        if not refused:
            return
        answer = client.simulate_principal_policy(
            PolicySourceArn=role,
            ActionNames=refused,
            ResourceArns=[_concrete(place, account, resource)],
            ContextEntries=_context(place, account),
        )
        refused = [
            result["EvalActionName"]
            for result in answer["EvaluationResults"]
            if result["EvalDecision"] != "allowed"
        ]
    yield from refused


def _is_asked(place: Place, action: str) -> bool:
    if "*" in action:
        return False  # reads, of which IAM simulates no pattern
    settings = place.deployment.settings
    by_setting = {
        "ec2:": settings.vpc,
        "kms:": settings.encryption_key,
        "logs:AssociateKmsKey": settings.encryption_key,
        "iam:PutRolePermissionsBoundary": settings.permissions_boundary,
    }
    asked = [value for begin, value in by_setting.items() if action.startswith(begin)]
    return all(asked)


def _concrete(place: Place, account: str, pattern: str) -> str:
    """Return an ARN as the stack has it, of a pattern in the example."""
    if pattern.startswith("arn:aws:kms:"):
        return str(place.deployment.settings.encryption_key)
    stack = place.deployment.stack
    named = pattern.replace("Reservoir*", f"{stack}-any").replace(
        "reservoir*", f"{stack.lower()}-any"
    )
    named = named.replace("assets-*/*", f"assets-{account}-{place.region}/any").replace(
        CDK_QUALIFIER, place.qualifier
    )
    return named.replace(":*:*:", f":{place.region}:{account}:").replace(
        "::*:", f"::{account}:"
    )


def _context(place: Place, account: str) -> list[dict[str, Any]]:
    """Return the condition keys of a call that keeps the conditions of the example."""
    function = (
        f"arn:aws:lambda:{place.region}:{account}:function:{place.deployment.stack}-any"
    )
    values = {
        "aws:RequestedRegion": place.region,
        "iam:PassedToService": "lambda.amazonaws.com",
        "lambda:FunctionArn": function,
    }
    return [
        {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
        for key, value in values.items()
    ]


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
