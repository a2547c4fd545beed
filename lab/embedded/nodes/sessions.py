"""Credentials of instances: sessions of the role of an instance profile, as EC2 hands them out.

The name of such a session is the instance's id, which makes ``aws:userid`` ``AROA…:i-…``, and its requests carry the
condition keys ``ec2:SourceInstanceARN`` and ``ec2:RoleDelivery``. Nobody else can get such a session: one by
``AssumeRole`` may have the same name, but not these keys.
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ministack.core import iam_evaluator
from ministack.services import iam, sts

_SOURCE_INSTANCE: Final = "SourceInstanceArn"  # of a session, and nothing of MiniStack's
_ROLE_DELIVERY: Final = "2.0"  # credentials that were handed out by IMDSv2


@dataclass(frozen=True, slots=True)
class InstanceCredentials:
    """Credentials of a role on one instance. They never expire here; that is for the metadata service to say."""

    role_name: str
    access_key_id: str
    secret_access_key: str
    session_token: str


def install() -> None:
    """Let policies see which instance a request comes from."""
    keys_of: Callable[[Any], dict[str, Any]] = iam_evaluator._principal_keys

    def principal_keys(credential: Any) -> dict[str, Any]:
        session = sts._sessions.get(credential.access_key_id) or {}
        keys = keys_of(credential)
        if _SOURCE_INSTANCE in session:
            keys |= {
                "ec2:sourceinstancearn": session[_SOURCE_INSTANCE],
                "ec2:roledelivery": _ROLE_DELIVERY,
            }
        return keys

    iam_evaluator._principal_keys = principal_keys


def role_of(instance_profile: dict[str, str]) -> str | None:
    """Return the name of the role of an instance profile (``Arn`` or ``Name``), None when it has none."""
    found = iam._lookup_instance_profile(
        instance_profile.get("Name", ""), instance_profile.get("Arn", "")
    )
    for role in (found or {}).get("Roles") or ():
        return role if isinstance(role, str) else str(role["RoleName"])
    return None


def new_credentials(role_name: str, instance_arn: str) -> InstanceCredentials:
    """Make credentials of the role for an instance, and let STS and IAM know them."""
    made = InstanceCredentials(
        role_name,
        f"ASIA{secrets.token_hex(8).upper()}",
        secrets.token_urlsafe(30),
        secrets.token_urlsafe(64),
    )
    account_id, instance_id = instance_arn.split(":")[4], instance_arn.rpartition("/")[2]
    sts.register_session(
        made.access_key_id,
        {
            "Arn": f"arn:aws:sts::{account_id}:assumed-role/{role_name}/{instance_id}",
            "UserId": f"{iam._roles[role_name]['RoleId']}:{instance_id}",
            "SecretAccessKey": made.secret_access_key,
            "SessionToken": made.session_token,
            "AccountId": account_id,
            "PrincipalType": "AssumedRole",
            _SOURCE_INSTANCE: instance_arn,
        },
    )
    return made
