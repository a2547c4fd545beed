"""Between MiniStack's front door and its services: ordered failures, EC2 and Pricing.

Every AWS request passes ``Router.dispatch``, which replaces MiniStack's dispatcher and calls it; so credentials and
IAM policies are checked by MiniStack before any service sees a request.
"""

import asyncio
import base64
import json
import logging
import os
import posixpath
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ministack import app
from ministack.core import iam_actions, responses
from ministack.core.router import SERVICE_PATTERNS, detect_service, extract_access_key_id

from lab.embedded.ec2 import Ec2Emulation, Ec2Error, ResponseLostError
from lab.embedded.ec2_gate import Ec2Gate
from lab.embedded.faults import FaultRule, Faults, Request
from lab.embedded.front import account_services
from lab.embedded.front.lanes import Lanes
from lab.embedded.front.permissions import refusal
from lab.embedded.front.plain_calls import PlainCall
from lab.embedded.front.plain_requests import OWN_HOSTS
from lab.embedded.front.senders import caller_key
from lab.embedded.front.server import ConnectionDropped
from lab.embedded.functions import recursion
from lab.embedded.functions.environments import Environment
from lab.embedded.functions.networks import FunctionNetworks
from lab.embedded.functions.runtime import called_by_function
from lab.embedded.settings import NOT_THROTTLED

Response = tuple[int, dict[str, str], bytes]
Dispatch = Callable[
    [str, str, dict[str, str], bytes, dict[str, list[str]], str], Awaitable[Response]
]

# Work that AWS bounds (an item has at most 400 KB, a transaction 4 MB, ten messages 1 MB) and that waits for nothing.
SHORT_CALLS: Final = frozenset(
    {
        f"DynamoDB_20120810.{item}"
        for item in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")
    }
    | {
        f"AmazonSQS.{each}{batch}"
        for each in ("SendMessage", "DeleteMessage")
        for batch in ("", "Batch")
    }
    | {"AmazonSQS.ChangeMessageVisibility"}
)
CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE, HEAD, OPTIONS, PATCH",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Expose-Headers": "*",
}
HELD_LOOK_S: Final = 0.05
_CALLS_ABOUT_STREAMS: Final = frozenset(
    {"CreateLogStream", "FilterLogEvents", "PutLogEvents"}
)
LOST_STATUS: Final = 599  # within this module only: no service answers so
logger = logging.getLogger(__name__)


class Router:
    """Applies ``faults`` to requests and hands EC2 and Pricing requests to ``ec2``."""

    def __init__(
        self,
        faults: Faults,
        ec2: Ec2Emulation,
        gate: Ec2Gate,
        environment_of: Callable[[str], Environment | None],
        networks: FunctionNetworks,
    ) -> None:
        self._faults = faults
        self._gate = gate
        self._ec2 = ec2
        self._environment_of = environment_of
        self._networks = networks
        self._dispatch: Dispatch = app._dispatch_service_request  # noqa: SLF001 - MiniStack's version is pinned

    def install(self) -> None:
        """Put this router into MiniStack."""
        app._dispatch_service_request = self.dispatch  # noqa: SLF001 - as above
        app.SERVICE_HANDLERS["ec2"] = self._handle_ec2
        app.SERVICE_HANDLERS["pricing"] = self._handle_pricing
        app.SERVICE_HANDLERS["resource-groups"] = self._handle_resource_groups
        SERVICE_PATTERNS["pricing"] = {
            "target_prefixes": ["AWSPriceListService"],
            "host_patterns": [r"api\.pricing\."],
            "credential_scope": "pricing",
        }
        self._gate.install()
        account_services.install()
        iam_actions.SERVICE_TO_IAM_NAMESPACE["pricing"] = "pricing"
        _authorise_batches_as_single_messages()
        _name_resources_as_aws_does()
        _serve_side_by_side(Lanes())
        _let_signed_calls_through()

    async def dispatch(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: dict[str, list[str]],
        request_id: str,
        plain: PlainCall | None = None,
    ) -> Response:
        """Answer one AWS request, unless a rule says otherwise; ``plain`` tells what a plain call is for.

        Raises
        ------
        ConnectionDropped
            A rule, or a service that lost its answer, has the connection closed instead.
        """
        if plain is None:
            parameters = app._routing_params(method, path, headers, body, query)  # noqa: SLF001 - as above
            service = detect_service(method, path, headers, parameters)
            action = (
                iam_actions.extract_iam_action(
                    service, method, path, headers, body, parameters
                )
                or ""
            )
            access_key_id = extract_access_key_id(headers, query) or ""
        else:
            service = plain.service
            action = plain.action
            access_key_id = plain.access_key_id
        caller_key.set(access_key_id)
        environment = self._environment_of(access_key_id)
        called_by_function.set(environment is not None)
        recursion.sent_header.set(
            headers.get(recursion.TRACE_HEADER, "") if environment is not None else ""
        )
        function = environment.spec.function_name if environment else None
        if function is not None and not self._networks.reaches(function, service):
            # nobody answers there; on AWS the function would wait until its client's or its own time is out
            raise ConnectionDropped
        rule = self._faults.take(Request(service, action.partition(":")[2], function))
        if rule is not None:
            if rule.action == "delay":
                await self._hold(rule)
            denied = await _before(rule, service, action, environment, headers)
            if denied is not None:
                return denied
        if plain is None:
            response = await self._dispatch(method, path, headers, body, query, request_id)
        else:
            response = await _answer_plain(plain, headers, body, request_id)
        if response[0] == LOST_STATUS:
            raise ConnectionDropped
        if rule is not None and rule.action in ("lose", "kill"):
            if rule.action == "kill" and environment is not None:
                await asyncio.to_thread(environment.kill)
            raise ConnectionDropped
        return response

    async def _hold(self, rule: FaultRule) -> None:
        """Wait as long as a rule says, or until it is dropped."""
        end_s = time.monotonic() + rule.delay_s
        while (left_s := end_s - time.monotonic()) > 0 and self._faults.in_force(rule):
            await asyncio.sleep(min(left_s, HELD_LOOK_S))

    async def _handle_ec2(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: dict[str, list[str]],
    ) -> Response:
        del method, path  # the query protocol has one path and a form body
        call = self._ec2.read(body)
        denied = (
            None if isinstance(call, Ec2Error) else self._gate.denial(headers, query, call)
        )
        if denied is not None:
            return denied
        try:
            is_throttled = NOT_THROTTLED not in headers.get("user-agent", "")
            return self._ec2.answer(call, body, is_throttled=is_throttled)
        except ResponseLostError:
            # an order of the EC2 emulation's own test API: done, and not answered
            # MiniStack turns exceptions into answers; `dispatch` drops the connection
            return LOST_STATUS, {}, b""

    async def _handle_pricing(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: dict[str, list[str]],
    ) -> Response:
        # JSON protocol: everything is in the target header and the body
        del method, path, query
        return self._ec2.pricing(body, headers.get("x-amz-target", ""))

    async def _handle_resource_groups(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: dict[str, list[str]],
    ) -> Response:
        # REST: everything is in the path and the body
        del method, headers, query
        return self._ec2.resource_groups(path, body)


async def _answer_plain(
    call: PlainCall, headers: dict[str, str], body: bytes, request_id: str
) -> Response:
    """Answer a plain call as MiniStack's dispatcher does, which has nothing else to do for it."""
    refused = refusal(call, headers, body, request_id)
    if refused is not None:
        return refused
    try:
        status, answer_headers, answer = await app.SERVICE_HANDLERS[call.service](
            "POST", "/", headers, body, {}
        )
    except Exception as error:
        # a service that fails is a 500 to its caller and does not end the connection
        logger.exception("%s failed", call.action)
        failure = {"__type": "InternalError", "message": str(error)}
        return 500, {"Content-Type": "application/json"}, json.dumps(failure).encode()
    responses.fix_error_content_type(call.service, status, answer_headers)
    responses.fix_success_content_type(call.service, status, answer_headers)
    answer_headers.update(CORS)
    answer_headers["x-amzn-requestid"] = answer_headers["x-amz-request-id"] = request_id
    answer_headers["x-amz-id-2"] = base64.b64encode(os.urandom(48)).decode()
    return status, answer_headers, answer


async def _before(
    rule: FaultRule,
    service: str,
    action: str,
    environment: Environment | None,
    headers: dict[str, str],
) -> Response | None:
    """Do what the rule does before the request is executed; an answer means that it is not."""
    if rule.action == "refuse":
        raise ConnectionDropped
    if rule.action == "kill" and rule.moment == "before" and environment is not None:
        await asyncio.to_thread(environment.kill)
        raise ConnectionDropped
    if rule.action in ("throttle", "error"):
        code, status = rule.failure(service)
        answer: Response = iam_actions.access_denied_response(
            service,
            action,
            "",
            str(uuid.uuid4()),
            error_code=code,
            message="Ordered by a test.",
            headers=headers,
        )
        return (status, *answer[1:])
    return None


def _serve_side_by_side(lanes: Lanes) -> None:
    for service, handler in app.SERVICE_HANDLERS.items():
        app.SERVICE_HANDLERS[service] = lanes.bound(service, handler, _is_short)


def _is_short(_method: str, _path: str, headers: Mapping[str, str], *_: Any) -> bool:
    return headers.get("x-amz-target", "") in SHORT_CALLS


def _let_signed_calls_through() -> None:
    """Spare other signed calls to ``/`` of this endpoint the questions whether they are for a site, an API or a bucket.

    What those serve has a path or a host name of its own.
    """
    for door in (
        "_handle_pre_body_request",
        "_handle_post_body_shortcuts",
        "_handle_special_data_plane_request",
    ):
        setattr(app, door, _unless_signed(getattr(app, door)))


def _unless_signed(door: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def through(
        method: str, path: str, headers: Mapping[str, str], *rest: Any, **details: Any
    ) -> Any:
        host = headers.get("host", "").partition(":")[0]
        if (
            path == "/"
            and method == "POST"
            and "authorization" in headers
            and host in OWN_HOSTS
        ):
            return None
        return await door(method, path, headers, *rest, **details)

    return through


def _authorise_batches_as_single_messages() -> None:
    """Check a batch call of SQS as AWS does: IAM knows no action but that of the single message."""
    extract = iam_actions.extract_iam_action

    def without_batch(
        service: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        parameters: dict[str, list[str]],
    ) -> str | None:
        action: str | None = extract(service, method, path, headers, body, parameters)
        if action is not None and action.startswith("sqs:"):
            return action.removesuffix("Batch")
        return action

    iam_actions.extract_iam_action = without_batch


def _resource_of_events(arn: str, headers: dict[str, str], body: bytes, rules: str) -> str:
    if headers.get("x-amz-target", "").endswith("EventBus"):
        return arn.replace(":rule/default/", ":event-bus/")
    asked = json.loads(body or b"{}")
    if "Rule" in asked:
        bus = asked.get("EventBusName", "default")
        if bus == "default":
            return f"{rules}/{asked['Rule']}"
        return f"{rules}/{bus}/{asked['Rule']}"
    return arn.replace(":rule/default/", ":rule/")


def _resource_of_logs(arn: str, headers: Mapping[str, str], body: bytes) -> str:
    """Return the log stream that a call is about: https://github.com/aws-solutions/aws-crr-monitor/issues/8."""
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    if operation not in _CALLS_ABOUT_STREAMS:
        return arn
    stream = json.loads(body or b"{}").get("logStreamName", "")
    return f"{arn}:log-stream:{stream}"


def _resource_group(path: str, body: bytes, groups: str) -> str:
    """Return the group that a call names; CreateGroup knows no resource (Service Authorization Reference)."""
    asked = json.loads(body or b"{}")
    named = str(asked.get("Group") or asked.get("GroupName") or "")
    if path == "/groups" or not named:
        return "*"
    return named if named.startswith("arn:") else f"{groups}/{named}"


def _name_resources_as_aws_does() -> None:
    """Let policies see the resources that AWS checks where MiniStack sees others.

    It takes every schedule for one of the default group, and several parameters for all of them; those are checked here
    on the path that they have in common, which is what AWS would allow at the least. It takes a bus for a rule, the
    targets of a rule for those of its bus, sees no principal in a simulation of its policies, and writes a rule of the
    default bus with that bus's name, which AWS leaves out. It does not see which resource group a call is about. It
    takes the streams of a log group for the group.
    """
    extract = iam_actions.extract_resource_arn

    def resource_arn(
        service: str,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        *rest: Any,
    ) -> str:
        arn: str = extract(service, method, path, headers, body, *rest)
        parameters, region, account_id = rest
        if service == "scheduler" and ":schedule/default/" in arn:
            named = json.loads(body or b"{}").get("GroupName") or next(
                iter(parameters.get("groupName", [])), "default"
            )
            return arn.replace(":schedule/default/", f":schedule/{named}/")
        if service == "iam" and (
            simulated := next(iter(parameters.get("PolicySourceArn", [])), None)
        ):
            return str(simulated)
        if service == "resource-groups":
            return _resource_group(
                path, body, f"arn:aws:resource-groups:{region}:{account_id}:group"
            )
        if service == "events":
            return _resource_of_events(
                arn, headers, body, f"arn:aws:events:{region}:{account_id}:rule"
            )
        if service == "logs":
            return _resource_of_logs(arn, headers, body)
        if (
            service == "ssm"
            and arn == "*"
            and (names := json.loads(body or b"{}").get("Names"))
        ):
            common = posixpath.commonpath([f"/{name.lstrip('/')}" for name in names])
            return f"arn:aws:ssm:{region}:{account_id}:parameter{common}"
        return arn

    iam_actions.extract_resource_arn = resource_arn
