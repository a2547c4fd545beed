"""Conversations of a client with a deployment, written down for the clients of all languages.

``python -m tests.client.transcript`` has the Python client speak to the real intake in memory, and writes what went to
and fro into ``transcript.json``. Whoever plays it needs an outbox that compares what is sent with the next entry of
``sent`` and delivers its facts, and a queue as SQS's with a clock of its own.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from lab.fakes.manifests import workload_manifest
from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.client import Client
from reservoir.client.errors import ClientError
from reservoir.client.notices import key_of
from reservoir.client.transport import Inbox, Outbox
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Team, by_namespace
from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.event_parts import Event, PlacedWorkload
from reservoir.manifests.events import NodeDraining, NodeTerminated
from reservoir.usecases.demand.authorise_demand import DemandRules
from tests.client.values import KEY, draining
from tests.client.world import Deployment, EventsQueue

TRANSCRIPT: Final = Path(__file__).with_name("transcript.json")


class HandlerError(Exception):
    """The handler of a drain has failed."""


@dataclass
class TellingQueue(EventsQueue):
    """Notes which facts are delivered."""

    told: list[Any] = field(default_factory=list)

    def put(
        self, detail_type: str, detail: Mapping[str, Any], *, event_id: str | None = None
    ) -> str:
        identity = super().put(detail_type, detail, event_id=event_id)
        self.told.append(json.loads(self.messages[-1].body))
        return identity

    def take_told(self) -> list[Any]:
        """Return what was delivered since somebody last asked."""
        told, self.told = self.told, []
        return told


class RecordedDeployment(Deployment):
    """Notes what is sent, and which facts come of it."""

    def __init__(self, *, nodes_in_a_part: int) -> None:
        super().__init__(nodes_in_a_part=nodes_in_a_part)
        self.queue = self.events = TellingQueue()
        self.entries: list[dict[str, Any]] = []
        self.last_part_first = False

    def send(self, message: Mapping[str, Any]) -> str:
        message_id = super().send(message)
        self.entries.append(
            {
                "message": json.loads(json.dumps(message)),
                "facts": self.queue.take_told(),
            }
        )
        return message_id

    def deliver(self) -> None:
        if self.last_part_first:
            self.bus.events.reverse()
        super().deliver()


def client_of(
    outbox: Outbox, inbox: Inbox | None, queue: EventsQueue, questions: Iterator[int]
) -> Client:
    """Return a client of a new process, whose time is the queue's."""
    return Client(
        outbox,
        inbox,
        monotonic=lambda: queue.now_s,
        jitter=lambda _, longest: longest,
        new_id=lambda: f"q-{next(questions)}",
    )


def perform(client: Client, step: Mapping[str, Any]) -> dict[str, Any]:
    """Make the call of a step; return what it gives, or the error with which it fails."""
    told: list[Any] = []
    try:
        gives = _call(client, step, told)
    except (ClientError, HandlerError) as error:
        unsaid = [text for text in step.get("says", ()) if text not in str(error)]
        if unsaid:
            raise AssertionError(f"{unsaid} is not said") from error
        outcome: dict[str, Any] = {"fails": type(error).__name__.removesuffix("Error")}
    else:
        outcome = {} if gives is None else {"gives": gives}
    return outcome | ({"handled": told} if step["call"] == "onDraining" else {})


def _call(client: Client, step: Mapping[str, Any], handled: list[Any]) -> Any:
    """Make one of the calls; what ``onDraining`` hands over is added to ``handled``."""
    key, name = step.get("key", ""), step["call"]
    timeout_s = step.get("timeoutS", 120)
    if name == "submit":
        sent = client.submit(step["workload"], timeout_s=timeout_s)
        return {
            "key": sent.key,
            "generation": sent.generation,
            "isStored": sent.is_stored,
        }
    if name == "withdraw":
        return client.withdraw(key, timeout_s=timeout_s)
    if name == "release":
        return client.release(key, step["nodeClaim"], step.get("replicas"))
    if name == "status":
        return summary(client.status(key, timeout_s=timeout_s))
    if name == "waitPlaced":
        launched = step.get("launched", False)
        return summary(client.wait_placed(key, launched=launched, timeout_s=timeout_s))
    if name == "events":
        facts = client.events(idle_s=step["idleS"])
        return [fact.event.detail_type for fact in islice(facts, step.get("most"))]
    if name == "onDraining":

        def handle(notice: NodeDraining) -> None:
            handled.append([notice.drain_id, *map(key_of, notice.workloads)])
            if step.get("handlerFails"):
                raise HandlerError("the disk is full")

        return client.on_draining(handle, *step["whose"], idle_s=step["idleS"])
    raise ValueError(name)


def summary(known: WorkloadDescribed) -> dict[str, Any]:
    """Return of an answer what every client must say of it."""
    return {
        "generation": known.workload.generation,
        "withdrawn": known.withdrawn,
        "wanted": known.wanted,
        "placed": known.placed,
        "finished": known.finished,
        "nodes": [node.node_claim for node in known.nodes],
    }


class Recording:
    """One conversation: steps in order, and what was sent meanwhile."""

    def __init__(
        self, name: str, *, listens: bool = True, nodes_in_a_part: int = 200
    ) -> None:
        self.name = name
        self.listens = listens
        self.world = RecordedDeployment(nodes_in_a_part=nodes_in_a_part)
        self.steps: list[dict[str, Any]] = []
        self._questions = count(1)
        self._client = self._new_client()

    def call(self, name: str, **arguments: Any) -> None:
        """Have the client make a call, and note what comes of it."""
        step = {"call": name, **arguments}
        self.steps.append(step | perform(self._client, step))

    def restart(self) -> None:
        """Go on with a client that remembers nothing."""
        self._client = self._new_client()
        self.steps.append({"restart": True})

    def happens(self, *events: Event) -> None:
        """Let something happen, of which the client hears by its queue."""
        for event in events:
            self.world.publish(event)
        self.note_delivered()

    def note_delivered(self) -> None:
        """Note what came into the queue by itself."""
        self.steps.append({"deliver": self.world.queue.take_told()})

    def written(self) -> dict[str, Any]:
        """Return the conversation as it is written down."""
        return {
            "name": self.name,
            "listens": self.listens,
            "steps": self.steps,
            "sent": self.world.entries,
            "left": len(self.world.queue.messages),
        }

    def _new_client(self) -> Client:
        queue = self.world.queue
        inbox = queue if self.listens else None
        return client_of(self.world, inbox, queue, self._questions)


def wanted(replicas: int = 2, generation: int | None = None) -> dict[str, Any]:
    """Return a workload as a user would write it."""
    return workload_manifest(KEY, replicas, {"cpu": "4"}, generation=generation)


def place(world: Deployment, replicas: int, state: ClaimState = ClaimState.RUNNING) -> None:
    """Put replicas on a node each."""
    rows = world.state.workload_rows
    rows[KEY] = replace(rows[KEY], placed_count=replicas)
    for number in range(replicas):
        claim = node_claim(
            f"nc-{number}", placements=(PlacedReplicas(KEY, 1),), state=state
        )
        world.state.claim_rows[claim.id] = claim


def _submits(it: Recording) -> None:
    it.call("submit", workload=wanted(2))
    it.restart()
    it.call("submit", workload=wanted(2))
    it.call("submit", workload=wanted(3))
    it.call("withdraw", key=KEY)
    it.call("withdraw", key=KEY)
    it.call("submit", workload=wanted(3))
    it.call("status", key=KEY)
    it.call("submit", workload=wanted(3, generation=40))


def _lost_answers(it: Recording) -> None:
    it.world.lost = ["Workload Described", "Workload Accepted"]
    it.call("submit", workload=wanted())
    it.world.lost = ["Workload Accepted", "Workload Described"]
    it.call("submit", workload=wanted(5))
    it.world.lost = ["Workload Described"]
    it.call("withdraw", key=KEY)


def _doubled_answers(it: Recording) -> None:
    it.world.doubled = {"Workload Described", "Workload Accepted"}
    it.call("submit", workload=wanted(2))
    it.call("submit", workload=wanted(3))
    it.call("events", idleS=200)


def _overtaken(it: Recording) -> None:
    it.call("submit", workload=wanted(5, generation=7))
    it.world.sender = "AROAEXAMPLE:bob"
    it.restart()
    by = ["generation 7 was sent by AROAEXAMPLE:us"]
    it.call("submit", workload=wanted(9, generation=6), says=by)
    it.call("submit", workload=wanted(9, generation=7), says=["with other content"])


def _refused(it: Recording) -> None:
    asks = wanted()
    asks["spec"]["nodeSelector"] = {"karpenter.sh/nodepool": "nobodys"}
    it.call("submit", workload=asks, says=["is not a NodePool"])


def _not_allowed(it: Recording) -> None:
    team = Team("theirs", ("research",), ("arn:theirs",))
    it.world.rules = DemandRules(frozenset(), by_namespace([team]))
    it.call("submit", workload=wanted())
    it.call("status", key=KEY)
    it.call("withdraw", key=KEY)


def _unanswered(it: Recording) -> None:
    it.world.lost = ["Workload Described"] * 99
    says = ["subscription of its namespace"]
    it.call("submit", workload=wanted(), timeoutS=60, says=says)
    it.call("status", key=KEY, timeoutS=5)


def _without_subscription(it: Recording) -> None:
    it.call("submit", workload=wanted(generation=1))
    it.call("release", key=KEY, nodeClaim="nc-1")
    it.call("release", key=KEY, nodeClaim="nc-1", replicas=2)
    it.call("submit", workload=wanted())
    it.call("status", key=KEY)
    it.call("withdraw", key=KEY)
    it.call("waitPlaced", key=KEY)
    it.call("events", idleS=5)
    it.call("onDraining", whose=["research"], idleS=5)


def _waits(it: Recording) -> None:
    it.call("waitPlaced", key=KEY, says=[f"nobody wants {KEY}"])
    it.call("submit", workload=wanted(2))
    full = UnplacedReplicas(KEY, 2, ReasonCode.RESERVATION_FULL, "cr-1 has no free unit")
    rows = it.world.state.workload_rows
    rows[KEY] = replace(rows[KEY], unplaced=(full,))
    it.call("waitPlaced", key=KEY, timeoutS=30, says=["2 because cr-1 has no free unit"])
    rows[KEY] = replace(rows[KEY], unplaced=())
    place(it.world, 2, ClaimState.LAUNCHING)
    it.call("waitPlaced", key=KEY)
    it.call("waitPlaced", key=KEY, launched=True, timeoutS=30)
    place(it.world, 2)
    it.call("waitPlaced", key=KEY, launched=True)
    rows[KEY] = replace(rows[KEY], placed_count=1, finished_count=1)
    it.world.state.claim_rows.pop("nc-1")
    it.call("waitPlaced", key=KEY, launched=True)


def _parts(it: Recording) -> None:
    it.call("submit", workload=wanted(5))
    place(it.world, 5)
    it.world.last_part_first = True
    it.world.doubled = {"Workload Described"}
    it.call("status", key=KEY)
    it.call("waitPlaced", key=KEY)


def _drained(it: Recording) -> None:
    it.happens(*[draining("d-1", "nc-1")] * 3)
    it.call("onDraining", whose=["research"], idleS=5)
    it.happens(draining("d-1", "nc-1"))
    it.call("onDraining", whose=["research"], idleS=5)
    it.happens(draining("d-1", "nc-1", "train", "late"))
    it.call("onDraining", whose=["research"], idleS=5)


def _shared_node(it: Recording) -> None:
    notice = draining("d-1", "nc-1", "train")
    theirs = PlacedWorkload(namespace="others", name="web", replicas=1)
    it.happens(notice.model_copy(update={"workloads": [*notice.workloads, theirs]}))
    it.call("onDraining", whose=["research"], idleS=5)


def _failing_handler(it: Recording) -> None:
    it.happens(draining("d-1", "nc-1"))
    it.call("onDraining", whose=["research"], idleS=5, handlerFails=True)
    it.restart()
    it.call("onDraining", whose=["research"], idleS=200)


def _early_notice(it: Recording) -> None:
    it.happens(draining("d-1", "nc-1"))
    it.call("submit", workload=wanted())
    it.call("onDraining", whose=["research"], idleS=5)


def _lost_notice(it: Recording) -> None:
    it.call("submit", workload=wanted(1))
    drain = Drain("d-9", DrainReason.EXPIRED, START, START, (PlacedReplicas(KEY, 1),))
    claim = node_claim("nc-9", placements=(), state=ClaimState.DRAINING, drain=drain)
    it.world.state.claim_rows[claim.id] = claim
    it.call("onDraining", whose=[KEY], idleS=5)


def _dealt_with(it: Recording) -> None:
    it.happens(draining("d-1", "nc-1"), draining("d-2", "nc-2"))
    it.call("events", idleS=5, most=2)
    it.restart()
    it.call("events", idleS=200)
    gone = NodeTerminated(node=draining().node, reason="Expired", terminated_at=START)
    it.happens(gone, gone)
    it.call("events", idleS=200)


def _no_facts(it: Recording) -> None:
    it.world.events.put("Node Draining", {"drainId": 3})
    it.world.events.put("Nobody Knows", {})
    it.note_delivered()
    it.call("events", idleS=5)


_Told = Callable[[Recording], None]
_CONVERSATIONS: Final[Mapping[str, _Told]] = {
    "The same content keeps its generation, other content gets the next": _submits,
    "An answer that is lost is asked for again": _lost_answers,
    "Answers that come twice are dealt with once": _doubled_answers,
    "Whoever is overtaken hears by whom": _overtaken,
    "What is refused is an error with its problems": _refused,
    "Whoever may not act for a namespace is told so at once": _not_allowed,
    "That nobody answers is an error": _unanswered,
    "Waiting ends with the last place, or says why not": _waits,
    "An answer of many parts is put together in any order": _parts,
    "A drain is handled once and then released": _drained,
    "What others run on a shared node is not released": _shared_node,
    "A handler that fails has released nothing": _failing_handler,
    "A notice that came before anybody asked for notices waits": _early_notice,
    "A drain whose notice was lost is found by asking": _lost_notice,
    "A fact counts as dealt with when the next is asked for": _dealt_with,
    "What is no fact is thrown away": _no_facts,
}


def recorded() -> str:
    """Return the transcript as it would be written now."""
    conversations = []
    for name, tell in _CONVERSATIONS.items():
        recording = Recording(name, nodes_in_a_part=2)
        tell(recording)
        conversations.append(recording.written())
    alone = Recording("Without a subscription there are no answers", listens=False)
    _without_subscription(alone)
    conversations.append(alone.written())
    return json.dumps({"conversations": conversations}, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    TRANSCRIPT.write_text(recorded(), encoding="utf-8")
