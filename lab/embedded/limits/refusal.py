"""How a service refuses a request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """AWS's code, what it says, and the status of the answer."""

    code: str
    message: str
    status: int = 400
