"""How a custom resource's function ends: always with an answer to CloudFormation."""

import functools
from collections.abc import Callable
from typing import Any

from shared.adapters.cloudformation import respond
from shared.runtime.observability import logger
from shared.usecases.policy.deploy_policy import NOT_APPLIED, Deployment


def answered(handler: Callable[[dict[str, Any], Any], Deployment]) -> Callable[[dict[str, Any], Any], None]:
    """Wrap a handler so that CloudFormation is told how it ended, even when that is a bug."""

    @functools.wraps(handler)
    def wrapped(event: dict[str, Any], context: Any) -> None:
        try:
            deployment = handler(event, context)
        except Exception as error:  # noqa: BLE001 # without an answer the deployment would wait for an hour
            logger.exception("the request failed")
            before = event.get("PhysicalResourceId", NOT_APPLIED)
            deployment = Deployment(False, before, f"{type(error).__name__}; the function's log tells more")
        changes = deployment.outcome.effective
        logger.info(
            "answering CloudFormation",
            extra={
                "succeeded": deployment.succeeded,
                "reason": deployment.reason,
                "changes": [f"{change.kind}/{change.name} {change.change}" for change in changes],
                "problems": [str(problem) for problem in deployment.outcome.problems],
                "repeated": list(deployment.repeated),
            },
        )
        respond(
            event,
            succeeded=deployment.succeeded,
            physical_id=deployment.physical_id,
            reason=deployment.reason,
            data={"Changed": str(len(changes))},
        )

    return wrapped
