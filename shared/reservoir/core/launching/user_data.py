"""Placeholders in user data: ``{{reservoir.nodePool}}`` becomes the pool's name.

User data is code that runs as root, and all instances of a launch template share it. So it is filled with nothing but
what the template's launches have in common and what neither demand nor a node can choose, and only with characters that
mean themselves to a shell and in YAML, TOML, JSON and XML, quoted or not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from reservoir.core.launching.launch_template import NodeClassUnlaunchableError

DEPLOYMENT: Final = "deployment"
NODE_CLAIMS_TABLE: Final = "nodeClaimsTable"
NODE_CLASS: Final = "nodeClass"
NODE_POOL: Final = "nodePool"
REPORTS_QUEUE_URL: Final = "reportsQueueUrl"
PLACEHOLDERS: Final = (
    DEPLOYMENT,
    NODE_CLAIMS_TABLE,
    NODE_CLASS,
    NODE_POOL,
    REPORTS_QUEUE_URL,
)

# The end may be missing: a placeholder that is begun and not ended is a mistake, and must not be launched.
_PLACEHOLDER: Final = re.compile(
    r"\{\{[ \t]*reservoir\.([A-Za-z0-9_.-]*)(?P<end>[ \t]*\}\})?"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9./:_-]{1,512}")


def wrong_placeholders(user_data: str) -> Iterator[str]:
    """Yield what looks like a placeholder and cannot be filled: the name that it asks for, or all that is there."""
    for found in _PLACEHOLDER.finditer(user_data):
        if found["end"] is None:
            yield found[0]
        elif found[1] not in PLACEHOLDERS:
            yield found[1]


def filled(user_data: str, values: Mapping[str, str]) -> str:
    """Return user data with its placeholders replaced, each by a value that is only characters.

    Raises
    ------
    NodeClassUnlaunchableError
        A placeholder has no value, or one that could be more than a name where it is put.
    """

    def value(found: "re.Match[str]") -> str:
        text = values.get(found[1]) if found["end"] is not None else None
        if text is None:
            raise NodeClassUnlaunchableError(
                f"user data asks for {found[0][:80]!r}, which has no value"
            )
        if not _PLAIN.fullmatch(text):
            raise NodeClassUnlaunchableError(
                f"{found[1]} of user data is not a plain name: {text[:80]!a}"
            )
        return text

    return _PLACEHOLDER.sub(value, user_data)
