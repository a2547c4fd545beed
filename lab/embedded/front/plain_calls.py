"""Plain calls: what AWS's SDKs send to DynamoDB, SQS, EventBridge and EC2, read once and handed straight on.

MiniStack asks of every request whether it is for one of some twenty kinds of pages and which of a hundred services it
means, and reads headers and body anew for each question; that was half of what a ``GetItem`` cost. A plain call leaves
nothing to ask: one POST to ``/`` of this endpoint, signed in its header, its body as it is. Who calls, what they may do
and how they are refused is decided by MiniStack's own functions (``front.permissions``). Any other request takes
MiniStack's way.
"""

import re
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ministack import app
from ministack.core import iam_actions, iam_evaluator, responses
from ministack.core.router import detect_service

from lab.embedded.front.plain_requests import PlainRequest, plain_request
from lab.embedded.front.server import Application

SERVICES: Final = frozenset({"dynamodb", "sqs", "events", "ec2"})
REMEMBERED_NAMES: Final = 1_024
_ACTION: Final = re.compile(rb"Action=(\w+)(?:&|$)")
_JSON, _FORM = "application/x-amz-json-1.", "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class PlainCall:
    """Who calls what; ``action`` is IAM's name (``dynamodb:GetItem``)."""

    service: str
    action: str
    access_key_id: str
    region: str


class PlainCalls:
    """An ASGI application that answers plain calls itself and leaves other requests to MiniStack's ``application``."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(
        self, scope: dict[str, Any], receive: Application, send: Application
    ) -> None:
        """Answer one request."""
        request = plain_request(scope)
        if request is None or not _begin(request, scope["client"][0]):
            await self._application(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            return
        call = _call(request, body)
        if call is None:
            await self._application(scope, _again(body, receive), send)
            return
        _pin_signature(request, body)
        status, headers, answer = await app._dispatch_service_request(  # noqa: SLF001 - MiniStack's version is pinned
            "POST",
            "/",
            {**request.headers, "x-forwarded-proto": "https"},
            body,
            {},
            str(uuid.uuid4()),
            call,
        )
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": _listed(headers, len(answer)),
            }
        )
        await send({"type": "http.response.body", "body": answer})


def _begin(request: PlainRequest, client_ip: str) -> bool:
    """Set what MiniStack keeps of a request; False when it has to wait or its key is in doubt."""
    if app._get_reset_lock().locked():  # noqa: SLF001 - as above
        return False
    try:
        # As MiniStack does itself.
        responses.set_request_account_id(app._request_account_scope(request.access_key_id))  # noqa: SLF001 - as above
    except iam_evaluator.AmbiguousAccessKeyError:
        return False
    responses.set_request_region(request.region)
    responses.set_request_client_ip(client_ip)
    iam_evaluator.pin_request_origin(client_ip, True)
    return True


async def _body(receive: Application) -> bytes | None:
    """Return a request's body, or None when its caller has gone."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
    return None


def _again(body: bytes, receive: Application) -> Application:
    """Return what receives a body that was received already, then whatever comes."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Any:
        return messages.pop() if messages else await receive()

    return receive_again


def _call(request: PlainRequest, body: bytes) -> PlainCall | None:
    kind = request.headers.get("content-type", "")
    target = request.headers.get("x-amz-target", "")
    service, action = "", ""
    if target and kind.startswith(_JSON):
        service, action = _named_by_target(target, request.scope)
    elif not target and kind.startswith(_FORM) and (asked := _ACTION.match(body)):
        service, action = _named_by_parameter(asked[1].decode("ascii"), request.scope)
    if service in SERVICES and action:
        return PlainCall(service, action, request.access_key_id, request.region)
    return None


@lru_cache(REMEMBERED_NAMES)
def _named_by_target(target: str, scope: str) -> tuple[str, str]:
    headers = {
        "x-amz-target": target,
        "authorization": f"Credential=key/day/region/{scope}/aws4_request",
    }
    service = detect_service("POST", "/", headers, {})
    return service, iam_actions.extract_iam_action(
        service, "POST", "/", headers, b"", {}
    ) or ""


@lru_cache(REMEMBERED_NAMES)
def _named_by_parameter(action: str, scope: str) -> tuple[str, str]:
    headers = {"authorization": f"Credential=key/day/region/{scope}/aws4_request"}
    parameters = {"Action": [action]}
    service = detect_service("POST", "/", headers, parameters)
    return service, iam_actions.extract_iam_action(
        service, "POST", "/", headers, b"", parameters
    ) or ""


def _pin_signature(request: PlainRequest, body: bytes) -> None:
    """Keep what was signed, for the check of the signature; MiniStack does not check the root's."""
    signed = None
    if not iam_evaluator.is_root_access_key(request.access_key_id):
        signed = iam_evaluator.SignedRequest(
            request.access_key_id, "POST", "/", {}, request.headers, body
        )
    iam_evaluator._verified_key.set("")  # noqa: SLF001 - as above
    iam_evaluator._anonymous.set(False)  # noqa: SLF001 - as above
    iam_evaluator._signed_request.set(signed)  # noqa: SLF001 - as above


def _listed(headers: dict[str, Any], size: int) -> list[tuple[bytes, bytes]]:
    headers.setdefault("Content-Length", str(size))
    listed: list[tuple[bytes, bytes]] = app._asgi_header_list(headers)  # noqa: SLF001 - as above
    # MiniStack's own function, which tells the emulated time (emulated_time.services)
    return [*listed, (b"date", app.formatdate(usegmt=True).encode())]
