"""Whether a launch may use the keys that its volumes name, by policies and the keys' own.

The actions are those of the EBS user guide, "Permissions to use KMS keys for EBS encryption"; they reach KMS through
EC2, with the launching principal's permissions.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from ministack.services import kms

from lab.embedded.ec2.api.keys import INVALID_STATE, NOT_ALLOWED, StateReason

NEEDED: Final = (
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
)


class Allowed(Protocol):
    """Asks the policies."""

    def __call__(self, action: str, resource_arn: str, context: Mapping[str, Any]) -> bool:
        """Whether the caller may do ``action``."""
        ...


def refused_keys(
    named: Iterator[str], region: str, allowed: Allowed
) -> dict[str, StateReason]:
    """Return the keys that cannot be used, of those ``named`` by id, ARN or alias, with what EC2 says."""
    found = {}
    for name in named:
        reason = _refusal(name, region, allowed)
        if reason is not None:
            found[name] = reason
    return found


def _refusal(name: str, region: str, allowed: Allowed) -> StateReason | None:
    key = kms._resolve_key(name)
    if key is None:
        return NOT_ALLOWED  # whoever launches is not told whether there is such a key
    if key["KeyState"] != "Enabled":
        return INVALID_STATE
    through = {"kms:ViaService": f"ec2.{region}.amazonaws.com"}
    for action in NEEDED:
        context = (
            {**through, "kms:GrantIsForAWSResource": "true"}
            if action == "kms:CreateGrant"
            else through
        )
        if not allowed(action, key["Arn"], context):
            return NOT_ALLOWED
    return None
