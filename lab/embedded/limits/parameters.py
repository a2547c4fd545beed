"""What a request asks for, read by botocore's model of its service: the operation, and its parameters by name."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import botocore.session
from botocore.model import ListShape, OperationModel, ServiceModel, Shape, StructureShape

Parameters = Mapping[str, Any]
Form = Mapping[str, list[str]]

# MiniStack's names of the services that are read, with botocore's.
SERVICES: Final[Mapping[str, str]] = {
    "dynamodb": "dynamodb",
    "events": "events",
    "iam": "iam",
    "lambda": "lambda",
    "logs": "logs",
    "monitoring": "cloudwatch",
    "scheduler": "scheduler",
    "sqs": "sqs",
    "ssm": "ssm",
}
_BY_PATH: Final = frozenset({"lambda", "scheduler"})


@lru_cache
def model(service: str) -> ServiceModel:
    """Return botocore's model of one of ``SERVICES``."""
    return botocore.session.get_session().get_service_model(SERVICES[service])


def operation_of(
    service: str, method: str, path: str, headers: Mapping[str, str], body: bytes
) -> str | None:
    """Return which operation is called; None where it cannot be told."""
    target = headers.get("x-amz-target", "")
    if target:
        return target.rpartition(".")[2]
    if service in _BY_PATH:
        return next(
            (
                name
                for name, verb, pattern in _paths(service)
                if verb == method and pattern.fullmatch(path)
            ),
            None,
        )
    return parse_qs(body.decode(errors="replace")).get("Action", [None])[0]


def parameters_of(
    service: str, operation: OperationModel, path: str, body: bytes
) -> Parameters:
    """Return the parameters of a call, as a model names them."""
    if service in _BY_PATH:
        (pattern,) = (it for name, _, it in _paths(service) if name == operation.name)
        found = pattern.fullmatch(path)
        labels = {} if found is None else found.groupdict()
        asked = json.loads(body or b"{}")
        return {**{name: unquote(value) for name, value in labels.items()}, **asked}
    if body[:1] == b"{":
        document: Parameters = json.loads(body)
        return document
    form = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    named: Parameters = _from_form(operation.input_shape, "", form) or {}
    return named


@lru_cache
def _paths(service: str) -> list[tuple[str, str, re.Pattern[str]]]:
    """Return (operation, method, path with groups named as its parameters) of each operation."""
    found = []
    for name in model(service).operation_names:
        http = model(service).operation_model(name).http
        path = re.sub(
            r"\{(\w+)\+?\}", r"(?P<\1>[^/]+)", http["requestUri"].partition("?")[0]
        )
        found.append((name, http["method"], re.compile(path.rstrip("/") + "/?")))
    return found


def _from_form(shape: Shape | None, name: str, form: Form) -> Any:
    """Read what the query protocol writes as `Tags.member.1.Key=…`; None where nothing is written."""
    if isinstance(shape, StructureShape):
        read = {
            member: _from_form(of_member, f"{name}.{member}" if name else member, form)
            for member, of_member in shape.members.items()
        }
        return {
            member: value for member, value in read.items() if value is not None
        } or None
    if isinstance(shape, ListShape):
        return list(_members(shape.member, f"{name}.member", form)) or None
    return form[name][0] if name in form else None


def _members(shape: Shape, name: str, form: Form) -> Iterator[Any]:
    number = 1
    while (value := _from_form(shape, f"{name}.{number}", form)) is not None:
        yield value
        number += 1
