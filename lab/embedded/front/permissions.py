"""What a plain call needs IAM to allow, checked as MiniStack's dispatcher does, for the services of plain calls.

The dispatcher asks of each request whether it is one of S3's, IoT's or Verified Access's special cases; these are the
cases that remain.
"""

import json
from collections.abc import Iterator
from typing import Any

from ministack import app
from ministack.core import iam_actions, iam_evaluator, responses

from lab.embedded.front.plain_calls import PlainCall

Response = tuple[int, dict[str, str], bytes]
Check = tuple[str, str, dict[str, Any] | None]  # action, resource, condition keys


def refusal(
    call: PlainCall, headers: dict[str, str], body: bytes, request_id: str
) -> Response | None:
    """Return the answer to a call that its caller may not make, or None; EC2 checks its permissions itself."""
    iam_evaluator.pin_request_caller(headers)
    account_id = responses.get_account_id()
    resource_arn = "*"
    if call.service != "ec2":
        resource_arn = iam_actions.extract_resource_arn(
            call.service, "POST", "/", headers, body, {}, call.region, account_id
        )
    for action, arn, context in _checks(call, body, resource_arn, account_id):
        denied = iam_evaluator.enforce(
            call.access_key_id,
            action,
            call.service,
            call.region,
            resource_arn=arn,
            service_context=context,
        )
        if isinstance(denied, iam_evaluator.AuthError):
            failure: Response = app._credential_failure(  # noqa: SLF001 - MiniStack's version is pinned
                call.service, action, request_id, denied, headers
            )
            return failure
        if denied is not None:
            refused: Response = iam_actions.access_denied_response(
                call.service,
                action,
                denied.principal_arn,
                request_id,
                headers=headers,
                resource_arn=resource_arn,
                explicit_deny=denied.decision == "Deny",
                resource_policy_arn=denied.resource_policy_arn,
            )
            return refused
    return None


def _checks(
    call: PlainCall, body: bytes, resource_arn: str, account_id: str
) -> Iterator[Check]:
    if call.service == "ec2":  # only who calls is checked here
        yield call.action, resource_arn, None
        return
    context = iam_actions.request_tag_context(call.service, call.action, body, {})
    if call.service == "dynamodb":
        context = {**context, **iam_actions.dynamodb_service_context(body)}
        items = iam_actions.dynamodb_transaction_checks(
            call.action, body, call.region, account_id
        )
        if items:
            context["dynamodb:EnclosingOperation"] = [call.action.partition(":")[2]]
            yield from ((action, arn, context) for action, arn in items)
            return
    if call.action == "events:PutEvents" and _has_entries(body):
        yield from _checks_of_events(call, body, context, account_id)
        return
    yield call.action, resource_arn, context
    if call.service == "dynamodb":  # a batch names several tables
        for arn in iam_actions.dynamodb_resource_arns(body, call.region, account_id)[1:]:
            yield call.action, arn, context


def _checks_of_events(
    call: PlainCall, body: bytes, context: dict[str, Any], account_id: str
) -> Iterator[Check]:
    """Ask of each entry, with its bus, source and detail-type, as the service authorization reference has it."""
    for entry in json.loads(body)["Entries"]:
        one = json.dumps({"Entries": [entry]}).encode()
        (arn,) = iam_actions.eventbridge_resource_arns(one, call.region, account_id)
        about = {
            "events:source": entry.get("Source", ""),
            "events:detail-type": entry.get("DetailType", ""),
        }
        yield call.action, arn, {**context, **about}


def _has_entries(body: bytes) -> bool:
    """Whether it is a list of events; the service refuses everything else."""
    try:
        request = json.loads(body)
    except (UnicodeDecodeError, json.JSONDecodeError):
        return False
    entries = request.get("Entries") if isinstance(request, dict) else None
    return (
        isinstance(entries, list)
        and bool(entries)
        and all(isinstance(entry, dict) for entry in entries)
    )
