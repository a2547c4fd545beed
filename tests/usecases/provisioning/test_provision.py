"""A planning pass: reserved first, everything in transactions, every death repaired."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.effects import Killed
from lab.fakes.manifests import team_manifest
from lab.fakes.stores.state import MemoryNodeClaims
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_class_manifest, node_pool_manifest
from reservoir.core.capacity.ledger import Balance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, LeaseState, PlacedGeneration
from reservoir.core.model.plan import Plan, ReasonCode, UnplacedReplicas
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import AffinityTerm, Gang, LabelSelector
from reservoir.core.scheduling_terms.efa import EFA
from reservoir.core.scheduling_terms.labels import HOSTNAME, ZONE
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.core.sharing.reading_turns import ReadingBound
from reservoir.ports.errors import RowsRefusedError, TransientError
from reservoir.ports.history import Decision
from reservoir.ports.state import PlannedCommit
from reservoir.usecases.demand.intake import submitted
from reservoir.usecases.provisioning.provision import PlanRejectedError

TEAM = {"team": "research"}


def world_with(units: int, **pool: Any) -> PlanningWorld:
    return PlanningWorld().ready(
        reservation(total_count=max(4, units), available_count=units, tags=TEAM),
        pool=node_pool_manifest(**pool) if pool else None,
    )


def test_reserved_units_are_leased_first_and_the_rest_is_bought() -> None:
    world = world_with(3)
    world.submit(replicas=5)

    report = world.plan()

    claims = world.state.node_claims.list_live()
    reserved = [
        claim for claim in claims if claim.offering.capacity_type is CapacityType.RESERVED
    ]
    assert (len(reserved), len(claims)) == (3, 5)
    assert {claim.lease.reservation_id for claim in reserved if claim.lease} == {"cr-1"}
    assert world.reservation().balance == Balance(3, 3)
    assert (world.workload().placed_count, world.workload().pending_count) == (5, 0)
    assert (report.placed_count, report.unplaced_count, report.claim_count) == (5, 0, 5)
    assert world.state.workloads.list_needing_planning() == ()


def test_equal_claims_share_a_launch_batch() -> None:
    world = world_with(3)
    world.submit(replicas=5)
    world.plan()

    sizes = sorted(len(batch.claim_ids) for batch in world.queue.launches)
    assert sizes == [2, 3]
    assert {claim_id for batch in world.queue.launches for claim_id in batch.claim_ids} == {
        claim.id for claim in world.state.node_claims.list_live()
    }


def test_a_node_is_a_teams_if_all_work_that_it_is_planned_for_is() -> None:
    world = world_with(0)
    world.apply(
        team_manifest("vision", namespaces=["vision"]),
        team_manifest("research", namespaces=["research"]),
    )
    small = Resources.of({"nvidia.com/gpu": 1})
    world.submit("own", replicas=1)
    world.submit("nobodys", namespace="web", replicas=1)
    world.submit("shared", namespace="vision", requests=small, replicas=1)
    world.submit("too", requests=small, replicas=1)
    world.plan()
    found = {
        tuple(sorted(placed.workload_key for placed in claim.placements)): claim
        for claim in world.state.node_claims.list_live()
    }
    assert {keys: claim.team for keys, claim in found.items()} == {
        ("research/own",): "research",
        ("web/nobodys",): "",
        ("research/too", "vision/shared"): "",
    }
    # whose tags differ are not asked for in one call
    assert found["research/own",].batch_id != found["web/nobodys",].batch_id


def test_a_node_has_efas_only_if_its_replicas_ask_for_them() -> None:
    world = world_with(2, capacity_types=("reserved",))
    world.submit("plain", replicas=1)
    world.plan()
    (plain,) = world.state.node_claims.list_live()
    assert plain.allocatable[EFA] == 0

    one_gpu = {"cpu": 1000, "nvidia.com/gpu": 1}
    world.submit("fabric", replicas=1, requests=Resources.of({**one_gpu, EFA: 4}))
    world.plan()

    fabric = next(
        claim for claim in world.state.node_claims.list_live() if claim.id != plain.id
    )
    # although the other node had room for everything else
    assert fabric.allocatable[EFA] == 32
    assert fabric.placements[0].workload_key == "research/fabric"


def test_placements_and_exhaustion_are_told() -> None:
    world = world_with(3)
    world.submit(replicas=5)
    world.plan()

    (placed,) = world.bus.of("Workload Placed")
    assert (placed["workload"]["name"], placed["replicas"], len(placed["nodes"])) == (
        "train",
        5,
        5,
    )
    (exhausted,) = world.bus.of("Reservation Exhausted")
    assert exhausted["capacityReservationId"] == "cr-1"


def test_replicas_that_wait_are_told_once_with_their_reason() -> None:
    world = world_with(2, capacity_types=("reserved",))
    world.submit(replicas=5)
    world.plan()

    (pending,) = world.bus.of("Workload Pending")
    assert (pending["replicas"], pending["reason"]) == (3, "ReservationFull")
    written = world.state.write_count
    for _ in range(3):
        world.clock.advance(minutes=1)
        world.plan()
    assert len(world.bus.of("Workload Pending")) == 1
    assert world.state.write_count == written
    assert [item.code for item in world.workload().unplaced] == ["ReservationFull"]


def test_the_next_pass_fills_nodes_that_are_on_their_way() -> None:
    world = world_with(1, capacity_types=("reserved",))
    small = Resources.of({"cpu": 20_000})
    world.submit("first", replicas=1, requests=small)
    world.plan()
    world.submit("second", replicas=3, requests=small)

    report = world.plan()

    (claim,) = world.state.node_claims.list_live()
    assert {placed.workload_key: placed.count for placed in claim.placements} == {
        "research/first": 1,
        "research/second": 3,
    }
    assert report.claim_count == 0
    assert world.reservation().balance == Balance(1, 1)
    assert [len(batch.claim_ids) for batch in world.queue.launches] == [1]


def test_an_idle_pass_neither_solves_nor_writes() -> None:
    world = world_with(1)
    written = world.state.write_count

    report = world.plan()

    assert (world.solves, world.state.write_count, report.plan_ids, report.attempts) == (
        0,
        written,
        [],
        0,
    )


def test_the_decision_can_be_replayed() -> None:
    world = world_with(3)
    world.submit(replicas=5)
    (plan_id,) = world.plan().plan_ids

    stored = world.state.decisions.load(plan_id)
    assert stored is not None
    decision, snapshot_json = stored
    again = world.solve(
        loads(Snapshot, snapshot_json), decision.made_at, world.provisioner().policy
    )
    assert again == loads(Plan, decision.plan_json)
    assert {claim.plan_id for claim in world.state.node_claims.list_live()} == {plan_id}


def test_what_is_kept_for_a_replay_holds_no_user_data() -> None:
    world = PlanningWorld().ready(
        reservation(total_count=4, available_count=3, tags=TEAM),
        node_class=node_class_manifest(userData="#!/bin/sh\nexport TOKEN=hunter2\n"),
    )
    world.submit(replicas=5)
    (plan_id,) = world.plan().plan_ids
    stored = world.state.decisions.load(plan_id)
    assert stored is not None
    decision, snapshot_json = stored
    assert "default" in snapshot_json  # the class is there
    assert "hunter2" not in snapshot_json + decision.plan_json


def overcommitting(world: PlanningWorld, *names: str) -> Any:
    """A scheduler with a bug: it plans twice as many reserved nodes for these workloads as they need."""
    keys = {f"research/{name}" for name in names}

    def solve(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        plan = world.solve(snapshot, now, policy)
        launches = tuple(
            replace(it, count=2 * it.count)
            if keys & {placed.workload_key for placed in it.placements}
            else it
            for it in plan.launches
        )
        cost = plan.cost_atto_usd_per_hour + sum(
            (new.count - old.count) * (old.price_atto_usd_per_hour + 2_000 * 10**12)
            for new, old in zip(launches, plan.launches, strict=True)
        )
        return replace(plan, launches=launches, cost_atto_usd_per_hour=cost)

    return solve


def test_a_plan_that_breaks_a_rule_is_kept_and_only_whom_it_is_about_waits() -> None:
    world = world_with(2)
    world.submit("good", replicas=1)
    world.submit("bad", replicas=1)

    report = world.provisioner(solve=overcommitting(world, "bad")).run()

    assert (report.placed_count, report.unplaced_count, report.held_count) == (1, 1, 1)
    assert [
        claim.placements[0].workload_key for claim in world.state.node_claims.list_live()
    ] == ["research/good"]
    (held,) = world.workload("bad").unplaced
    assert (held.code, held.count) == (ReasonCode.PLAN_REJECTED, 1)
    assert [event["reason"] for event in world.bus.of("Workload Pending")] == [
        "PlanRejected"
    ]
    rejected_id = report.rejected[0].split(":")[0]
    assert rejected_id in held.message
    assert rejected_id not in report.plan_ids
    assert world.state.decisions.load(rejected_id) is not None


def test_the_plan_without_those_held_replays_from_its_own_snapshot() -> None:
    world = world_with(2)
    world.submit("good", replicas=1)
    world.submit("bad", replicas=1)
    (plan_id,) = world.provisioner(solve=overcommitting(world, "bad")).run().plan_ids

    stored = world.state.decisions.load(plan_id)
    assert stored is not None
    decision, snapshot_json = stored
    again = world.solve(
        loads(Snapshot, snapshot_json), decision.made_at, world.provisioner().policy
    )
    assert again == loads(Plan, decision.plan_json)
    assert {claim.plan_id for claim in world.state.node_claims.list_live()} == {plan_id}


def test_whoever_was_held_is_placed_as_soon_as_no_rule_is_broken() -> None:
    world = world_with(2)
    world.submit("bad", replicas=1)
    assert world.provisioner(solve=overcommitting(world, "bad")).run().held_count == 1
    assert world.state.node_claims.list_live() == ()

    report = world.plan()

    assert (report.placed_count, report.held_count) == (1, 0)
    assert world.workload("bad").unplaced == ()


def test_who_runs_beside_the_held_ones_still_counts() -> None:
    """Replicas of a held workload that run already keep others away as before."""
    world = world_with(4)
    apart = (AffinityTerm(HOSTNAME, LabelSelector((("app", "other"),))),)
    world.submit("bad", replicas=1, anti_affinity=apart)
    world.plan()
    record = world.workload("bad")
    assert record.workload is not None
    grown = replace(
        record, generation=2, workload=replace(record.workload, generation=2, replicas=2)
    )
    world.state.workloads.put(grown, expected_revision=record.revision)
    world.submit("other", replicas=1, labels={"app": "other"})

    report = world.provisioner(solve=overcommitting(world, "bad")).run()

    assert (report.placed_count, report.held_count) == (1, 1)
    assert len(world.state.node_claims.list_live()) == 2


@pytest.mark.parametrize(
    ("late", "waiting", "woken"),
    [
        (("late",), ReasonCode.OUT_OF_TIME, ["out of time"]),
        # the next pass would have no less to do
        (("late", "early"), ReasonCode.OUT_OF_TIME, []),
        (("late",), ReasonCode.RESERVATION_FULL, []),
    ],
)
def test_a_pass_that_had_no_time_for_all_wakes_another_if_that_has_less_to_do(
    late: tuple[str, ...], waiting: ReasonCode, woken: list[str]
) -> None:
    world = world_with(2)
    for name in ("early", "late"):
        world.submit(name, replicas=1)

    def cut_short(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        looked_at = tuple(it for it in snapshot.demands if it.workload.name not in late)
        plan = world.solve(replace(snapshot, demands=looked_at), now, policy)
        return replace(
            plan,
            unplaced=tuple(
                UnplacedReplicas(f"research/{name}", 1, waiting, "") for name in late
            ),
        )

    world.queue.wake_ups.clear()
    report = world.provisioner(solve=cut_short, check=lambda *_: ()).run()

    assert report.late_count == (len(late) if waiting is ReasonCode.OUT_OF_TIME else 0)
    assert world.queue.wake_ups == woken


def test_a_bug_that_is_about_nobody_in_particular_rejects_the_plan() -> None:
    world = world_with(1)
    world.submit(replicas=2)

    def miscounting(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        return replace(world.solve(snapshot, now, policy), cost_atto_usd_per_hour=1)

    with pytest.raises(PlanRejectedError) as caught:
        world.provisioner(solve=miscounting).run()

    assert world.state.decisions.load(caught.value.plan_id) is not None
    assert world.state.node_claims.list_live() == ()
    assert world.reservation().balance == Balance(1, 0)


def test_a_bug_that_moves_on_to_others_rejects_all() -> None:
    world = world_with(8)
    names = [f"job-{number}" for number in range(5)]
    for name in names:
        world.submit(name, replicas=1)

    def wandering(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        first = min(demand.workload.name for demand in snapshot.demands)
        plan: Plan = overcommitting(world, first)(snapshot, now, policy)
        return plan

    with pytest.raises(PlanRejectedError):
        world.provisioner(solve=wandering).run()

    assert world.state.node_claims.list_live() == ()


def test_a_plan_that_could_be_better_is_told_of_and_applied() -> None:
    world = world_with(2)
    world.submit(replicas=2)

    def timid(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        """Leave one of two free units, and a replica that it could run, for no reason."""
        plan = world.solve(snapshot, now, policy)
        (reserved,) = plan.launches
        assert reserved.count == 2
        left = UnplacedReplicas(
            reserved.placements[0].workload_key,
            1,
            ReasonCode.RESERVATION_FULL,
            "no unit is free",
        )
        cost = plan.cost_atto_usd_per_hour // 2
        return replace(
            plan,
            launches=(replace(reserved, count=1),),
            unplaced=(left,),
            cost_atto_usd_per_hour=cost,
        )

    report = world.provisioner(solve=timid).run()

    assert report.placed_count == 1
    (shortcoming,) = report.shortcomings
    assert "UnplacedWithoutCause" in shortcoming


def test_a_lost_race_is_planned_again_with_what_is_left() -> None:
    world = world_with(4)
    world.submit(replicas=4)

    def outsider_comes_first(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        plan = world.solve(snapshot, now, policy)
        if world.solves == 1:  # EC2's count falls while the first plan is made
            world.clock.advance(seconds=1)
            world.reader.put(reservation(available_count=1, tags=TEAM))
            world.discover()
        return plan

    report = world.provisioner(solve=outsider_comes_first).run()

    kinds = sorted(
        claim.offering.capacity_type for claim in world.state.node_claims.list_live()
    )
    assert kinds == ["on-demand", "on-demand", "on-demand", "reserved"]
    assert (report.attempts, report.conflict_count, world.workload().pending_count) == (
        2,
        1,
        0,
    )


def test_a_workload_that_changed_meanwhile_is_planned_by_its_new_spec() -> None:
    world = world_with(4)
    world.submit(replicas=4)

    def changed_meanwhile(snapshot: Snapshot, now: Any, policy: Any) -> Plan:
        plan = world.solve(snapshot, now, policy)
        record = world.workload()
        if record.generation == 1 and record.workload is not None:
            spec = replace(
                record.workload, generation=2, requests=Resources.of({"cpu": 1000})
            )
            world.state.workloads.put(
                replace(record, generation=2, workload=spec),
                expected_revision=record.revision,
            )
        return plan

    world.provisioner(solve=changed_meanwhile).run()

    (claim,) = world.state.node_claims.list_live()
    assert claim.placements[0].count == 4


def test_a_gang_is_committed_whole_over_many_transactions() -> None:
    world = PlanningWorld().ready(reservation("cr-1", 150, tags=TEAM))
    world.submit(replicas=150, gang=Gang())

    world.plan()

    assert len(world.state.node_claims.list_live()) == 150
    assert sum(len(batch.claim_ids) for batch in world.queue.launches) == 150


def test_a_gang_that_cannot_be_committed_whole_is_given_back() -> None:
    world = PlanningWorld().ready(
        reservation("cr-1", 150, tags=TEAM),
        pool=node_pool_manifest(capacity_types=("reserved",)),
    )
    world.submit(replicas=150, gang=Gang())
    original = world.state.node_claims.commit
    commits = iter(range(100))

    def outsider_after_the_first_transaction(commit: PlannedCommit) -> None:
        if next(commits) == 1:
            world.state.reservations.mark_exhausted(
                "cr-1", refused_at=world.clock.advance(seconds=1)
            )
        original(commit)

    world.state.node_claims.commit = outsider_after_the_first_transaction  # type: ignore[method-assign] # interferes
    world.plan()

    assert world.state.node_claims.list_live() == ()
    assert world.queue.launches == []
    assert world.reservation().balance.outstanding_count == 0
    assert world.workload().pending_count == 150


def test_half_a_gang_of_a_planner_that_died_is_given_back_by_the_next_pass() -> None:
    world = PlanningWorld().ready(reservation("cr-1", 150, tags=TEAM))
    world.submit(replicas=150, gang=Gang())
    die_at_write(world, 3)  # the decision, the first transaction, then the second
    with pytest.raises(Killed):
        world.plan()
    assert 0 < world.workload().placed_count < 150
    assert world.queue.launches == []

    world.clock.advance(minutes=1)
    report = world.plan()

    assert report.repaired_count > 0
    assert sum(len(batch.claim_ids) for batch in world.queue.launches) == 150
    assert world.workload().pending_count == 0
    assert world.reservation().balance == Balance(150, 150)


def test_demand_does_not_wait_for_a_store_of_decisions_that_is_down() -> None:
    world = PlanningWorld().ready(reservation("cr-1", 2, tags=TEAM))
    world.submit(replicas=2)

    def down(decision: Decision, snapshot_json: str) -> None:  # noqa: ARG001 - a store's signature
        raise TransientError("SlowDown", "PutObject")

    world.state.decisions.save = down  # type: ignore[method-assign] # interferes
    # the pass is repeated, and counted as an error
    with pytest.raises(TransientError, match="SlowDown"):
        world.plan()

    assert world.workload().pending_count == 0
    assert sum(len(batch.claim_ids) for batch in world.queue.launches) == 2
    assert len(world.bus.of("Workload Placed")) == 1


def die_at_write(world: PlanningWorld, number: int) -> None:
    """Kill the function before its write of this number, once."""
    writes: Iterator[int] = iter(range(1, 1_000_000))

    def maybe() -> None:
        if next(writes) == number:
            world.state.before_write = lambda: None
            raise Killed

    world.state.before_write = maybe


@pytest.mark.parametrize("number", range(1, 12))
def test_a_death_before_any_write_leaks_nothing_and_loses_no_replica(number: int) -> None:
    world = PlanningWorld().ready(reservation("cr-1", 120, tags=TEAM))
    world.submit(replicas=130)
    world.submit("small", replicas=7, requests=Resources.of({"cpu": 500}))
    die_at_write(world, number)
    try:
        world.plan()
    except Killed:
        world.plan()

    claims = world.state.node_claims.list_live()
    placed = sum(item.count for claim in claims for item in claim.placements)
    assert placed == 137
    assert (world.workload().placed_count, world.workload("small").placed_count) == (130, 7)
    leased = sum(
        claim.lease is not None and claim.lease.state is LeaseState.HELD for claim in claims
    )
    assert world.reservation().balance == Balance(120, leased)
    assert leased == 120
    assert world.state.workloads.list_needing_planning() == ()


def test_what_a_pass_has_no_room_to_read_the_next_ones_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_with(1)
    planner = world.provisioner()
    bound = ReadingBound(rows=40, page_rows=10)
    monkeypatch.setattr(planner.gatherer.turns, "_bound", bound)
    for number in range(100):
        world.submit(f"w{number:03}", replicas=1, requests=Resources.of({"cpu": 1_000}))
    reports = [planner.run() for _ in range(3)]
    assert [it.unread_count for it in reports] == [60, 20, 0]
    assert [it.placed_count for it in reports] == [40, 40, 20]
    assert world.state.workloads.list_needing_planning() == ()


def test_who_fits_nowhere_keeps_nobody_from_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_with(1)
    planner = world.provisioner()
    bound = ReadingBound(rows=40, page_rows=10)
    monkeypatch.setattr(planner.gatherer.turns, "_bound", bound)
    for number in range(100):
        world.submit(f"w{number:03}", replicas=1, requests=Resources.of({"cpu": 10**9}))
    world.submit("zzz", replicas=1, requests=Resources.of({"cpu": 1_000}))
    placed = 0
    for _ in range(3):
        placed += planner.run().placed_count
        world.clock.advance(minutes=1)
    assert placed == 1
    waiting = world.state.workloads.list_needing_planning()
    assert all(record.unplaced for record in waiting), "each was told why it waits"


def test_a_claim_takes_more_workloads_than_one_transaction_holds() -> None:
    world = world_with(1, capacity_types=("reserved",))
    for index in range(150):
        world.submit(f"w{index:03}", replicas=1, requests=Resources.of({"cpu": 1000}))

    report = world.plan()

    (claim,) = world.state.node_claims.list_live()
    assert sum(placed.count for placed in claim.placements) == 150
    assert report.placed_count == 150
    assert world.state.workloads.list_needing_planning() == ()


def test_surplus_is_handed_to_the_drain_protocol() -> None:
    world = world_with(2)
    world.submit(replicas=2)
    world.plan()
    record = world.workload()
    world.state.workloads.put(
        replace(record, withdrawn=True), expected_revision=record.revision
    )

    world.plan()

    ((shed, hosts),) = world.shed
    assert (shed.key, shed.surplus_count, hosts) == ("research/train", 2, 2)


def test_a_tombstone_gets_its_end_when_nothing_runs_any_more() -> None:
    world = world_with(2)
    record = world.submit(replicas=2)
    world.state.workloads.put(
        replace(record, withdrawn=True, placed_count=1, pending_since=world.clock.now()),
        expected_revision=record.revision,
    )
    row = world.state.workload_rows["research/train"]
    world.state.workload_rows["research/train"] = replace(row, placed_count=0)
    # As DynamoDB has it: a row that a return satisfied is still listed.
    world.state.workloads.list_needing_planning = lambda: (row,)  # type: ignore[method-assign] # a lagging index

    world.plan()

    expires_at = world.workload().expires_at
    assert expires_at is not None
    assert expires_at - world.clock.now() > timedelta(days=14)


def test_a_pass_says_how_long_it_solved_and_how_much_dearer_its_plan_may_be() -> None:
    world = world_with(1)
    idle = world.plan()
    assert (idle.solve_s, idle.gap_percent) == (None, None)
    world.submit(replicas=5)
    report = world.plan()
    assert report.solve_s == 1  # from one look at the clock to the next
    stored = world.state.decisions.load(report.plan_ids[0])
    assert stored is not None
    assert report.gap_percent == loads(Plan, stored[0].plan_json).gap_percent


def test_the_gap_is_of_the_bound_and_unknown_without_one() -> None:
    gaps = [
        Plan(cost_atto_usd_per_hour=110, lower_bound_atto_usd_per_hour=bound).gap_percent
        for bound in (100, 0, None)
    ]
    assert gaps == [10.0, None, None]


def test_work_that_says_it_is_smaller_by_now_leaves_no_room_for_others() -> None:
    """An update changes what is wanted, never what runs."""
    world = world_with(0)
    world.submit(replicas=1)
    world.plan()
    record = world.workload()
    assert record.workload is not None
    smaller = replace(record.workload, generation=2, requests=Resources.of({}))
    updated = submitted(record, smaller, world.clock.now())
    assert updated is not None
    world.state.workloads.put(updated, expected_revision=record.revision)
    world.submit("other", replicas=1)
    world.plan()
    assert len(world.state.node_claims.list_live()) == 2


def test_earlier_specs_are_forgotten_when_nothing_runs_with_them() -> None:
    world = world_with(0)
    world.submit(replicas=1)
    world.plan()
    record = world.workload()
    assert record.workload is not None
    updated = submitted(
        record, replace(record.workload, generation=2, priority=3), world.clock.now()
    )
    assert updated is not None
    world.state.workloads.put(updated, expected_revision=record.revision)
    world.plan()
    assert [each.generation for each in world.workload().former] == [1]
    (claim,) = world.state.node_claims.list_live()
    world.state.node_claims.return_replicas(
        replace(claim, state=ClaimState.FAILED),
        expected_revision=claim.revision,
        placements={"research/train": 1},
        returned_at=world.clock.now(),
    )
    world.plan()
    (after,) = world.state.node_claims.list_live()
    assert after.placed_with == (PlacedGeneration("research/train", 2, 1, share=1_000_000),)
    world.plan()
    assert world.workload().former == ()


def test_anti_affinity_that_reaches_another_team_keeps_it_out_of_nothing() -> None:
    """Accepted before there was a Team, it would wall the other team off for as long as it runs."""
    world = world_with(0)
    term = AffinityTerm(ZONE, LabelSelector(), namespaces=frozenset({"vision"}))
    world.submit(replicas=3, anti_affinity=(term,))
    world.plan()
    world.submit("other", namespace="vision", replicas=1)
    world.apply(
        team_manifest("vision", namespaces=["vision"]),
        team_manifest("research", namespaces=["research"]),
    )
    world.plan()
    waiting = world.state.workloads.get("vision/other")
    assert waiting is not None
    assert waiting.pending_count == 0


def test_a_row_that_dynamodb_does_not_take_keeps_no_other_from_its_reason() -> None:
    world = world_with(0, capacity_types=("reserved",))
    world.submit("a-first", replicas=1)
    world.submit("b-second", replicas=1)
    rows = world.state.workload_rows
    large = rows["research/a-first"]
    assert large.workload is not None
    rows[large.key] = replace(
        large, workload=replace(large.workload, annotations={"note": "x" * 410_000})
    )

    world.plan()

    assert world.workload("b-second").unplaced
    assert not world.workload("a-first").unplaced


class _RefusingRow(MemoryNodeClaims):
    """Does not take transactions with one workload's row."""

    def commit(self, commit: PlannedCommit) -> None:
        if "research/a-first" in commit.placed_by_workload():
            raise RowsRefusedError(
                "ValidationException", "TransactWriteItems", ["research/a-first"]
            )
        super().commit(commit)


def test_a_row_that_dynamodb_does_not_take_keeps_no_other_from_its_place() -> None:
    world = world_with(2, capacity_types=("reserved",))
    world.submit("a-first", replicas=1, gang=Gang())
    world.submit("b-second", replicas=1)
    world.state.node_claims = _RefusingRow(world.state)

    report = world.plan()

    assert (report.placed_count, report.conflict_count) == (1, 0)
    assert world.workload("b-second").placed_count == 1


class _Wordy(PlanningWorld):
    """Whose plans explain at length why nothing is placed."""

    def solve(self, snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
        del snapshot, now, policy
        message = "in the way: " + "ns/web, " * 1_000
        return Plan(
            unplaced=(UnplacedReplicas("research/train", 1, ReasonCode.TOPOLOGY, message),)
            * 20
        )


def test_no_reason_is_longer_than_a_row_has_room_for() -> None:
    world = _Wordy().ready(reservation(total_count=4, available_count=0, tags=TEAM))
    world.submit(replicas=20)

    world.plan()

    stored = world.workload()
    assert len(stored.unplaced) == 16
    assert len(dumps(stored)) < 40_000
