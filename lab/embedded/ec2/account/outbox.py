"""Delivery of events, with the faults that EventBridge's best effort allows: late, twice, or never."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

from lab.embedded.ec2.account.agenda import Agenda
from lab.embedded.ec2.account.events import Event

FaultKind = Literal["delay", "duplicate", "drop"]


@dataclass
class EventFault:
    """What happens to the next ``count`` events whose detail-type starts with ``detail_type``."""

    kind: FaultKind
    detail_type: str = ""
    count: int = 1
    delay_s: float = 0.0


class Outbox:
    """Holds events until no lock is held, so that a receiver may call EC2 while it handles one."""

    def __init__(self, agenda: Agenda, emit: Callable[[Event], None]) -> None:
        self._agenda = agenda
        self._emit = emit
        self._ready: deque[Event] = deque()
        self._delivering = threading.Lock()
        self.faults: list[EventFault] = []

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_delivering"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _delivering=threading.Lock())

    def put(self, event: Event) -> None:
        """Queue ``event`` for delivery, applying a fault that is waiting for it."""
        fault = next(
            (
                f
                for f in self.faults
                if str(event.get("detail-type", "")).startswith(f.detail_type)
            ),
            None,
        )
        if fault is None:
            self._ready.append(event)
            return
        fault.count -= 1
        if fault.count <= 0:
            self.faults.remove(fault)
        if fault.kind == "duplicate":
            self._ready.extend((event, event))
        elif fault.kind == "delay":
            self._agenda.at(
                self._agenda.now() + timedelta(seconds=fault.delay_s),
                partial(self._ready.append, event),
            )

    def flush(self) -> None:
        """Deliver what is ready, in order; call it without holding the emulation's lock.

        One thread delivers at a time. Another one, or a receiver that calls EC2, leaves its events to that thread
        instead of waiting for it: waiting could close a circle.
        """
        while self._ready and self._delivering.acquire(blocking=False):
            try:
                self._deliver()
            finally:
                self._delivering.release()

    def _deliver(self) -> None:
        while self._ready:
            self._emit(self._ready.popleft())
