"""The outbound bus."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import pause_with_jitter
from reservoir.names import EVENT_SOURCE
from reservoir.ports.errors import TransientError
from reservoir.ports.messaging import OutboundEvent

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

_ENTRIES_MAX: Final = 10  # of one PutEvents
# all entries together; AWS took 256 KB for years and 1 MB now
_REQUEST_BYTES_MAX: Final = 200_000
_ATTEMPTS_MAX: Final = 4
_TEXT: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


class EventBridgePublisher:
    """Implements ``reservoir.ports.messaging.EventPublisher``."""

    def __init__(
        self, client: "EventBridgeClient", bus: str, parts: Executor | None = None
    ) -> None:
        """``parts`` runs the requests of one publication side by side (None: in turn); EventBridge keeps no order."""
        self._client = client
        self._bus = bus
        self._parts = parts

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        """Publish all events; raises when any was not accepted in a few attempts."""
        requests = list(_packed([self._entry(event) for event in events]))
        several = map if self._parts is None or len(requests) < 2 else self._parts.map
        put_events = self._client.put_events  # a lazy client is made here, by one thread
        for _ in several(lambda entries: _put(put_events, entries), requests):
            pass

    def _entry(self, event: OutboundEvent) -> dict[str, Any]:
        return {
            "Source": EVENT_SOURCE,
            "DetailType": event.detail_type,
            "Detail": _TEXT.encode(event.detail()),
            "EventBusName": self._bus,
        }


def _put(put_events: Callable[..., Any], entries: list[dict[str, Any]]) -> None:
    pending = entries
    for attempt in range(_ATTEMPTS_MAX):
        with map_client_errors():
            answer = put_events(Entries=pending)
        if not answer["FailedEntryCount"]:
            return
        # PutEvents accepts some entries and refuses others; answers stand in the order of the entries.
        pending = [
            entry
            for entry, result in zip(pending, answer["Entries"], strict=True)
            if result.get("ErrorCode")
        ]
        pause_with_jitter(attempt)
    raise TransientError("FailedEntries", "PutEvents")


def _packed(entries: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Cut the entries into requests that AWS accepts."""
    packed: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        entry_size = len(entry["Detail"].encode()) + 500  # the envelope
        if packed and (
            len(packed) == _ENTRIES_MAX or size + entry_size > _REQUEST_BYTES_MAX
        ):
            yield packed
            packed, size = [], 0
        packed.append(entry)
        size += entry_size
    if packed:
        yield packed
