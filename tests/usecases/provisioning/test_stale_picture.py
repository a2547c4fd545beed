"""A planner whose picture of the fleet is old: what it decides on that is not committed, and nothing is lost."""

from dataclasses import replace

from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.scheduling_terms.resources import Resources

TWO_CPUS = Resources.of({"cpu": 2_000})


def world_with_room() -> tuple[PlanningWorld, NodeClaim]:
    """Return a world with one node that runs and has room, and the node's claim."""
    pool = node_pool_manifest(capacity_types=("on-demand",))
    world = PlanningWorld().ready(reservation(total_count=1, available_count=0), pool=pool)
    world.submit("first", replicas=1, requests=Resources.of({"cpu": 12_000}))
    world.plan()
    (claim,) = world.state.claim_rows.values()
    running = replace(claim, state=ClaimState.RUNNING, running_at=world.clock.now())
    return world, world.state.node_claims.save(running, expected_revision=claim.revision)


def test_room_that_is_gone_by_now_is_not_given_away() -> None:
    world, node = world_with_room()
    stale = world.state.node_claims.list_live()
    full = replace(node, placements=(*node.placements, PlacedReplicas("research/other", 1)))
    # somebody else was faster
    world.state.node_claims.save(full, expected_revision=node.revision)
    world.state.node_claims.list_live = lambda: stale  # type: ignore[method-assign] # the index lags
    world.submit("second", replicas=1, requests=TWO_CPUS)

    report = world.plan()

    assert report.conflict_count == 1  # the row that was lost is read itself then
    (stored,) = (claim for claim in world.state.claim_rows.values() if claim.id == node.id)
    assert stored.placements[:2] == full.placements
    assert world.workload("second").placed_count == 1
    placed = [it for claim in world.state.claim_rows.values() for it in claim.placements]
    assert [it for it in placed if it.workload_key == "research/second"] == [
        PlacedReplicas("research/second", 1)
    ]


def test_a_picture_that_stays_old_is_waited_for() -> None:
    world = PlanningWorld().ready(reservation("cr-1", 1, tags={"team": "research"}))
    stale = world.state.reservations.list_current()
    (record,) = stale
    leased = replace(record.balance, outstanding_count=1)
    # somebody else was faster
    world.state.reservations.rebalance(record, leased, record.observed_at)
    world.state.reservations.list_current = lambda: stale  # type: ignore[method-assign] # the index lags
    world.submit("first", replicas=1, requests=TWO_CPUS)
    woken_before = len(world.queue.wake_ups)

    report = world.plan()

    assert report.conflict_count == report.attempts
    assert world.workload("first").placed_count == 0
    assert world.pauses_s == [1.0]  # for the index; the next pass would only lose again
    assert len(world.queue.wake_ups) == woken_before + 1


def test_a_node_that_has_ended_by_now_gets_nothing() -> None:
    world, node = world_with_room()
    stale = world.state.node_claims.list_live()
    world.state.claim_rows[node.id] = replace(
        node, state=ClaimState.TERMINATED, revision=node.revision + 1
    )
    real, shown = world.state.node_claims.list_live, [stale]

    def lagging() -> tuple[NodeClaim, ...]:
        return shown.pop() if shown else real()

    world.state.node_claims.list_live = lagging  # type: ignore[method-assign] # the index lags
    world.submit("second", replicas=1, requests=TWO_CPUS)

    report = world.plan()

    assert report.conflict_count == 1
    hosts = [
        it.id
        for it in world.state.claim_rows.values()
        if "research/second" in {p.workload_key for p in it.placements}
    ]
    assert len(hosts) == 1
    assert hosts != [node.id]
