"""How functions and what synthesis is told are called, in one place."""

from typing import Final

from reservoir.names import function_name

__all__ = [
    "CREATING_CONTEXT",
    "DEPLOYMENT_CONTEXT",
    "EMBEDDED_CONTEXT",
    "OLDER_INDEXES_CONTEXT",
    "function_name",
]

# Context is what synthesis needs to know, and no choice of a deployment.
DEPLOYMENT_CONTEXT: Final = "deployment"  # name or path of the settings file
CREATING_CONTEXT: Final = (
    # the stack does not exist yet: neither it nor its tables are protected before it does
    "creating"
)
# functions of the release before may run: their indexes stay for now
OLDER_INDEXES_CONTEXT: Final = "olderIndexes"
# build for this machine's Python: the stack will run on the embedded AWS
EMBEDDED_CONTEXT: Final = "embedded"
