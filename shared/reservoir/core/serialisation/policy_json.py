"""How a planner is set, as canonical JSON: kept with its decisions, so that they can be replayed."""

import json
from dataclasses import fields
from enum import StrEnum
from typing import Any, Final, get_type_hints

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.serialisation.json_codec import CodecError

# A deadline belongs to one pass: a replay takes as long as it takes.
_OF_ONE_PASS: Final = frozenset({"expired", "used_percent"})


def policy_to_json(policy: SchedulingPolicy) -> str:
    """Write a policy without its deadline; equal policies give equal text."""
    values = {
        item.name: getattr(policy, item.name)
        for item in fields(policy)
        if item.name not in _OF_ONE_PASS
    }
    return json.dumps(values, separators=(",", ":"), sort_keys=True)


def policy_from_json(text: str) -> SchedulingPolicy:
    """Read a policy back, without a deadline; missing fields have their defaults, unknown ones are ignored.

    Raises
    ------
    CodecError
        The text does not have the form of a policy.
    """
    try:
        given: dict[str, Any] = json.loads(text)
        kinds = get_type_hints(SchedulingPolicy)
        known = {item.name for item in fields(SchedulingPolicy)} - _OF_ONE_PASS
        return SchedulingPolicy(
            **{
                name: _read(kinds[name], given[name])
                for name in sorted(known & given.keys())
            }
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"not a policy of the scheduler: {error}") from error


def _read(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    if type(value) is not kind:
        raise CodecError(f"{value!r} is no {kind}")
    return value
