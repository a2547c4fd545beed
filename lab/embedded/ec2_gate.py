"""IAM at the door of EC2: every check of ``ec2_permissions``, evaluated by MiniStack's policy evaluator."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.core import iam_actions, iam_evaluator
from ministack.core.router import extract_access_key_id
from ministack.services import iam

from lab.embedded.ec2 import Ec2Emulation, Ec2Error
from lab.embedded.ec2.api.keys import REFUSED
from lab.embedded.ec2.api.protocol import Call, Reply
from lab.embedded.ec2.instances import launch_templates, volume_defaults
from lab.embedded.ec2_permissions import Tags, checks, keys_of_volumes
from lab.embedded.front import policies
from lab.embedded.kms_access import Allowed, refused_keys

# the evaluator allows it to everyone whose signature is right
AUTHENTICATE_ONLY: Final = "sts:GetCallerIdentity"


class Ec2Gate:
    """Decides whether the caller may do what an EC2 request asks for."""

    def __init__(self, ec2: Ec2Emulation, account_id: str, region: str) -> None:
        self._ec2 = ec2
        self._account_id = account_id
        self._region = region
        self._enforce: Callable[..., Any] = iam_evaluator.enforce

    def install(self) -> None:
        """Take MiniStack's own check of EC2 requests out of the way; it still authenticates them."""

        def enforce(
            access_key: str, action: str, service: str, region: str, **details: Any
        ) -> Any:
            if service == "ec2":
                return self._enforce(access_key, AUTHENTICATE_ONLY, service, region)
            return self._enforce(access_key, action, service, region, **details)

        iam_evaluator.enforce = enforce

    def denial(
        self, headers: Mapping[str, str], query: Mapping[str, list[str]], call: Call
    ) -> Reply | None:
        """Return EC2's refusal of a call that the caller may not make, or None."""
        with policies.one_caller():
            return self._denial(extract_access_key_id(headers, query) or "", call)

    def _denial(self, access_key: str, call: Call) -> Reply | None:
        REFUSED.set(
            refused_keys(
                keys_of_volumes(call, self), self._region, self._allowed_by(access_key)
            )
        )
        for check in checks(call, self):
            arn = check.resource_arn(self._account_id, self._region)
            keys = check.context(self._account_id, self._region)
            denied = self._enforce(
                access_key,
                check.action,
                "ec2",
                self._region,
                resource_arn=arn,
                service_context=keys,
            )
            if denied is not None:
                reply: Reply = iam_actions.access_denied_response(
                    "ec2",
                    check.action,
                    denied.principal_arn,
                    str(uuid.uuid4()),
                    message=_message(
                        check.action, arn, denied.principal_arn, denied.decision
                    ),
                )
                return reply
        return None

    def _allowed_by(self, access_key: str) -> Allowed:
        def allowed(action: str, resource_arn: str, context: Mapping[str, Any]) -> bool:
            refused = self._enforce(
                access_key,
                action,
                "kms",
                self._region,
                resource_arn=resource_arn,
                service_context=dict(context),
            )
            return refused is None

        return allowed

    def tags_of(self, resource_id: str) -> Tags:
        """Return the tags of an EC2 resource."""
        return self._ec2.world.tags.of(resource_id)

    def launch_template(
        self, specification: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any]] | None:
        """Return (id, data) of a launch template's version."""
        try:
            template = launch_templates.find(
                self._ec2.world,
                specification.get("LaunchTemplateId"),
                specification.get("LaunchTemplateName"),
            )
            version = launch_templates.version_of(template, specification.get("Version"))
        except Ec2Error:
            return None
        return template.template_id, version.data

    def volume_key(self, ebs: Mapping[str, Any]) -> str | None:
        """Return the customer managed key of a volume."""
        return volume_defaults.key_of(self._ec2.world, ebs)

    def role_arn(self, instance_profile: Mapping[str, Any]) -> str | None:
        """Return the role of an instance profile."""
        found = iam._lookup_instance_profile(  # noqa: SLF001 - MiniStack's version is pinned
            instance_profile.get("Name", ""), instance_profile.get("Arn", "")
        )
        roles = (found or {}).get("Roles") or ()
        for role in roles:
            name = role if isinstance(role, str) else role["RoleName"]
            return str(iam._roles[name]["Arn"])  # noqa: SLF001 - as above
        return None


def _message(action: str, arn: str, principal: str, decision: str) -> str:
    if decision == "Deny":
        reason = "with an explicit deny in an identity-based policy"
    else:
        reason = f"because no identity-based policy allows the {action} action"
    return (
        "You are not authorized to perform this operation. "
        f"User: {principal} is not authorized to perform: {action} on resource: {arn} {reason}"
    )
