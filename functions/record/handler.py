"""History queue -> History, Accounts. What Reservoir told the world is kept, and every few minutes what there is."""

import json
from typing import Any

from reservoir.core.history.measures import lines
from reservoir.core.history.past_event import EventError
from reservoir.core.history.summary import subject, summary
from reservoir.runtime.batch import QueueMessage, each_message, together
from reservoir.runtime.composition.record import (
    keep_accounts,
    keep_events,
    publish_team_shares,
    publishes_metrics,
    push_figures,
    take_sample,
)
from reservoir.runtime.measuring import log_line, push
from reservoir.runtime.observability import about, count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Keep a batch of events, and take a sample for the schedule's; return the ids of messages to deliver again."""
    nodes: dict[str, tuple[str, ...]] = {}

    def take(message: QueueMessage) -> None:
        try:
            told = json.loads(message.body)
            if isinstance(told, dict) and told.get("source") == "aws.events":
                _sample()
                return
            kept = keep_events().keep(told)
        except (EventError, json.JSONDecodeError) as error:
            # Only the rule's own events come here; what is none of them would be none the next time either.
            logger.warning(
                "event cannot be read",
                extra={"message_id": message.id, "error": str(error)},
            )
            count("EventsUnreadable")
            return
        about(kept.correlation_ids())
        nodes[message.id] = kept.nodes()
        more = {
            "event_id": kept.id,
            "type": kept.detail_type,
            "object": subject(kept),
            "what": summary(kept),
        }
        logger.info("told", extra=more)

    failures = each_message(event, take)["batchItemFailures"]
    return {"batchItemFailures": [*failures, *together(nodes, keep_accounts().note)]}


def _sample() -> None:
    keep_accounts().sweep()
    publish_team_shares().publish()
    there = take_sample().take()
    for line in lines(there):
        log_line(line, publish=publishes_metrics())
    push(there, push_figures())
