"""What every implementation of the state ports does; the fake and DynamoDB pass the same tests."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes import values
from lab.fakes.system import START
from lab.fakes.values import ZONE, ZONE_ID, node_claim, reservation, workload_record
from lab.local.stores import Stores
from reservoir.core.capacity.ledger import COUNT_LAG, Balance
from reservoir.core.capacity.unavailable_offerings import (
    ClassMarketKey,
    Market,
    SpotLossKey,
    SubnetKey,
    Unavailable,
)
from reservoir.core.model.capacity_reservation import RefusedUnits
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import ClaimState, Lease, LeaseState, NodeClaim
from reservoir.core.model.plan import OfferingKey, ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.sharing.planning_groups import PlanningTurn, planning_turn_row
from reservoir.core.sharing.reading_turns import DemandReading, ReadingBound
from reservoir.ports.errors import RowsRefusedError
from reservoir.ports.state import (
    TURN_ROW,
    ConflictError,
    PlannedCommit,
    ReservationRecord,
    WorkloadRecord,
)

NOW = START


def observe(
    stores: Stores, available: int, seconds: float, *absorbed: NodeClaim
) -> ReservationRecord:
    """Save an observation of cr-1 that began ``seconds`` after the start."""
    return stores.reservations.save_observation(
        reservation(available_count=available),
        observed_at=NOW + timedelta(seconds=seconds),
        absorbed=absorbed,
        expected=stores.reservations.get("cr-1"),
    )


def balance(stores: Stores) -> Balance:
    record = stores.reservations.get("cr-1")
    assert record is not None
    assert record.reservation.free_units == max(0, record.balance.free_units)
    assert record.reservation.available_count == record.balance.available_count
    return record.balance


def submit(stores: Stores, name: str = "train", replicas: int = 4) -> WorkloadRecord:
    return stores.workloads.put(
        workload_record(name, replicas=replicas), expected_revision=None
    )


def counts(stores: Stores, key: str = "research/train") -> tuple[int, int, int]:
    record = stores.workloads.get(key)
    assert record is not None
    return record.placed_count, record.pending_count, record.surplus_count


def launch(stores: Stores, claim: NodeClaim, seconds: float) -> NodeClaim:
    """Take a committed claim through its launch, which settles ``seconds`` after the start."""
    claim = stores.node_claims.save(
        replace(claim, state=ClaimState.LAUNCHING), expected_revision=claim.revision
    )
    launched = replace(
        claim,
        state=ClaimState.LAUNCHED,
        instance_id=f"i-{claim.id}",
        launched_at=NOW + timedelta(seconds=seconds),
    )
    return stores.node_claims.settle(launched, expected_revision=claim.revision)


# Workloads


def test_a_workload_is_read_back_as_it_was_written(stores: Stores) -> None:
    record = replace(
        workload_record(),
        unplaced=(
            UnplacedReplicas(
                "research/train", 4, ReasonCode.RESERVATION_FULL, "cr-1 is full"
            ),
        ),
    )
    written = stores.workloads.put(record, expected_revision=None)

    assert written == replace(record, revision=1)
    assert stores.workloads.get("research/train") == written
    assert stores.workloads.get_many(["research/train", "research/none"]) == {
        "research/train": written
    }
    assert stores.workloads.list_needing_planning() == (written,)
    assert stores.workloads.get("research/none") is None


def test_of_what_waits_what_is_chosen_is_read_page_by_page(stores: Stores) -> None:
    for number in range(5):
        stores.workloads.put(workload_record(f"w-{number}"), expected_revision=None)
    bound = ReadingBound(rows=4, stored_bytes=10**6, page_rows=2)
    begun: list[DemandReading] = []

    def choose(keys: Collection[str]) -> DemandReading:
        begun.append(
            DemandReading({"": sorted(keys, reverse=True)}, ["research/w-0"], bound)
        )
        return begun[-1]

    found = stores.workloads.read_waiting(choose)
    assert [record.key[-1] for record in found] == ["0", "2", "3", "4"]
    assert (begun[0].unread_count, begun[0].reached()) == (1, {"": "research/w-2"})
    large = ReadingBound(rows=4, stored_bytes=1, page_rows=2)
    assert (
        len(
            stores.workloads.read_waiting(
                lambda keys: DemandReading({"": [*keys]}, (), large)
            )
        )
        == 2
    ), "one page, whatever it holds"


def test_a_write_needs_the_revision_that_is_stored(stores: Stores) -> None:
    written = submit(stores)

    with pytest.raises(ConflictError):
        stores.workloads.put(written, expected_revision=None)
    with pytest.raises(ConflictError):
        stores.workloads.put(written, expected_revision=2)
    again = stores.workloads.put(replace(written, generation=2), expected_revision=1)
    assert stores.workloads.get(written.key) == again


def test_a_tombstone_is_forgotten_after_its_time(stores: Stores) -> None:
    tombstone = WorkloadRecord(
        "research/train", 3, 0, None, withdrawn=True, expires_at=NOW + timedelta(minutes=1)
    )
    stores.workloads.put(tombstone, expected_revision=None)

    assert stores.workloads.list_needing_planning() == ()
    with pytest.raises(ConflictError):
        submit(stores)
    stores.clock.advance(minutes=1)
    assert stores.workloads.get("research/train") is None
    assert submit(stores).revision == 1


# Commit


def test_a_commit_moves_claims_leases_and_counts_together(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claims = (node_claim("nc-1"), node_claim("nc-2"))

    stores.node_claims.commit(PlannedCommit(claims, generations={"research/train": 1}))

    assert stores.node_claims.list_live() == claims
    assert stores.node_claims.list_leased("cr-1") == claims
    assert stores.node_claims.get_many(["nc-1", "nc-9"]) == {"nc-1": claims[0]}
    assert balance(stores) == Balance(4, 2)
    assert counts(stores) == (2, 2, 0)


def test_the_same_commit_twice_happens_once(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    commit = PlannedCommit((node_claim("nc-1"),))

    stores.node_claims.commit(commit)
    stores.node_claims.commit(commit)

    assert balance(stores) == Balance(4, 1)
    assert counts(stores) == (1, 3, 0)


def test_no_more_units_are_promised_than_are_free(stores: Stores) -> None:
    submit(stores)
    observe(stores, 1, 0)
    stores.node_claims.commit(PlannedCommit((node_claim("nc-1"),)))

    with pytest.raises(ConflictError) as caught:
        stores.node_claims.commit(PlannedCommit((node_claim("nc-2"),)))

    assert caught.value.rows == ("cr-1",)
    assert stores.node_claims.get("nc-2") is None
    assert balance(stores) == Balance(1, 1)
    assert counts(stores) == (1, 3, 0)


def test_no_more_replicas_are_placed_than_are_pending(stores: Stores) -> None:
    submit(stores, replicas=1)
    observe(stores, 4, 0)

    with pytest.raises(ConflictError) as caught:
        stores.node_claims.commit(PlannedCommit((node_claim("nc-1"), node_claim("nc-2"))))

    assert caught.value.rows == ("research/train",)
    assert balance(stores) == Balance(4, 0)


def test_a_plan_for_an_older_generation_is_refused(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)

    with pytest.raises(ConflictError):
        stores.node_claims.commit(
            PlannedCommit((node_claim("nc-1"),), generations={"research/train": 0})
        )
    with pytest.raises(ConflictError):
        stores.node_claims.commit(
            PlannedCommit((node_claim("nc-1", placements=(PlacedReplicas("a/b", 1),)),))
        )


def test_replicas_join_a_claim_that_is_still_as_it_was_read(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))
    grown = replace(claim, placements=(PlacedReplicas("research/train", 3),))

    stores.node_claims.commit(PlannedCommit(existing=((claim, grown),)))

    assert stores.node_claims.get("nc-1") == replace(grown, revision=2)
    assert counts(stores) == (3, 1, 0)
    with pytest.raises(ConflictError):
        stores.node_claims.commit(
            PlannedCommit(
                existing=(
                    (
                        claim,
                        replace(claim, placements=(PlacedReplicas("research/train", 2),)),
                    ),
                )
            )
        )


# Claims


def test_commits_that_name_a_turn_take_turns(stores: Stores) -> None:
    observe(stores, 2, 0)
    first = PlannedCommit(
        claims=(node_claim("nc-1", placements=()),), turn=stores.node_claims.turn()
    )
    rival = PlannedCommit(
        claims=(node_claim("nc-2", placements=()),), turn=stores.node_claims.turn()
    )
    stores.node_claims.commit(first)
    with pytest.raises(ConflictError) as lost:
        stores.node_claims.commit(rival)
    assert lost.value.rows == (TURN_ROW,)
    stores.node_claims.commit(first)  # its answer was lost
    assert stores.node_claims.turn() == 1
    stores.node_claims.commit(replace(rival, turn=1))
    stores.node_claims.commit(
        PlannedCommit(existing=(), claims=(node_claim("nc-3", placements=(), lease=None),))
    )
    assert stores.node_claims.turn() == 2
    assert [claim.id for claim in stores.node_claims.list_live()] == [
        "nc-1",
        "nc-2",
        "nc-3",
    ]


def test_commits_of_plans_take_the_turns_of_their_groups(stores: Stores) -> None:
    observe(stores, 2, 0)
    untaken = PlanningTurn()
    assert stores.node_claims.planning_turns(["a", "b"]) == {"a": untaken, "b": untaken}

    def planned(claim_id: str, **turns: int) -> PlannedCommit:
        taken = {key: PlanningTurn(number, START) for key, number in turns.items()}
        return PlannedCommit(
            claims=(node_claim(claim_id, placements=(), lease=None),), planning_turns=taken
        )

    first = planned("nc-1", a=1, b=1)
    stores.node_claims.commit(first)
    stores.node_claims.commit(first)  # its answer was lost
    with pytest.raises(ConflictError) as lost:
        stores.node_claims.commit(planned("nc-2", b=1))
    assert lost.value.rows == (planning_turn_row("b"),)
    with pytest.raises(ConflictError):
        stores.node_claims.commit(planned("nc-2", b=3))
    stores.node_claims.commit(planned("nc-2", b=2))

    found = stores.node_claims.planning_turns(["a", "b"])
    assert found == {"a": PlanningTurn(1, START), "b": PlanningTurn(2, START)}
    assert [claim.id for claim in stores.node_claims.list_live()] == ["nc-1", "nc-2"]


def test_a_listing_shows_what_has_changed_since_the_last_one(stores: Stores) -> None:
    observe(stores, 2, 0)
    for claim_id in ("nc-1", "nc-2", "nc-3"):
        stores.node_claims.commit(
            PlannedCommit(claims=(node_claim(claim_id, placements=(), lease=None),))
        )
    one, two, three = stores.node_claims.list_live()

    moved = stores.node_claims.save(
        replace(two, state=ClaimState.LAUNCHING), expected_revision=two.revision
    )
    stores.node_claims.save(
        replace(three, state=ClaimState.FAILED), expected_revision=three.revision
    )

    assert stores.node_claims.list_live() == (one, moved)
    assert stores.node_claims.list_live() == (one, moved)


def test_workloads_with_replicas_are_as_they_are_whatever_was_read_before(
    stores: Stores,
) -> None:
    observe(stores, 8, 0)
    submit(stores)
    submit(stores, "other", replicas=1)
    keys = ["research/train", "research/other", "research/none"]

    def read() -> list[tuple[str, int, int]]:
        found = stores.workloads.get_placed(keys, stores.workloads.placed_revisions())
        assert found == stores.workloads.get_many(keys)
        return [(key, it.revision, it.placed_count) for key, it in found.items()]

    assert read() == [("research/other", 1, 0), ("research/train", 1, 0)]
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))
    other = node_claim("nc-2", placements=(PlacedReplicas("research/other", 1),))
    stores.node_claims.commit(PlannedCommit((other,)))
    revisions = {"research/other": 2, "research/train": 2}
    assert stores.workloads.placed_revisions() == revisions
    for _ in range(2):
        assert read() == [("research/other", 2, 1), ("research/train", 2, 1)]

    stored = stores.workloads.get("research/other")
    assert stored is not None
    stores.workloads.put(replace(stored, generation=2), expected_revision=2)
    gone = replace(claim, state=ClaimState.FAILED)
    stores.node_claims.return_replicas(
        gone, expected_revision=1, placements={"research/train": 1}, returned_at=NOW
    )
    assert read() == [("research/other", 3, 1), ("research/train", 3, 0)]
    # As a pass that began before saw them: what is known at another revision is read.
    assert stores.workloads.get_placed(keys, revisions) == stores.workloads.get_many(keys)


def test_many_workloads_are_read_at_once_and_as_they_are(stores: Stores) -> None:
    written = [submit(stores, f"job-{number:03}") for number in range(103)]
    keys = [record.key for record in written]
    assert list(stores.workloads.get_many(keys).values()) == written
    moved = stores.workloads.put(replace(written[7], generation=2), expected_revision=1)
    assert list(stores.workloads.get_many(keys).values()) == [
        *written[:7],
        moved,
        *written[8:],
    ]


def test_a_commit_needs_the_workloads_that_it_depends_on_unchanged(stores: Stores) -> None:
    observe(stores, 2, 0)
    submit(stores)
    moved = node_claim("nc-1", placements=())
    with pytest.raises(ConflictError) as lost:
        stores.node_claims.commit(
            PlannedCommit(claims=(moved,), depends_on={"research/train": 2})
        )
    assert lost.value.rows == ("research/train",)
    assert stores.node_claims.get("nc-1") is None

    stores.node_claims.commit(
        PlannedCommit(claims=(moved,), depends_on={"research/train": 1})
    )
    assert stores.node_claims.get("nc-1") is not None


def test_units_on_their_way_elsewhere_are_listed_until_their_lease_is_closed(
    stores: Stores,
) -> None:
    observe(stores, 2, 0)
    leased = node_claim("mv-1", placements=(), state=ClaimState.FAILED, moves_to="cr-2")
    stores.node_claims.commit(PlannedCommit(claims=(leased,)))
    assert (
        stores.node_claims.list_moving()
        == stores.node_claims.list_leased("cr-1")
        == (leased,)
    )
    assert stores.node_claims.list_live() == ()
    settled = stores.node_claims.settle(
        replace(leased, launched_at=NOW), expected_revision=1
    )
    assert stores.node_claims.list_moving() == (settled,)
    observe(stores, 1, 60, settled)
    assert (balance(stores), stores.node_claims.list_moving()) == (Balance(1, 0), ())


def test_a_claim_is_written_only_over_the_revision_that_was_read(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))

    saved = stores.node_claims.save(
        replace(claim, state=ClaimState.LAUNCHING), expected_revision=1
    )

    assert saved.revision == 2
    assert stores.node_claims.get("nc-1") == saved
    with pytest.raises(ConflictError):
        stores.node_claims.save(claim, expected_revision=1)


def test_a_launch_settles_its_lease_and_can_be_found_by_instance(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))

    launched = launch(stores, claim, 5)

    assert launched.lease is not None
    assert (launched.lease.state, launched.lease.settled_at) == (
        LeaseState.SETTLED,
        NOW + timedelta(seconds=5),
    )
    assert stores.node_claims.get("nc-1") == launched
    assert stores.node_claims.find_by_instance(["i-nc-1", "i-other"]) == {
        "i-nc-1": launched
    }
    assert balance(stores) == Balance(4, 1)


def test_a_failed_launch_gives_its_unit_and_its_replicas_back_once(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))
    failed = replace(claim, state=ClaimState.FAILED)

    returned = stores.node_claims.return_replicas(
        failed, expected_revision=1, placements={"research/train": 1}, returned_at=NOW
    )

    assert returned.lease is not None
    assert returned.lease.state is LeaseState.RETURNED
    assert returned == stores.node_claims.get("nc-1")
    assert balance(stores) == Balance(4, 0)
    assert counts(stores) == (0, 4, 0)
    assert stores.node_claims.list_live() == ()
    assert stores.node_claims.list_leased("cr-1") == ()
    with pytest.raises(ConflictError) as refused:
        stores.node_claims.return_replicas(
            failed, expected_revision=1, placements={"research/train": 1}, returned_at=NOW
        )
    assert set(refused.value.rows) == {"nc-1", "research/train", "cr-1"}
    assert balance(stores) == Balance(4, 0)
    assert counts(stores) == (0, 4, 0)


def test_replicas_of_an_ended_node_return_while_its_lease_waits_to_be_absorbed(
    stores: Stores,
) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))
    launched = launch(stores, claim, 1)

    ended = stores.node_claims.return_replicas(
        replace(
            launched, state=ClaimState.TERMINATED, terminated_at=NOW + timedelta(seconds=2)
        ),
        expected_revision=launched.revision,
        placements={"research/train": 1},
        returned_at=NOW + timedelta(seconds=2),
    )

    assert balance(stores) == Balance(4, 1)
    assert counts(stores) == (0, 4, 0)
    assert stores.node_claims.list_live() == ()
    assert stores.node_claims.list_leased("cr-1") == (ended,)
    assert observe(stores, 4, 60, ended).balance == Balance(4, 0)
    assert stores.node_claims.list_leased("cr-1") == ()


def test_the_ladder_starts_anew_for_replicas_that_lost_their_place(stores: Stores) -> None:
    record = submit(stores, replicas=1)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))
    placed = stores.workloads.get(record.key)
    assert placed is not None
    stores.workloads.put(
        replace(placed, pending_since=None), expected_revision=placed.revision
    )
    assert stores.workloads.list_needing_planning() == ()
    later = NOW + timedelta(hours=1)

    stores.node_claims.return_replicas(
        replace(claim, state=ClaimState.FAILED),
        expected_revision=1,
        placements={record.key: 1},
        returned_at=later,
    )

    (listed,) = stores.workloads.list_needing_planning()
    assert listed.pending_since == later


def test_replicas_that_finish_leave_their_claim_and_are_not_demand_again(
    stores: Stores,
) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1", placements=(PlacedReplicas("research/train", 2),))
    stores.node_claims.commit(PlannedCommit((claim,)))
    record = stores.workloads.get("research/train")
    assert record is not None
    one = (PlacedReplicas("research/train", 1),)
    after = replace(record, placed_count=1, finished_count=1)

    def finish(claim_revision: int, record_revision: int) -> NodeClaim:
        return stores.node_claims.finish_replicas(
            replace(claim, placements=one, finished=one),
            expected_revision=claim_revision,
            record=after,
            expected_record_revision=record_revision,
        )

    for stale in (
        (claim.revision + 1, record.revision),
        (claim.revision, record.revision - 1),
    ):
        with pytest.raises(ConflictError):
            finish(*stale)
    assert counts(stores) == (2, 2, 0), "both or none"
    done = finish(claim.revision, record.revision)
    assert stores.node_claims.get("nc-1") == done
    assert done.finished == one
    assert counts(stores) == (1, 2, 0)
    read = stores.workloads.get("research/train")
    assert read is not None
    assert (read.finished_count, read.open_count) == (1, 2)


def test_more_workloads_than_one_transaction_holds_are_returned(stores: Stores) -> None:
    names = [f"w{index:03}" for index in range(120)]
    for name in names:
        submit(stores, name, replicas=1)
    observe(stores, 4, 0)
    placements = {f"research/{name}": 1 for name in names}
    claim = node_claim("nc-1", placements=(PlacedReplicas("research/w000", 1),))
    stores.node_claims.commit(PlannedCommit((claim,)))
    for start in range(1, 120, 90):
        grown = replace(
            claim,
            placements=claim.placements
            + tuple(
                PlacedReplicas(f"research/{name}", 1) for name in names[start : start + 90]
            ),
        )
        stores.node_claims.commit(PlannedCommit(existing=((claim, grown),)))
        claim = replace(grown, revision=claim.revision + 1)

    returned = stores.node_claims.return_replicas(
        replace(claim, state=ClaimState.FAILED),
        expected_revision=claim.revision,
        placements=placements,
        returned_at=NOW,
    )

    assert returned.placements == ()
    assert stores.node_claims.get("nc-1") == returned
    assert [counts(stores, key) for key in placements] == [(0, 1, 0)] * 120
    assert balance(stores) == Balance(4, 0)


# Observations


def test_a_reservation_is_read_back_as_it_was_observed(stores: Stores) -> None:
    facts = reservation(
        tags={"team": "a"}, end_at=NOW + timedelta(days=1), total_count=3, available_count=5
    )
    saved = stores.reservations.save_observation(
        facts, observed_at=NOW, absorbed=(), expected=None
    )

    assert saved.reservation == replace(facts, available_count=3, free_units=3)
    assert stores.reservations.get("cr-1") == saved
    assert stores.reservations.list_current() == (saved,)
    assert stores.reservations.get("cr-2") is None


def test_many_claims_are_written_at_once_and_those_that_moved_on_are_left_out(
    stores: Stores,
) -> None:
    submit(stores, replicas=250)
    claims = [node_claim(f"nc-{number:03}", lease=None) for number in range(250)]
    for start in range(0, 250, 90):
        stores.node_claims.commit(PlannedCommit(claims=tuple(claims[start : start + 90])))
    moved = stores.node_claims.save(
        replace(claims[7], failure="moved"), expected_revision=1
    )
    unknown = node_claim("nc-unknown", lease=None)

    wanted = [replace(claim, state=ClaimState.LAUNCHING) for claim in (*claims, unknown)]
    saved = stores.node_claims.save_many(wanted)

    assert saved.keys() == {claim.id for claim in claims} - {"nc-007"}
    stored = stores.node_claims.get_many([claim.id for claim in claims])
    assert stored == {**saved, "nc-007": moved}
    assert {claim.revision for claim in stored.values()} == {2}
    assert stores.node_claims.save_many([]) == {}


def test_replicas_of_many_claims_return_at_once_and_each_claims_once(
    stores: Stores,
) -> None:
    for name in ("train", "other"):
        submit(stores, name, replicas=250)
    observe(stores, 4, 0)
    claims = [
        node_claim(
            f"nc-{number:03}",
            lease=Lease("cr-1") if number < 2 else None,
            placements=(
                PlacedReplicas("research/train" if number % 2 else "research/other", 1),
            ),
        )
        for number in range(250)
    ]
    for start in range(0, 250, 90):
        stores.node_claims.commit(PlannedCommit(claims=tuple(claims[start : start + 90])))
    moved = stores.node_claims.save(
        replace(claims[7], failure="moved"), expected_revision=1
    )
    unknown = node_claim("nc-unknown", lease=None)

    failed = [replace(claim, state=ClaimState.FAILED) for claim in (*claims, unknown)]
    returned = stores.node_claims.return_many(failed, returned_at=NOW)

    assert returned.keys() == {claim.id for claim in claims} - {"nc-007"}
    assert stores.node_claims.get_many([claim.id for claim in claims]) == {
        **returned,
        "nc-007": moved,
    }
    assert {(claim.revision, claim.placements) for claim in returned.values()} == {(2, ())}
    assert (counts(stores), counts(stores, "research/other")) == ((1, 249, 0), (0, 250, 0))
    assert balance(stores) == Balance(4, 0)
    assert stores.node_claims.return_many(failed, returned_at=NOW) == {}
    assert counts(stores) == (1, 249, 0)
    assert balance(stores) == Balance(4, 0)


def test_an_observation_keeps_leases_that_it_cannot_contain(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    expected = stores.reservations.get("cr-1")
    stores.node_claims.commit(PlannedCommit((node_claim("nc-1"),)))

    # It began before the commit and is written after it, knowing nothing of it.
    stores.reservations.save_observation(
        reservation(available_count=3),
        observed_at=NOW + timedelta(seconds=1),
        absorbed=(),
        expected=expected,
    )

    assert balance(stores) == Balance(3, 1)


def test_an_observation_after_the_lag_replaces_a_settled_lease(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    stores.node_claims.commit(PlannedCommit((node_claim("nc-1"),)))
    launched = launch(stores, node_claim("nc-1"), 5)

    observe(stores, 3, 5 + COUNT_LAG.total_seconds(), launched)

    assert balance(stores) == Balance(3, 0)
    absorbed = stores.node_claims.get("nc-1")
    assert absorbed is not None
    assert absorbed.lease is not None
    assert (absorbed.lease.state, absorbed.revision) == (
        LeaseState.ABSORBED,
        launched.revision + 1,
    )


def test_the_time_since_which_units_are_free_is_kept(stores: Stores) -> None:
    def observe(minutes: int, available: int) -> ReservationRecord:
        observed_at = NOW + timedelta(minutes=minutes)
        stores.reservations.save_observation(
            reservation(available_count=available),
            observed_at=observed_at,
            absorbed=(),
            expected=record(),
        )
        found = record()
        assert found is not None
        return found

    def record() -> ReservationRecord | None:
        return stores.reservations.get("cr-1")

    assert observe(0, 2).idle_since == NOW
    assert observe(1, 1).idle_since == NOW
    stores.reservations.mark_idle_said(
        ["cr-1", "cr-unknown"], said_at=NOW + timedelta(minutes=2)
    )
    stores.reservations.mark_ending_said({"cr-1": "7 days", "cr-unknown": "7 days"})
    stores.reservations.mark_readiness_said({"cr-1": "ready", "cr-unknown": "ready"})
    full = observe(3, 0)
    assert (full.idle_since, full.idle_said_at) == (None, NOW + timedelta(minutes=2))
    assert (full.ending_said, full.readiness_said) == ("7 days", "ready")
    again = observe(4, 1)
    assert (again.idle_since, again.idle_said_at) == (
        NOW + timedelta(minutes=4),
        NOW + timedelta(minutes=2),
    )
    assert stores.reservations.list_current() == (again,)


def test_an_observation_that_comes_late_changes_nothing(stores: Stores) -> None:
    observe(stores, 4, 0)
    newer = observe(stores, 2, 60)

    assert observe(stores, 4, 30) == newer
    assert balance(stores) == Balance(2, 0)
    # Not even with a view of the row that is older than the newer observation.
    stale_view = replace(newer, observed_at=NOW)
    answer = stores.reservations.save_observation(
        reservation(available_count=4),
        observed_at=NOW + timedelta(seconds=30),
        absorbed=(),
        expected=stale_view,
    )
    assert answer == newer
    assert balance(stores) == Balance(2, 0)


def test_an_observation_is_not_written_when_nothing_changed(stores: Stores) -> None:
    first = observe(stores, 4, 0)

    assert observe(stores, 4, 60) == first
    assert stores.reservations.get("cr-1") == first


def test_an_observation_over_a_claim_that_moved_on_is_refused_whole(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    stores.node_claims.commit(PlannedCommit((node_claim("nc-1"),)))
    launched = launch(stores, node_claim("nc-1"), 5)
    stores.node_claims.save(
        replace(launched, state=ClaimState.RUNNING), expected_revision=launched.revision
    )

    with pytest.raises(ConflictError) as caught:
        observe(stores, 3, 60, launched)

    assert caught.value.rows == ("nc-1",)
    assert balance(stores) == Balance(4, 1)


def test_more_leases_than_one_transaction_holds_are_absorbed(stores: Stores) -> None:
    submit(stores, replicas=150)
    stores.reservations.save_observation(
        reservation("cr-1", 150), observed_at=NOW, absorbed=(), expected=None
    )
    claims = [node_claim(f"nc-{index:03}") for index in range(150)]
    for start in range(0, 150, 50):
        stores.node_claims.commit(PlannedCommit(tuple(claims[start : start + 50])))
    launched = [launch(stores, claim, 1) for claim in claims]

    stores.reservations.save_observation(
        reservation(total_count=150, available_count=0),
        observed_at=NOW + timedelta(seconds=60),
        absorbed=launched,
        expected=stores.reservations.get("cr-1"),
    )

    assert balance(stores) == Balance(0, 0)
    assert stores.node_claims.list_leased("cr-1") == ()


def test_a_refusal_frees_nothing_until_the_next_observation(stores: Stores) -> None:
    submit(stores)
    observe(stores, 4, 0)
    claim = node_claim("nc-1")
    stores.node_claims.commit(PlannedCommit((claim,)))

    stores.reservations.mark_exhausted("cr-1", refused_at=NOW + timedelta(seconds=10))
    stores.node_claims.return_replicas(
        replace(claim, state=ClaimState.FAILED),
        expected_revision=1,
        placements={"research/train": 1},
        returned_at=NOW,
    )

    assert balance(stores) == Balance(0, 0)
    assert observe(stores, 4, 9).balance == Balance(0, 0)  # began before the refusal
    assert observe(stores, 1, 20).balance == Balance(1, 0)
    # late: observed since
    stores.reservations.mark_exhausted("cr-1", refused_at=NOW + timedelta(seconds=15))
    assert balance(stores) == Balance(1, 0)
    stores.reservations.mark_exhausted("cr-unknown", refused_at=NOW)


def test_what_ec2_said_stays_until_the_next_observation(stores: Stores) -> None:
    observe(stores, 4, 0)
    stores.reservations.mark_exhausted(
        "cr-1", refused_at=NOW + timedelta(seconds=10), refusal="Unsupported"
    )
    stores.reservations.mark_exhausted(
        "cr-1", refused_at=NOW + timedelta(seconds=11), refusal="VcpuLimitExceeded"
    )

    (refused,) = stores.reservations.list_current()
    assert refused.reservation.refusal == RefusedUnits("VcpuLimitExceeded", 4)
    assert (refused.reservation.free_units, refused.reservation.units_of_others(0)) == (
        0,
        0,
    )
    assert stores.reservations.mark_stale(["cr-1"]) == 1
    (stale,) = stores.reservations.list_current()
    assert stale.reservation.refusal == RefusedUnits("VcpuLimitExceeded", 4)
    assert observe(stores, 4, 20).reservation.refusal is None
    assert stores.reservations.list_current()[0].reservation.refusal is None
    stores.reservations.mark_exhausted(
        "cr-1", refused_at=NOW + timedelta(seconds=30), refusal="Unsupported"
    )
    stores.reservations.mark_exhausted("cr-1", refused_at=NOW + timedelta(seconds=31))
    assert stores.reservations.list_current()[0].reservation.refusal is None, (
        "EC2 said that all units are taken"
    )


def test_a_class_rests_on_one_market_by_itself(stores: Stores) -> None:
    until = NOW + timedelta(minutes=3)
    on_spot = ClassMarketKey("default", "h1", CapacityType.SPOT)
    stores.offerings.mark_unavailable(
        [on_spot], until=until, reason="Configuration: InvalidParameterValue"
    )

    rests = stores.offerings.list_unavailable(NOW)
    assert rests == {on_spot: Unavailable(until, "Configuration: InvalidParameterValue")}


def test_a_workload_rests_from_spot_by_itself(stores: Stores) -> None:
    until = NOW + timedelta(hours=1)
    lost = SpotLossKey("research/train")
    stores.offerings.mark_unavailable([lost], until=until, reason="it lost more")

    rests = stores.offerings.list_unavailable(NOW)
    assert rests == {lost: Unavailable(until, "it lost more")}
    assert stores.offerings.list_unavailable(until) == {}


def test_failed_discovery_marks_the_last_good_facts_once(stores: Stores) -> None:
    observe(stores, 4, 0)

    assert stores.reservations.mark_stale(["cr-1", "cr-unknown"]) == 1
    assert stores.reservations.mark_stale(["cr-1"]) == 0
    record = stores.reservations.get("cr-1")
    assert record is not None
    assert record.reservation.stale
    assert record.balance == Balance(4, 0)
    assert not observe(stores, 4, 60).reservation.stale


def test_an_ended_reservation_leaves_the_list_when_its_last_lease_is_closed(
    stores: Stores,
) -> None:
    submit(stores)
    observe(stores, 4, 0)
    stores.node_claims.commit(PlannedCommit((node_claim("nc-1"),)))
    launched = launch(stores, node_claim("nc-1"), 1)
    ended = reservation(state="expired", available_count=0)

    def end(seconds: float, *absorbed: NodeClaim) -> None:
        stores.reservations.save_observation(
            ended,
            observed_at=NOW + timedelta(seconds=seconds),
            absorbed=absorbed,
            expected=stores.reservations.get("cr-1"),
        )

    end(20)
    assert [record.reservation.id for record in stores.reservations.list_current()] == [
        "cr-1"
    ]
    end(60, launched)
    assert stores.reservations.list_current() == ()
    assert stores.reservations.get("cr-1") is not None
    observe(stores, 2, 120)
    assert [record.reservation.id for record in stores.reservations.list_current()] == [
        "cr-1"
    ]


# Offerings


def instance_type(name: str, price: int = 1_000_000) -> InstanceType:
    prices = {CapacityType.ON_DEMAND: price, CapacityType.SPOT: price}
    return values.instance_type(name, 4, 16, values.sold(prices, [(ZONE, ZONE_ID)]))


def test_an_unchanged_catalogue_writes_nothing(stores: Stores) -> None:
    catalogue = [instance_type("m5.large"), instance_type("c5.large")]

    assert stores.offerings.load_catalogue() == ()
    assert stores.offerings.save_catalogue(catalogue) == 2
    assert stores.offerings.save_catalogue(catalogue) == 0
    assert stores.offerings.load_catalogue() == (catalogue[1], catalogue[0])
    stores.clock.advance(seconds=60)
    assert stores.offerings.load_catalogue() == (catalogue[1], catalogue[0])
    stores.clock.advance(seconds=60)
    assert stores.offerings.save_catalogue([instance_type("m5.large", 2_000_000)]) == 2
    assert stores.offerings.load_catalogue() == (instance_type("m5.large", 2_000_000),)


def test_types_are_read_by_name_with_what_rests(stores: Stores) -> None:
    stores.offerings.save_catalogue(
        [instance_type("m5.large"), instance_type("c5.large"), instance_type("p5.48xlarge")]
    )
    until = NOW + timedelta(minutes=5)
    stores.offerings.mark_unavailable(
        [Market(CapacityType.SPOT)], until=until, reason="quota"
    )
    everything, rests = stores.offerings.load_with_rests()

    named = stores.offerings.load_with_rests({"m5.large", "c5.large", "no.such"})

    assert named == ((everything[0], everything[1]), rests)
    assert stores.offerings.load_with_rests(()) == ((), rests)


def test_a_shortage_lasts_until_its_end_and_the_later_end_wins(stores: Stores) -> None:
    stores.offerings.save_catalogue([instance_type("m5.large")])
    spot = OfferingKey("m5.large", ZONE, ZONE_ID, CapacityType.SPOT)
    until = NOW + timedelta(minutes=3)

    stores.offerings.mark_unavailable([spot], until=until)
    stores.offerings.mark_unavailable(
        [spot], until=NOW + timedelta(minutes=1), reason="shorter"
    )

    assert stores.offerings.list_unavailable(NOW) == {spot: Unavailable(until)}
    (loaded,) = stores.offerings.load_catalogue()
    assert [offering.unavailable_until for offering in loaded.offerings] == [None, until]
    stores.clock.advance(minutes=3)
    assert stores.offerings.list_unavailable(stores.clock.now()) == {}
    (loaded,) = stores.offerings.load_catalogue()
    assert all(offering.is_available(stores.clock.now()) for offering in loaded.offerings)


def test_subnets_and_reservations_rest_beside_the_catalogue(stores: Stores) -> None:
    """Neither is part of it; they are told apart from everything that is."""
    stores.offerings.save_catalogue([instance_type("m5.large")])
    unit = OfferingKey("m5.large", ZONE, ZONE_ID, CapacityType.RESERVED, "cr-1")
    until = NOW + timedelta(minutes=3)
    stores.offerings.mark_unavailable([SubnetKey("subnet-1"), unit], until=until)
    (loaded,), rests = stores.offerings.load_with_rests()
    assert rests == {SubnetKey("subnet-1"): Unavailable(until), unit: Unavailable(until)}
    assert all(offering.is_available(NOW) for offering in loaded.offerings)
    stores.clock.advance(minutes=3)
    assert stores.offerings.load_with_rests() == ((loaded,), {})


def test_a_market_rests_as_a_whole_and_says_why(stores: Stores) -> None:
    stores.offerings.save_catalogue(
        [instance_type("m5.large"), instance_type("p5.48xlarge")]
    )
    until = NOW + timedelta(minutes=5)
    market = Market(CapacityType.ON_DEMAND, "Standard")
    stores.offerings.mark_unavailable([market], until=until, reason="quota")

    standard, other = stores.offerings.load_catalogue()

    rests = {
        offering.capacity_type: offering.unavailable_until
        for offering in standard.offerings
    }
    assert rests == {CapacityType.ON_DEMAND: until, CapacityType.SPOT: None}
    assert [offering.unavailable_reason for offering in standard.offerings] == ["quota", ""]
    assert all(offering.unavailable_until is None for offering in other.offerings)
    assert stores.offerings.list_unavailable(NOW) == {market: Unavailable(until, "quota")}
    stores.offerings.mark_unavailable([Market(CapacityType.SPOT)], until=until)
    assert all(
        each.unavailable_until
        for t in stores.offerings.load_catalogue()
        for each in t.offerings[1:]
    )


def test_a_row_larger_than_dynamodb_takes_is_refused_by_its_name(stores: Stores) -> None:
    record = submit(stores)
    assert record.workload is not None
    too_large = replace(record.workload, annotations={"note": "x" * 410_000})

    with pytest.raises(RowsRefusedError) as caught:
        stores.workloads.put(
            replace(record, workload=too_large), expected_revision=record.revision
        )

    assert caught.value.rows == (record.key,)
    assert stores.workloads.get(record.key) == record
