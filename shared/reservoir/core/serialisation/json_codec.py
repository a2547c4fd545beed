"""Values of the core as JSON and back: rows of tables, snapshots, plans.

Every dataclass of the core is written field by field, in sorted order, without the fields that have their default
value; equal values give equal bytes. A reader takes the default for fields that are absent, so that a field with a
default may be added while rows of the older form exist. Fields that it does not know, a newer release's, it ignores; a
class with a field for them (``reservoir.core.model.unknown_fields``) has them there and writes them back, so that a
release that is rolled back, or not yet replaced everywhere, loses nothing of what the newer one wrote.

Text is written directly, without a tree of dictionaries in between: the lists of alternatives of a large plan are few
but stand beside thousands of launches, and are written once.
"""

import dataclasses
import json
import marshal
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache, lru_cache
from itertools import repeat
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeVar

from reservoir.core.model.instance_type import InstanceType, Offering
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import Node, PlacedReplicas
from reservoir.core.model.unknown_fields import keeps_unknown
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    PreferredNodeTerm,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms.requirement import Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, Toleration
from reservoir.core.serialisation.remembered_text import (
    LastText,
    Text,
    Write,
    written_once,
    written_once_a_process,
    written_once_while_used,
)

T = TypeVar("T")
Json = Any
# Thousands of workloads repeat these; each is made once, which saves time here and wherever they are compared.
_REPEATED = (AffinityTerm, PreferredNodeTerm, Taint, Toleration, TopologySpreadConstraint)
_REMEMBERED_MAX = 4096
# Snapshots have thousands of these; see ``_compiled``.
_READ_OFTEN = (Demand, InstanceType, Node, Offering, PlacedReplicas, Workload)


class CodecError(ValueError):
    """JSON does not have the form of the value that was asked for."""


class _Codec(NamedTuple):
    write: Callable[[Any, Text], None]
    decode: Callable[[Json], Any]


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
    text = Text()
    _codec(type(value)).write(value, text)
    if text.kept:
        LastText.kept = text.kept
    return "".join(text)


def loads(kind: type[T], text: str) -> T:
    """Read a value of ``kind`` from JSON text."""
    return from_json(kind, json.loads(text))


def _same(value: Any) -> Any:
    return value


def _leaf(text_of: Callable[[Any], str], decode: Callable[[Json], Any] = _same) -> _Codec:
    return _Codec(lambda value, text: text.append(text_of(value)), decode)


_anything = json.JSONEncoder(
    separators=(",", ":"), sort_keys=True, ensure_ascii=False
).encode


def _instant(value: datetime) -> str:
    assert value.tzinfo is not None, "instants are aware"
    return f'"{value.isoformat()}"'


def _amounts(value: Resources) -> str:
    return (
        "{"
        + ",".join(
            [f"{encode_basestring(name)}:{amount}" for name, amount in value.items()]
        )
        + "}"
    )


@lru_cache(_REMEMBERED_MAX)
def _resources(amounts: tuple[tuple[str, int], ...]) -> Resources:
    return Resources(dict(amounts))


_LEAVES: dict[Any, _Codec] = {
    str: _leaf(encode_basestring),
    int: _leaf(repr),
    bool: _leaf({True: "true", False: "false"}.__getitem__),
    object: _leaf(_anything),
    Any: _leaf(_anything),
    datetime: _leaf(_instant, datetime.fromisoformat),
    Resources: _leaf(_amounts, lambda data: _resources(tuple(data.items()))),
}


def _once(decode: Callable[[Json], Any]) -> Callable[[Json], Any]:
    """Return a decoder that gives one value for equal data."""
    remembered: dict[bytes, Any] = {}

    def decode_once(data: Json) -> Any:
        # Bytes that differ for any two values of JSON, made faster than any text; form 0 depends on nothing else.
        about = marshal.dumps(data, 0)
        known = remembered.get(about)
        if known is None:
            if len(remembered) >= _REMEMBERED_MAX:
                remembered.clear()
            known = remembered[about] = decode(data)
        return known

    return decode_once


_REMEMBERED_TEXTS: dict[type, Callable[[Write], Write]] = {
    OfferingKey: written_once,  # thousands of launches name few
    # the largest part of a snapshot, and the same for hours
    InstanceType: written_once_a_process,
    # the largest part of a large fleet's, nearly all as they were a minute ago
    Node: written_once_while_used,
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
        return _leaf(
            encode_basestring, {str(member): member for member in kind}.__getitem__
        )
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind)
    raise CodecError(f"no JSON form for {kind}")


def _requirements() -> _Codec:
    each = _codec(Requirement)
    decode = _once(each.decode)
    return _Codec(
        lambda value, text: _write_list(repeat(each, len(value)), value.values(), text),
        lambda data: Requirements.of(*map(decode, data)),
    )


def _generic(origin: Any, arguments: tuple[Any, ...]) -> _Codec:
    if origin in (typing.Union, types.UnionType):
        return _optional(arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return _many(_codec(arguments[0]), is_repeated=arguments[0] in _REPEATED)
        return _few([_codec(kind) for kind in arguments])
    if origin is frozenset:
        member = _codec(arguments[0])
        return _Codec(
            lambda value, text: _write_list(
                repeat(member, len(value)), sorted(value), text
            ),
            lambda data: frozenset(map(member.decode, data)),
        )
    if origin in (Mapping, dict):
        return _mapping(_codec(arguments[1]))
    raise CodecError(f"no JSON form for {origin}")


def _optional(arguments: tuple[Any, ...]) -> _Codec:
    kinds = [argument for argument in arguments if argument is not type(None)]
    if len(kinds) != 1:
        raise CodecError(f"no JSON form for a union of {kinds}")
    inner = _codec(kinds[0])

    def write(value: Any, text: Text) -> None:
        if value is None:
            text.append("null")
        else:
            inner.write(value, text)

    def decode(data: Any) -> Any:
        return None if data is None else inner.decode(data)

    # a value that is taken as it is may be null as well
    return _Codec(write, _same if inner.decode is _same else decode)


def _mapping(member: _Codec) -> _Codec:
    def write(value: Mapping[str, Any], text: Text) -> None:
        before = "{"
        for key in sorted(value):
            text.append(f"{before}{encode_basestring(key)}:")
            member.write(value[key], text)
            before = ","
        text.append("}" if value else "{}")

    decode = member.decode
    return _Codec(
        written_once(write),
        dict
        if decode is _same
        else lambda data: {key: decode(item) for key, item in data.items()},
    )


def _write_list(members: Iterable[_Codec], values: Iterable[Any], text: Text) -> None:
    before = "["
    for member, value in zip(members, values, strict=True):
        text.append(before)
        member.write(value, text)
        before = ","
    text.append("]" if before == "," else "[]")


def _few(members: Sequence[_Codec]) -> _Codec:
    """Return the codec of a tuple of fixed length."""

    def decode(data: Json) -> Any:
        if len(data) != len(members):
            raise CodecError(f"{len(data)} values where {len(members)} belong")
        return tuple(
            [member.decode(item) for member, item in zip(members, data, strict=True)]
        )

    return _Codec(lambda value, text: _write_list(members, value, text), decode)


def _many(member: _Codec, *, is_repeated: bool) -> _Codec:
    """Return the codec of a tuple of any length."""
    write = written_once(
        lambda values, text: _write_list(repeat(member, len(values)), values, text)
    )
    decode = member.decode
    if decode is _same:
        return _Codec(write, tuple)

    def decode_all(data: Json) -> Any:
        return tuple([decode(item) for item in data])

    return _Codec(write, _once(decode_all) if is_repeated else decode_all)


# Branches: comprehensions of a line each: tables that reading and writing share.
def _dataclass(kind: type[Any]) -> _Codec:
    keeper = next(
        (field.name for field in dataclasses.fields(kind) if keeps_unknown(field.metadata)),
        None,
    )
    named = [
        field for field in dataclasses.fields(kind) if field.init and field.name != keeper
    ]
    fields = sorted(named, key=lambda field: field.name)
    members = {field.name: _codec(field.type) for field in fields}
    writers = [
        (field.name, f'"{field.name}":', members[field.name].write, _default(field))
        for field in fields
    ]
    decoders = {name: member.decode for name, member in members.items()}

    def write_fields(value: Any, text: Text) -> None:
        before = "{"
        for name, label, write_member, default in writers:
            item = getattr(value, name)
            if item is not default and item != default:
                text.append(before + label)
                write_member(item, text)
                before = ","
        for name, item in (
            sorted(getattr(value, keeper).items()) if keeper is not None else ()
        ):
            text.append(f"{before}{encode_basestring(name)}:{_anything(item)}")
            before = ","
        text.append("}" if before == "," else "{}")

    remembering = _REMEMBERED_TEXTS.get(kind)
    write = write_fields if remembering is None else remembering(write_fields)
    if kind in _READ_OFTEN:
        return _Codec(write, _compiled(kind, decoders, keeper))

    def decode(data: Json) -> Any:
        given, unknown = {}, {}
        for name, item in data.items():
            decode_member = decoders.get(name)
            if decode_member is not None:
                given[name] = item if decode_member is _same else decode_member(item)
            else:
                unknown[name] = item
        if keeper is not None and unknown:
            given[keeper] = unknown
        return kind(**given)

    return _Codec(write, decode)


def _compiled(
    kind: type[Any], decoders: Mapping[str, Callable[[Json], Any]], keeper: str | None
) -> Callable[[Json], Any]:
    """Return a decoder of a frozen dataclass with slots that does what ``decode`` above does, in a third of its time.

    It is a function of its own for the kind, a line a field, as dataclasses write theirs. A frozen class would set each
    field against its own refusal: the value is made of a class with the same slots that is not frozen, and then
    becomes one of the kind.
    """
    fields = dataclasses.fields(kind)
    draft = type(kind.__name__, (), {"__slots__": tuple(field.name for field in fields)})
    names: dict[str, Any] = {
        "kind": kind,
        "draft": draft,
        "CodecError": CodecError,
        "known": decoders.keys(),
    }
    lines = [
        "def decode(data):",
        "if not isinstance(data, dict): raise CodecError('no object')",
        "value = draft()",
    ]
    for field in fields:
        if not field.init:
            continue
        name = field.name
        if name == keeper:
            lines.append(
                f"value.{name} = {{}} if data.keys() <= known else {{n: data[n] for n in data.keys() - known}}"
            )
            continue
        given = f"data[{name!r}]"
        if decoders[name] is not _same:
            names[f"decode_{name}"] = decoders[name]
            given = f"decode_{name}({given})"
        if field.default_factory is not dataclasses.MISSING:
            names[f"default_{name}"] = field.default_factory
            given += f" if {name!r} in data else default_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"default_{name}"] = field.default
            given += f" if {name!r} in data else default_{name}"
        lines.append(f"value.{name} = {given}")
    lines.append("value.__class__ = kind")
    if hasattr(kind, "__post_init__"):
        lines.append("value.__post_init__()")
    exec("\n    ".join([*lines, "return value"]), names)  # noqa: S102 # made of names of the core's fields alone
    decode: Callable[[Json], Any] = names["decode"]
    return decode


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
