"""Failures that tests order: which requests they hit and what happens to them.

A rule matches by service, operation and calling function, lets ``skip`` matching requests pass, then hits ``times`` of
them. What it does to a request:

``throttle``  answered with the service's throttling error, not executed;
``error``     answered with ``code`` and ``status``, not executed;
``delay``     executed after ``delay_s`` real seconds;
``lose``      executed, and the connection is closed instead of answered;
``refuse``    the connection is closed, not executed;
``kill``      the calling environment dies by SIGKILL: before the request is executed, or with ``"moment": "after"``
              when it has been executed and not answered.

All requests are recorded in order, so a test can first watch a run and then kill it at every point between two effects.
"""

import itertools
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

Action = Literal["throttle", "error", "delay", "lose", "refuse", "kill"]
RECORDED_REQUESTS: Final = 100_000

THROTTLING_CODES: Final[Mapping[str, tuple[str, int]]] = {
    "ec2": ("RequestLimitExceeded", 503),
    "dynamodb": ("ThrottlingException", 400),
    "sqs": ("RequestThrottled", 403),
    "s3": ("SlowDown", 503),
    "lambda": ("TooManyRequestsException", 429),
}
OTHER_THROTTLING: Final = ("ThrottlingException", 400)


@dataclass(frozen=True, slots=True)
class Request:
    """An AWS request as rules see it; ``function`` is None unless a Lambda environment sent it."""

    service: str
    operation: str
    function: str | None


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One order; None matches anything. The module's text says what each action does."""

    action: Action
    service: str | None = None
    operation: str | None = None
    function: str | None = None
    skip: int = 0
    times: int = 1
    moment: Literal["before", "after"] = "before"
    delay_s: float = 0.0
    code: str = ""
    status: int = 400

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "FaultRule":
        """Build a rule from the control API's JSON.

        Raises
        ------
        ValueError
            When the document names an unknown field or action, or an ``error`` has no code.
        """
        try:
            rule = cls(**document)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if rule.action not in get_args(Action):
            raise ValueError(f"unknown action {rule.action!r}")
        if rule.action == "error" and not rule.code:
            raise ValueError("an error needs a code")
        return rule

    def matches(self, request: Request) -> bool:
        """Whether the rule is about this request; only a function's environment can be killed."""
        if self.action == "kill" and request.function is None:
            return False
        return (
            self.service in (None, request.service)
            and self.operation in (None, request.operation)
            and self.function in (None, request.function)
        )

    def failure(self, service: str) -> tuple[str, int]:
        """Return the error code and HTTP status that the caller gets."""
        if self.action == "throttle" and not self.code:
            return THROTTLING_CODES.get(service, OTHER_THROTTLING)
        return self.code, self.status


class Faults:
    """The rules in force and the record of requests; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        # id: (rule, matching requests seen)
        self._rules: dict[int, tuple[FaultRule, int]] = {}
        self._requests: deque[Request] = deque(maxlen=RECORDED_REQUESTS)

    def add(self, rule: FaultRule) -> int:
        """Put a rule into force; return its id."""
        with self._lock:
            identity = next(self._ids)
            self._rules[identity] = (rule, 0)
            return identity

    def clear(self) -> None:
        """Drop all rules and the record."""
        with self._lock:
            self._rules.clear()
            self._requests.clear()

    def clear_requests(self) -> None:
        """Start the record anew."""
        with self._lock:
            self._requests.clear()

    def take(self, request: Request) -> FaultRule | None:
        """Record a request and return the first rule that hits it."""
        hit: FaultRule | None = None
        with self._lock:
            self._requests.append(request)
            for identity, (rule, seen) in self._rules.items():
                if not rule.matches(request):
                    continue
                self._rules[identity] = (rule, seen + 1)
                if hit is None and rule.skip <= seen < rule.skip + rule.times:
                    hit = rule
        return hit

    def in_force(self, rule: FaultRule) -> bool:
        """Whether a rule that ``take`` has returned has not been dropped since."""
        with self._lock:
            return any(each is rule for each, _ in self._rules.values())

    def rules(self) -> list[dict[str, Any]]:
        """Describe the rules, each with its id and how many requests it has hit."""
        with self._lock:
            return [
                {
                    "id": identity,
                    **asdict(rule),
                    "hits": max(0, min(seen - rule.skip, rule.times)),
                }
                for identity, (rule, seen) in self._rules.items()
            ]

    def requests(self, function: str | None = None) -> list[dict[str, Any]]:
        """Return the recorded requests, all or those of one function, oldest first."""
        with self._lock:
            return [
                asdict(request)
                for request in self._requests
                if function in (None, request.function)
            ]
