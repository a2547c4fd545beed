"""One request of an operator: an event says who asked for what, then it is done."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from reservoir.core.model.node_claim import Operation
from reservoir.manifests.answers.operations import (
    ENVELOPE_VERBS,
    POOL_VERBS,
    WORKLOAD_VERBS,
    OperationRequest,
    OperationResult,
    Verb,
)
from reservoir.manifests.events import OperationRequested
from reservoir.manifests.parsing.fields import optional_seconds
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.system import Clock, Sender
from reservoir.usecases.operating.authorise_operation import AuthoriseOperation
from reservoir.usecases.operating.lift_bounds import LiftBounds
from reservoir.usecases.operating.operate_nodes import OperateNodes
from reservoir.usecases.operating.pause_pools import PausePools
from reservoir.usecases.operating.reset_generations import ResetGenerations


@dataclass(frozen=True, slots=True)
class Operate:
    """Carries out requests."""

    authorise: AuthoriseOperation
    nodes: OperateNodes
    pools: PausePools
    generations: ResetGenerations
    bounds: LiftBounds
    publisher: EventPublisher
    clock: Clock

    def run(self, request: OperationRequest, sender: Sender) -> list[OperationResult]:
        """Do what an identified caller asks; return the result for each object.

        The event comes first: a request that dies half-way is known, and a repeat does the rest. Raises
        UnreadableRowError and AwsError.
        """
        now = self.clock.now()
        is_about_nodes = request.verb not in POOL_VERBS | WORKLOAD_VERBS | ENVELOPE_VERBS
        names = (
            self.nodes.claim_ids(request.names) if is_about_nodes else list(request.names)
        )
        operation = Operation(request.verb.value, sender.arn, request.reason, now)
        self.publisher.publish(
            [
                OperationRequested(
                    verb=request.verb.value,
                    names=names,
                    by=sender.arn,
                    reason=request.reason,
                    requested_at=now,
                    deadline=request.deadline,
                )
            ]
        )
        seconds = optional_seconds(request.deadline)
        ends_after = None if seconds is None else timedelta(seconds=seconds)
        actions: Mapping[
            Verb, Callable[[Sequence[str], Operation], list[OperationResult]]
        ] = {
            Verb.CORDON: self.nodes.cordon,
            Verb.UNCORDON: self.nodes.uncordon,
            Verb.DRAIN: lambda names, done: self.nodes.drain(names, done, ends_after),
            Verb.DELETE: lambda names, done: self.nodes.drain(names, done, timedelta()),
            Verb.PAUSE: self.pools.pause,
            Verb.RESUME: self.pools.resume,
            Verb.RESET: self.generations.reset,
            Verb.LIFT: lambda names, done: self.bounds.lift(
                names, done, request.count or 0, ends_after or timedelta()
            ),
        }
        refusals = self.authorise.refusals(request, sender)
        refused = [
            OperationResult(name=name, outcome="refused", message=why)
            for name, why in refusals.items()
        ]
        allowed = [name for name in request.names if name not in refusals]
        return [*refused, *(actions[request.verb](allowed, operation) if allowed else ())]
