"""The simulation's tables against DynamoDB Local: random requests to the stores, the same answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab.fakes.values import node_claim, reservation, workload_record
from lab.local.stores import Stores, dynamodb_stores
from lab.simulation.aws.tables import SimulatedState
from lab.simulation.faults import NO_FAULTS
from lab.simulation.kernel import Chance, Kernel
from reservoir.core.capacity.ledger import is_absorbed_by
from reservoir.core.capacity.unavailable_offerings import Market
from reservoir.core.model.capacity_reservation import ObservedReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, Lease, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.ports.state import ConflictError, PlannedCommit, WorkloadRecord

pytestmark = pytest.mark.embedded

WORKLOADS = ("train", "serve")
RESERVATIONS = ("cr-1", "cr-2", "cr-3")  # the last one is never observed
NEXT = {
    ClaimState.PLANNED: ClaimState.LAUNCHING,
    ClaimState.LAUNCHING: ClaimState.LAUNCHED,
    ClaimState.LAUNCHED: ClaimState.RUNNING,
    ClaimState.RUNNING: ClaimState.TERMINATING,
    ClaimState.TERMINATING: ClaimState.TERMINATED,
}


@dataclass
class Session:
    """Somebody who works with one set of stores, and makes each request of what was answered before."""

    stores: Stores
    move: Callable[[datetime], object]  # sets the stores' clock
    # claims as they were read, the latest last
    seen: list[NodeClaim] = field(default_factory=list)
    records: list[WorkloadRecord] = field(default_factory=list)
    commits: list[PlannedCommit] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.stores.clock.now()

    # --- workloads

    def submit(self, which: int, replicas: int, age: int) -> Any:
        """Put a workload as new, or over a record that was read now or before."""
        fresh = workload_record(WORKLOADS[which % 2], replicas=replicas)
        known = [record for record in self.records if record.key == fresh.key]
        if not known or age == 3:
            return self._kept(self.stores.workloads.put(fresh, expected_revision=None))
        before = known[-1 - age % len(known)]
        generation = before.generation + 1
        wanted = (
            replace(fresh.workload, generation=generation)
            if fresh.workload is not None
            else None
        )
        after = replace(
            before, generation=generation, workload=wanted, withdrawn=False, expires_at=None
        )
        return self._kept(
            self.stores.workloads.put(after, expected_revision=before.revision)
        )

    def withdraw(self, which: int, *_: int) -> Any:
        """Leave a tombstone, which is forgotten a day later where nothing of it runs, or when DynamoDB likes."""
        record = self.stores.workloads.get(f"research/{WORKLOADS[which % 2]}")
        if record is None:
            return None
        expires_at = self.now + timedelta(days=1) if record.placed_count == 0 else None
        after = replace(record, withdrawn=True, expires_at=expires_at)
        return self._kept(
            self.stores.workloads.put(after, expected_revision=record.revision)
        )

    def _kept(self, record: WorkloadRecord) -> WorkloadRecord:
        self.records.append(record)
        return record

    # --- plans

    def commit(self, which: int, count: int, kind: int) -> Any:
        """Commit new claims: on a reservation or not, for this generation or the one before, in turn or out of it."""
        key = f"research/{WORKLOADS[which % 2]}"
        record = self.stores.workloads.get(key)
        number = len(self.seen) if kind != 3 else 0  # a name may be taken already
        lease = None if which == 3 else Lease(RESERVATIONS[which % 3])
        placed = (PlacedReplicas(key, 1 + count // 2),)
        claims = tuple(
            node_claim(
                f"nc-{number + each}", lease=lease, placements=placed, created_at=self.now
            )
            for each in range(1 + count % 2)
        )
        generations = {} if record is None else {key: record.generation - (kind == 2)}
        depends_on = (
            {}
            if kind != 1 or record is None
            else {f"research/{WORKLOADS[1 - which % 2]}": record.generation}
        )
        turn = (None, self.stores.node_claims.turn(), 7)[which % 3] if kind == 1 else None
        return self._commit(
            PlannedCommit(claims, generations=generations, depends_on=depends_on, turn=turn)
        )

    def join(self, which: int, count: int, age: int) -> Any:
        """Put more replicas on a claim."""
        before = self._claim(which, age)
        if before is None or not before.placements:
            return None
        first = before.placements[0]
        grown = (replace(first, count=first.count + count), *before.placements[1:])
        return self._commit(
            PlannedCommit(existing=((before, replace(before, placements=grown)),))
        )

    def repeat(self, which: int, _: int, __: int) -> Any:
        """Commit the same once more, as who lost the answer does."""
        return (
            self._commit(self.commits[-1 - which % len(self.commits)])
            if self.commits
            else None
        )

    def _commit(self, commit: PlannedCommit) -> Any:
        self.stores.node_claims.commit(commit)
        self.commits.append(commit)
        ids = [claim.id for claim in commit.claims] + [
            after.id for _, after in commit.existing
        ]
        return self._read(self.stores.node_claims.get_many(ids).values())

    # --- the life of claims

    def advance(self, which: int, _: int, age: int) -> Any:
        """Take a claim a state further: launches are settled, replicas of what ends are returned."""
        before = self._claim(which, age)
        if before is None or before.state not in NEXT:
            return None
        after = self._advanced(before)
        node_claims, revision = self.stores.node_claims, before.revision
        if after.state is ClaimState.LAUNCHED:
            return self._read([node_claims.settle(after, expected_revision=revision)])
        if after.state is ClaimState.TERMINATING:
            return self._returned(after, revision, all_of(after))
        return self._read([node_claims.save(after, expected_revision=revision)])

    def fail(self, which: int, _: int, age: int) -> Any:
        """Let a claim fail: its lease goes back."""
        before = self._claim(which, age)
        if before is None or not before.may_become(ClaimState.FAILED):
            return None
        return self._returned(
            replace(before, state=ClaimState.FAILED), before.revision, all_of(before)
        )

    def give_back(self, which: int, count: int, age: int) -> Any:
        """Take some replicas off a claim."""
        before = self._claim(which, age)
        if before is None or not before.placements:
            return None
        first = before.placements[0]
        return self._returned(
            before, before.revision, {first.workload_key: min(count, first.count)}
        )

    def finish(self, which: int, _: int, age: int) -> Any:
        """Let a replica be done with what it was for."""
        before = self._claim(which, age)
        if before is None or not before.placements:
            return None
        key, count = before.placements[0].workload_key, before.placements[0].count
        record = self.stores.workloads.get(key)
        if record is None:
            return None
        left = (PlacedReplicas(key, count - 1),) if count > 1 else ()
        after = replace(before, placements=left, finished=(PlacedReplicas(key, 1),))
        counted = replace(
            record,
            placed_count=record.placed_count - 1,
            finished_count=record.finished_count + 1,
        )
        return self._read(
            [
                self.stores.node_claims.finish_replicas(
                    after,
                    expected_revision=before.revision,
                    record=counted,
                    expected_record_revision=record.revision,
                )
            ]
        )

    def save_many(self, which: int, _: int, age: int) -> Any:
        """Take several claims a state further together, some of them as they were read before."""
        some = [
            self._advanced(claim)
            for claim in self._several(which, age)
            if claim.state in NEXT
        ]
        kept = [claim for claim in some if claim.state is not ClaimState.TERMINATING]
        return self._read(self.stores.node_claims.save_many(kept).values())

    def return_many(self, which: int, _: int, age: int) -> Any:
        """Return all replicas of several claims together."""
        ends = dict.fromkeys((ClaimState.PLANNED, ClaimState.LAUNCHING), ClaimState.FAILED)
        some = [
            replace(claim, state=ends.get(claim.state, ClaimState.TERMINATED))
            for claim in self._several(which, age)
        ]
        return self._read(
            self.stores.node_claims.return_many(some, returned_at=self.now).values()
        )

    def _advanced(self, claim: NodeClaim) -> NodeClaim:
        state = NEXT[claim.state]
        if state is ClaimState.LAUNCHED:
            return replace(
                claim, state=state, instance_id=f"i-{claim.id}", launched_at=self.now
            )
        return replace(claim, state=state)

    def _returned(self, claim: NodeClaim, revision: int, placements: dict[str, int]) -> Any:
        returned = self.stores.node_claims.return_replicas(
            claim, expected_revision=revision, placements=placements, returned_at=self.now
        )
        return self._read([returned])

    def _claim(self, which: int, age: int) -> NodeClaim | None:
        """Return a claim as it is, or for the highest age as it was read first."""
        ids = sorted({claim.id for claim in self.seen})
        if not ids:
            return None
        known = [claim for claim in self.seen if claim.id == ids[which % len(ids)]]
        return known[0] if age == 3 else self.stores.node_claims.get(known[0].id)

    def _several(self, which: int, age: int) -> Sequence[NodeClaim]:
        """Return claims, the first of them perhaps as it was before."""
        ids = sorted({claim.id for claim in self.seen})
        found = [
            self._claim(each, age if each == which else 0)
            for each in range(which, min(len(ids), which + 3))
        ]
        return [claim for claim in found if claim is not None]

    def _read(self, claims: Any) -> list[NodeClaim]:
        read = sorted(claims, key=lambda claim: str(claim.id))
        self.seen += read
        return read

    # --- reservations

    def observe(self, which: int, available: int, early_s: int) -> Any:
        """Save an observation that began now or some seconds ago, with the leases that it contains."""
        key = RESERVATIONS[which % 2]
        observed_at = self.now - timedelta(seconds=10 * early_s)
        leased = self.stores.node_claims.list_leased(key)
        absorbed = [
            claim
            for claim in leased
            if claim.lease is not None and is_absorbed_by(claim.lease, observed_at)
        ]
        facts: ObservedReservation = reservation(
            key, available_count=available, state=("active", "expired")[which > 2]
        )
        before = self.stores.reservations.get(key)
        held = len(leased) if before is None else 0
        return self.stores.reservations.save_observation(
            facts,
            observed_at=observed_at,
            absorbed=absorbed,
            expected=before,
            outstanding_count=held,
        )

    def mark(self, which: int, how: int, early_s: int) -> Any:
        """Say of a reservation that nothing is left, that its facts are old, or that it was told to be idle."""
        key, at = RESERVATIONS[which % 3], self.now - timedelta(seconds=10 * early_s)
        if how % 3 == 0:
            return self.stores.reservations.mark_exhausted(key, refused_at=at)
        if how % 3 == 1:
            return self.stores.reservations.mark_stale([key, "cr-3"])
        return self.stores.reservations.mark_idle_said([key, "cr-3"], said_at=at)

    def rest(self, which: int, minutes: int, _: int) -> Any:
        """Let a market rest."""
        place = Market(
            (CapacityType.SPOT, CapacityType.ON_DEMAND)[which % 2],
            "" if which < 2 else "Standard",
        )
        until = self.now + timedelta(minutes=minutes)
        return self.stores.offerings.mark_unavailable(
            [place], until=until, reason=f"{minutes}"
        )

    def wait(self, minutes: int, tens: int, _: int) -> None:
        """Let time pass."""
        self.move(self.now + timedelta(minutes=minutes, seconds=10 * tens))

    # --- what there is

    def asked(self, what: str, *how: int) -> Any:
        """Make a request; return the answer, or the rows that were not as it needed them."""
        try:
            return getattr(self, what)(*how)
        except ConflictError as error:
            return sorted(set(error.rows))

    def everything(self) -> dict[str, Any]:
        """Return what every way to read says."""
        stores, ids = self.stores, sorted({claim.id for claim in self.seen})
        listed = [
            record
            for record in stores.workloads.list_needing_planning()
            if record.needs_planning
        ]
        return {
            "workloads": stores.workloads.get_many(
                [f"research/{name}" for name in WORKLOADS]
            ),
            "listed": listed,  # DynamoDB may list others beside them
            "claims": stores.node_claims.get_many(ids),
            "live": stores.node_claims.list_live(),
            "moving": stores.node_claims.list_moving(),
            "by instance": stores.node_claims.find_by_instance([f"i-{key}" for key in ids]),
            "leased": [stores.node_claims.list_leased(key) for key in RESERVATIONS],
            "reservations": [stores.reservations.get(key) for key in RESERVATIONS],
            "current": stores.reservations.list_current(),
            "turn": stores.node_claims.turn(),
            "rests": stores.offerings.list_unavailable(self.now),
        }


def all_of(claim: NodeClaim) -> dict[str, int]:
    return {placed.workload_key: placed.count for placed in claim.placements}


def simulated() -> Session:
    """The tables of the simulation without mishaps."""
    kernel = Kernel()
    state = SimulatedState(kernel, Chance(0), lambda: NO_FAULTS, lambda *_: None)

    def move(until: datetime) -> None:
        kernel.now_us += (until - kernel.now()) // timedelta(microseconds=1)

    stores = Stores(
        state.workloads,
        state.reservations,
        state.node_claims,
        state.offerings,
        kernel,  # type: ignore[arg-type] # a clock
    )
    return Session(stores, move)


def served(client: Any) -> Session:
    """Tables of something that speaks DynamoDB's protocol, through the adapters."""
    stores = dynamodb_stores(client)
    return Session(stores, stores.clock.set)


FOUR = st.integers(0, 3)
WORK = ("submit", "commit", "commit", "advance", "advance", "observe", "observe", "wait")
OTHERS = (
    "withdraw",
    "join",
    "repeat",
    "fail",
    "give_back",
    "finish",
    "save_many",
    "return_many",
    "mark",
    "rest",
)
REQUESTS = st.lists(
    st.tuples(st.sampled_from((*WORK, *OTHERS)), FOUR, FOUR, FOUR), max_size=30
)
# Something is there at first: two workloads, and reservations with units that are free.
BEGUN = [
    ("submit", 0, 3, 0),
    ("submit", 1, 3, 0),
    ("observe", 0, 3, 0),
    ("observe", 1, 2, 0),
]


def compare(
    ours: Session, theirs: Session, wanted: Sequence[tuple[str, int, int, int]]
) -> None:
    for request in [*BEGUN, *wanted]:
        assert ours.asked(*request) == theirs.asked(*request), request
    assert ours.everything() == theirs.everything()


@settings(max_examples=40)
# of one workload, at once
@example([("commit", 0, 0, 0), ("commit", 0, 0, 0), ("return_many", 0, 0, 0)])
@given(wanted=REQUESTS)
def test_the_simulated_tables_answer_as_dynamodb_local(
    dynamodb: Any, wanted: list[tuple[str, int, int, int]]
) -> None:
    compare(simulated(), served(dynamodb), wanted)


def test_the_requests_meet_what_they_are_to_compare(dynamodb: Any) -> None:
    """Not vacuous: a play of all kinds of requests has claims that run and fail, leases that end, and races lost."""
    session = served(dynamodb)
    story = [
        *BEGUN,
        ("commit", 0, 1, 0),
        ("advance", 0, 0, 0),
        ("advance", 0, 0, 0),
        ("wait", 1, 0, 0),
    ]
    story += [
        ("observe", 0, 2, 0),
        ("fail", 1, 0, 0),
        ("advance", 0, 0, 3),
        ("commit", 1, 1, 2),
    ]
    answers = [session.asked(*request) for request in story]
    assert answers[-2:] == [["nc-0"], ["research/serve"]]
    states = {claim.id: claim.state for claim in session.everything()["claims"].values()}
    assert states == {"nc-0": ClaimState.LAUNCHED, "nc-1": ClaimState.FAILED}
    assert session.everything()["leased"] == [(), (), ()]
