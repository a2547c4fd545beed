"""Results of EC2 operations as XML, written by functions that are made once for each shape of botocore's model.

moto's serialiser asks the model about every member that a result could have and builds two trees on the way; that was
four fifths of a ``DescribeInstances``. Here a member costs a look-up and an ``append``. Writing is also the check: a
result that does not fit the model stops at the member that does not.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from xml.sax.saxutils import escape

from botocore.model import ListShape, OperationModel, Shape, StructureShape

NAMESPACE: Final = "http://ec2.amazonaws.com/doc/2016-11-15/"
Write = Callable[[Any, Callable[[str], None]], None]  # (value, append)


class AnswerWriter:
    """Writes the results of any EC2 operation; safe to use from many threads."""

    def __init__(self) -> None:
        self._members: dict[str, Mapping[str, Write]] = {}  # by the name of the structure

    def write(self, model: OperationModel, result: Mapping[str, Any], request_id: str) -> bytes:
        """Return the document that answers a call of ``model``; members that are None are left out.

        Raises
        ------
        AssertionError
            With the member's name, when the result has one that the model does not, or a value of another type.
        """
        parts: list[str] = [
            f'<?xml version="1.0" encoding="UTF-8"?>\n<{model.name}Response xmlns="{NAMESPACE}">',
            f"<requestId>{escape(request_id)}</requestId>",
        ]
        if model.output_shape is not None:
            self._write_members(model.output_shape, result, parts.append)
        parts.append(f"</{model.name}Response>")
        return "".join(parts).encode()

    def _write_members(self, shape: StructureShape, value: Any, append: Callable[[str], None]) -> None:
        members = self._members.get(shape.name)
        if members is None:
            members = self._members[shape.name] = {
                name: self._member(member, member.serialization.get("name", name))
                for name, member in shape.members.items()
            }
        _expect(isinstance(value, Mapping), shape.name, value)
        for name, member_value in value.items():
            if member_value is not None:
                _expect(name in members, shape.name, name)
                members[name](member_value, append)

    def _member(self, shape: Shape, tag: str) -> Write:
        """Return what writes a value of ``shape`` between the tags ``tag``."""
        if isinstance(shape, StructureShape):
            return self._structure(shape, tag)
        if isinstance(shape, ListShape):
            return self._list(shape, tag)
        kind, text = _SCALARS[shape.type_name]
        start, end = f"<{tag}>", f"</{tag}>"

        def write(value: Any, append: Callable[[str], None]) -> None:
            _expect(isinstance(value, kind), tag, value)
            append(start + text(value) + end)

        return write

    def _structure(self, shape: StructureShape, tag: str) -> Write:
        start, end = f"<{tag}>", f"</{tag}>"

        def write(value: Any, append: Callable[[str], None]) -> None:
            append(start)
            self._write_members(shape, value, append)
            append(end)

        return write

    def _list(self, shape: ListShape, tag: str) -> Write:
        start, end = f"<{tag}>", f"</{tag}>"
        write_item = self._member(shape.member, shape.member.serialization.get("name", "item"))

        def write(value: Any, append: Callable[[str], None]) -> None:
            _expect(isinstance(value, list | tuple), tag, value)
            append(start)
            for item in value:
                write_item(item, append)
            append(end)

        return write


def _expect(fits: bool, name: str, value: object) -> None:
    if not fits:
        raise AssertionError(f"{name}: {value!r} does not fit the EC2 model")


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _timestamp(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")  # EC2 shows seconds only


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_INTEGER: Final = (int, str)
_DECIMAL: Final = ((float, int, Decimal), str)
# Kind of shape: the Python types that it takes, and how they are written.
_SCALARS: Final[Mapping[str, tuple[Any, Callable[[Any], str]]]] = {
    "string": (str, escape),
    "integer": _INTEGER,
    "long": _INTEGER,
    "double": _DECIMAL,
    "float": _DECIMAL,
    "boolean": (bool, _boolean),
    "timestamp": (datetime, _timestamp),
    "blob": (bytes, _base64),
}
