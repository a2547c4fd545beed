"""Demand messages that cannot be understood: they are kept for a person, and an event reports them to their sender."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reservoir.manifests.event_parts import WorkloadRef
from reservoir.manifests.events import RejectedProblem, WorkloadRejected
from reservoir.manifests.parsing.fields import Namespace, ObjectName
from reservoir.manifests.parsing.problems import Problem
from reservoir.manifests.parsing.structure import LARGEST_MESSAGE_BYTES
from reservoir.ports.messaging import MINUTE, DeadLetters, DemandCensus, EventPublisher

# The most problems that an event or attribute names; all of them would not fit.
_PROBLEMS_MAX = 20
REJECTIONS_PUBLISHED_PER_MINUTE = 60
_SENDER_CHARS_MAX = 128
_NAME = TypeAdapter[str](ObjectName)
_NAMESPACE = TypeAdapter[str](Namespace)


@dataclass(frozen=True, slots=True)
class RejectDemand:
    """Rejects messages."""

    dead_letters: DeadLetters
    publisher: EventPublisher
    census: DemandCensus | None = None  # None: each is published

    def reject(
        self,
        message_id: str,
        body: str,
        problems: Sequence[Problem],
        sent_by: str | None = None,
    ) -> None:
        """Put the message away and publish ``Workload Rejected``; both may happen again when the batch is repeated.

        In a minute, so many of one sender's rejections are published one by one: the history keeps each for a
        fortnight, and bad messages must not fill it.
        """
        shown = problems[:_PROBLEMS_MAX]
        reason = "; ".join(map(_sentence, shown))
        self.dead_letters.put(body, {"Reason": _plain(reason), "MessageId": message_id})
        if self.census is not None:
            sender = (sent_by or "nobody").partition(":")[0][:_SENDER_CHARS_MAX]
            if (
                self.census.add(f"refused {sender}", MINUTE)
                > REJECTIONS_PUBLISHED_PER_MINUTE
            ):
                return
        self.publisher.publish(
            [
                WorkloadRejected(
                    message_id=message_id,
                    workload=_named(body),
                    problems=[RejectedProblem.of(problem) for problem in shown],
                )
            ]
        )


def _sentence(problem: Problem) -> str:
    place = f"{problem.path}: " if problem.path else ""
    hint = "" if problem.suggestion is None else f" (did you mean {problem.suggestion}?)"
    return f"{place}{problem.message}{hint}"


def _plain(text: str) -> str:
    """Escape what a log line or an attribute must not carry."""
    return (
        text.encode("ascii", "backslashreplace")
        .decode()
        .replace("\r", " ")
        .replace("\n", " ")
    )


def _named(body: str) -> WorkloadRef | None:
    """Name the workload, if so much of the body can be read and is a valid name."""
    if len(body) > LARGEST_MESSAGE_BYTES:
        return None  # it was refused unread
    try:
        metadata: Any = json.loads(body)["workload"]["metadata"]
        return WorkloadRef(
            namespace=_NAMESPACE.validate_python(metadata.get("namespace", "default")),
            name=_NAME.validate_python(metadata["name"]),
        )
    except (
        ValueError,
        ValidationError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
    ):
        return None
