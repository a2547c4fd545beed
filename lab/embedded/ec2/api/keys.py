"""Keys of volumes: EC2 finds out after it has answered whether the launching principal may use one.

An instance whose volume cannot be made goes from pending to terminated, and says why in its state reason (EC2 user
guide, "Instance terminates immediately"; EC2 API reference, StateReason).
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

StateReason = tuple[str, str]

NOT_ALLOWED: Final[StateReason] = (
    "Client.InternalError",
    "Client.InternalError: Client error on launch",
)
INVALID_STATE: Final[StateReason] = (
    "Client.InvalidKMSKey.InvalidState",
    "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state",
)

# What becomes of instances with these keys, by the name that the request gives the key; set by the host, which knows
# the caller of the present request. A key that is not here can be used.
REFUSED: Final[ContextVar[Mapping[str, StateReason]]] = ContextVar("REFUSED")


def refusal(key_id: str | None) -> StateReason | None:
    """Return why no volume can be encrypted with a key in the present request."""
    return None if key_id is None else REFUSED.get({}).get(key_id)
