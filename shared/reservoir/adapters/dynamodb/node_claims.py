"""NodeClaims in DynamoDB, and the transactions that move claims, leases and workload counts together."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from reservoir.adapters.dynamodb.ledger import closed_write, leased_write
from reservoir.adapters.dynamodb.revisions import KnownRows, RevisionIndex
from reservoir.adapters.dynamodb.table import (
    CURRENT_FORM,
    DATA,
    FORM,
    REVISION,
    Attributes,
    DynamoDbTable,
    Expression,
    Value,
    Write,
    all_readable,
    apply,
    attributes,
    data,
    epoch_s,
    number,
    readable,
    text,
    transact,
    transact_what_holds,
    understood,
)
from reservoir.adapters.dynamodb.workloads import (
    placed_write,
    record_write,
    returned_write,
    unchanged_check,
)
from reservoir.core.capacity import ledger
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.core.sharing.planning_groups import PlanningTurn, planning_turn_row
from reservoir.names import (
    IDENTITY,
    IDENTITY_KEY,
    INSTANCE_INDEX,
    INSTANCE_KEY,
    KEY,
    LEASE_INDEX,
    LEASE_KEY,
    LISTING_KEY,
    LIVE_REVISIONS_INDEX,
    TTL_ATTRIBUTE,
)
from reservoir.ports.state import (
    COMMIT_ITEMS_MAX,
    TURN_ROW,
    ConflictError,
    PlannedCommit,
    WorkloadRecord,
)
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LISTED: Final = "live"
_MOVING: Final = "moving"
# What a claim is read from. The others are keys of indexes, and what the instance may know: half of the time it takes.
_LISTED_NAMES: Final = (KEY, FORM, DATA, REVISION, TTL_ATTRIBUTE)
_TAKEN_AT: Final = "taken_at"  # of a turn of planning
# Ended claims stay a while for questions about what happened to a node.
_ENDED_KEPT: Final = timedelta(days=7)
# Beside the claim and one reservation, so many workloads fit in one transaction.
_RETURNS_MAX: Final = COMMIT_ITEMS_MAX - 2


class DynamoDbNodeClaimStore:
    """Implements ``reservoir.ports.state.NodeClaimStore``.

    ``instance_arn_prefix`` makes an instance's ARN from its id: under it the instance reads its own facts. None: no
    claim with an instance is written. ``parts`` as in :class:`DynamoDbTable`.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        *,
        node_claims_table: str,
        reservations_table: str,
        workloads_table: str,
        clock: Clock,
        instance_arn_prefix: str | None = None,
        parts: Executor | None = None,
    ) -> None:
        self._client = client
        self._rows = ClaimRows(
            DynamoDbTable(client, node_claims_table, parts=parts), instance_arn_prefix
        )
        self._table = self._rows.table
        self._reservations = DynamoDbTable(client, reservations_table)
        self._workloads = DynamoDbTable(client, workloads_table)
        self._clock = clock
        self._revisions = RevisionIndex(
            self._table, LIVE_REVISIONS_INDEX, LISTING_KEY, parts
        )
        self._known = KnownRows[NodeClaim]()  # the last listing

    def get(self, claim_id: str) -> NodeClaim | None:
        """Return the claim (consistent read)."""
        row = self._table.get(claim_id, self._clock.now())
        return None if row is None else readable(row, _claim)

    def get_many(self, claim_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        """Return the claims that exist (consistent read)."""
        return all_readable(self._table.get_many(claim_ids, self._clock.now()), _claim)

    def list_live(self) -> tuple[NodeClaim, ...]:
        """Return claims in a live state, by id; a row that is at the revision of the last listing is not read again."""
        now = self._clock.now()
        revisions = self._revisions.listed(LISTED)
        live = self._known.at(revisions)
        read = understood(
            self._table.get_many(revisions.keys() - live.keys(), now, _LISTED_NAMES), _claim
        )
        live.update((claim.id, claim) for claim in read if claim.is_live)
        self._known.keep(live)
        return tuple(live[key] for key in sorted(live))

    def list_moving(self) -> tuple[NodeClaim, ...]:
        """Return the open leases of units on their way to other reservations, by id."""
        rows = self._table.get_many(self._revisions.listed(_MOVING), self._clock.now())
        return tuple(filter(ledger.is_moving, understood(rows, _claim)))

    def find_by_instance(self, instance_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        """Return claims by EC2 instance id."""
        rows = self._indexed(INSTANCE_INDEX, INSTANCE_KEY, sorted(set(instance_ids)))
        claims = all_readable(rows, _claim).values()
        return {
            claim.instance_id: claim for claim in claims if claim.instance_id is not None
        }

    def list_leased(self, reservation_id: str) -> tuple[NodeClaim, ...]:
        """Return claims with an open lease on the reservation, by id."""
        claims = understood(self._indexed(LEASE_INDEX, LEASE_KEY, [reservation_id]), _claim)
        return tuple(filter(ledger.holds_open_lease, claims))

    def _indexed(
        self, index: str, key_name: str, keys: Collection[str]
    ) -> Iterator[Attributes]:
        """Look ids up in a keys-only index and read the rows themselves."""
        now = self._clock.now()
        entries = chain.from_iterable(
            self._table.query(index, key_name, key, now) for key in keys
        )
        ids = [text(entry, KEY) for entry in entries]
        return self._table.get_many(ids, now) if ids else iter(())

    def turn(self) -> int:
        """Return how many commits named a turn so far; the count has a row of its own among the claims."""
        row = self._table.get(TURN_ROW, self._clock.now())
        return 0 if row is None else readable(row, _turn)

    def planning_turns(self, group_keys: Collection[str]) -> Mapping[str, PlanningTurn]:
        """Return the turns of planning that were taken so far, by group; each has a row of its own, as the turn has."""
        wanted = [planning_turn_row(key) for key in group_keys]
        taken = all_readable(
            self._table.get_many(wanted, self._clock.now()), _planning_turn
        )
        return {
            key: taken.get(planning_turn_row(key), PlanningTurn()) for key in group_keys
        }

    def commit(self, commit: PlannedCommit) -> None:
        """Write claims, leases and workload counts in one transaction."""
        writes = [self._new(claim) for claim in commit.claims]
        writes += [self._write(after, before.revision) for before, after in commit.existing]
        needed = commit.free_units_needed()
        writes += [
            leased_write(self._reservations, reservation_id, count, needed[reservation_id])
            for reservation_id, count in sorted(commit.leased_by_reservation().items())
        ]
        writes += [
            placed_write(self._workloads, key, count, commit.generations.get(key))
            for key, count in sorted(commit.placed_by_workload().items())
        ]
        writes += [
            unchanged_check(self._workloads, key, generation)
            for key, generation in sorted(commit.depends_on.items())
        ]
        if commit.turn is not None:
            writes.append(self._taken_turn(commit.turn))
        writes += [
            self._taken_planning_turn(key, turn)
            for key, turn in sorted(commit.planning_turns.items())
        ]
        transact(self._client, writes, recognise_repeats=True)

    def save(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
        """Write a claim whose lease and placements are unchanged; returns it at its new revision."""
        apply(self._client, self._write(claim, expected_revision))
        return replace(claim, revision=expected_revision + 1)

    def save_many(self, claims: Sequence[NodeClaim]) -> Mapping[str, NodeClaim]:
        """Write claims a hundred to a transaction; one round trip instead of a hundred costs twice the write units."""
        saved: list[NodeClaim] = []
        for start in range(0, len(claims), COMMIT_ITEMS_MAX):
            some = claims[start : start + COMMIT_ITEMS_MAX]
            saved += transact_what_holds(
                self._client,
                _id,
                some,
                lambda rest: [self._write(claim, claim.revision) for claim in rest],
            )
        return {claim.id: replace(claim, revision=claim.revision + 1) for claim in saved}

    def settle(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
        """Record the launch's instance: state launched, lease settled at ``claim.launched_at``.

        The reservation's row is not touched: the lease goes on counting until an observation contains the launch.
        """
        return self.save(ledger.settled(claim), expected_revision=expected_revision)

    def return_replicas(
        self,
        claim: NodeClaim,
        *,
        expected_revision: int,
        placements: Mapping[str, int],
        returned_at: datetime,
    ) -> NodeClaim:
        """Write ``claim`` and take ``placements`` off it, back to demand, exactly once."""
        keys = sorted(placements)
        while len(keys) > _RETURNS_MAX:
            part, keys = keys[:_RETURNS_MAX], keys[_RETURNS_MAX:]
            taken = {key: placements[key] for key in part}
            # In its old state, so that a process that finds it half-way does the rest; only the last part ends the
            # claim.
            partly = ledger.relieved(self._stored(claim.id, expected_revision), taken)
            self._return(partly, expected_revision, taken, returned_at, gives_back=False)
            claim = replace(claim, placements=partly.placements)
            expected_revision += 1
        taken = {key: placements[key] for key in keys}
        relieved = ledger.relieved(claim, taken)
        gives_back = ledger.holds_open_lease(claim) and not ledger.holds_open_lease(
            relieved
        )
        self._return(relieved, expected_revision, taken, returned_at, gives_back=gives_back)
        return replace(relieved, revision=expected_revision + 1)

    def finish_replicas(
        self,
        claim: NodeClaim,
        *,
        expected_revision: int,
        record: WorkloadRecord,
        expected_record_revision: int,
    ) -> NodeClaim:
        """Write a claim whose replicas have finished, and their workload's record, in one transaction."""
        writes = [
            self._write(claim, expected_revision),
            record_write(self._workloads, record, expected_record_revision),
        ]
        transact(self._client, writes)
        return replace(claim, revision=expected_revision + 1)

    def _return(
        self,
        claim: NodeClaim,
        expected_revision: int,
        taken: Mapping[str, int],
        returned_at: datetime,
        *,
        gives_back: bool,
    ) -> None:
        writes = [self._write(claim, expected_revision)]
        writes += [
            returned_write(self._workloads, key, count, returned_at)
            for key, count in taken.items()
        ]
        if gives_back and claim.lease is not None:
            writes.append(closed_write(self._reservations, claim.lease.reservation_id, 1))
        transact(self._client, writes)

    def return_many(
        self, claims: Sequence[NodeClaim], *, returned_at: datetime
    ) -> Mapping[str, NodeClaim]:
        """As ``return_replicas``, as many to a transaction as it holds; a row that several touch is written once."""
        returned: list[NodeClaim] = []
        for some in _fitting(claims):
            returned += transact_what_holds(
                self._client, _id, some, lambda rest: self._returns(rest, returned_at)
            )
        return {
            claim.id: replace(_relieved(claim), revision=claim.revision + 1)
            for claim in returned
        }

    def _returns(
        self, claims: Sequence[NodeClaim], returned_at: datetime
    ) -> Sequence[Write]:
        taken = Counter[str]()
        given_back = Counter[str]()
        for claim in claims:
            taken.update(_placed(claim))
            given_back.update(_gives_back(claim))
        writes = [self._write(_relieved(claim), claim.revision) for claim in claims]
        writes += [
            returned_write(self._workloads, key, count, returned_at)
            for key, count in sorted(taken.items())
        ]
        writes += [
            closed_write(self._reservations, key, count)
            for key, count in sorted(given_back.items())
        ]
        return writes

    def _stored(self, claim_id: str, expected_revision: int) -> NodeClaim:
        stored = self.get(claim_id)
        if stored is None or stored.revision != expected_revision:
            raise ConflictError([claim_id])
        return stored

    def _taken_turn(self, turn: int) -> Write:
        return self._counted_up({KEY: TURN_ROW, REVISION: turn + 1}, turn)

    def _taken_planning_turn(self, group_key: str, turn: PlanningTurn) -> Write:
        at = None if turn.taken_at is None else turn.taken_at.isoformat()
        row: Mapping[str, Value | None] = {
            KEY: planning_turn_row(group_key),
            REVISION: turn.number,
            _TAKEN_AT: at,
        }
        return self._counted_up(row, turn.number - 1)

    def _counted_up(self, row: Mapping[str, Value | None], before: int) -> Write:
        expression = Expression()
        condition = expression.at(REVISION, before) if before else expression.absent()
        return self._table.put(attributes(row), expression, condition)

    def _new(self, claim: NodeClaim) -> Write:
        expression = Expression()
        return self._table.put(self._rows.row(claim), expression, expression.absent())

    def _write(self, claim: NodeClaim, expected_revision: int) -> Write:
        return self._rows.write(claim, expected_revision)


def _turn(row: Attributes) -> int:
    return number(row, REVISION)


def _planning_turn(row: Attributes) -> PlanningTurn:
    return PlanningTurn(number(row, REVISION), datetime.fromisoformat(text(row, _TAKEN_AT)))


def _id(claim: NodeClaim) -> str:
    return claim.id


def _placed(claim: NodeClaim) -> Mapping[str, int]:
    return {placed.workload_key: placed.count for placed in claim.placements}


def _relieved(claim: NodeClaim) -> NodeClaim:
    return ledger.relieved(claim, _placed(claim))


def _gives_back(claim: NodeClaim) -> Sequence[str]:
    """Return the reservation whose unit comes free with the claim's replicas, if one does."""
    gives_back = ledger.holds_open_lease(claim) and not ledger.holds_open_lease(
        _relieved(claim)
    )
    return [claim.lease.reservation_id] if gives_back and claim.lease is not None else []


def _fitting(claims: Sequence[NodeClaim]) -> Iterator[Sequence[NodeClaim]]:
    """Cut claims so that each part, with the workloads and reservations that it touches, fits one transaction.

    A claim that does not fit alone is left out.
    """
    part: list[NodeClaim] = []
    others: set[tuple[str, str]] = set()  # rows of the other tables
    for claim in claims:
        own = {("workload", key) for key in _placed(claim)} | {
            ("reservation", key) for key in _gives_back(claim)
        }
        if len(own) >= COMMIT_ITEMS_MAX:
            continue
        if len(part) + 1 + len(others | own) > COMMIT_ITEMS_MAX:
            yield part
            part, others = [], set()
        part.append(claim)
        others |= own
    if part:
        yield part


@dataclass(frozen=True, slots=True)
class ClaimRows:
    """Writes claims, for every kind of move; ``instance_arn_prefix`` as in :class:`DynamoDbNodeClaimStore`."""

    table: DynamoDbTable
    instance_arn_prefix: str | None

    def absorbed_write(self, claim: NodeClaim) -> Write:
        """Close the claim's lease, if the claim is as it was read."""
        return self.write(ledger.absorbed(claim), claim.revision)

    def write(self, claim: NodeClaim, expected_revision: int) -> Write:
        """Write the claim if its row is at that revision, which it then leaves behind."""
        expression = Expression()
        # The revision is the whole condition: the caller decided on exactly the row that it read.
        condition = expression.at(REVISION, expected_revision)
        return self.table.put(
            self.row(replace(claim, revision=expected_revision + 1)), expression, condition
        )

    def row(self, claim: NodeClaim) -> Attributes:
        """Return the claim as a row: the claim itself, what the indexes list it by, and what its instance may know."""
        return attributes({**_listed(claim), **self._identity(claim)})

    def _identity(self, claim: NodeClaim) -> Mapping[str, str]:
        if self.instance_arn_prefix is None or claim.instance_id is None:
            return {}
        # imported here, because functions that read claims alone shall not wait for it at their start
        from reservoir.manifests.node_identity import node_identity

        return {
            IDENTITY_KEY: f"{self.instance_arn_prefix}{claim.instance_id}",
            IDENTITY: node_identity(claim).text(),
        }


def _listed(claim: NodeClaim) -> Mapping[str, Value | None]:
    leased = (
        claim.lease.reservation_id
        if claim.lease is not None and ledger.holds_open_lease(claim)
        else None
    )
    forgotten = not claim.is_live and leased is None
    return {
        KEY: claim.id,
        FORM: CURRENT_FORM,
        DATA: dumps(claim),
        REVISION: claim.revision,
        INSTANCE_KEY: claim.instance_id,
        LEASE_KEY: leased,
        LISTING_KEY: LISTED
        if claim.is_live
        else _MOVING
        if ledger.is_moving(claim)
        else None,
        # A claim that ended keeps its row until its lease is closed, or the unit would leak.
        TTL_ATTRIBUTE: epoch_s((claim.terminated_at or claim.created_at) + _ENDED_KEPT)
        if forgotten
        else None,
    }


def _claim(row: Attributes) -> NodeClaim:
    claim, revision = loads(NodeClaim, data(row)), number(row, REVISION)
    return claim if claim.revision == revision else replace(claim, revision=revision)
