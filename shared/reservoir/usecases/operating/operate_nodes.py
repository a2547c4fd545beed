"""Cordon, uncordon, drain and delete nodes by hand.

Each is one write of the claim, which records who did it and why. The sweeps then continue the drain, as they do every
drain. A repeat finds the claim as wanted and changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.node_claim import (
    AWAITING_LAUNCH,
    ClaimState,
    DrainReason,
    NodeClaim,
    Operation,
    with_operation,
)
from reservoir.core.node_life.drain import is_over
from reservoir.manifests.answers.operations import OperationResult
from reservoir.ports.state import ConflictError, NodeClaimStore
from reservoir.usecases.claims.claim_moves import save_claim
from reservoir.usecases.draining.draining import Draining, DrainRequest, Moves

_INSTANCE_PREFIX: Final = "i-"
_ENDING: Final = frozenset({ClaimState.DRAINING, ClaimState.TERMINATING})


@dataclass(frozen=True, slots=True)
class OperateNodes:
    """Acts on nodes. Names are ids of NodeClaims or of instances."""

    claims: NodeClaimStore
    draining: Draining

    def claim_ids(self, names: Sequence[str]) -> list[str]:
        """Return the names, with its claim in the place of each instance that is known. Raises UnreadableRowsError."""
        instances = [name for name in names if name.startswith(_INSTANCE_PREFIX)]
        claims = self.claims.find_by_instance(instances) if instances else {}
        return [claims[name].id if name in claims else name for name in names]

    def cordon(self, names: Sequence[str], operation: Operation) -> list[OperationResult]:
        """Stop the nodes from taking new replicas; they keep those that they have. Raises UnreadableRowsError."""
        return list(
            self._each(names, lambda name, claim: self._cordon(name, claim, operation))
        )

    def uncordon(self, names: Sequence[str], operation: Operation) -> list[OperationResult]:
        """Let the nodes take replicas again. Raises UnreadableRowsError."""
        return list(
            self._each(names, lambda name, claim: self._uncordon(name, claim, operation))
        )

    def drain(
        self,
        names: Sequence[str],
        operation: Operation,
        ends_after: timedelta | None = None,
    ) -> list[OperationResult]:
        """Begin to drain the nodes, or move the deadlines of drains forward; None: the usual grace.

        The safety envelope is asked for all of them together: it lets all go or none. Raises UnreadableRowsError.
        """
        found = {name: self.find(name) for name in names}
        claims = {
            claim.id: claim
            for claim in found.values()
            if claim is not None and _why_not(claim) is None
        }
        deadline = None if ends_after is None else operation.at + ends_after
        requests = [
            DrainRequest(claims[key], DrainReason.REQUESTED, deadline, operation)
            for key in sorted(claims)
        ]
        moves = self.draining.begin_drains(requests) if requests else Moves()
        now = self.draining.clock.now()
        return [_drained(name, claim, moves, now) for name, claim in found.items()]

    def _each(
        self, names: Sequence[str], act: Callable[[str, NodeClaim], OperationResult]
    ) -> Iterator[OperationResult]:
        for name in dict.fromkeys(names):
            claim = self.find(name)
            if claim is None:
                yield _refused(name, "it does not exist")
                continue
            try:
                yield act(name, claim)
            except ConflictError:
                yield _refused(name, "it changes too fast; repeat the command")

    def find(self, name: str) -> NodeClaim | None:
        """Return a node by the id of its NodeClaim or instance. Raises UnreadableRowsError."""
        if not name.startswith(_INSTANCE_PREFIX):
            return self.claims.get(name)
        return self.claims.find_by_instance([name]).get(name)

    def _cordon(self, name: str, claim: NodeClaim, operation: Operation) -> OperationResult:
        def cordoned(current: NodeClaim) -> NodeClaim | None:
            if current.cordoned or not current.is_live or current.state in _ENDING:
                return None
            return replace(
                current,
                cordoned=True,
                operations=with_operation(current.operations, operation),
            )

        after = save_claim(self.claims, claim, cordoned)
        if after is not None:
            return _done(name, "cordoned; takes no new replicas")
        return _unchanged_or_gone(name, self.claims.get(claim.id), "already cordoned")

    def _uncordon(
        self, name: str, claim: NodeClaim, operation: Operation
    ) -> OperationResult:
        def uncordoned(current: NodeClaim) -> NodeClaim | None:
            if not current.cordoned or not current.is_live or current.state in _ENDING:
                return None
            return replace(
                current,
                cordoned=False,
                operations=with_operation(current.operations, operation),
            )

        after = save_claim(self.claims, claim, uncordoned)
        if after is not None:
            return _done(name, "uncordoned; takes new replicas again")
        return _unchanged_or_gone(name, self.claims.get(claim.id), "not cordoned")


def _why_not(claim: NodeClaim) -> str | None:
    """Say why a node cannot be drained, or None."""
    if not claim.is_live:
        return "it has ended"
    if claim.state in AWAITING_LAUNCH:
        return "it is not launched yet; cordon it, or withdraw its workload"
    return None


def _drained(
    name: str, claim: NodeClaim | None, moves: Moves, now: datetime
) -> OperationResult:
    """Return the result of the request to drain a node."""
    if claim is None:
        return _refused(name, "it does not exist")
    why_not = _why_not(claim)
    if why_not is not None:
        return _refused(name, why_not)
    if claim.id in moves.held:
        return _refused(name, f"held by the safety envelope: {moves.held[claim.id]}")
    if claim.id in moves.lost:
        return _refused(name, "it changes too fast; repeat the command")
    after = next((moved for moved in moves.moved if moved.id == claim.id), None)
    state = _state(after or claim, now)
    if after is None:
        return OperationResult(name=name, outcome="unchanged", message=state)
    code = moves.refused.get(after.instance_id or "")
    return _done(name, state if code is None else f"{state}; EC2 refuses so far: {code}")


def _state(claim: NodeClaim, now: datetime) -> str:
    if claim.drain is None or is_over(claim, now) or claim.state is ClaimState.TERMINATING:
        return "terminating"
    return f"draining until {claim.drain.deadline:%Y-%m-%d %H:%M:%S} UTC"


def _done(name: str, message: str) -> OperationResult:
    return OperationResult(name=name, outcome="done", message=message)


def _refused(name: str, message: str) -> OperationResult:
    return OperationResult(name=name, outcome="refused", message=message)


def _unchanged_or_gone(name: str, claim: NodeClaim | None, message: str) -> OperationResult:
    """Say of a node that was not written why: it is as it is wanted, or on its way out."""
    if claim is None or not claim.is_live:
        return _refused(name, "it has ended")
    if claim.state in _ENDING:
        return _refused(name, "already draining or terminating")
    return OperationResult(name=name, outcome="unchanged", message=message)
