"""Moves of claims that survive races: read, decide, write under the revision, and again when the row moved on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from reservoir.core.capacity.ledger import settled
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.ports.state import ConflictError, NodeClaimStore
from reservoir.usecases.claims.announce import by_workload

Decide = Callable[[NodeClaim], NodeClaim | None]

# A claim has few writers (planner, launch, react, sweeps); losing this often in a row means that something is wrong.
_TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class MovedClaims:
    """Claims that moved, by id and as stored, and the ids of those for which every race was lost."""

    moved: Mapping[str, NodeClaim]
    lost: tuple[str, ...] = ()

    def or_conflict(self) -> Mapping[str, NodeClaim]:
        """Return the claims that moved; raises ConflictError if any race was lost."""
        if self.lost:
            raise ConflictError(self.lost)
        return self.moved


def save_claim(
    claims: NodeClaimStore, claim: NodeClaim, decide: Decide
) -> NodeClaim | None:
    """Write the claim that ``decide`` returns for it; return None when ``decide`` does, because nothing is left to do.

    ``decide`` sees the claim as given first, and as stored after each lost race. Raises ConflictError when every race
    was lost, and UnreadableRowsError when the stored claim cannot be read.
    """
    return _moved(
        claims,
        claim,
        decide,
        lambda after, before: claims.save(after, expected_revision=before.revision),
    )


def settle_claim(
    claims: NodeClaimStore, claim: NodeClaim, decide: Decide
) -> NodeClaim | None:
    """As :func:`save_claim`, raising as it does, and the claim's lease is settled."""
    return _moved(
        claims,
        claim,
        decide,
        lambda after, before: claims.settle(after, expected_revision=before.revision),
    )


def save_claims(
    claims: NodeClaimStore, given: Sequence[NodeClaim], decide: Decide
) -> Mapping[str, NodeClaim]:
    """As :func:`save_claim` for many claims in few requests, raising as it does; return the moved claims, by id."""
    return try_to_save_claims(claims, given, decide).or_conflict()


def try_to_save_claims(
    claims: NodeClaimStore, given: Sequence[NodeClaim], decide: Decide
) -> MovedClaims:
    """As :func:`save_claims`; one that is fought over holds back no other. Raises UnreadableRowsError."""
    wanted = [after for claim in given if (after := decide(claim)) is not None]
    return _moved_many(
        claims, wanted, claims.save_many, lambda claim: save_claim(claims, claim, decide)
    )


def settle_claims(
    claims: NodeClaimStore, given: Sequence[NodeClaim], decide: Decide
) -> Mapping[str, NodeClaim]:
    """As :func:`settle_claim` for many claims in few requests, raising as it does; return the moved claims, by id."""
    wanted = [settled(after) for claim in given if (after := decide(claim)) is not None]
    moved = _moved_many(
        claims, wanted, claims.save_many, lambda claim: settle_claim(claims, claim, decide)
    )
    return moved.or_conflict()


def return_all_replicas_of(
    claims: NodeClaimStore,
    given: Sequence[NodeClaim],
    returned_at: datetime,
    decide: Decide,
) -> MovedClaims:
    """As :func:`return_all_replicas` for many claims in few requests; one that is fought over holds back no other.

    Raises UnreadableRowsError.
    """
    wanted = [after for claim in given if (after := decide(claim)) is not None]
    return _moved_many(
        claims,
        wanted,
        partial(claims.return_many, returned_at=returned_at),
        lambda claim: return_all_replicas(claims, claim, returned_at, decide),
    )


def _moved_many(
    claims: NodeClaimStore,
    wanted: Sequence[NodeClaim],
    together: Callable[[Sequence[NodeClaim]], Mapping[str, NodeClaim]],
    singly: Callable[[NodeClaim], NodeClaim | None],
) -> MovedClaims:
    """Write all at once, and then one by one those that another process moved meanwhile."""
    moved = dict(together(wanted)) if wanted else {}
    lost: list[str] = []
    for claim in wanted:
        current = None if claim.id in moved else claims.get(claim.id)
        try:
            after = None if current is None else singly(current)
        except ConflictError:
            lost.append(claim.id)
        else:
            moved |= {} if after is None else {claim.id: after}
    return MovedClaims(moved, tuple(lost))


def return_all_replicas(
    claims: NodeClaimStore, claim: NodeClaim, returned_at: datetime, decide: Decide
) -> NodeClaim | None:
    """As :func:`save_claim`; in the same transaction every replica on the claim becomes demand again.

    Raises ConflictError and UnreadableRowsError as it does.
    """
    return _moved(
        claims,
        claim,
        decide,
        lambda after, before: _returned(
            claims, after, before, before.placements, returned_at
        ),
    )


def return_some_replicas(
    claims: NodeClaimStore,
    claim: NodeClaim,
    returned_at: datetime,
    placements: Sequence[PlacedReplicas],
    decide: Decide,
) -> NodeClaim | None:
    """As :func:`return_all_replicas`, raising as it does, for some of them; ``decide`` sees that they are there."""
    return _moved(
        claims,
        claim,
        decide,
        lambda after, before: _returned(claims, after, before, placements, returned_at),
    )


def _returned(
    claims: NodeClaimStore,
    after: NodeClaim,
    before: NodeClaim,
    placements: Sequence[PlacedReplicas],
    returned_at: datetime,
) -> NodeClaim:
    return claims.return_replicas(
        after,
        expected_revision=before.revision,
        placements=by_workload(placements),
        returned_at=returned_at,
    )


def _moved(
    claims: NodeClaimStore,
    claim: NodeClaim,
    decide: Decide,
    write: Callable[[NodeClaim, NodeClaim], NodeClaim],
) -> NodeClaim | None:
    current: NodeClaim | None = claim
    lost: ConflictError | None = None
    for _ in range(_TRIES):
        after = None if current is None else decide(current)
        if current is None or after is None:
            return None
        try:
            return write(after, current)
        except ConflictError as error:
            lost = error
            current = claims.get(claim.id)
    raise lost or ConflictError([claim.id])
