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
Append = Callable[[str], None]
Write = Callable[[Any, Append], None]


class AnswerWriter:
    """Writes the results of any EC2 operation; safe to use from many threads."""

    def __init__(self) -> None:
        self._members: dict[str, _Members] = {}  # by the name of the structure

    def write(
        self, model: OperationModel, result: Mapping[str, Any], request_id: str
    ) -> bytes:
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
            _structure(self._members_of(model.output_shape), "", "")(result, parts.append)
        parts.append(f"</{model.name}Response>")
        return "".join(parts).encode()

    def member(self, shape: Shape, tag: str) -> Write:
        """Return what writes a value of ``shape`` between the tags ``tag``."""
        start, end = f"<{tag}>", f"</{tag}>"
        if isinstance(shape, StructureShape):
            return _structure(self._members_of(shape), start, end)
        if isinstance(shape, ListShape):
            return _list(
                self.member(shape.member, shape.member.serialization.get("name", "item")),
                start,
                end,
            )
        if shape.type_name == "string":
            return _string(start, end)
        return _scalar(*_SCALARS[shape.type_name], start, end)

    def _members_of(self, shape: StructureShape) -> "_Members":
        if shape.name not in self._members:
            self._members[shape.name] = _Members(shape, self.member)
        return self._members[shape.name]


class _Members(dict[str, Write]):
    """What writes each member of a structure by its name, made when it is first needed: shapes contain themselves."""

    def __init__(
        self, shape: StructureShape, member: Callable[[Shape, str], Write]
    ) -> None:
        super().__init__()
        self._shape = shape
        self._member = member

    def __missing__(self, name: str) -> Write:
        shape = self._shape.members.get(name)
        if shape is None:
            raise _misfit(self._shape.name, name)
        self[name] = self._member(shape, shape.serialization.get("name", name))
        return self[name]


def _structure(members: _Members, start: str, end: str) -> Write:
    def write(value: Any, append: Append) -> None:
        if not isinstance(value, dict):
            raise _misfit(start, value)
        append(start)
        for name, member_value in value.items():
            if member_value is not None:
                members[name](member_value, append)
        append(end)

    return write


def _list(write_item: Write, start: str, end: str) -> Write:
    def write(value: Any, append: Append) -> None:
        if not isinstance(value, list | tuple):
            raise _misfit(start, value)
        append(start)
        for item in value:
            write_item(item, append)
        append(end)

    return write


def _string(start: str, end: str) -> Write:
    def write(value: Any, append: Append) -> None:
        if not isinstance(value, str):
            raise _misfit(start, value)
        # hardly ever, and looking is cheaper than replacing
        if "&" in value or "<" in value or ">" in value:
            value = escape(value)
        append(f"{start}{value}{end}")

    return write


def _scalar(kind: Any, text: Callable[[Any], str], start: str, end: str) -> Write:
    def write(value: Any, append: Append) -> None:
        if not isinstance(value, kind):
            raise _misfit(start, value)
        append(f"{start}{text(value)}{end}")

    return write


def _misfit(name: str, value: object) -> AssertionError:
    return AssertionError(f"{name}: {value!r} does not fit the EC2 model")


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _timestamp(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")  # EC2 shows seconds only


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_INTEGER: Final = (int, str)
_DECIMAL: Final = ((float, int, Decimal), str)
# Kind of shape other than texts: the Python types that it takes, and how they are written.
_SCALARS: Final[Mapping[str, tuple[Any, Callable[[Any], str]]]] = {
    "integer": _INTEGER,
    "long": _INTEGER,
    "double": _DECIMAL,
    "float": _DECIMAL,
    "boolean": (bool, _boolean),
    "timestamp": (datetime, _timestamp),
    "blob": (bytes, _base64),
}
