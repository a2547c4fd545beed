"""The client: what a workload system sends to Reservoir, and what it receives."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from reservoir.client.conversation import Conversation, conflict, stored
from reservoir.client.errors import NotSubscribedError, UnansweredError, WithdrawnError
from reservoir.client.facts import Fact
from reservoir.client.listener import Listener
from reservoir.client.notices import Handled, drains_of, key_of, ours
from reservoir.client.transport import (
    Inbox,
    MakeClient,
    Outbox,
    SqsInbox,
    SqsOutbox,
    default_clients,
)
from reservoir.core.model.node_claim import AWAITING_LAUNCH
from reservoir.core.serialisation.generation import next_generation
from reservoir.manifests import outgoing
from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.events import NodeDraining, WorkloadAccepted
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.parsing.message import validated

ANSWERED_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Submitted:
    """A message that was sent. ``is_stored``: Reservoir has confirmed it; otherwise it was not asked."""

    key: str
    generation: int
    is_stored: bool


class Client:
    """Speaks to one deployment; any number of threads may use one. ``connect`` makes it.

    Parameters
    ----------
    outbox, inbox
        The demand queue, and a subscription's; without the latter nothing can be done that needs an answer.
    monotonic, jitter, new_id
        Seconds that never go back, a number between two, and names of questions.
    """

    def __init__(
        self,
        outbox: Outbox,
        inbox: Inbox | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[float, float], float] = random.uniform,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._outbox = outbox
        self._monotonic = monotonic
        self._handled = Handled()
        self._heard: Conversation | None = None
        if inbox is not None:
            self._heard = Conversation(
                outbox, Listener(inbox, monotonic), monotonic, jitter, new_id
            )

    @classmethod
    def connect(
        cls,
        demand_queue_url: str,
        events_queue_url: str | None = None,
        *,
        make_client: MakeClient | None = None,
    ) -> Self:
        """Connect to a demand queue, and to the queue of a subscription if answers are wanted.

        ``make_client`` gives a client of a service, such as ``boto3.Session(profile_name="ci").client``; by default
        credentials, region and endpoint are found as every AWS tool finds them.
        """
        sqs = (make_client or default_clients())("sqs")
        inbox = None if events_queue_url is None else SqsInbox(sqs, events_queue_url)
        return cls(SqsOutbox(sqs, demand_queue_url), inbox)

    def submit(
        self, workload: Mapping[str, Any], *, timeout_s: float = ANSWERED_WITHIN_S
    ) -> Submitted:
        """Submit a workload: new, changed or once more; return when it is stored.

        Without ``metadata.generation`` the generation follows from the content: stored content keeps its number, other
        content gets the next. A client without a subscription sends workloads with a generation, and returns.

        Raises
        ------
        ManifestError
            It is no workload; nothing was sent.
        GenerationConflictError
            Another sender wrote it meanwhile; the error says who.
        RejectedError
            Reservoir refuses it.
        UnansweredError
            No answer came within ``timeout_s``.
        """
        manifest = validated(WorkloadManifest, workload)
        key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
        is_given = "generation" in workload["metadata"]
        if self._heard is None and is_given:
            self._outbox.send(outgoing.submit(manifest, manifest.metadata.generation))
            return Submitted(key, manifest.metadata.generation, is_stored=False)
        heard = self._hearing("submit without a generation")
        until = self._monotonic() + timeout_s
        if not is_given:
            known = heard.ask(key, until, manifest)
            generation = next_generation(stored(known, manifest), manifest.to_core())
            metadata = manifest.metadata.model_copy(update={"generation": generation})
            manifest = manifest.model_copy(update={"metadata": metadata})
        heard.store(manifest, until)
        return Submitted(key, manifest.metadata.generation, is_stored=True)

    def withdraw(self, key: str, *, timeout_s: float = ANSWERED_WITHIN_S) -> None:
        """Withdraw a workload (``namespace/name``) as it is stored now; return when this is done.

        Its nodes get their notices. A workload that is withdrawn already stays as it is.

        Raises
        ------
        GenerationConflictError
            Another sender submitted it again meanwhile; the error says who.
        UnansweredError
            No answer came within ``timeout_s``.
        """
        heard = self._hearing("withdraw")
        until = self._monotonic() + timeout_s
        generation = None
        for _ in heard.attempts(until):
            known = heard.ask(key, until)
            if known.workload.generation is None or known.withdrawn:
                return
            generation = generation or known.workload.generation
            if known.workload.generation != generation:
                raise conflict(key, generation, known)
            self._outbox.send(outgoing.withdraw(key, generation))
        raise UnansweredError(f"{key} was not withdrawn in time")

    def release(self, key: str, node_claim: str, replicas: int | None = None) -> None:
        """Say that replicas (by default all of the workload) have left a draining node; a repeat changes nothing."""
        self._outbox.send(outgoing.release(key, node_claim, replicas))

    def status(
        self, key: str, *, timeout_s: float = ANSWERED_WITHIN_S
    ) -> WorkloadDescribed:
        """Ask for the status of a workload: generation, sender, why replicas wait, nodes and their drains.

        Also use this after a time in which facts may have been missed.

        Raises
        ------
        UnansweredError
            No answer came within ``timeout_s``.
        """
        return self._hearing("status").ask(key, self._monotonic() + timeout_s)

    def wait_placed(
        self,
        key: str,
        *,
        launched: bool = False,
        timeout_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> WorkloadDescribed:
        """Wait until every replica of a workload has a place (``launched``: on an instance); return its status then.

        A replica that is handed over has an instance only once the replica that it follows has left its own. The method
        does not rely on facts: they make it ask sooner, and it asks anyway, ever more seldom.

        Raises
        ------
        UnansweredError
            Not within ``timeout_s`` (None: wait for ever), or not before ``stop``; the error says why replicas wait.
        WithdrawnError
            The workload is not wanted.
        """
        heard = self._hearing("wait_placed")
        until = float("inf") if timeout_s is None else self._monotonic() + timeout_s

        def concerns(fact: Fact) -> bool:
            return key in fact.workload_keys and not isinstance(
                fact.event, WorkloadDescribed | WorkloadAccepted
            )

        with heard.listener.stream(concerns, takes=False, stop=stop) as stream:
            known: WorkloadDescribed | None = None
            for pause_s in heard.attempts(until):
                if stream.is_stopped:
                    break
                stream.waiting.clear()
                known = heard.ask(key, self._monotonic() + ANSWERED_WITHIN_S)
                if known.workload.generation is None or known.withdrawn:
                    raise WithdrawnError(f"nobody wants {key}")
                if _is_placed(known, launched=launched):
                    return known
                heard.listener.next(stream, min(pause_s, until - self._monotonic()))
        waiting = (
            []
            if known is None
            else [f"{it.replicas} because {it.message}" for it in known.waiting]
        )
        raise UnansweredError(
            f"{key} has no place yet: {'; '.join(waiting) or 'no plan has looked at it'}"
        )

    def events(
        self, *, idle_s: float | None = None, stop: threading.Event | None = None
    ) -> Generator[Fact, None, None]:
        """Yield the facts of the subscription, repeats left out; end when none comes for ``idle_s`` (None: never).

        Once ``stop`` is set, it ends with the current reading, in 20 s at most. A fact counts as handled when the next
        one is asked for: the fact that a process had when it died comes again.
        """
        listener = self._hearing("events").listener
        with listener.stream(lambda _: True, takes=True, stop=stop) as stream:
            while (fact := listener.next(stream, idle_s)) is not None:
                yield fact
                listener.done(stream, fact)

    def on_draining(
        self,
        handle: Callable[[NodeDraining], None],
        *whose: str,
        idle_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Call ``handle`` once for each drain of ``whose``; when it returns, those replicas are released.

        ``whose`` names namespaces, or single workloads (``namespace/name``). The status of the latter is read first, so
        that drains whose notice was missed are handled too. If ``handle`` raises, nothing is released, and the drain is
        handled again by the next call, in whichever process. The call returns when no notice comes for ``idle_s``
        (None: never), or as ``events`` does once ``stop`` is set.
        """
        heard = self._hearing("on_draining")
        with heard.listener.stream(
            lambda it: isinstance(it.event, NodeDraining), takes=True, stop=stop
        ) as stream:
            for key in whose:
                if "/" in key:
                    for notice in drains_of(self.status(key)):
                        self._handle(notice, handle)
            while (fact := heard.listener.next(stream, idle_s)) is not None:
                if isinstance(fact.event, NodeDraining):
                    self._handle(ours(fact.event, whose), handle)
                heard.listener.done(stream, fact)

    def _handle(self, notice: NodeDraining, handle: Callable[[NodeDraining], None]) -> None:
        news = self._handled.news(notice)
        if not news.workloads:
            return
        handle(news)
        for workload in news.workloads:
            self.release(key_of(workload), news.node.node_claim)
        self._handled.add(news)

    def _hearing(self, call: str) -> Conversation:
        if self._heard is None:
            raise NotSubscribedError(call)
        return self._heard


def _is_placed(known: WorkloadDescribed, *, launched: bool) -> bool:
    """Whether every replica that has not finished has its place, and the status lists all of its nodes.

    With ``launched``, a replica that must not start before another has left its node has no place yet.
    """
    counted = [
        node for node in known.nodes if not (launched and node.state in AWAITING_LAUNCH)
    ]
    unfinished = known.wanted - known.finished
    told = sum(node.replicas + (0 if launched else node.held) for node in counted)
    return known.placed >= unfinished <= told
