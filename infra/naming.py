"""How functions and what synthesis is told are called, in one place."""

from typing import Final

from shared.names import Function

# Context is what synthesis needs to know, and no choice of a deployment.
DEPLOYMENT_CONTEXT: Final = "deployment"  # name or path of the settings file
CREATING_CONTEXT: Final = "creating"  # the stack does not exist yet: its tables are not protected before it does
EMBEDDED_CONTEXT: Final = "embedded"  # build for this machine's Python: the stack will run on the embedded AWS


def function_name(stack: str, function: Function) -> str:
    """Return the Lambda function's name.

    Chosen, not generated: the ARN is then known before the function exists, so that the drain timers' role and
    variables can name the function that they wake without a dependency circle.
    """
    return f"{stack}-{function.replace('_', '-')}"
