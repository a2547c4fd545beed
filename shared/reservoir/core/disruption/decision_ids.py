"""Under which ids disruption's decisions are kept."""

from typing import Final

DECISION_PREFIX: Final = "disruption"
# The id under which the last pass's decision is kept, whatever it was: it has the reason why each node stays.
LATEST_DECISION: Final = f"{DECISION_PREFIX}-latest"


def decision_id(command_id: str) -> str:
    """Return the id of the stored decision that a command belongs to."""
    return command_id.partition("/")[0]
