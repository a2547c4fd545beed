"""Reports queue -> what nodes say of their replicas. AWS says who has sent a report; the report does not."""

from typing import Any

from reservoir.manifests.parsing.problems import ManifestError
from reservoir.manifests.reports import parse_report
from reservoir.runtime.batch import QueueMessage, each_message
from reservoir.runtime.composition.follow import follow_replicas
from reservoir.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle a batch of reports; return the ids of those to deliver again."""
    follow = follow_replicas()

    def take(message: QueueMessage) -> None:
        # The id of a role's session: the role's id and, of an instance's own session, the id of the instance.
        sender = message.attributes.get("SenderId", "")
        try:
            report = parse_report(message.body)
        except ManifestError as error:
            # A node's own mistake: nobody could repair the message, and its next report says what matters.
            logger.warning(
                "report refused",
                extra={"sender": sender, "problem": str(error.problems[0])},
            )
            count("ReportsRefused")
            return
        if follow.apply(report, sender.partition(":")[2]):
            count("ReportsApplied")
        else:
            logger.warning(
                "report of replicas that are not the sender's", extra={"sender": sender}
            )
            count("ReportsOfOthers")

    return each_message(event, take)
