"""Requests of operators: signed by the caller, handed to the function that carries them out."""

import json
from collections.abc import Mapping
from typing import Any, Final

from reservoir.cli.console import fail, report
from reservoir.manifests.answers.operations import OperationRequest, OperationResult
from reservoir.manifests.parsing.problems import Problem
from reservoir.names import SIGNED_REQUEST_HEADER, Function, function_name

_OPERATION: Final = "GetCallerIdentity"
_TIMEOUT_S: Final = 65  # a little more than the function has


def operate(deployment: str, request: OperationRequest) -> list[OperationResult]:
    """Have a request carried out; ends the command when it is refused as a whole."""
    from botocore.exceptions import BotoCoreError, ClientError

    from reservoir.adapters.clients import Patience, make_client

    try:
        payload = {
            "request": request.document(),
            "proof": signed(make_client("sts"), request.digest(deployment)),
        }
        answer = make_client("lambda", patience=Patience(read_timeout_s=_TIMEOUT_S)).invoke(
            FunctionName=function_name(deployment, Function.OPERATE),
            Payload=json.dumps(payload).encode(),
        )
    except (BotoCoreError, ClientError) as error:
        fail(f"AWS refused: {error}")
    body = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        fail(
            f"the function failed half-way ({body.get('errorType', 'unknown error')}): repeat the command"
        )
    if "problems" in body:
        report([Problem(**problem) for problem in body["problems"]])
        fail("nothing was done")
    return [OperationResult.model_validate(result) for result in body["results"]]


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
