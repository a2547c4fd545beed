"""Launch queue -> CreateFleet. One message is one batch of equal claims, or a class to be tried by a dry run."""

from typing import Any, Final

from reservoir.runtime.batch import QueueMessage, each_message
from reservoir.runtime.composition.launch import launch, validate_class
from reservoir.runtime.launch_messages import batch_in, class_in, validate
from reservoir.runtime.observability import about, count, count_for_all, logger, observed
from reservoir.usecases.launching.launch import LaunchResult

_NAMED_MAX: Final = 50  # claims in a line of the log


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Launch each batch; return the ids of the messages to deliver again."""
    launcher = launch()

    def take(message: QueueMessage) -> None:
        node_class = class_in(message.body)
        if node_class is not None:
            validate(validate_class(), node_class)
            return
        batch = batch_in(message.body)
        if batch is None:
            # Claims that are planned and have no message get one from `collect`: nothing is lost with this one.
            logger.warning(
                "message names no batch",
                extra={"message_id": message.id, "body": message.body[:200]},
            )
            count("BatchesUnknown")
            return
        about(batch.correlation_ids)
        report = launcher.run(batch)
        logger.info(
            "batch handled",
            extra={
                "batch_id": batch.batch_id,
                "claims": len(batch.claim_ids),
                "claim_ids": batch.claim_ids[:_NAMED_MAX],
                "result": report.result,
                "attempts": report.attempt_count,
                "launched": report.launched_count,
                "failed": report.failed_count,
                "error_codes": sorted(set(report.error_codes)),
            },
        )
        count("NodesLaunched", report.launched_count)
        count("LaunchesFailed", report.failed_count)
        count("LaunchesDelayed", int(report.result is LaunchResult.DELAYED))
        count_for_all("LaunchesBlocked", report.blocked_count)
        count("QuotasReached", report.quota_count)
        count("LaunchesRefused", report.refused_count + report.quota_count)

    return each_message(event, take)
