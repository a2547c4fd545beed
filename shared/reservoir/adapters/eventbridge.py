"""The outbound bus, and the queue that keeps what the bus refuses."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.dynamodb.table import pause_with_jitter
from reservoir.names import EVENT_SOURCE
from reservoir.ports.errors import AwsError, TransientError
from reservoir.ports.messaging import OutboundEvent

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_sqs import SQSClient

_ENTRIES_MAX: Final = 10  # of one PutEvents
# all entries together; AWS took 256 KB for years and 1 MB now
_REQUEST_BYTES_MAX: Final = 200_000
_ATTEMPTS_MAX: Final = 4
_MESSAGES_MAX: Final = 10  # of one ReceiveMessage
# In one go: a bus that was away for an hour is caught up with in a few, and no run exceeds its function's time.
_RECEIPTS_MAX: Final = 50
# For longer than a run may take, so that no two runs publish the same message.
_HIDDEN_S: Final = 240
_Entries = list[dict[str, Any]]
_PutEvents = Callable[..., Any]
_PutsEntries = Callable[[_PutEvents, _Entries], None]
_TEXT: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


class EventBridgePublisher:
    """Implements ``reservoir.ports.messaging.EventPublisher``."""

    def __init__(
        self,
        client: "EventBridgeClient",
        bus: str,
        parts: Executor | None = None,
        unpublished: "SqsUnpublishedEvents | None" = None,
    ) -> None:
        """``parts`` runs the requests of one publication side by side (None: in turn); EventBridge keeps no order.

        ``unpublished`` keeps what the bus refuses; None: a refusal is raised.
        """
        self._client = client
        self._bus = bus
        self._parts = parts
        self._unpublished = unpublished

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        """Publish all events; what the bus does not accept in a few attempts is kept, and raised if it cannot be."""
        self._put_all(events, self._put_or_keep)

    def announce(self, events: Sequence[OutboundEvent]) -> None:
        """Publish all events; raises when any was not accepted in a few attempts."""
        self._put_all(events, _put)

    def _put_all(self, events: Sequence[OutboundEvent], put: _PutsEntries) -> None:
        requests = list(_packed([self._entry(event) for event in events]))
        several = map if self._parts is None or len(requests) < 2 else self._parts.map
        put_events = self._client.put_events  # a lazy client is made here, by one thread
        for _ in several(partial(put, put_events), requests):
            pass

    def _put_or_keep(self, put_events: _PutEvents, entries: _Entries) -> None:
        try:
            _put(put_events, entries)
        except AwsError as error:
            if self._unpublished is None:
                raise
            self._unpublished.keep(entries, error)

    def _entry(self, event: OutboundEvent) -> dict[str, Any]:
        return {
            "Source": EVENT_SOURCE,
            "DetailType": event.detail_type,
            "Detail": _TEXT.encode(event.detail()),
            "EventBusName": self._bus,
        }


class SqsUnpublishedEvents:
    """Implements ``reservoir.ports.messaging.UnpublishedEvents``: a message is the entries of one request.

    No decision waits for the bus: it only publishes decisions.
    """

    def __init__(
        self,
        sqs: "SQSClient",
        url: str,
        events: "EventBridgeClient",
        on_refusal: Callable[[AwsError], None],
    ) -> None:
        """``on_refusal`` hears of each request that the bus refused when it was published first."""
        self._sqs = sqs
        self._url = url
        self._events = events
        self._on_refusal = on_refusal

    def keep(self, entries: Sequence[Mapping[str, Any]], refusal: AwsError) -> None:
        """Keep entries of a request until the bus takes them; raises AwsError when the queue refuses them too."""
        with map_client_errors():
            self._sqs.send_message(QueueUrl=self._url, MessageBody=_TEXT.encode(entries))
        self._on_refusal(refusal)

    def publish(self) -> int:
        """Publish the kept events and return how many requests they were.

        Events that the bus refuses again stay, and its refusal is raised when the others have been tried.
        """
        published, refusal = 0, None
        for _ in range(_RECEIPTS_MAX):
            with map_client_errors():
                answer = self._sqs.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=_MESSAGES_MAX,
                    VisibilityTimeout=_HIDDEN_S,
                )
            messages = answer.get("Messages", [])
            accepted = []
            for message in messages:
                try:
                    _put(self._events.put_events, json.loads(message["Body"]))
                    accepted.append(message["ReceiptHandle"])
                except AwsError as error:
                    refusal = refusal or error
            for receipt in accepted:
                with map_client_errors():
                    self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)
            published += len(accepted)
            if not accepted:
                break  # nothing is left, or the bus still takes nothing
        if refusal is not None:
            raise refusal
        return published


def _put(put_events: _PutEvents, entries: _Entries) -> None:
    pending = entries
    for attempt in range(_ATTEMPTS_MAX):
        with map_client_errors():
            answer = put_events(Entries=pending)
        if not answer["FailedEntryCount"]:
            return
        # PutEvents accepts some entries and refuses others; its answers are in the order of the entries.
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
