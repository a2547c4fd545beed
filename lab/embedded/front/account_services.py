"""What a doctor asks of an account, where MiniStack has less than AWS: IAM's simulator, Service Quotas.

The quotas are a large account's, and EC2's emulation counts nothing against them.
"""

# ruff: noqa: SLF001 - as in services.py: MiniStack has no public extension points, and its version is pinned

import json
from collections.abc import Mapping
from typing import Any, Final

from ministack import app
from ministack.core import iam_actions, iam_evaluator, responses
from ministack.core.router import SERVICE_PATTERNS
from ministack.services import iam

Response = tuple[int, dict[str, str], bytes]

VCPUS: Final = 100_000.0
_MEMBERS_MAX: Final = 100
_DECISIONS: Final = {"Allow": "allowed", "Deny": "explicitDeny"}


def install() -> None:
    """Put this into MiniStack."""
    iam._IAM_HANDLERS["SimulatePrincipalPolicy"] = _simulate
    app.SERVICE_HANDLERS["servicequotas"] = _quotas
    SERVICE_PATTERNS["servicequotas"] = {
        "target_prefixes": ["ServiceQuotasV20190624"],
        "host_patterns": [r"servicequotas\."],
        "credential_scope": "servicequotas",
    }
    iam_actions.SERVICE_TO_IAM_NAMESPACE["servicequotas"] = "servicequotas"


def _simulate(request: Mapping[str, Any]) -> Any:
    """Simulate a role's policies with the condition keys of the request, which MiniStack leaves out."""
    role = iam._p(request, "PolicySourceArn")
    account_id = responses.get_account_id()
    policies = iam_evaluator._gather_role_policies(role.rpartition("/")[2], account_id)
    keys = {
        name.lower(): iam._p(
            request, f"ContextEntries.member.{number}.ContextKeyValues.member.1"
        )
        for number, name in _members(request, "ContextEntries.member.{}.ContextKeyName")
    }
    results = []
    for _, action in _members(request, "ActionNames.member.{}"):
        for _, resource in _members(request, "ResourceArns.member.{}") or [(1, "*")]:
            context = iam_evaluator.EvalContext(
                principal_arn=role,
                principal_type="Role",
                principal_account=account_id,
                action=action,
                resource_arn=resource,
                region=keys.get("aws:requestedregion", ""),
                service_context=keys,
            )
            decision = _DECISIONS.get(
                iam_evaluator.evaluate(context, policies).decision, "implicitDeny"
            )
            results.append(
                f"<member><EvalActionName>{action}</EvalActionName><EvalResourceName>{resource}</EvalResourceName>"
                f"<EvalDecision>{decision}</EvalDecision></member>"
            )
    return iam._xml(
        200,
        "SimulatePrincipalPolicyResponse",
        f"<SimulatePrincipalPolicyResult><EvaluationResults>{''.join(results)}</EvaluationResults>"
        "<IsTruncated>false</IsTruncated></SimulatePrincipalPolicyResult>",
        ns="iam",
    )


def _members(request: Mapping[str, Any], form: str) -> list[tuple[int, str]]:
    found = [
        (number, iam._p(request, form.format(number))) for number in range(1, _MEMBERS_MAX)
    ]
    return [(number, value) for number, value in found if value]


async def _quotas(
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    query: dict[str, list[str]],
) -> Response:
    del method, path, query  # JSON protocol
    asked = json.loads(body or b"{}")
    kind = {"Content-Type": "application/x-amz-json-1.1"}
    if (
        not headers.get("x-amz-target", "").endswith(".GetServiceQuota")
        or asked.get("ServiceCode") != "ec2"
    ):
        missing = {
            "__type": "NoSuchResourceException",
            "message": "there is no such quota here",
        }
        return 400, kind, json.dumps(missing).encode()
    quota = {
        "ServiceCode": "ec2",
        "QuotaCode": asked["QuotaCode"],
        "Value": VCPUS,
        "Adjustable": True,
    }
    return 200, kind, json.dumps({"Quota": quota}).encode()
