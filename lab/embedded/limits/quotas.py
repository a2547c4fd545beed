"""Sizes and counts that AWS refuses and MiniStack takes; docs/aws-limits.md has their sources.

A template's resources do not pass the services' APIs in MiniStack, so each is checked at both doors: with AWS's error
at the API, and as a resource that CloudFormation cannot make.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ministack.core import responses
from ministack.services import dynamodb, eventbridge, iam, lambda_svc, sqs
from ministack.services.cloudformation import provisioners

QUEUE_POLICY_BYTES: Final = 8_192
QUEUE_POLICY_STATEMENTS: Final = 20
QUEUE_POLICY_PRINCIPALS: Final = 50
QUEUE_POLICY_CONDITIONS: Final = 10
INLINE_POLICIES_CHARACTERS: Final = 10_240
MANAGED_POLICY_CHARACTERS: Final = 6_144
MANAGED_POLICIES_OF_ROLE: Final = 10
FUNCTION_VARIABLES_BYTES: Final = 4_096
FUNCTION_POLICY_BYTES: Final = 20_480
RULE_TARGETS: Final = 5

Handler = Callable[..., Any]
Properties = Mapping[str, Any]


class QuotaError(ValueError):
    """A resource that AWS would refuse; CloudFormation reports the text."""


def install() -> None:
    """Refuse what AWS refuses."""
    _limit_queue_policies()
    _limit_inline_policies()
    _limit_managed_policies()
    _limit_function_variables()
    _limit_function_policies()
    _limit_rule_targets()
    _limit_index_changes()


def checked(kind: str, check: Callable[[Properties], None]) -> None:
    """Have resources of a kind checked before CloudFormation makes or updates them."""
    handlers = provisioners._RESOURCE_HANDLERS[kind]
    create, update = handlers["create"], handlers.get("update")

    def creating(logical_id: str, properties: Properties, stack: str) -> Any:
        check(properties)
        return create(logical_id, properties, stack)

    def updating(
        physical_id: str, old: Properties, new: Properties, *rest: Any, **more: Any
    ) -> Any:
        check(new)
        return update(physical_id, old, new, *rest, **more)

    changed = {**handlers, "create": creating}
    if update is not None:
        changed["update"] = updating
    provisioners._RESOURCE_HANDLERS[kind] = changed


# --- SQS


def refusal_of_queue_policy(document: Any) -> str | None:
    """Say why SQS takes no such policy."""
    text = (
        document
        if isinstance(document, str)
        else json.dumps(document, separators=(",", ":"))
    )
    if len(text.encode()) > QUEUE_POLICY_BYTES:
        return "Submitted policy is over max allowed size."
    statements = [each for each in _statements(text) if isinstance(each, dict)]
    counted = (
        (len(statements), QUEUE_POLICY_STATEMENTS, "statements"),
        (sum(map(_principal_count, statements)), QUEUE_POLICY_PRINCIPALS, "principals"),
        # Topics subscribe a queue by a statement with a condition each, and are known to stop at twenty statements: the
        # quota of conditions is a statement's.
        (
            max(map(_condition_count, statements), default=0),
            QUEUE_POLICY_CONDITIONS,
            "conditions",
        ),
    )
    for found, most, what in counted:
        if found > most:
            return f"{found} {what} were found, maximum allowed is {most}."
    return None


def _principal_count(statement: Properties) -> int:
    named = statement.get("Principal", ())
    if not isinstance(named, dict):
        return 1 if named else 0
    return sum(len(each) if isinstance(each, list) else 1 for each in named.values())


def _condition_count(statement: Properties) -> int:
    return sum(len(keys) for keys in statement.get("Condition", {}).values())


def _statements(text: str) -> list[Any]:
    try:
        found = json.loads(text).get("Statement", [])
    except (AttributeError, ValueError):
        return []  # SQS itself says what is wrong with it
    return found if isinstance(found, list) else [found]


def _limit_queue_policies() -> None:
    for action in ("CreateQueue", "SetQueueAttributes"):
        sqs._HANDLERS[action] = _with_checked_policy(sqs._HANDLERS[action])

    def check(properties: Properties) -> None:
        refused = refusal_of_queue_policy(properties["PolicyDocument"])
        if refused is not None:
            raise QuotaError(f"OverLimit: {refused}")

    checked("AWS::SQS::QueuePolicy", check)


def _with_checked_policy(operation: Handler) -> Handler:
    def changed(data: dict[str, Any], *rest: Any) -> Any:
        policy = (data.get("Attributes") or {}).get("Policy")
        refused = refusal_of_queue_policy(policy) if policy else None
        if refused is not None:
            raise sqs._Err("OverLimit", refused, 400)
        return operation(data, *rest)

    return changed


# --- IAM


def characters(document: Any) -> int:
    """Count the characters of a policy as IAM does: white space does not count."""
    text = (
        document
        if isinstance(document, str)
        else json.dumps(document, separators=(",", ":"))
    )
    return len(re.sub(r"\s", "", text))


def _too_long_inline(role: str, name: str, document: Any) -> bool:
    found = iam._roles.get(role)
    others = (
        {}
        if found is None
        else {key: text for key, text in found["InlinePolicies"].items() if key != name}
    )
    return (
        sum(map(characters, others.values())) + characters(document)
        > INLINE_POLICIES_CHARACTERS
    )


def _limit_inline_policies() -> None:
    put = iam._IAM_HANDLERS["PutRolePolicy"]

    def checked_put(parameters: Any) -> Any:
        role, name, document = (
            iam._p(parameters, it) for it in ("RoleName", "PolicyName", "PolicyDocument")
        )
        if role in iam._roles and _too_long_inline(role, name, document):
            return iam._error(409, "LimitExceeded", _inline_message(role), ns="iam")
        return put(parameters)

    iam._IAM_HANDLERS["PutRolePolicy"] = checked_put

    def check(properties: Properties) -> None:
        for role in properties.get("Roles", ()):
            if _too_long_inline(
                role, properties.get("PolicyName", ""), properties["PolicyDocument"]
            ):
                raise QuotaError(_inline_message(role))

    checked("AWS::IAM::Policy", check)


def _inline_message(role: str) -> str:
    return f"Maximum policy size of {INLINE_POLICIES_CHARACTERS} bytes exceeded for role {role}"


def _limit_managed_policies() -> None:
    message = f"Cannot exceed quota for PolicySize: {MANAGED_POLICY_CHARACTERS}"
    for action in ("CreatePolicy", "CreatePolicyVersion"):
        iam._IAM_HANDLERS[action] = _with_limited_document(
            iam._IAM_HANDLERS[action], message
        )
    attach = iam._IAM_HANDLERS["AttachRolePolicy"]

    def checked_attach(parameters: Any) -> Any:
        role = iam._roles.get(iam._p(parameters, "RoleName"))
        attached = () if role is None else role.get("AttachedPolicies", ())
        is_new = iam._p(parameters, "PolicyArn") not in attached
        if is_new and len(attached) >= MANAGED_POLICIES_OF_ROLE:
            text = f"Cannot exceed quota for PoliciesPerRole: {MANAGED_POLICIES_OF_ROLE}"
            return iam._error(409, "LimitExceeded", text, ns="iam")
        return attach(parameters)

    iam._IAM_HANDLERS["AttachRolePolicy"] = checked_attach

    def check(properties: Properties) -> None:
        if characters(properties["PolicyDocument"]) > MANAGED_POLICY_CHARACTERS:
            raise QuotaError(message)

    checked("AWS::IAM::ManagedPolicy", check)


def _with_limited_document(operation: Handler, message: str) -> Handler:
    def checked(parameters: Any) -> Any:
        if (
            characters(iam._p(parameters, "PolicyDocument") or "")
            > MANAGED_POLICY_CHARACTERS
        ):
            return iam._error(409, "LimitExceeded", message, ns="iam")
        return operation(parameters)

    return checked


# --- Lambda, EventBridge, DynamoDB


def _variables_refused(environment: Any) -> str | None:
    text = json.dumps((environment or {}).get("Variables", {}), separators=(",", ":"))
    if len(text.encode()) <= FUNCTION_VARIABLES_BYTES:
        return None
    return (
        "Lambda was unable to configure your environment variables because the environment variables you have provided"
        f" exceeded the 4KB limit. String measured: {text[:100]}"
    )


def _limit_function_variables() -> None:
    create, update = lambda_svc._create_function, lambda_svc._update_config

    def checked_create(data: dict[str, Any]) -> Any:
        refused = _variables_refused(data.get("Environment"))
        return create(data) if refused is None else _invalid(refused)

    def checked_update(name: str, data: dict[str, Any]) -> Any:
        refused = _variables_refused(data.get("Environment"))
        return update(name, data) if refused is None else _invalid(refused)

    lambda_svc._create_function, lambda_svc._update_config = checked_create, checked_update

    def check(properties: Properties) -> None:
        refused = _variables_refused(properties.get("Environment"))
        if refused is not None:
            raise QuotaError(refused)

    checked("AWS::Lambda::Function", check)


def _limit_function_policies() -> None:
    # Permissions of templates are added by the same call.
    add = lambda_svc._add_permission

    def checked_add(name: str, data: dict[str, Any], *rest: Any, **more: Any) -> Any:
        answer = add(name, data, *rest, **more)
        policy = lambda_svc._functions[name]["policy"] if answer[0] < 400 else {}
        length = len(json.dumps(policy, separators=(",", ":")).encode())
        if length <= FUNCTION_POLICY_BYTES:
            return answer
        policy["Statement"].pop()
        message = f"The final policy size ({length}) is bigger than the limit ({FUNCTION_POLICY_BYTES})."
        return responses.error_response_json("PolicyLengthExceededException", message, 400)

    lambda_svc._add_permission = checked_add


def _invalid(message: str) -> Any:
    return responses.error_response_json("InvalidParameterValueException", message, 400)


def _limit_rule_targets() -> None:
    put = eventbridge._put_targets

    def checked_put(data: dict[str, Any]) -> Any:
        key = eventbridge._rule_key(data.get("Rule"), data.get("EventBusName", "default"))
        known = {target["Id"] for target in eventbridge._targets.get(key, ())}
        wanted = known | {target["Id"] for target in data.get("Targets", ())}
        if len(wanted) > RULE_TARGETS:
            return responses.error_response_json(
                "LimitExceededException",
                "The requested resource exceeds the maximum number allowed.",
                400,
            )
        return put(data)

    eventbridge._put_targets = checked_put

    def check(properties: Properties) -> None:
        if len(properties.get("Targets", ())) > RULE_TARGETS:
            raise QuotaError("The requested resource exceeds the maximum number allowed.")

    checked("AWS::Events::Rule", check)


def _limit_index_changes() -> None:
    update = dynamodb._update_table

    def checked_update(data: dict[str, Any]) -> Any:
        if len(list(_index_changes(data))) > 1:
            return responses.error_response_json(
                "LimitExceededException",
                "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
                400,
            )
        return update(data)

    dynamodb._update_table = checked_update


def _index_changes(data: Mapping[str, Any]) -> Iterator[str]:
    for update in data.get("GlobalSecondaryIndexUpdates") or ():
        yield from (kind for kind in update if kind in ("Create", "Delete"))
