"""How many nodes may end within an hour, as the deployment chose it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from reservoir import names
from reservoir.core.safety.endings import DEFAULT_BOUNDS, Bound, Bounds, EndingKind
from reservoir.runtime.environment import SettingsError

_FIELDS: Final = dict(
    zip(names.ENDING_NUMBERS, ("share_percent", "least_count", "most_count"), strict=True)
)


def ending_bounds(environment: Mapping[str, str]) -> Bounds:
    """Read the deployment's choices; kinds and numbers that it leaves out have the defaults. Raises SettingsError."""
    text = environment.get(names.ENDING_BOUNDS) or "{}"
    try:
        given = json.loads(text)
        return Bounds(
            {
                EndingKind(kind): _bound(EndingKind(kind), numbers)
                for kind, numbers in given.items()
            }
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise SettingsError(f"{names.ENDING_BOUNDS} cannot be read: {error}") from error


def _bound(kind: EndingKind, numbers: Mapping[str, Any]) -> Bound:
    chosen = {_FIELDS[name]: number for name, number in numbers.items()}
    if not all(isinstance(number, int) and number >= 0 for number in chosen.values()):
        raise ValueError(f"{kind}: not whole numbers")
    return replace(DEFAULT_BOUNDS[kind], **chosen)
