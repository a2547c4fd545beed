"""The EC2 query protocol: requests are checked against botocore's service model, answers are written from it.

moto ignores what it does not know. EC2 does not: a misspelt parameter is an error there, so it is one here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore.model import (
    ListShape,
    MapShape,
    OperationNotFoundError,
    Shape,
    StringShape,
    StructureShape,
)
from botocore.validate import ParamValidator
from moto.core.model import OperationModel
from moto.core.utils import get_service_model

from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.wire.answers import AnswerWriter
from lab.embedded.ec2.wire.questions import QuestionReader

Reply = tuple[int, dict[str, str], bytes]

_ENVELOPE = frozenset({"Action", "Version"})
# The list of instance types grows faster than botocore is upgraded; instance_types.py knows which exist.
_OPEN_ENUMERATIONS = frozenset({"InstanceType"})


@dataclass(frozen=True)
class Call:
    """One parsed request: the operation's name and its parameters under botocore's member names."""

    operation: str
    parameters: dict[str, Any]


class Ec2Protocol:
    """Parses and validates EC2 requests and writes EC2 answers."""

    def __init__(self) -> None:
        self._model = get_service_model("ec2")
        self._questions = QuestionReader()
        self._validator = ParamValidator()
        self._answers = AnswerWriter()

    def parse(self, body: bytes) -> Call:
        """Return the call in a form-encoded ``body``.

        Raises
        ------
        Ec2Error
            InvalidAction, UnknownParameter, MissingParameter or InvalidParameterValue, as EC2 would answer.
        """
        values = dict(parse_qsl(body.decode(), keep_blank_values=True))
        model = self._operation(values.get("Action", ""))
        asked = {name: value for name, value in values.items() if name not in _ENVELOPE}
        try:
            parameters, unknown = self._questions.read(asked, model.input_shape)
        except ValueError as error:
            raise invalid_value(f"Invalid value in the request: {error}") from error
        _refuse_unknown(asked, unknown)
        if model.input_shape is not None:
            self._refuse_invalid(parameters, model.input_shape)
        return Call(model.name, parameters)

    def answer(self, operation: str, result: dict[str, Any], request_id: str) -> Reply:
        """Return the XML answer of ``operation``; a result that the model does not have is a bug here, never sent.

        Raises
        ------
        Ec2Error
            ``InvalidAction``.
        """
        model = self._operation(operation)
        body = self._answers.write(model, result, request_id)
        return 200, {"Content-Type": "text/xml;charset=UTF-8"}, body

    def refuse(self, error: Ec2Error, request_id: str) -> Reply:
        """Return EC2's error document."""
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
            f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
            f"</Error></Errors><RequestID>{request_id}</RequestID></Response>"
        )
        return error.status, {"Content-Type": "text/xml;charset=UTF-8"}, body.encode()

    def _operation(self, name: str) -> OperationModel:
        try:
            model: OperationModel = self._model.operation_model(name)
        except OperationNotFoundError as error:
            raise Ec2Error(
                "InvalidAction", f"The action {name} is not valid for this web service."
            ) from error
        return model

    def _refuse_invalid(self, parameters: dict[str, Any], shape: Shape) -> None:
        report = self._validator.validate(parameters, shape)
        if report.has_errors():
            text = report.generate_report()
            missing = "Missing required parameter" in text
            raise Ec2Error("MissingParameter" if missing else "InvalidParameterValue", text)
        _refuse_foreign_values(parameters, shape)


def _refuse_unknown(values: Mapping[str, str], unknown: set[str]) -> None:
    # An empty list travels as its bare name, which the model has no place for.
    names = sorted(name for name in unknown if values[name] != "" or "." in name)
    if names:
        raise Ec2Error("UnknownParameter", f"The parameter {names[0]} is not recognized")


def _refuse_foreign_values(value: Any, shape: Shape) -> None:
    if isinstance(shape, StructureShape):
        for name, member in value.items():
            _refuse_foreign_values(member, shape.members[name])
    elif isinstance(shape, ListShape):
        for item in value:
            _refuse_foreign_values(item, shape.member)
    elif isinstance(shape, MapShape):
        for item in value.values():
            _refuse_foreign_values(item, shape.value)
    elif (
        isinstance(shape, StringShape)
        and shape.enum
        and shape.name not in _OPEN_ENUMERATIONS
        and value not in shape.enum
    ):
        raise invalid_value(
            f"Value ({value}) for {shape.name} is invalid. Valid values: {', '.join(shape.enum)}"
        )
