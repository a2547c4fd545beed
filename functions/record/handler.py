"""History queue -> History. What Reservoir told the world is kept, by object and by time."""

import json
from typing import Any

from shared.core.history.past_event import EventError
from shared.runtime.batch import QueueMessage, each_message
from shared.runtime.composition.record import keep_events
from shared.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Keep a batch of events; return the ids of the messages to deliver again."""
    keeper = keep_events()

    def take(message: QueueMessage) -> None:
        try:
            keeper.keep(json.loads(message.body))
        except (EventError, json.JSONDecodeError) as error:
            # Only the rule's own events come here; what is none of them would be none the next time either.
            logger.warning("event cannot be read", extra={"message_id": message.id, "error": str(error)})
            count("EventsUnreadable")

    return each_message(event, take)
