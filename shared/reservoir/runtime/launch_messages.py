"""Messages to the launch function: batches, and classes to try in a dry run, with the results of the dry runs."""

from reservoir.core.model.node_class import ValidationOutcome
from reservoir.core.serialisation.json_codec import loads
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import ClassToValidate, LaunchBatch
from reservoir.ports.state import ConflictError, UnreadableRowsError
from reservoir.runtime.observability import count, logger
from reservoir.usecases.launching.validate_class import ValidateClass


def batch_in(body: str) -> LaunchBatch | None:
    """Read a message; None when it is none of this release's."""
    try:
        batch = loads(LaunchBatch, body)
    except (ValueError, RecursionError):
        return None
    are_words = all(
        isinstance(word, str)
        for word in (batch.batch_id, *batch.claim_ids, *batch.correlation_ids)
    )
    are_counts = isinstance(batch.retry_count, int) and isinstance(
        batch.throttle_count, int
    )
    return batch if are_words and are_counts else None


def class_in(body: str) -> str | None:
    """Return the name of the class that shall be tried; None when the message is about something else."""
    try:
        name = loads(ClassToValidate, body).node_class_name
    except (ValueError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def validate(validating: ValidateClass, name: str) -> None:
    """Try a class. What fails is tried again by discovery, so that no dry run ever holds up a launch."""
    try:
        found = validating.run(name)
    except (AwsError, ConflictError, UnreadableRowsError) as error:
        logger.warning(
            "class not validated", extra={"node_class": name, "error": str(error)}
        )
        return
    if found is None:
        return
    said = {
        "outcome": found.outcome,
        "reason": found.reason,
        "validation_message": found.message,
    }
    logger.info("class validated", extra={"node_class": name, **said})
    count("LaunchesRefused", int(found.outcome is ValidationOutcome.REFUSED))
