"""Values of the core as JSON and back: rows of tables, snapshots, plans.

Every dataclass of the core is written field by field, in sorted order, without the fields that have their default
value; equal values give equal bytes. A reader ignores fields that it does not know and takes the default for fields
that are absent, so that a field with a default may be added while rows of the older form exist.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, TypeVar

from shared.core.requirement import Requirement
from shared.core.requirements import Requirements
from shared.core.resources import Resources

T = TypeVar("T")
Json = Any


class CodecError(ValueError):
    """JSON does not have the form of the value that was asked for."""


class _Codec(NamedTuple):
    encode: Callable[[Any], Json]
    decode: Callable[[Json], Any]


def to_json(value: object) -> Json:
    """Return a dataclass of the core as JSON-ready values."""
    return _codec(type(value)).encode(value)


def from_json(kind: type[T], data: Json) -> T:
    """Read a value of ``kind`` back.

    Raises
    ------
    CodecError
        A required field is missing or a value has the wrong form.
    """
    try:
        value: T = _codec(kind).decode(data)
    except CodecError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise CodecError(f"not a {kind.__name__}: {error}") from error
    return value


def dumps(value: object) -> str:
    """Return the value as canonical JSON text."""
    return json.dumps(to_json(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def loads(kind: type[T], text: str) -> T:
    """Read a value of ``kind`` from JSON text."""
    return from_json(kind, json.loads(text))


def _same(value: Any) -> Any:
    return value


def _encode_instant(value: datetime) -> str:
    assert value.tzinfo is not None, "instants are aware"
    return value.isoformat()


_LEAVES: dict[Any, _Codec] = {
    str: _Codec(_same, _same),
    int: _Codec(_same, _same),
    bool: _Codec(_same, _same),
    object: _Codec(_same, _same),
    Any: _Codec(_same, _same),
    datetime: _Codec(_encode_instant, datetime.fromisoformat),
    Resources: _Codec(dict, Resources.of),
}


def _codec(kind: Any) -> _Codec:
    return _cached_codec(kind)


@cache
def _cached_codec(kind: Any) -> _Codec:
    leaf = _LEAVES.get(kind)
    if leaf is not None:
        return leaf
    if kind is Requirements:
        return _requirements()
    origin = typing.get_origin(kind)
    if origin is not None:
        return _generic(origin, typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _Codec(str, kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind)
    raise CodecError(f"no JSON form for {kind}")


def _requirements() -> _Codec:
    each = _codec(Requirement)
    return _Codec(
        lambda value: [each.encode(requirement) for requirement in value.values()],
        lambda data: Requirements.of(*map(each.decode, data)),
    )


def _generic(origin: Any, arguments: tuple[Any, ...]) -> _Codec:
    if origin in (typing.Union, types.UnionType):
        return _optional(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        member = _codec(arguments[0])
        return _Codec(lambda value: sorted(map(member.encode, value)), lambda data: frozenset(map(member.decode, data)))
    if origin in (Mapping, dict):
        member = _codec(arguments[1])
        return _Codec(
            lambda value: {str(key): member.encode(value[key]) for key in sorted(value)},
            lambda data: {key: member.decode(item) for key, item in data.items()},
        )
    raise CodecError(f"no JSON form for {origin}")


def _optional(arguments: tuple[Any, ...]) -> _Codec:
    kinds = [argument for argument in arguments if argument is not type(None)]
    if len(kinds) != 1:
        raise CodecError(f"no JSON form for a union of {kinds}")
    inner = _codec(kinds[0])
    return _Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda data: None if data is None else inner.decode(data),
    )


def _tuple(arguments: tuple[Any, ...]) -> _Codec:
    if arguments[-1] is Ellipsis:
        member = _codec(arguments[0])
        return _Codec(
            lambda value: [member.encode(item) for item in value], lambda data: tuple(map(member.decode, data))
        )
    members = [_codec(argument) for argument in arguments]
    return _Codec(
        lambda value: [member.encode(item) for member, item in zip(members, value, strict=True)],
        lambda data: tuple(member.decode(item) for member, item in zip(members, data, strict=True)),
    )


def _dataclass(kind: type[Any]) -> _Codec:
    hints = typing.get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    members = {field.name: _codec(hints[field.name]) for field in fields}
    defaults = {field.name: _default(field) for field in fields}

    def encode(value: Any) -> Json:
        encoded = {}
        for name, member in members.items():
            item = getattr(value, name)
            if item != defaults[name]:
                encoded[name] = member.encode(item)
        return encoded

    def decode(data: Json) -> Any:
        missing = [name for name in members if name not in data and defaults[name] is dataclasses.MISSING]
        if missing:
            raise CodecError(f"{kind.__name__} lacks {', '.join(missing)}")
        return kind(**{name: member.decode(data[name]) for name, member in members.items() if name in data})

    return _Codec(encode, decode)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
