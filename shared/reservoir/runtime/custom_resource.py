"""How a custom resource's function ends: always with an answer to CloudFormation."""

import functools
from collections.abc import Callable
from typing import Any

from reservoir.adapters.cloudformation import respond
from reservoir.runtime.observability import logger
from reservoir.usecases.policy.deploy_policy import NOT_APPLIED, CustomResourceAnswer


def answered(
    handler: Callable[[dict[str, Any], Any], CustomResourceAnswer],
) -> Callable[[dict[str, Any], Any], None]:
    """Wrap a handler so that CloudFormation gets its result, even when that is a bug."""

    @functools.wraps(handler)
    def wrapped(event: dict[str, Any], context: Any) -> None:
        try:
            answer = handler(event, context)
        except Exception as error:  # noqa: BLE001 # without an answer the deployment would wait for an hour
            logger.exception("the request failed")
            before = event.get("PhysicalResourceId", NOT_APPLIED)
            answer = CustomResourceAnswer(
                False, before, f"{type(error).__name__}; the function's log tells more"
            )
        changes = answer.outcome.effective
        logger.info(
            "answering CloudFormation",
            extra={
                "succeeded": answer.succeeded,
                "reason": answer.reason,
                "changes": [
                    f"{change.kind}/{change.name} {change.change}" for change in changes
                ],
                "problems": [str(problem) for problem in answer.outcome.problems],
                "repeated": list(answer.repeated),
            },
        )
        respond(
            event,
            succeeded=answer.succeeded,
            physical_id=answer.physical_id,
            reason=answer.reason,
            data={"Changed": str(len(changes))},
        )

    return wrapped
