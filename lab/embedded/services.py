"""What is replaced inside MiniStack: its Python executor, and the places where it is less than AWS.

MiniStack has no public extension points, so the names used here are private; its version is pinned exactly. This
module, ``emulated_time``, ``functions``, ``router`` and ``cloudformation`` know its inside.
"""

# ruff: noqa: SLF001 - see above

import contextvars
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from ministack.core import responses, sigv4
from ministack.services import eventbridge, iam, lambda_svc, scheduler, sqs, ssm, sts

from lab.embedded.ec2.api.images import public_parameters
from lab.embedded.front import data_keys
from lab.embedded.functions import recursion
from lab.embedded.functions.runtime import Credentials, LambdaRuntime

# of an event source mapping with a batching window; MiniStack stops at 10
MAX_STANDARD_BATCH: Final = 10_000
# https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html: KMSAccessDeniedException
NOT_STARTED: Final[dict[str, Any]] = {
    "body": {
        "errorType": "KMSAccessDeniedException",
        "errorMessage": "Lambda was unable to decrypt the environment variables because KMS access was denied."
        " Please check the function's KMS key settings.",
    },
    "log": "",
    "error": True,
    "function_error": "Unhandled",
}


def install(account_id: str, region: str) -> None:
    """Replace what does not need the Lambda runtime."""
    # its own name images that the embedded EC2 does not have
    ssm._PUBLIC_AMI_PARAMETERS = public_parameters()
    _accept_any_request_time()
    _retry_events_for_functions()
    _rearm_changed_schedules()
    _refuse_past_schedules()
    _receive_whole_batches()
    _ask_queue_policies_once()
    _name_the_role_of_spot()
    responses.set_request_account_id(account_id)
    responses.set_request_region(region)


def install_lambda(runtime: LambdaRuntime) -> None:
    """Let ``runtime`` run Python functions."""

    def execute(function: Mapping[str, Any], event: Any, request_id: str) -> dict[str, Any]:
        config = function.get("config") or function
        if not data_keys.may_start(config):
            return NOT_STARTED
        trace_id = recursion.next_header(str(config["FunctionArn"]))
        return runtime.invoke(config, function["code_zip"], event, request_id, trace_id)

    lambda_svc._execute_function_warm = execute


def _name_the_role_of_spot() -> None:
    # MiniStack makes the names of service-linked roles from their services'; Spot's has one of its own, and who makes
    # it twice is told so as by AWS.
    make = iam._create_service_linked_role
    name, service = "AWSServiceRoleForEC2Spot", "spot.amazonaws.com"

    def create(parameters: dict[str, Any]) -> Any:
        if iam._p(parameters, "AWSServiceName") != service:
            return make(parameters)
        if name in iam._roles:
            message = f"Service role name {name} has been taken in this account, please try a different suffix."
            return iam._error(400, "InvalidInput", message, ns="iam")
        status, headers, body = make(parameters)
        role = iam._roles.pop("AWSServiceRoleForSpot")
        iam._roles[name] = {
            **role,
            "RoleName": name,
            "Arn": f"{role['Arn'].rpartition('/')[0]}/{name}",
        }
        return status, headers, body.replace(b"AWSServiceRoleForSpot", name.encode())

    iam._IAM_HANDLERS["CreateServiceLinkedRole"] = create


def layer_content(arn: str) -> bytes | None:
    """Return the zip of a layer version."""
    content: bytes | None = lambda_svc._resolve_layer_zip(arn)
    return content


def register_session(credentials: Credentials, config: Mapping[str, Any]) -> None:
    """Make STS and IAM know the credentials of an execution environment, as a session of the function's role."""
    role = str(config["Role"]).rsplit("/", 1)[-1]
    session = str(config["FunctionName"])[:64]
    account_id = str(config["FunctionArn"]).split(":")[4]
    sts.register_session(
        credentials.access_key_id,
        {
            "Arn": f"arn:aws:sts::{account_id}:assumed-role/{role}/{session}",
            "UserId": f"{sts._role_id(config['Role'])}:{session}",
            "SecretAccessKey": credentials.secret_access_key,
            "SessionToken": credentials.session_token,
        },
    )


def put_service_event(event: Mapping[str, Any]) -> None:
    """Put an AWS service's event on the default bus with its own id, time, resources and detail.

    ``PutEvents`` would give it a new id and the present time; a duplicate delivery would then look like a second event.
    """
    record = {
        "EventId": event["id"],
        "Source": event["source"],
        "DetailType": event["detail-type"],
        "Detail": json.dumps(event["detail"]),
        "EventBusName": "default",
        "Time": int(datetime.fromisoformat(event["time"]).timestamp()),
        "Resources": list(event["resources"]),
        "Account": event["account"],
        "Region": event["region"],
    }
    contextvars.copy_context().run(_dispatch, record)


def forget_schedules() -> None:
    """Forget which schedules have fired; MiniStack's reset leaves that behind."""
    scheduler._schedule_last_fired.clear()


def _dispatch(record: dict[str, Any]) -> None:
    responses.set_request_account_id(record["Account"])
    responses.set_request_region(record["Region"])
    eventbridge._events_log_list().append(record)
    view = eventbridge._pattern_event_view(record)
    eventbridge._dispatch_event(record, view)
    eventbridge._archive_event(record, view)


def _accept_any_request_time() -> None:
    # Functions sign by the emulated clock and tests by the real one; all other checks of a signature stay.
    sigv4.request_time_failure = lambda *_args, **_kwargs: None


def _retry_events_for_functions() -> None:
    # MiniStack invokes a rule's function once and drops what fails; on AWS it is an asynchronous invocation, with
    # retries, a dead letter queue and a failure destination.
    dispatch: Callable[[str, str], None] = eventbridge._dispatch_to_lambda

    def dispatch_asynchronously(arn: str, payload: str) -> None:
        function, config, _ = lambda_svc._get_func_record_for_ref(arn)
        if function is None or config is None:
            dispatch(arn, payload)  # logs that the function is missing
            return
        lambda_svc.invoke_async_with_retry(
            lambda_svc._execution_record_for_config(function, config), json.loads(payload)
        )

    eventbridge._dispatch_to_lambda = dispatch_asynchronously


def _rearm_changed_schedules() -> None:
    # MiniStack remembers a fired at() by its name; a schedule that is made anew or changed fires again on AWS.
    for name in ("_create_schedule", "_update_schedule"):
        setattr(scheduler, name, _rearming(getattr(scheduler, name)))


def _rearming(
    operation: Callable[[str, dict[str, Any]], Any],
) -> Callable[[str, dict[str, Any]], Any]:
    def change(name: str, body: dict[str, Any]) -> Any:
        answer = operation(name, body)
        if answer[0] == 200:
            key = f"{body.get('GroupName') or 'default'}/{name}"
            for fired in [
                fired for fired in scheduler._schedule_last_fired if fired[-1] == key
            ]:
                del scheduler._schedule_last_fired[fired]
        return answer

    return change


def _refuse_past_schedules() -> None:
    # Two public projects report that Scheduler refuses an at() that has passed; its API reference is silent.
    for name in ("_create_schedule", "_update_schedule"):
        setattr(scheduler, name, _of_the_future(getattr(scheduler, name)))


def _of_the_future(
    operation: Callable[[str, dict[str, Any]], Any],
) -> Callable[[str, dict[str, Any]], Any]:
    def checked(name: str, body: dict[str, Any]) -> Any:
        at_s = scheduler._at_time_epoch(str(body.get("ScheduleExpression", "")))
        if at_s is not None and at_s < scheduler.time.time():
            return scheduler._error(
                400, "ValidationException", "Schedule expression is in the past."
            )
        return operation(name, body)

    return checked


def _ask_queue_policies_once() -> None:
    # Every request was checked at the door, with the queue's policy and all condition keys; SQS would ask the policy
    # again without the keys that describe the caller, so that a statement about them would be about everybody.
    sqs._enforce_queue_policy = lambda *_: None


def _receive_whole_batches() -> None:
    def receive(queue_url: str, max_number: int) -> Any:
        with sqs._queues_lock:
            queue = sqs._get_q(queue_url)
            sqs._expire_retained(queue)
            sqs._dlq_sweep(queue)
            limit = 10 if queue["is_fifo"] else MAX_STANDARD_BATCH
            hidden_s = int(queue["attributes"].get("VisibilityTimeout", "30"))
            takeable = _of_one_group(queue) if queue["is_fifo"] else queue
            return sqs._collect_msgs(takeable, min(int(max_number or 1), limit), hidden_s)

    sqs._receive_messages_for_esm = receive


def _of_one_group(queue: dict[str, Any]) -> dict[str, Any]:
    """Return a FIFO queue with the messages of one group, of which nothing is worked on: others get batches of theirs.

    So the batches of different groups run side by side, as on AWS; MiniStack's own would hold several groups up.
    """
    now_s = sqs.time.time()
    held_up = {
        it["group_id"]
        for it in queue["messages"]
        if it["visible_at"] > now_s and it["receive_count"] > 0
    }
    free = [
        it
        for it in queue["messages"]
        if it["visible_at"] <= now_s and it["group_id"] not in held_up
    ]
    return {
        **queue,
        "messages": [it for it in free if it["group_id"] == free[0]["group_id"]],
    }
