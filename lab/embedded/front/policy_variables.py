"""Variables in the conditions of policies: ``${aws:username}`` stands for what that key has in the request.

MiniStack's evaluator compares them as text. Source: the IAM user guide, "IAM policy elements: Variables and tags". A
variable whose key the request does not have, or has several values of, keeps the statement from applying. ``${*}``,
``${?}`` and ``${$}`` stand for those characters; defaults (``${key, 'value'}``) are not read, and apply to nothing.
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.core import iam_evaluator

_VARIABLE: Final = re.compile(r"\$\{([^{}]+)\}")
_CHARACTERS: Final = frozenset("*?$")
Conditions = Mapping[str, Any]
ValueOf = Callable[[str], Any]


class _UnresolvedError(Exception):
    """A variable stands for nothing in this request."""


def install() -> None:
    """Let conditions be read with their variables resolved."""
    met: Callable[[Conditions, Any], bool] = iam_evaluator._conditions_met

    def conditions_met(conditions: Conditions, context: Any) -> bool:
        found = resolved(
            conditions, lambda key: iam_evaluator._resolve_condition_key(key, context)
        )
        return found is not None and met(found, context)

    iam_evaluator._conditions_met = conditions_met


def resolved(conditions: Conditions, value_of: ValueOf) -> Conditions | None:
    """Return the conditions with the values of their variables, None when one of them has none."""
    try:
        found: dict[str, Any] = {}
        for operator, keys in conditions.items():
            found[operator] = keys
            if isinstance(keys, Mapping):
                found[operator] = {
                    key: _resolved(expected, value_of) for key, expected in keys.items()
                }
        return found
    except _UnresolvedError:
        return None


def _resolved(expected: Any, value_of: ValueOf) -> Any:
    if isinstance(expected, list):
        return [_resolved(each, value_of) for each in expected]
    if not isinstance(expected, str) or "${" not in expected:
        return expected

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in _CHARACTERS:
            return name
        found = value_of(name)
        if not isinstance(found, str):
            raise _UnresolvedError(name)
        return found

    return _VARIABLE.sub(value, expected)
