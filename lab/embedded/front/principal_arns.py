"""``aws:PrincipalArn`` of whoever acts with a role: the role's ARN. MiniStack compares the session's.

Source: the IAM user guide, "AWS global condition context keys".
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import re
from collections.abc import Callable
from typing import Any, Final

from ministack.core import iam_evaluator
from ministack.services import iam

_KEY: Final = "aws:principalarn"
_SESSION: Final = re.compile(r"arn:aws:sts::(\d+):assumed-role/([^/]+)/.+")


def install() -> None:
    """Let conditions see roles."""
    resolve: Callable[[str, Any], Any] = iam_evaluator._resolve_condition_key

    def resolved(key: str, context: Any) -> Any:
        value = resolve(key, context)
        return _of_role(value) if key.lower() == _KEY and isinstance(value, str) else value

    iam_evaluator._resolve_condition_key = resolved


def _of_role(arn: str) -> str:
    session = _SESSION.fullmatch(arn)
    role = None if session is None else iam._roles.get_scoped(session[1], None, session[2])
    return arn if role is None else str(role["Arn"])
