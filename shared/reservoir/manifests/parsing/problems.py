"""Problems of what a user wrote: what is wrong, doubtful or without effect."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Location = tuple[str | int, ...]

_LONGEST_SHOWN: Final = 80


class Severity(StrEnum):
    """How much a problem matters."""

    ERROR = "error"  # nothing is written
    WARNING = "warning"  # valid, but probably not intended
    IGNORED = "ignored"  # accepted for Karpenter's sake, without effect here


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding.

    ``path`` is the place in the document ("spec.template.spec.requirements[0].operator"), ``line`` the line of the file
    where there is one, ``rule`` a stable name of the broken rule, ``suggestion`` the nearest valid name or form,
    ``subject`` the object ("NodePool/gpu") and ``source`` the file.
    """

    path: str
    rule: str
    message: str
    line: int | None = None
    suggestion: str | None = None
    severity: Severity = Severity.ERROR
    subject: str = ""
    source: str = ""

    def __str__(self) -> str:
        place = ":".join(
            part
            for part in (self.source, "" if self.line is None else str(self.line))
            if part
        )
        subject = " ".join(part for part in (self.subject, self.path) if part)
        hint = "" if self.suggestion is None else f" (did you mean {self.suggestion}?)"
        start = ": ".join(part for part in (place, str(self.severity), subject) if part)
        return f"{start}: {self.message}{hint} [{self.rule}]"


class ManifestError(ValueError):
    """Something that a user wrote is wrong; ``problems`` has all of it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def errors_of(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems that forbid writing."""
    return tuple(problem for problem in problems if problem.severity is Severity.ERROR)


def shown(value: object) -> str:
    """Quote untrusted text for a message: escaped, on one line, bounded."""
    return ascii(
        value if len(str(value)) <= _LONGEST_SHOWN else str(value)[:_LONGEST_SHOWN] + "..."
    )


def path_of(location: Location) -> str:
    """Write a location as a path: dots, [index], and ["quotes"] around keys that are no plain names."""
    parts: list[str] = []
    for step in location:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif (
            step.isascii()
            and step.replace("-", "").replace("_", "").isalnum()
            and len(step) <= _LONGEST_SHOWN
        ):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{shown(step)}]")
    return "".join(parts)
