"""Questions and their answers: one goes out by SQS, the other comes back by EventBridge, and either may be lost.

Everything is asked again until it is answered. That changes nothing twice: a question changes nothing, and a submit is
applied once by its generation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from reservoir.client.backoff import pauses_s
from reservoir.client.errors import GenerationConflictError, RejectedError, UnansweredError
from reservoir.client.facts import Fact
from reservoir.client.listener import Listener, Stream
from reservoir.client.transport import Outbox
from reservoir.core.serialisation.generation import (
    StoredGeneration,
    content_digest,
    has_become,
)
from reservoir.manifests import outgoing
from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.events import WorkloadAccepted, WorkloadIgnored, WorkloadRejected
from reservoir.manifests.kinds.workload import WorkloadManifest

_GENERATION_TAKEN: Final = "generation-taken"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Asks and hears. ``monotonic`` is in seconds; ``jitter`` picks between two bounds."""

    outbox: Outbox
    listener: Listener
    monotonic: Callable[[], float]
    jitter: Callable[[float, float], float]
    new_id: Callable[[], str]

    def ask(
        self, key: str, until: float, manifest: WorkloadManifest | None = None
    ) -> WorkloadDescribed:
        """Return the status of a workload, and whether it is stored as in ``manifest``.

        Raises UnansweredError, or RejectedError for a sender who may not read it.
        """
        asked: set[str] = set()
        sent: set[str] = set()

        def answers(fact: Fact) -> bool:
            event = fact.event
            if isinstance(event, WorkloadRejected):
                return key in fact.workload_keys
            return isinstance(event, WorkloadDescribed) and event.request_id in asked

        with self.listener.stream(answers, takes=True) as stream:
            for pause_s in self.attempts(until):
                request_id = self.new_id()
                asked.add(request_id)
                sent.add(self.outbox.send(outgoing.describe(key, request_id, manifest)))
                answer = self._put_together(stream, sent, pause_s)
                if answer is not None:
                    return answer
        raise _unanswered(key)

    def store(self, manifest: WorkloadManifest, until: float) -> None:
        """Send a workload until it is stored; raises UnansweredError, GenerationConflictError or RejectedError."""
        key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
        body = outgoing.submit(manifest, manifest.metadata.generation)
        sent: set[str] = set()

        def outcome(fact: Fact) -> bool:
            told = (WorkloadAccepted, WorkloadIgnored, WorkloadRejected)
            return key in fact.workload_keys and isinstance(fact.event, told)

        with self.listener.stream(outcome, takes=True) as stream:
            for pause_s in self.attempts(until):
                sent.add(self.outbox.send(body))
                said = self._said(stream, sent, pause_s)
                if isinstance(said, WorkloadAccepted) or self._is_stored(
                    key, manifest, said, until
                ):
                    return
        raise _unanswered(key)

    def attempts(self, until: float) -> Iterator[float]:
        """Yield how long to wait for an answer each time, as long as there is time."""
        for pause_s in pauses_s(self.jitter):
            left_s = until - self.monotonic()
            if left_s <= 0:
                return
            yield min(pause_s, left_s)

    def _put_together(
        self, stream: Stream, sent: set[str], timeout_s: float
    ) -> WorkloadDescribed | None:
        """Return the first answer whose parts are all there; None when the time is up before."""
        until = self.monotonic() + timeout_s
        parts: dict[str, dict[int, WorkloadDescribed]] = {}
        while (fact := self.listener.next(stream, until - self.monotonic())) is not None:
            self.listener.done(stream, fact)
            answer = fact.event
            if isinstance(answer, WorkloadRejected) and answer.message_id in sent:
                raise RejectedError(", ".join(sorted(fact.workload_keys)), answer.problems)
            if not isinstance(answer, WorkloadDescribed):
                continue
            known = parts.setdefault(answer.request_id, {})
            known[answer.part] = answer
            if len(known) == answer.part_count:
                nodes = list(
                    chain.from_iterable(known[number].nodes for number in sorted(known))
                )
                return answer.model_copy(
                    update={"nodes": nodes, "part": 1, "part_count": 1}
                )
        return None

    def _said(
        self, stream: Stream, sent: set[str], timeout_s: float
    ) -> WorkloadAccepted | WorkloadIgnored | WorkloadRejected | None:
        until = self.monotonic() + timeout_s
        while (fact := self.listener.next(stream, until - self.monotonic())) is not None:
            self.listener.done(stream, fact)
            event = fact.event
            if (
                isinstance(event, WorkloadAccepted | WorkloadIgnored | WorkloadRejected)
                and event.message_id in sent
            ):
                return event
        return None

    def _is_stored(
        self,
        key: str,
        manifest: WorkloadManifest,
        said: WorkloadIgnored | WorkloadRejected | None,
        until: float,
    ) -> bool:
        """Look whether the workload is stored as it was sent; the event about it may be lost."""
        if isinstance(said, WorkloadRejected):
            if any(problem.rule == _GENERATION_TAKEN for problem in said.problems):
                raise GenerationConflictError(
                    "; ".join(problem.message for problem in said.problems)
                )
            raise RejectedError(key, said.problems)
        known = self.ask(key, until, manifest)
        ours = manifest.metadata.generation
        became = has_become(stored(known, manifest), manifest.to_core(), ours)
        if became is False:
            raise conflict(key, ours, known)
        return became is True


def stored(known: WorkloadDescribed, manifest: WorkloadManifest) -> StoredGeneration | None:
    """Return what is stored, by an answer to a question with ``manifest``.

    The deployment decides about equality. An earlier release does not answer that; then digests are compared.
    """
    generation = known.workload.generation
    if generation is None:
        return None
    digest = known.content_digest
    if known.is_stored is not None:
        digest = content_digest(manifest.to_core()) if known.is_stored else None
    return StoredGeneration(generation, digest, known.withdrawn)


def conflict(
    key: str, generation: int, known: WorkloadDescribed
) -> GenerationConflictError:
    """Return the error that another sender wrote the workload, with that sender."""
    what = "withdrawn" if known.withdrawn else "sent"
    by = "" if known.sent_by is None else f" by {known.sent_by}"
    at = (
        ""
        if known.sent_at is None
        else f" at {known.sent_at.isoformat(timespec='seconds')}"
    )
    return GenerationConflictError(
        f"generation {generation} of {key} is not what is stored: generation {known.workload.generation} was"
        f" {what}{by}{at}"
    )


def _unanswered(key: str) -> UnansweredError:
    return UnansweredError(
        f"no answer came about {key} in time: is the subscription of its namespace?"
    )
