"""What AWS's services may do with a role that they were given: asked of the role's own policies."""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.core import iam_evaluator, responses
from ministack.services import iam

# What bounds every role of the account, as policies that limit others.
ORGANIZATION: Final[list[Callable[[], list[Any]]]] = []


def role_allows(
    role_arn: str, action: str, resource_arn: str, keys: Mapping[str, str]
) -> bool:
    """Whether a role's policies, within its boundary and the organization's, allow what a service does with it."""
    name, account_id = role_arn.rpartition("/")[2], responses.get_account_id()
    policies = iam_evaluator._gather_role_policies(name, account_id)
    bounds = iam_evaluator._permissions_boundary(iam._roles, name, account_id)
    for limits in ORGANIZATION:
        bounds = [*bounds, *limits()]
    context = context_of(role_arn, action, resource_arn, keys)
    return bool(iam_evaluator.evaluate(context, policies, *bounds).decision == "Allow")


def context_of(principal: str, action: str, arn: str, keys: Mapping[str, str]) -> Any:
    """Return what a policy is evaluated for: a service in its own name, or with a role."""
    return iam_evaluator.EvalContext(
        principal_arn=principal,
        principal_type="Service" if principal.endswith(".com") else "Role",
        principal_account=responses.get_account_id(),
        action=action,
        resource_arn=arn,
        region=responses.get_region(),
        secure_transport=True,
        service_context={name.lower(): value for name, value in keys.items()},
    )
