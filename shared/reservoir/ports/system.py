"""Time and identity."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        ...


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender whom AWS has identified.

    ``id`` is as SQS's ``SenderId``: a user's, or a role's with the session's name.
    """

    arn: str
    id: str


class Identities(Protocol):
    """Verifies who signed a request."""

    def sender_of(self, digest: str, proof: Mapping[str, str]) -> Sender:
        """Return the sender who signed a request with this digest.

        Raises AccessDeniedError when the proof is of another digest or AWS does not confirm it, and TransientError when
        AWS does not answer.
        """
        ...


class IdFactory(Protocol):
    """Makes identities."""

    def new_id(self, prefix: str) -> str:
        """Return a new id that starts with ``prefix`` and a hyphen, unique over all functions."""
        ...
