"""Each invariant can fail: a world in which it does not hold is found out."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lab.fakes.values import node_claim, reservation, workload_record
from lab.simulation.aws.lambdas import Run
from lab.simulation.aws.lender import SimulatedLender
from lab.simulation.invariants import (
    demand,
    launches,
    lending,
    lives,
    operations,
    placed,
    promises,
    reservations,
    standing,
    teams,
    warm,
)
from lab.simulation.invariants.base import Invariant, Violation
from lab.simulation.invariants.watcher import INVARIANTS, Watcher
from lab.simulation.kernel import HOUR, MINUTE, SECOND, START
from lab.simulation.people.users import POOL
from lab.simulation.play import play
from lab.simulation.standing_pool import STANDING
from lab.simulation.world import World
from reservoir.core.capacity.ledger import Balance
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import (
    ClaimState,
    DisruptionMark,
    Drain,
    DrainReason,
    NodeClaim,
    Operation,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Quota, ResourceQuota, Team
from reservoir.core.safety.endings import Bound, Bounds, EndingKind
from reservoir.core.safety.tally import Passed, Tally
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.names import Function
from reservoir.ports.ec2 import TerminationReceipt
from reservoir.ports.policy import Pause, PolicyKind
from reservoir.ports.state import PlannedCommit, ReservationRecord

CLAIM: NodeClaim = node_claim("nc-1")
REPLICAS = (PlacedReplicas("research/train", 1),)
LIMITS_AND_TEAMS = {
    demand.LimitsAreKept,
    lending.NothingPromisedIsLent,
    standing.StaticPoolsAreNeverTooLarge,
    teams.BorrowingLimitsAreKept,
    teams.LendingLimitsAreKept,
    teams.ResourceQuotasAreKept,
    teams.TeamBudgetsAreKept,
    warm.WarmNodesAreFreeUnits,
}


class Scene:
    """A world with one reservation, one instance in it and one claim."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.ec2.reserve(reservation("cr-1", total_count=1))

    def see(self, invariant: type[Invariant]) -> Any:
        """Return the invariant alone."""
        return invariant(self.world)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def drain(deadline: timedelta) -> Drain:
    return Drain("drain-nc-1", DrainReason.DRIFT, START, START + deadline, REPLICAS)


def test_replicas_that_are_placed_and_not_counted(scene: Scene) -> None:
    scene.world.state.workload_rows["research/train"] = replace(
        workload_record(), placed_count=1
    )
    with pytest.raises(Violation, match="counts 1 placed replicas, 0 are on claims"):
        scene.see(demand.EveryPlacedReplicaIsCounted).holds()


@pytest.mark.parametrize(
    "state", [ClaimState.TERMINATING, ClaimState.FAILED, ClaimState.DRAINING]
)
def test_replicas_on_an_ended_claim(scene: Scene, state: ClaimState) -> None:
    with pytest.raises(Violation):
        scene.see(demand.EndedClaimsHoldNothing).row_written(
            "nc-1", None, replace(CLAIM, state=state)
        )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"state": ClaimState.RUNNING}, {"state": ClaimState.LAUNCHED, "revision": 2}),
        ({}, {"revision": 3}),
        (
            {"drain": drain(timedelta(0))},
            {"drain": drain(timedelta(minutes=1)), "revision": 2},
        ),
        ({"drain": drain(timedelta(0))}, {"drain": None, "revision": 2}),
    ],
)
def test_a_claim_that_moves_back(
    scene: Scene, before: dict[str, Any], after: dict[str, Any]
) -> None:
    with pytest.raises(Violation):
        scene.see(lives.ClaimsOnlyMoveForward).row_written(
            "nc-1", replace(CLAIM, **before), replace(CLAIM, **after)
        )


def test_a_lease_that_nobody_counts(scene: Scene) -> None:
    state = scene.world.state
    state.reservations.save_observation(
        reservation("cr-1"), observed_at=START, absorbed=(), expected=None
    )
    state.claim_rows["nc-1"] = CLAIM
    with pytest.raises(Violation, match="counts 0 leases, claims hold 1"):
        scene.see(reservations.LeasesEqualWhatTheyStandFor).holds()


def test_two_promises_of_one_unit(scene: Scene) -> None:
    seen = scene.see(reservations.NoUnitIsPromisedTwice)
    for name in ("nc-1", "nc-2"):
        scene.world.state.claim_rows[name] = replace(CLAIM, id=name, batch_id=name)
    with pytest.raises(Violation, match="has 1 units, 0 are used"):
        seen.row_written("nc-2", None, scene.world.state.claim_rows["nc-2"])
    scene.world.ec2.touched.add("cr-1")
    seen.row_written("nc-2", None, scene.world.state.claim_rows["nc-2"])


@pytest.mark.parametrize(("total_count", "holds"), [(1, False), (2, True)])
def test_a_unit_beside_one_that_is_handed_on(
    scene: Scene, total_count: int, holds: bool
) -> None:
    seen = scene.see(reservations.NoUnitIsPromisedTwice)
    scene.world.ec2.reserve(reservation("cr-1", total_count=total_count))
    scene.world.ec2.add(replace(_instance(), capacity_reservation_id="cr-1"))
    rows = scene.world.state.claim_rows
    rows["nc-1"] = replace(CLAIM, waits_for_slot=True)
    rows["nc-2"] = replace(CLAIM, id="nc-2", batch_id="nc-2")
    with nullcontext() if holds else pytest.raises(Violation, match="1 are used"):
        seen.row_written("nc-2", None, rows["nc-2"])


def test_an_instance_of_two_claims(scene: Scene) -> None:
    claims = [replace(CLAIM, id=name, instance_id="i-1") for name in ("nc-1", "nc-2")]
    for claim in claims:
        scene.world.state.claim_rows[claim.id] = claim
    with pytest.raises(Violation, match="i-1 belongs to nc-2 and to nc-1"):
        scene.see(launches.NothingIsLaunchedTwice).row_written("nc-2", None, claims[1])


def block(scene: Scene, **times: timedelta) -> None:
    ends = {name: START + after for name, after in times.items()}
    scene.world.ec2.reserve(
        reservation("cr-1", kind=ReservationKind.CAPACITY_BLOCK, **ends)
    )


def test_replicas_in_a_block_that_drains(scene: Scene) -> None:
    block(scene, end_at=timedelta(hours=1))
    late = replace(CLAIM, created_at=START + timedelta(minutes=21))
    with pytest.raises(Violation, match="its block drains from"):
        scene.see(lives.NothingIsPlacedInABlockThatDrains).row_written("nc-1", None, late)


def test_a_node_that_is_ended_too_early(scene: Scene) -> None:
    scene.world.ec2.add(_instance())
    before = replace(
        CLAIM,
        state=ClaimState.DRAINING,
        instance_id="i-1",
        placements=(),
        drain=drain(timedelta(minutes=9)),
    )
    with pytest.raises(Violation, match="was to live until"):
        scene.see(lives.NobodyIsEndedBeforeItsDeadline).row_written(
            "nc-1", before, replace(before, state=ClaimState.TERMINATING)
        )


def test_a_drain_past_the_envelope(scene: Scene) -> None:
    drained = replace(CLAIM, state=ClaimState.DRAINING, drain=drain(timedelta(minutes=9)))
    with pytest.raises(Violation, match="is in no tally of disruption"):
        scene.see(lives.WhatEndsByChoicePassesTheEnvelope).row_written(
            "nc-1", CLAIM, drained
        )


def test_a_termination_that_no_claim_knows_of(scene: Scene) -> None:
    scene.world.state.claim_rows["nc-1"] = replace(
        CLAIM, state=ClaimState.RUNNING, instance_id="i-1"
    )
    with pytest.raises(Violation, match="was terminated while nc-1 is running"):
        scene.see(lives.NothingIsTerminatedWithoutIntent).called(
            None, "ec2.terminate", TerminationReceipt(frozenset({"i-1"}))
        )


def test_events_that_are_not_so(scene: Scene) -> None:
    scene.world.ec2.add(_instance())
    seen = scene.see(lives.EventsTellWhatIsSo)
    with pytest.raises(Violation, match="Node Launched of i-2, which does not exist"):
        seen.heard("Node Launched", {"node": {"instanceId": "i-2"}})
    with pytest.raises(Violation, match="i-1 was announced to be gone and is running"):
        seen.heard("Node Terminated", {"node": {"instanceId": "i-1"}})


def test_a_block_that_was_not_drained(scene: Scene) -> None:
    block(scene, end_at=timedelta(hours=1))
    scene.world.state.claim_rows["nc-1"] = replace(
        CLAIM, state=ClaimState.RUNNING, drain_at=START, launched_at=START
    )
    seen = scene.see(lives.BlocksAreDrainedInTime)
    seen.ended(Run(1, Function.EXPIRE, 20 * MINUTE, 0, outcome="done"))
    # not its part of a sweep
    for event in ({"drainDeadline": "then"}, {"capacityReservationId": "cr-2"}):
        seen.ended(Run(1, Function.EXPIRE, 24 * MINUTE, 0, event, outcome="done"))
    for event in ({}, {"capacityReservationId": "cr-1"}):
        with pytest.raises(Violation, match="nc-1 is running; its block drains since"):
            seen.ended(Run(1, Function.EXPIRE, 24 * MINUTE, 0, event, outcome="done"))


def test_an_instance_that_nobody_has(scene: Scene) -> None:
    scene.world.ec2.add(replace(_instance(), owner="simulation"))
    seen, run = (
        scene.see(launches.NoInstanceStaysWithoutAClaim),
        Run(1, Function.COLLECT, 0, 0, outcome="done"),
    )
    seen.ended(run)
    scene.world.kernel.now_us = HOUR
    with pytest.raises(Violation, match="i-1 has had no claim"):
        seen.ended(run)


def test_a_function_that_calls_what_is_not_there(scene: Scene) -> None:
    seen = scene.see(launches.FunctionsFailOfAwsAlone)
    refused = Run(1, Function.LAUNCH, 0, 0, outcome="failed", error="ThrottledError: no")
    seen.ended(refused)
    seen.ended(replace(refused, outcome="killed", error="AttributeError: 'Sqs' ..."))
    with pytest.raises(Violation, match="launch failed: AttributeError: 'Sqs'"):
        seen.ended(replace(refused, error="AttributeError: 'Sqs' ..."))


def test_more_instances_than_claims(scene: Scene) -> None:
    scene.world.ec2.add(replace(_instance(), batch_id="b-1"))
    with pytest.raises(Violation, match="b-1 has 0 claims and 1 instances"):
        scene.see(launches.NothingIsLaunchedTwice).called(None, "ec2.launch", None)


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda each: each.__name__)
def test_each_has_a_sentence(invariant: type[Invariant]) -> None:
    assert invariant.sentence().endswith(".")


def _instance() -> Instance:
    return Instance("i-1", "running", "p5.48xlarge", "us-east-1a", "use1-az1", START)


def test_a_unit_that_ec2_refuses(scene: Scene) -> None:
    scene.world.ec2.refused.append("cr-1 has 0 of 1 units")
    with pytest.raises(Violation, match="cr-1 has 0 of 1 units"):
        scene.see(reservations.UnitsThatWerePromisedAreThere).called(
            None, "ec2.launch", None
        )


def test_a_token_that_comes_back_with_another_request(scene: Scene) -> None:
    scene.world.ec2.mismatches.append("token")
    with pytest.raises(Violation, match="token"):
        scene.see(launches.TokensStandForOneRequest).ended(Run(1, Function.LAUNCH, 0, 0))


def test_a_claim_that_waits_for_ever(scene: Scene) -> None:
    scene.world.state.claim_rows["nc-1"] = CLAIM
    scene.world.kernel.now_us = HOUR
    with pytest.raises(Violation, match="nc-1 is planned since"):
        scene.see(launches.NoClaimWaitsForEver).ended(
            Run(1, Function.COLLECT, 0, 0, outcome="done")
        )


def test_a_function_that_repeats_as_fast_as_it_can(scene: Scene) -> None:
    seen = scene.see(launches.EverythingBacksOff)
    for _ in range(20):
        seen.ended(Run(1, Function.EXPIRE, 0, 0))
    seen.ended(Run(1, Function.EXPIRE, MINUTE, 0))
    with pytest.raises(Violation, match="expire ran 21 times within a minute"):
        seen.ended(Run(1, Function.EXPIRE, 0, 0))


def test_more_placed_than_wanted(scene: Scene) -> None:
    record = workload_record()
    with pytest.raises(Violation, match="research/train wants 4 replicas, 5 are placed"):
        scene.see(demand.NothingIsPlacedThatNobodyWants).row_written(
            record.key, record, replace(record, placed_count=5)
        )


def test_a_plan_for_what_has_changed(scene: Scene) -> None:
    commit = PlannedCommit(
        claims=(replace(CLAIM, placements=REPLICAS),), generations={"research/train": 1}
    )
    scene.world.state.committed = (commit, {"research/train": 2})
    with pytest.raises(Violation, match="of generation 2, the plan was for 1"):
        scene.see(demand.NothingIsPlacedThatNobodyWants).called(
            None, "node_claims.commit", None
        )


def test_more_nodes_than_the_limit(scene: Scene) -> None:
    scene.world.limits = {"nodes": "1"}
    seen = scene.see(demand.LimitsAreKept)
    for name in ("nc-1", "nc-2"):
        scene.world.state.claim_rows[name] = replace(
            CLAIM, id=name, node_pool_name=POOL, created_at=START
        )
        seen.row_written(name, None, scene.world.state.claim_rows[name])
    with pytest.raises(Violation, match="the pool has 2 of 1 nodes"):
        seen.holds()


def test_a_node_beyond_the_limit_whose_pass_could_not_know_the_other(scene: Scene) -> None:
    """The other was decided long before it was committed, and the index lags behind its commit."""
    scene.world.limits = {"nodes": "1"}
    seen = scene.see(demand.LimitsAreKept)
    for name, committed_us in (("nc-1", 30 * SECOND), ("nc-2", 45 * SECOND)):
        scene.world.kernel.now_us = committed_us
        made = replace(CLAIM, id=name, node_pool_name=POOL, plan_id=name, created_at=START)
        scene.world.state.claim_rows[name] = made
        seen.row_written(name, None, made)
        seen.holds()
    scene.world.kernel.now_us = 51 * SECOND
    late = replace(CLAIM, id="nc-3", node_pool_name=POOL, plan_id="nc-3", created_at=START)
    scene.world.state.claim_rows["nc-3"] = late
    seen.row_written("nc-3", None, late)
    with pytest.raises(Violation, match="the pool has 2 of 1 nodes"):
        seen.holds()


def test_two_nodes_at_once_beyond_the_budget(scene: Scene) -> None:
    scene.world.budget = "1"
    mark = DisruptionMark("c", DrainReason.DRIFT, START)
    staying = replace(CLAIM, id="nc-2", node_pool_name=POOL)
    scene.world.state.claim_rows["nc-1"] = replace(staying, id="nc-1", disruption=mark)
    with pytest.raises(Violation, match="nc-2 was chosen while"):
        scene.see(lives.BudgetsAreKept).row_written(
            "nc-2", staying, replace(staying, disruption=mark)
        )


def test_replicas_on_a_cordoned_node(scene: Scene) -> None:
    before = replace(CLAIM, cordoned=True, placements=())
    with pytest.raises(Violation, match="nc-1 is cordoned and got"):
        scene.see(operations.CordonedNodesReceiveNothing).row_written(
            "nc-1", before, replace(CLAIM, cordoned=True)
        )


def test_a_launch_of_a_pool_that_is_paused(scene: Scene) -> None:
    seen = scene.see(operations.PausedPoolsLaunchNothing)
    pool = scene.world.policy.get(PolicyKind.NODE_POOL, POOL)
    assert pool is not None
    scene.world.policy.save_pause(POOL, Pause(is_paused=True), expected=pool.pause)
    seen.called(running(Function.OPERATE, 0), "policy.save_pause", None)
    attempt = SimpleNamespace(claim_ids=("nc-1",))
    seen.called(running(Function.LAUNCH, 0), "launch_attempts.begin", attempt)
    with pytest.raises(
        Violation, match=r"launch did launch_attempts\.begin; the pool is paused"
    ):
        seen.called(running(Function.LAUNCH, 1), "launch_attempts.begin", attempt)


def test_a_static_pool_with_a_node_too_many(scene: Scene) -> None:
    scene.world.standing.generation, scene.world.standing.most_wanted = 1, 1
    seen = scene.see(standing.StaticPoolsAreNeverTooLarge)
    rows = scene.world.state.claim_rows
    rows["nc-1"] = replace(CLAIM, node_pool_name=STANDING)
    seen.holds()
    rows["nc-2"] = replace(CLAIM, id="nc-2", node_pool_name=STANDING)
    with pytest.raises(Violation, match="1 nodes were wanted at most"):
        seen.holds()


def test_a_warm_node_with_work_on_it(scene: Scene) -> None:
    with pytest.raises(Violation, match="nc-1 counts as warm and holds"):
        scene.see(warm.WarmNodesAreFreeUnits).row_written(
            "nc-1", None, replace(CLAIM, is_warm=True, placements=REPLICAS)
        )


def test_more_warm_nodes_than_units(scene: Scene) -> None:
    seen = scene.see(warm.WarmNodesAreFreeUnits)
    rows = scene.world.state.claim_rows
    rows["nc-1"] = replace(CLAIM, is_warm=True, placements=())
    seen.holds()
    rows["nc-2"] = replace(CLAIM, id="nc-2", is_warm=True, placements=())
    with pytest.raises(Violation, match="cr-1 has 1 units, and 2 warm nodes"):
        seen.holds()


def test_a_unit_that_is_lent_although_a_node_was_promised_it(scene: Scene) -> None:
    seen = scene.see(lending.NothingPromisedIsLent)
    ec2 = scene.world.ec2
    ec2.alter("cr-1", total_count=2)
    scene.world.state.claim_rows["nc-1"] = replace(CLAIM, state=ClaimState.PLANNED)
    lender = SimulatedLender(ec2, scene.world.kernel)
    lender.begin("cr-1", 1, {}, "first")
    seen.called(None, "unit_lender.begin", None)
    lender.change("cr-1", 2)
    with pytest.raises(Violation, match="cr-1 has 0 free units beside what it lends"):
        seen.called(None, "unit_lender.change", None)


def running(function: Function, began_us: int) -> Any:
    """Return an environment in which a function has run since then."""
    return SimpleNamespace(function=function, run=Run(1, function, began_us, HOUR))


def test_an_operation_that_nobody_was_told_of(scene: Scene) -> None:
    seen = scene.see(operations.OperationsAreTold)
    cordoned = replace(
        CLAIM, cordoned=True, operations=(Operation("cordon", "arn", "why", START),)
    )
    seen.heard("Operation Requested", {"verb": "cordon", "names": ["nc-2"]})
    with pytest.raises(Violation, match="cordon of nc-1 was told nobody"):
        seen.row_written("nc-1", CLAIM, cordoned)


def test_a_finished_replica_that_is_counted_twice_or_never_finished(scene: Scene) -> None:
    seen = scene.see(operations.FinishedIsCountedOnce)
    done = replace(CLAIM, finished=REPLICAS)
    with pytest.raises(Violation, match="are said to have finished on nc-1, 0 have"):
        seen.row_written("nc-1", CLAIM, done)
    scene.world.agents.finished["nc-1", "research/train"] = 1
    seen.row_written("nc-1", CLAIM, done)
    scene.world.state.claim_rows["nc-1"] = done
    with pytest.raises(Violation, match="counts 2 finished replicas, its nodes 1"):
        seen.row_written(
            "research/train",
            workload_record(),
            replace(workload_record(), finished_count=2),
        )
    told = {"workload": {"namespace": "research", "name": "train"}, "finished": 1}
    seen.heard("Replica Finished", told)
    with pytest.raises(
        Violation, match="2 replicas of research/train are said to have finished, 1 have"
    ):
        seen.heard("Replica Finished", {**told, "finished": 2})


def test_a_drain_that_nobody_was_told_of_or_not_in_time(scene: Scene) -> None:
    seen = scene.see(promises.DrainsAreAnnounced)
    drained = replace(CLAIM, state=ClaimState.DRAINING, drain=drain(timedelta(minutes=9)))
    with pytest.raises(Violation, match="told was None"):
        seen.row_written("nc-1", CLAIM, drained)
    told = {
        "node": {"nodeClaim": "nc-1"},
        "deadline": (START + timedelta(minutes=15)).isoformat(),
    }
    seen.heard("Node Draining", told)
    with pytest.raises(Violation, match="nc-1 drains until"):
        seen.row_written("nc-1", CLAIM, drained)


def test_more_endings_than_the_bound_of_the_hour(scene: Scene) -> None:
    scene.world.bounds = Bounds({EndingKind.EXPIRY: Bound(0, 1, 1)})
    tally = Tally(EndingKind.EXPIRY, (Passed(START, ("nc-1", "nc-2")),))
    scene.world.tallies.put(tally, expected_revision=None)
    with pytest.raises(Violation, match="passed as expiry within an hour"):
        scene.see(promises.EndingsStayWithinBounds).called(None, "tallies.put", None)


def scene_of_teams(scene: Scene, **limits: Any) -> Scene:
    quota = Quota((), 1, limits.get("borrowing_limit_units"))
    scene.world.teams = (
        Team(
            "research",
            ("research",),
            quotas=(quota,),
            budget_micro_usd_per_hour=limits.get("budget"),
        ),
    )
    return scene


def commit(scene: Scene, invariant: Any, *claims: NodeClaim, environment: int = 1) -> None:
    for claim in claims:
        scene.world.state.claim_rows[claim.id] = claim
        invariant.row_written(claim.id, None, claim)
    invariant.called(SimpleNamespace(number=environment), "node_claims.commit", None)
    invariant.holds()


def test_a_unit_beyond_what_a_team_may_borrow(scene: Scene) -> None:
    seen = scene_of_teams(scene, borrowing_limit_units=0).see(teams.BorrowingLimitsAreKept)
    mine = replace(CLAIM, placements=REPLICAS, created_at=START)
    commit(scene, seen, mine)
    with pytest.raises(Violation, match="research owns 1, may borrow 0 and has"):
        commit(scene, seen, replace(mine, id="nc-2"))


def test_what_runs_is_as_large_as_it_was_when_it_was_placed(scene: Scene) -> None:
    seen = scene.see(placed.NodesHoldWhatRuns)
    record = workload_record(requests=Resources.of({"cpu": 100_000}))
    scene.world.state.workload_rows[record.key] = record
    first = replace(CLAIM, placements=(PlacedReplicas(record.key, 1),))
    seen.row_written("nc-1", None, first)
    assert record.workload is not None
    smaller = replace(record.workload, requests=Resources.of({"cpu": 50_000}))
    scene.world.state.workload_rows[record.key] = replace(record, workload=smaller)
    second = replace(first, placements=(PlacedReplicas(record.key, 2),))
    seen.row_written("nc-1", first, second)
    with pytest.raises(Violation, match="nc-1 has"):
        seen.row_written(
            "nc-1", second, replace(first, placements=(PlacedReplicas(record.key, 3),))
        )


@pytest.mark.parametrize(("minutes", "is_early"), [(20, False), (13, True)])
def test_a_drain_that_a_neighbour_moved(
    scene: Scene, minutes: int, *, is_early: bool
) -> None:
    block(scene, end_at=timedelta(hours=1))
    seen = scene.see(placed.NeighboursMoveNoDrain)
    record = workload_record(checkpoint_period_s=14 * 60)
    scene.world.state.workload_rows[record.key] = record
    running = replace(CLAIM, placements=(PlacedReplicas(record.key, 1),))
    seen.row_written("nc-1", None, running)
    at = START + timedelta(minutes=minutes)
    begun = replace(
        drain(timedelta(minutes=9)),
        reason=DrainReason.CAPACITY_BLOCK_ENDING,
        notified_at=at,
    )
    with (
        pytest.raises(Violation, match="its work was placed for")
        if is_early
        else nullcontext()
    ):
        seen.row_written("nc-1", running, replace(running, placements=(), drain=begun))


@pytest.mark.parametrize(
    ("capacity_type", "is_over"),
    [(CapacityType.SPOT, True), (CapacityType.ON_DEMAND, False)],
)
def test_more_of_a_resource_than_all_own(
    scene: Scene, capacity_type: CapacityType, *, is_over: bool
) -> None:
    """Two teams own 7 vCPUs of spot together; a replica requests 4."""
    scene.world.teams = tuple(
        Team(
            name,
            (name,),
            resource_quotas=(ResourceQuota((CapacityType.SPOT,), "cpu", cpus * 1000),),
        )
        for name, cpus in (("research", 5), ("audio", 2))
    )
    seen = scene.see(teams.ResourceQuotasAreKept)
    record = workload_record(requests=Resources.of({"cpu": 4_000}))
    scene.world.state.workload_rows[record.key] = record
    offering = replace(CLAIM.offering, capacity_type=capacity_type, reservation_id=None)
    mine = replace(
        CLAIM,
        placements=(PlacedReplicas(record.key, 1),),
        offering=offering,
        lease=None,
        created_at=START,
    )
    commit(scene, seen, mine)
    with (
        pytest.raises(Violation, match="request 8000 millicores")
        if is_over
        else nullcontext()
    ):
        commit(scene, seen, replace(mine, id="nc-2"))


@pytest.mark.parametrize(
    ("lent", "used", "minutes_ago", "left_is_enough"),
    [
        (0, 0, 0, False),
        (1, 0, 0, True),
        (None, 0, 0, True),
        (0, 1, 0, True),
        (0, 1, 1, True),
        (0, 1, 4, False),
    ],
    ids=[
        "keeps both",
        "lends one",
        "lends all",
        "uses one",
        "used one just now",
        "used one long ago",
    ],
)
def test_a_loan_of_what_its_owner_keeps(
    scene: Scene, lent: int | None, used: int, minutes_ago: int, *, left_is_enough: bool
) -> None:
    """Three units, of which audio owns two; research, which owns none, takes two at once."""
    owner = Team("audio", ("audio",), quotas=(Quota((), 2, None, lent),))
    scene.world.teams = (
        owner,
        Team("research", ("research",), quotas=(Quota((), 0, None),)),
    )
    seen = scene.see(teams.LendingLimitsAreKept)
    scene.world.state.reservations.save_observation(
        reservation("cr-1", 3), observed_at=START, absorbed=(), expected=None
    )
    seen.row_written("cr-1", None, scene.world.state.reservation_rows["cr-1"])
    taken = replace(CLAIM, placements=REPLICAS, created_at=START)
    if used:
        theirs = replace(taken, id="nc-0", placements=(PlacedReplicas("audio/train", 1),))
        commit(scene, seen, theirs)
        if minutes_ago:
            scene.world.state.claim_rows["nc-0"] = ended = replace(
                theirs, state=ClaimState.TERMINATED
            )
            seen.row_written("nc-0", theirs, ended)
            scene.world.kernel.now_us += minutes_ago * MINUTE
    with (
        nullcontext()
        if left_is_enough
        else pytest.raises(Violation, match="research borrows and leaves 1 units")
    ):
        commit(scene, seen, taken, replace(taken, id="nc-2"))


def test_a_loan_of_a_unit_that_a_restore_set_free(scene: Scene) -> None:
    scene.world.teams = (Team("audio", ("audio",), quotas=(Quota((), 0, None),)),)
    seen = scene.see(teams.LendingLimitsAreKept)
    taken, free = (
        ReservationRecord(reservation("cr-1"), Balance(1, outstanding_count), START)
        for outstanding_count in (1, 0)
    )
    scene.world.state.reservation_rows["cr-1"] = taken
    seen.row_written("cr-1", None, taken)
    # nobody had written the row that this one replaces
    seen.row_written("cr-1", free, taken)
    commit(scene, seen, replace(CLAIM, placements=REPLICAS, created_at=START))


def test_a_node_beyond_a_teams_budget(scene: Scene) -> None:
    scene.world.kernel.now_us = MINUTE
    seen = scene_of_teams(scene, budget=1_500_000).see(teams.TeamBudgetsAreKept)
    price = 10**18  # atto-USD: one USD an hour
    bought = replace(
        CLAIM,
        placements=REPLICAS,
        created_at=START,
        lease=None,
        price_atto_usd_per_hour=price,
    )
    commit(scene, seen, bought)
    # listings may not show it the first one yet
    commit(scene, seen, replace(bought, id="nc-2"), environment=2)
    with pytest.raises(Violation, match="research spends 2000 m"):
        commit(scene, seen, replace(bought, id="nc-3"), environment=2)


def test_a_clock_decides_nothing_about_what_a_pass_could_know(scene: Scene) -> None:
    scene.world.kernel.now_us = MINUTE
    seen = scene_of_teams(scene, budget=1_500_000).see(teams.TeamBudgetsAreKept)
    slow = replace(
        CLAIM,
        placements=REPLICAS,
        created_at=START,
        lease=None,
        price_atto_usd_per_hour=10**18,
    )
    commit(scene, seen, slow)  # a minute ago, by the clock of who wrote it
    commit(scene, seen, replace(slow, id="nc-2"), environment=2)
    scene.world.kernel.now_us += MINUTE
    with pytest.raises(Violation, match="research spends 3000 m"):
        commit(scene, seen, replace(slow, id="nc-3"), environment=3)


def test_an_event_of_a_replica_on_an_instance_that_never_was(scene: Scene) -> None:
    scene.world.ec2.add(_instance())
    with pytest.raises(Violation, match="i-2"):
        scene.see(lives.EventsTellWhatIsSo).heard(
            "Replica Ready", {"node": {"instanceId": "i-2"}}
        )


def test_an_event_of_a_place_that_is_none(scene: Scene) -> None:
    placed = {
        "workload": {"name": "train"},
        "nodes": [{"nodeClaim": "nc-9", "nodePool": "pool"}],
    }
    with pytest.raises(Violation, match="is said to be on nc-9"):
        scene.see(lives.EventsTellWhatIsSo).heard("Workload Placed", placed)


@pytest.mark.parametrize("seed", [1, 5])
def test_invariants_that_do_not_concern_a_world_find_nothing_there(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    left_out = {each for each in INVARIANTS if not each.concerns(World(seed))}
    assert left_out
    assert left_out <= LIMITS_AND_TEAMS
    verdict = play(seed, 300)
    for each in left_out:
        monkeypatch.setattr(each, "concerns", lambda _world: True)
    assert play(seed, 300) == verdict


def test_an_invariant_hears_of_the_calls_that_it_looks_at() -> None:
    heard: list[tuple[str, str]] = []

    class OfAllCalls(Invariant):
        def called(self, *call: Any) -> None:
            heard.append((self.name(), call[1]))

    class OfTerminations(OfAllCalls):
        points = frozenset({"ec2.terminate"})

    watcher: Any = Watcher(World(1), [OfTerminations, OfAllCalls])
    for point in ("ec2.terminate", "ec2.launch", "ec2.terminate"):
        watcher.called(None, point, None)
    of_one, of_all = ("OfTerminations", "ec2.terminate"), ("OfAllCalls", "ec2.terminate")
    assert heard == [of_one, of_all, ("OfAllCalls", "ec2.launch"), of_one, of_all]
