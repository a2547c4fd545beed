"""A deployment in memory behind the client's two queues: the real intake, and facts as EventBridge delivers them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from lab.fakes.messaging import MemoryBus, MemoryDeadLetters, MemoryQueue
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from reservoir.client import Client
from reservoir.client.transport import Delivery
from reservoir.manifests.event_parts import Event
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.demand.describe import NODES_IN_A_PART, Describe
from reservoir.usecases.demand.intake import Intake
from reservoir.usecases.demand.reject_demand import RejectDemand

HIDDEN_S = 120.0


@dataclass
class Message:
    """A message of the subscription's queue; hidden until ``visible_at_s``."""

    id: str
    body: str
    visible_at_s: float = 0.0
    receive_count: int = 0


@dataclass
class EventsQueue:
    """Implements ``Inbox`` as SQS does: what is received is hidden for a while, and comes again unless deleted."""

    now_s: float = 0.0
    messages: list[Message] = field(default_factory=list)
    ids: "count[int]" = field(default_factory=lambda: count(1))

    def put(
        self, detail_type: str, detail: Mapping[str, Any], *, event_id: str | None = None
    ) -> str:
        """Deliver a fact; return EventBridge's id of it."""
        number = next(self.ids)
        identity = event_id or f"event-{number}"
        body = {
            "id": identity,
            "source": "reservoir",
            "detail-type": detail_type,
            "time": START.isoformat(),
            "detail": detail,
        }
        self.messages.append(Message(f"message-{number}", json.dumps(body)))
        return identity

    def receive(self, wait_s: int) -> Sequence[Delivery]:
        visible = [it for it in self.messages if it.visible_at_s <= self.now_s][:10]
        if not visible:
            self.now_s += wait_s
        for it in visible:
            it.visible_at_s = self.now_s + HIDDEN_S
            it.receive_count += 1
        return [Delivery(it.id, f"{it.id}/{it.receive_count}", it.body) for it in visible]

    def delete(self, receipts: Sequence[str]) -> None:
        gone = {receipt.partition("/")[0] for receipt in receipts}
        self.messages = [it for it in self.messages if it.id not in gone]


class Deployment:
    """Implements ``Outbox``: what is sent is applied at once, by ``sender``, and answered on the queue.

    ``lost`` holds detail-types that are lost once each, ``doubled`` those that come twice.
    """

    def __init__(self, *, nodes_in_a_part: int = NODES_IN_A_PART) -> None:
        self.state = MemoryState(ManualClock())
        self.events = EventsQueue()
        self.bus = MemoryBus()
        self.sender = "AROAEXAMPLE:us"
        self.sent: list[dict[str, Any]] = []
        self.rules = DemandRules(frozenset())
        self.releases: list[tuple[str, str]] = []
        self.lost: list[str] = []
        self.doubled: set[str] = set()
        self._describe = Describe(
            self.state.workloads, self.state.node_claims, self.bus, nodes_in_a_part
        )
        self._intake = Intake(
            self.state.workloads, self._release, MemoryQueue(), self.bus, self.state.clock
        )
        self._reject = RejectDemand(MemoryDeadLetters(), self.bus)

    def client(self, *, listens: bool = True) -> Client:
        """Return a client of its own: its memory is that of a new process."""
        questions = count(1)
        return Client(
            self,
            self.events if listens else None,
            monotonic=lambda: self.events.now_s,
            jitter=lambda _, longest: longest,
            new_id=lambda: f"{id(questions)}-{next(questions)}",
        )

    def send(self, message: Mapping[str, Any]) -> str:
        message_id = f"sent-{len(self.sent)}"
        self.sent.append(dict(message))
        try:
            asked = parse_demand(json.dumps(message))
            if isinstance(asked, DescribeMessage):
                self.rules.authorise(asked, self.sender)
                self._describe(asked)
            else:
                self._intake.publish_answers(
                    {message_id: self._intake.apply(asked, self.rules, self.sender)}
                )
        except ManifestError as error:
            self._reject.reject(message_id, json.dumps(message), error.problems)
        self.deliver()
        return message_id

    def publish(self, event: Event) -> None:
        """Let something happen."""
        self.bus.publish([event])
        self.deliver()

    def deliver(self) -> None:
        """Hand on what was published."""
        for detail_type, detail in self.bus.events:
            if detail_type in self.lost:
                self.lost.remove(detail_type)
                continue
            identity = self.events.put(detail_type, detail)
            if detail_type in self.doubled:
                self.events.put(detail_type, detail, event_id=identity)
        self.bus.events.clear()

    # One signature a verb.
    def _release(
        self,
        workload_key: str,
        claim_id: str,
        count: int | None,  # noqa: ARG002 - a port's
        now: datetime,  # noqa: ARG002 - a port's
    ) -> bool:
        self.releases.append((workload_key, claim_id))
        return True
