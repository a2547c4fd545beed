"""Deliveries of EventBridge and Scheduler need permissions, and what cannot be delivered goes to the dead letter queue.

MiniStack delivers whatever a rule or schedule says. On AWS a queue's or function's resource policy must let EventBridge
in, a schedule acts with its role, and a target's ``DeadLetterConfig`` receives what was refused or has nowhere to go.
Without this a stack that forgets a permission would work here and stay silent there.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.core import iam_evaluator, responses
from ministack.core.arn import parse_arn
from ministack.services import eventbridge, lambda_svc, sqs

from lab.embedded.front import data_keys

ACTION_OF_SERVICE: Final = {
    "sqs": "sqs:SendMessage",
    "lambda": "lambda:InvokeFunction",
    "events": "events:PutEvents",
}
logger = logging.getLogger(__name__)
Target = Mapping[str, Any]


def install() -> None:
    """Check every delivery."""
    invoke: Callable[..., None] = eventbridge._invoke_target

    def deliver(
        target: Target,
        event: Mapping[str, Any],
        source: Mapping[str, Any],
        view: Any = None,
    ) -> None:
        by_schedule = (
            event["Source"] == "aws.scheduler"
            and "ScheduleExpression" in source
            and "Target" in source
        )
        refused = _refusal(target, str(source.get("Arn", "")), by_schedule=by_schedule)
        if refused is None:
            invoke(target, event, source, view)
            return
        logger.warning("not delivered to %s: %s", target.get("Arn"), refused)
        _to_dead_letters(target, event, source, refused, view)

    eventbridge._invoke_target = deliver


def _refusal(target: Target, source_arn: str, *, by_schedule: bool) -> str | None:
    """Return why AWS would not deliver to a target, or None."""
    arn = str(target["Arn"])
    service = parse_arn(arn).service
    action = ACTION_OF_SERVICE.get(service)
    if action is None:
        return None  # a kind of target that nothing here uses
    policy = _resource_policy(service, arn)
    if policy is _MISSING:
        return "RESOURCE_NOT_FOUND"
    role_arn = str(target.get("RoleArn", "")) if by_schedule else None
    if service == "sqs" and not data_keys.may_deliver(arn, role_arn):
        return "NO_PERMISSIONS"
    if role_arn is not None:
        return _refusal_of_role(role_arn, action, arn)
    if service == "events":
        # a bus of the same account needs no policy, and its role is not asked for
        return None
    context = _context("events.amazonaws.com", action, arn, source_arn)
    decision = iam_evaluator.evaluate_resource_policy(
        policy, context, service="events.amazonaws.com"
    ).decision
    return None if decision == "Allow" else "NO_PERMISSIONS"


_MISSING: Final[Any] = object()


def _resource_policy(service: str, arn: str) -> Any:
    """Return the policy of a queue or function, None when it has none, or _MISSING when it does not exist."""
    if service == "sqs":
        queue = sqs._queue_by_arn(arn)
        return _MISSING if queue is None else queue["attributes"].get("Policy")
    if service == "lambda":
        function, config, _ = lambda_svc._get_func_record_for_ref(arn)
        return _MISSING if function is None or config is None else function.get("policy")
    return None


def _refusal_of_role(role_arn: str, action: str, resource_arn: str) -> str | None:
    role = role_arn.rsplit("/", 1)[-1]
    context = _context(role_arn, action, resource_arn, "")
    policies = iam_evaluator._gather_role_policies(role, responses.get_account_id())
    if iam_evaluator.evaluate(context, policies).decision == "Allow":
        return None
    return "NO_PERMISSIONS"


def _context(principal: str, action: str, resource_arn: str, source_arn: str) -> Any:
    account_id = responses.get_account_id()
    keys = {
        "aws:sourcearn": source_arn,
        "aws:sourceaccount": account_id,
        "aws:principalisawsservice": "true",
    }
    return iam_evaluator.EvalContext(
        principal_arn=principal,
        principal_type="Service",
        principal_account=account_id,
        action=action,
        resource_arn=resource_arn,
        region=responses.get_region(),
        secure_transport=True,
        service_context=keys if source_arn else {},
    )


def _to_dead_letters(
    target: Target,
    event: Mapping[str, Any],
    source: Mapping[str, Any],
    reason: str,
    view: Any,
) -> None:
    arn = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not arn or sqs._queue_by_arn(arn) is None:
        return
    by_schedule = str(target.get("RoleArn", "")) if "ScheduleExpression" in source else None
    if not data_keys.may_deliver(arn, by_schedule):
        return
    view = view or eventbridge._pattern_event_view(event)
    body = target.get("Input") or json.dumps(view.event_with_detail())
    eventbridge._dispatch_to_sqs(parse_arn(arn), body, {})
    attributes = {
        "ERROR_CODE": reason,
        "RULE_ARN": str(source.get("Arn", "")),
        "TARGET_ARN": str(target["Arn"]),
    }
    sqs._queue_by_arn(arn)["messages"][-1]["message_attributes"] = {
        name: {"DataType": "String", "StringValue": value}
        for name, value in attributes.items()
    }
