"""The EC2 query protocol: requests are checked against botocore's service model, answers are written from it.

moto's parser and serialiser do the transport; the checks are ours, because moto ignores what it does not know. EC2 does
not: a misspelt parameter is an error there, so it is one here.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore.model import ListShape, MapShape, OperationNotFoundError, Shape, StringShape, StructureShape
from botocore.serialize import EC2Serializer as RequestSerializer
from botocore.utils import parse_timestamp
from botocore.validate import ParamValidator
from moto.core.model import OperationModel
from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer as ResponseSerializer
from moto.core.serialize import SerializationContext
from moto.core.utils import get_service_model

from embedded.ec2.errors import Ec2Error, invalid_value

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
        self._request_serializer = RequestSerializer()
        self._validator = ParamValidator()

    def parse(self, body: bytes) -> Call:
        """Return the call in a form-encoded ``body``.

        Raises
        ------
        Ec2Error
            InvalidAction, UnknownParameter, MissingParameter or InvalidParameterValue, as EC2 would answer.
        """
        values = dict(parse_qsl(body.decode(), keep_blank_values=True))
        model = self._operation(values.get("Action", ""))
        try:
            parameters = _parser(model).parse({"values": values}) or {}
        except ValueError as error:
            raise invalid_value(f"Invalid value in the request: {error}") from error
        self._refuse_unknown(values, parameters, model)
        if model.input_shape is not None:
            self._refuse_invalid(parameters, model.input_shape)
        return Call(model.name, parameters)

    def answer(self, operation: str, result: dict[str, Any], request_id: str) -> Reply:
        """Return the XML answer of ``operation``; a result that the model does not have is a bug here, never sent."""
        model = self._operation(operation)
        if model.output_shape is not None:
            report = self._validator.validate(result, model.output_shape)
            if report.has_errors():
                raise AssertionError(f"{operation} answer does not fit the EC2 model: {report.generate_report()}")
        serializer = ResponseSerializer(operation_model=model, context=SerializationContext(request_id))
        text: Any = serializer.serialize(result)["body"]
        return 200, {"Content-Type": "text/xml;charset=UTF-8"}, text.encode()

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
            raise Ec2Error("InvalidAction", f"The action {name} is not valid for this web service.") from error
        return model

    def _refuse_unknown(self, values: dict[str, str], parameters: dict[str, Any], model: OperationModel) -> None:
        understood: Any = self._request_serializer.serialize_to_request(parameters, model)["body"]
        unknown = sorted(values.keys() - understood.keys() - _ENVELOPE)
        # An empty list travels as its bare name; the serialiser writes nothing for it.
        unknown = [name for name in unknown if values[name] != "" or "." in name]
        if unknown:
            raise Ec2Error("UnknownParameter", f"The parameter {unknown[0]} is not recognized")

    def _refuse_invalid(self, parameters: dict[str, Any], shape: Shape) -> None:
        report = self._validator.validate(parameters, shape)
        if report.has_errors():
            text = report.generate_report()
            missing = "Missing required parameter" in text
            raise Ec2Error("MissingParameter" if missing else "InvalidParameterValue", text)
        _refuse_foreign_values(parameters, shape)


def _parser(model: OperationModel) -> Any:
    # Untyped on purpose: moto types the whole HTTP request, of which the query protocol reads the form values only.
    return EC2QueryParser(model, timestamp_parser=_aware_utc)


def _aware_utc(text: str) -> datetime:
    return parse_timestamp(text).astimezone(UTC)


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
        raise invalid_value(f"Value ({value}) for {shape.name} is invalid. Valid values: {', '.join(shape.enum)}")
