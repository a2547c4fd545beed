"""One reader of a subscription's queue for all threads of the process that wait for a fact.

A fact that several wait for is handed to each. Its message is deleted when all of them are done with it, so that facts
that a process had when it died are delivered again. A fact that no thread takes yet (a notice that comes before notices
are asked for) is kept, and its message too.
"""

import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from reservoir.client.facts import ANSWERS, Fact, parse_fact
from reservoir.client.transport import LONG_POLL_S, Delivery, Inbox

# identities of facts that were dealt with; repeats come soon or not at all
_REMEMBERED: Final = 20_000
# facts that no thread takes yet; the oldest are dropped first, and SQS delivers them again
_KEPT: Final = 5_000
# how soon another thread reads on when the reading one has what it wanted
_TURN_S: Final = 1.0

Wants = Callable[[Fact], bool]


@dataclass(eq=False)
class Stream:
    """What one waiting party sees. ``takes``: whether the fact counts as dealt with only once this party is done.

    ``stop`` is set when the party wants nothing more.
    """

    wants: Wants
    takes: bool
    stop: threading.Event | None = None
    waiting: deque[Fact] = field(default_factory=deque)

    @property
    def is_stopped(self) -> bool:
        """Whether it gets nothing more."""
        return self.stop is not None and self.stop.is_set()


@dataclass(eq=False)
class _Held:
    """A fact whose message is not deleted yet, and the threads that have it."""

    fact: Fact
    receipts: dict[str, str]  # by message id, because a repeat is a message of its own
    takers: set[Stream] = field(default_factory=set)


class Listener:
    """Reads the queue; ``monotonic`` is in seconds."""

    def __init__(self, inbox: Inbox, monotonic: Callable[[], float]) -> None:
        self._inbox = inbox
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._changed = threading.Condition()
        self._streams: list[Stream] = []
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._done: OrderedDict[str, None] = OrderedDict()

    @contextlib.contextmanager
    def stream(
        self, wants: Wants, *, takes: bool, stop: threading.Event | None = None
    ) -> Iterator[Stream]:
        """Take part from now on, beginning with the kept facts; facts that are not done with are delivered again."""
        opened = Stream(wants, takes, stop)
        with self._changed:
            self._streams.append(opened)
            if takes:
                for held in self._held.values():
                    self._offer(opened, held)
        try:
            yield opened
        finally:
            with self._changed:
                self._streams.remove(opened)
                for held in self._held.values():
                    held.takers.discard(opened)

    def next(self, stream: Stream, timeout_s: float | None) -> Fact | None:
        """Return the stream's next fact, None when there is none within ``timeout_s`` (None: for ever) or it stops."""
        until = None if timeout_s is None else self._monotonic() + timeout_s
        while not stream.is_stopped:
            with self._changed:
                if stream.waiting:
                    return stream.waiting.popleft()
            left_s = LONG_POLL_S if until is None else until - self._monotonic()
            if left_s <= 0:
                return None
            self._read_or_wait(left_s)
        return None

    def done(self, stream: Stream, fact: Fact) -> None:
        """Say that the party has dealt with a fact; when all have, its message is deleted."""
        receipts: list[str] = []
        with self._changed:
            held = self._held.get(fact.identity)
            if held is not None:
                held.takers.discard(stream)
                if not held.takers:
                    receipts = self._forget(held)
        if receipts:
            self._inbox.delete(receipts)

    def _read_or_wait(self, left_s: float) -> None:
        if not self._reading.acquire(blocking=False):
            with self._changed:
                self._changed.wait(min(left_s, _TURN_S))
            return
        try:
            # A fraction of a second counts as a whole one, so that no thread spins.
            deliveries = self._inbox.receive(max(1, int(min(left_s, LONG_POLL_S))))
            with self._changed:
                receipts = list(chain.from_iterable(map(self._take_in, deliveries)))
                self._changed.notify_all()
            if receipts:
                self._inbox.delete(receipts)
        finally:
            self._reading.release()

    def _take_in(self, delivery: Delivery) -> list[str]:
        """Hand a message to the threads that it concerns; return the receipts of messages to delete."""
        fact = parse_fact(delivery.body)
        if fact is None or fact.identity in self._done:
            return [delivery.receipt]
        held = self._held.get(fact.identity)
        if held is not None:
            held.receipts[delivery.message_id] = delivery.receipt
            return []
        held = self._held[fact.identity] = _Held(
            fact, {delivery.message_id: delivery.receipt}
        )
        for stream in self._streams:
            self._offer(stream, held)
        if isinstance(fact.event, ANSWERS) and not held.takers:
            return self._forget(held)
        self._drop_what_is_too_much()
        return []

    def _offer(self, stream: Stream, held: _Held) -> None:
        if stream.wants(held.fact):
            stream.waiting.append(held.fact)
            if stream.takes:
                held.takers.add(stream)

    def _forget(self, held: _Held) -> list[str]:
        del self._held[held.fact.identity]
        self._done[held.fact.identity] = None
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        return list(held.receipts.values())

    def _drop_what_is_too_much(self) -> None:
        while len(self._held) > _KEPT:
            idle = next(
                (identity for identity, held in self._held.items() if not held.takers), None
            )
            if idle is None:
                return
            del self._held[idle]
