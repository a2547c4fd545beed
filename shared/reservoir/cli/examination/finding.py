"""What a check finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from reservoir.cli.stack.connection import Connection


class Severity(StrEnum):
    """How bad a finding is; SKIPPED: it could not be looked at."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or could not be looked at, and what to do about it."""

    severity: Severity
    check: str
    message: str
    advice: str


Check = Callable[[Connection], Iterator[Finding]]
