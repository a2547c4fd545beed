"""Parameters of EC2 operations, read from the flat names of the query protocol in one pass.

``LaunchTemplateConfigs.1.Overrides.2.InstanceType`` is a path through botocore's model. moto's parser looks for every
member that the model has among the names that came, at each level, and what it does not know has to be found by writing
the request anew; here each name that came is followed once, and one that leads nowhere is unknown.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from botocore.model import ListShape, Shape, StructureShape
from botocore.utils import parse_timestamp

# A part of a name: its continuations by their next part, and under None its own (full name, text) when it is one.
Node = dict[str | None, Any]
_ABSENT: Final[Any] = object()


class QuestionReader:
    """Reads the parameters of any EC2 operation; safe to use from many threads."""

    def __init__(self) -> None:
        # by structure and by name on the wire
        self._members: dict[str, Mapping[str, tuple[str, Shape]]] = {}

    def read(
        self, values: Mapping[str, str], shape: StructureShape | None
    ) -> tuple[dict[str, Any], set[str]]:
        """Return the parameters under botocore's member names, and the names that the model does not know.

        ``shape`` is None for an operation without parameters.

        Raises
        ------
        ValueError
            When a value is not of its member's type.
        """
        if shape is None:
            return {}, set(values)
        unknown: set[str] = set()
        parameters = self._structure(shape, _tree(values), unknown)
        return {} if parameters is _ABSENT else parameters, unknown

    def _value(self, shape: Shape, node: Node, unknown: set[str]) -> Any:
        if isinstance(shape, StructureShape):
            return self._structure(shape, node, unknown)
        if isinstance(shape, ListShape):
            return self._list(shape, node, unknown)
        unknown.update(_names_below(node))
        if None not in node:
            return _ABSENT
        _, text = node[None]
        return _SCALARS[shape.type_name](text)

    def _structure(self, shape: StructureShape, node: Node, unknown: set[str]) -> Any:
        members = self._members.get(shape.name)
        if members is None:
            members = self._members[shape.name] = {
                _name_on_the_wire(name, member): (name, member)
                for name, member in shape.members.items()
            }
        value: dict[str, Any] = {}
        for part, child in node.items():
            if part is None:
                unknown.add(child[0])
            elif part not in members:
                unknown.update(_names(child))
            else:
                name, member = members[part]
                member_value = self._value(member, child, unknown)
                if member_value is not _ABSENT:
                    value[name] = member_value
        return value or _ABSENT

    def _list(self, shape: ListShape, node: Node, unknown: set[str]) -> Any:
        value: list[Any] = []
        while (child := node.get(str(len(value) + 1))) is not None:
            item = self._value(shape.member, child, unknown)
            if item is _ABSENT:
                break
            value.append(item)
        understood = {str(number + 1) for number in range(len(value))}
        for part, child in node.items():
            if part is None:
                unknown.add(child[0])
            elif part not in understood:
                unknown.update(_names(child))
        return value or _ABSENT


def _tree(values: Mapping[str, str]) -> Node:
    root: Node = {}
    for name, text in values.items():
        node = root
        for part in name.split("."):
            node = node.setdefault(part, {})
        node[None] = (name, text)
    return root


def _names(node: Node) -> Iterator[str]:
    """Yield the full names in a node and below it."""
    nodes = [node]
    while nodes:  # not by recursion: a name may have any number of parts
        node = nodes.pop()
        if None in node:
            yield node[None][0]
        nodes.extend(child for part, child in node.items() if part is not None)


def _names_below(node: Node) -> Iterator[str]:
    for part, child in node.items():
        if part is not None:
            yield from _names(child)


def _name_on_the_wire(name: str, member: Shape) -> str:
    """Return a member's name in requests: EC2 capitalises the name that its answers have."""
    if "queryName" in member.serialization:
        return str(member.serialization["queryName"])
    in_answers = str(member.serialization.get("name", name))
    return in_answers[0].upper() + in_answers[1:]


def _timestamp(text: str) -> datetime:
    return parse_timestamp(text).astimezone(UTC)


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": str,
    "integer": int,
    "long": int,
    "double": float,
    "float": float,
    "boolean": lambda text: text.lower() == "true",
    "timestamp": _timestamp,
    "blob": base64.b64decode,
}
