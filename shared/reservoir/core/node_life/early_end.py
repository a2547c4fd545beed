"""Instances that end before they run: whose trouble that was, by EC2's state reason.

EC2 accepts a launch and then cannot go through with it: the volume's key may not be used, the host fails, spot is taken
back. The call looks like a success, so without a memory the same is launched again as soon as the replicas are demand.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """What carries the cause, and rests for it."""

    NODE_CLASS = "class"  # nothing of the class can start
    HOST = "host"  # this offering, or this unit of a reservation
    UNKNOWN = "unknown"  # the host, until it happens again and again


# EC2 user guide, "Troubleshoot Amazon EC2 instance termination issues": state reason codes, with what to look at.
_OF_THE_CLASS: Final[Mapping[str, str]] = {
    "Client.InternalError": "EC2 could not start instances of the class: usually a KMS key that the launch may not use",
    "Client.InvalidSnapshot.NotFound": "a snapshot behind the class's image or volumes does not exist",
    "Client.VolumeLimitExceeded": "the account's limit of EBS storage is reached",
}
# every code of this kind: internal errors, no capacity after all, spot taken back
_OF_THE_HOST: Final = "Server."


def cause_of(state_reason: str | None) -> Cause:
    """Return what the state reason of an instance that never ran speaks of."""
    if state_reason in _OF_THE_CLASS:
        return Cause.NODE_CLASS
    return Cause.HOST if (state_reason or "").startswith(_OF_THE_HOST) else Cause.UNKNOWN


def explanation(state_reason: str | None) -> str:
    """Return for users why an instance ended before it ran."""
    code = state_reason or "EC2 gave no reason"
    known = _OF_THE_CLASS.get(code)
    return f"the instance ended before it ran ({code})" + (f": {known}" if known else "")
