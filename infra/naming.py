"""How functions are called, in one place."""

from shared.names import Function


def function_name(stack: str, function: Function) -> str:
    """Return the Lambda function's name.

    Chosen, not generated: the ARN is then known before the function exists, so that the drain timers' role and
    variables can name the function that they wake without a dependency circle.
    """
    return f"{stack}-{function.replace('_', '-')}"
