"""What is too long, too many or too large in a request that makes or changes something, refused at the service's door.

Lengths are those of AWS's models of its APIs, and the words those of its validation
(https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3553 has them). What AWS bounds beyond its models is
said here, with its source; docs/aws-limits.md has the quotas.
"""

import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.model import ListShape, Shape, StructureShape
from ministack import app
from ministack.core import iam_actions

from lab.embedded.limits import lengths, quotas
from lab.embedded.limits.counts import AccountCounts
from lab.embedded.limits.parameters import (
    SERVICES,
    Parameters,
    model,
    operation_of,
    parameters_of,
)
from lab.embedded.limits.quotas import QuotaError
from lab.embedded.limits.refusal import Refusal

Handler = Callable[..., Awaitable[Any]]

_CHANGING: Final = ("Add", "Attach", "Create", "Put", "Set", "Tag", "Update")
# What is written thousands of times a minute has bounds of its own, which MiniStack and the stores' tests know.
_OF_DATA: Final = frozenset(
    {"CreateLogStream", "PutEvents", "PutItem", "PutLogEvents", "PutMetricData"}
    | {"UpdateItem"}
)
# How a service names a value that its model does not allow.
_CODES: Final[Mapping[str, str]] = {
    "dynamodb": "ValidationException",
    "events": "ValidationException",
    "iam": "ValidationError",
    # https://github.com/cloud-custodian/cloud-custodian/issues/3352
    "lambda": "InvalidParameterValueException",
    "logs": "InvalidParameterException",
    "monitoring": "ValidationError",
    "scheduler": "ValidationException",
    "sqs": "InvalidParameterValue",
    "ssm": "ValidationException",
}
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
QUEUE_NAME_CHARACTERS: Final = 80
QUEUE_TAGS: Final = 50
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
FUNCTION_NAME_CHARACTERS: Final = 64
FUNCTION_TIMEOUT_S: Final = 900
FUNCTION_MEMORY_MIB: Final = 10_240
# https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html
PARAMETER_CHARACTERS: Final = 4_096
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutDashboard.html
DASHBOARD_NAME_CHARACTERS: Final = 255


def install() -> AccountCounts:
    """Refuse what AWS refuses, at APIs and in templates; return how many of each kind the account may have."""
    quotas.install()
    lengths.install()
    counts = AccountCounts()
    counts.install()
    for service in SERVICES:
        door = _Door(service, app.SERVICE_HANDLERS[service], counts)
        app.SERVICE_HANDLERS[service] = door.answer
    return counts


@dataclass(frozen=True, slots=True)
class _Door:
    service: str
    handler: Handler
    counts: AccountCounts

    async def answer(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        query: dict[str, list[str]],
    ) -> Any:
        name = operation_of(self.service, method, path, headers, body)
        if name is not None and name.startswith(_CHANGING) and name not in _OF_DATA:
            refused = self._refusal(name, path, body)
            if refused is not None:
                answer = iam_actions.access_denied_response(
                    self.service,
                    name,
                    "",
                    str(uuid.uuid4()),
                    error_code=refused.code,
                    message=refused.message,
                    headers=headers,
                )
                return (refused.status, *answer[1:])
        return await self.handler(method, path, headers, body, query)

    def _refusal(self, name: str, path: str, body: bytes) -> Refusal | None:
        if name not in model(self.service).operation_names:
            return None  # the service itself says so
        operation = model(self.service).operation_model(name)
        try:
            asked = parameters_of(self.service, operation, path, body)
        except ValueError:
            return None  # as above
        problem = next(_problems(operation.input_shape, asked, ""), None)
        if problem is not None:
            message = f"1 validation error detected: {problem}"
            return Refusal(_CODES[self.service], message)
        beyond = _BEYOND_MODELS.get((self.service, name))
        return (beyond and beyond(asked)) or self.counts.refusal(self.service, name, asked)


def _problems(shape: Shape | None, value: Any, name: str) -> Iterator[str]:
    """Yield what is more than a model allows."""
    if isinstance(shape, StructureShape):
        for member, of_member in shape.members.items():
            wire = of_member.serialization.get("name", member)
            if value.get(wire) is not None:
                path = f"{name}.{member[:1].lower()}{member[1:]}".lstrip(".")
                yield from _problems(of_member, value[wire], path)
    elif shape is not None:
        yield from _too_much(shape, value, name)
    if isinstance(shape, ListShape):
        for number, each in enumerate(value, 1):
            yield from _problems(shape.member, each, f"{name}.{number}.member")


def _too_much(shape: Shape, value: Any, name: str) -> Iterator[str]:
    most = shape.metadata.get("max")
    if most is None:
        return
    if shape.type_name in ("integer", "long") and int(value) > most:
        yield _said(value, name, f"value less than or equal to {most}")
    if shape.type_name in ("string", "list", "map") and len(value) > most:
        yield _said(value, name, f"length less than or equal to {most}")


def _said(value: Any, name: str, bound: str) -> str:
    return f"Value '{value}' at '{name}' failed to satisfy constraint: Member must have {bound}"


# --- what AWS bounds beyond its models

Check = Callable[[Parameters], Refusal | None]


def _as_in_templates(code: str, check: Callable[[Parameters], None]) -> Check:
    def checked(asked: Parameters) -> Refusal | None:
        try:
            check(asked)
        except json.JSONDecodeError:
            return None  # the service itself says so
        except QuotaError as error:
            return Refusal(code, str(error), 409 if code == "LimitExceeded" else 400)
        return None

    return checked


def _queue(asked: Parameters) -> Refusal | None:
    if len(asked.get("QueueName", "")) > QUEUE_NAME_CHARACTERS:
        message = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        return Refusal(_CODES["sqs"], message)
    if len(asked.get("tags") or {}) > QUEUE_TAGS:
        message = f"Too many tags added for queue {asked['QueueName']}."
        return Refusal(_CODES["sqs"], message)
    return None


def _function(asked: Parameters) -> Refusal | None:
    name = str(asked.get("FunctionName", ""))
    bounds = (
        (len(name), FUNCTION_NAME_CHARACTERS, "functionName", "length"),
        (int(asked.get("Timeout") or 0), FUNCTION_TIMEOUT_S, "timeout", "value"),
        (int(asked.get("MemorySize") or 0), FUNCTION_MEMORY_MIB, "memorySize", "value"),
    )
    for found, most, field, what in bounds:
        if found > most and not name.startswith("arn:"):
            value = name if field == "functionName" else found
            problem = _said(value, field, f"{what} less than or equal to {most}")
            return Refusal(_CODES["lambda"], f"1 validation error detected: {problem}")
    return None


def _parameter(asked: Parameters) -> Refusal | None:
    if (
        asked.get("Tier", "Standard") != "Standard"
        or len(asked.get("Value", "")) <= PARAMETER_CHARACTERS
    ):
        return None
    message = (
        f"Standard tier parameters support a maximum parameter value of {PARAMETER_CHARACTERS} characters."
        " To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier."
    )
    return Refusal(_CODES["ssm"], message)


def _dashboard(asked: Parameters) -> None:
    if len(asked["DashboardName"]) > DASHBOARD_NAME_CHARACTERS:
        raise QuotaError("The value for field DashboardName must be at most 255 characters")
    lengths.check_dashboard(asked)


_BEYOND_MODELS: Final[Mapping[tuple[str, str], Check]] = {
    ("dynamodb", "CreateTable"): _as_in_templates(
        "ValidationException", lengths.check_indexes
    ),
    ("events", "PutRule"): _as_in_templates(
        "InvalidEventPatternException", lengths.check_event_pattern
    ),
    ("iam", "CreateRole"): _as_in_templates("LimitExceeded", lengths.check_trust),
    ("iam", "UpdateAssumeRolePolicy"): _as_in_templates(
        "LimitExceeded",
        lambda asked: lengths.check_trust(
            {"AssumeRolePolicyDocument": asked["PolicyDocument"]}
        ),
    ),
    ("lambda", "CreateFunction"): _function,
    ("lambda", "UpdateFunctionConfiguration"): _function,
    ("monitoring", "PutDashboard"): _as_in_templates("InvalidParameterInput", _dashboard),
    ("sqs", "CreateQueue"): _queue,
    ("ssm", "PutParameter"): _parameter,
}
