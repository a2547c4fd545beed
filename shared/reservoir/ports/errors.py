"""What can go wrong at AWS, as types; adapters raise them, use cases decide by them and never by text.

::

    AwsError                          a call to AWS failed; ``code`` is AWS's own
    ├── TransientError                try again later; says nothing about capacity
    │   ├── ThrottledError            too many calls; the call had no effect
    │   └── UnknownOutcomeError       the answer was lost (time-out, 5xx): the call may have had its effect
    ├── IdempotencyMismatchError      a client token came back with other parameters
    ├── NotFoundError                 the named resource does not exist (or EC2 does not show it yet)
    ├── AlreadyExistsError            the named resource exists
    ├── ConfigurationError            AWS refuses what a NodeClass asks for; the same call will fail again
    ├── AccessDeniedError             AWS refuses who asks
    └── RefusedError                  any other refusal, capacity and quotas among them; codes decide further
        └── RowsRefusedError          DynamoDB does not take certain rows; others are not concerned
"""

from collections.abc import Sequence


class AwsError(Exception):
    """A call to AWS failed. ``code`` is AWS's own code, ``operation`` the call, ``detail`` AWS's words for people."""

    def __init__(self, code: str, operation: str, detail: str = "") -> None:
        super().__init__(f"{operation}: {code}")
        self.code = code
        self.operation = operation
        self.detail = detail


class TransientError(AwsError):
    """Try again later."""


class ThrottledError(TransientError):
    """Too many calls; this one had no effect."""


class UnknownOutcomeError(TransientError):
    """The answer was lost; the call may have had its effect."""


class IdempotencyMismatchError(AwsError):
    """A client token came back with other parameters: look up by tag what the first call did."""


class NotFoundError(AwsError):
    """The named resource does not exist, or EC2 does not show it yet."""


class AlreadyExistsError(AwsError):
    """The named resource exists already."""


class ConfigurationError(AwsError):
    """AWS refuses what a NodeClass asks for; the same call will fail again until the class changes."""


class AccessDeniedError(AwsError):
    """AWS refuses the caller; the same call will fail again until permissions change."""


class RefusedError(AwsError):
    """Any other refusal; ``code`` decides."""


class RowsRefusedError(RefusedError):
    """Rows cannot be written as they are, now or later: one is larger than DynamoDB takes. ``rows`` are their keys."""

    def __init__(self, code: str, operation: str, rows: Sequence[str]) -> None:
        super().__init__(code, operation)
        self.rows = tuple(rows)
