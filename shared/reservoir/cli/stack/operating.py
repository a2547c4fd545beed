"""Requests of operators: signed by the caller, handed to the function that carries them out."""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from reservoir.cli.console import fail, report
from reservoir.manifests.answers.operations import OperationRequest, OperationResult
from reservoir.manifests.answers.policy_request import PolicyRequest
from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.names import SIGNED_REQUEST_HEADER, Function, function_name
from reservoir.ports.state import ConflictError

_OPERATION: Final = "GetCallerIdentity"
_TIMEOUT_S: Final = 65  # a little more than the function has


class _Request(Protocol):
    """What a function is asked for."""

    def document(self) -> dict[str, Any]:
        """Return the request as it is sent."""

    def digest(self, deployment: str) -> str:
        """Return what a proof of identity is bound to."""


def operate(deployment: str, request: OperationRequest) -> list[OperationResult]:
    """Have a request carried out; ends the command when it is refused as a whole."""
    body = _answer(deployment, Function.OPERATE, request)
    if "problems" in body:
        report(_problems(body))
        fail("nothing was done")
    return [OperationResult.model_validate(result) for result in body["results"]]


def change_policy(deployment: str, request: PolicyRequest) -> None:
    """Have policy changed. Raises ManifestError and ConflictError; ends the command where AWS refuses."""
    body = _answer(deployment, Function.CHANGE_POLICY, request)
    if "problems" in body:
        raise ManifestError(_problems(body))
    if "conflict" in body:
        raise ConflictError(body["conflict"])


def _problems(body: Mapping[str, Any]) -> list[Problem]:
    return [Problem(**problem) for problem in body["problems"]]


def _answer(deployment: str, function: Function, request: _Request) -> dict[str, Any]:
    """Send a request to a function, signed by the caller; return the answer."""
    from botocore.exceptions import BotoCoreError, ClientError

    from reservoir.adapters.clients import Patience, make_client

    try:
        payload = {
            "request": request.document(),
            "proof": signed(make_client("sts"), request.digest(deployment)),
        }
        answer = make_client("lambda", patience=Patience(read_timeout_s=_TIMEOUT_S)).invoke(
            FunctionName=function_name(deployment, function),
            Payload=json.dumps(payload).encode(),
        )
    except (BotoCoreError, ClientError) as error:
        fail(f"AWS refused: {error}")
    body: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        fail(
            f"the function failed half-way ({body.get('errorType', 'unknown error')}): repeat the command"
        )
    return body


def signed(sts: Any, digest: str) -> dict[str, str]:
    """Return the headers of a call of ``sts:GetCallerIdentity`` that is signed for a request, names in lower case."""
    caught: dict[str, str] = {}

    def name_the_request(request: Any, **_: object) -> None:
        request.headers[SIGNED_REQUEST_HEADER] = digest

    def catch(request: Any, **_: object) -> None:
        caught.update(
            {name.lower(): _text(value) for name, value in _items(request.headers)}
        )

    sts.meta.events.register(f"before-sign.sts.{_OPERATION}", name_the_request)
    sts.meta.events.register(f"before-send.sts.{_OPERATION}", catch)
    sts.get_caller_identity()
    return caught


def _items(headers: Mapping[str, str | bytes]) -> list[tuple[str, str | bytes]]:
    return list(headers.items())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
