"""A pass knows what the one before it committed, although the index of claims does not show it yet."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.fakes.values import node_claim, reservation
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.errors import UnknownOutcomeError
from reservoir.ports.state import PlannedCommit
from reservoir.usecases.provisioning.recent_commits import RecentCommits

BIG = Resources.of({"cpu": 12_000})


def a_pool_of_one_node() -> PlanningWorld:
    """Return a world whose pool has the limit of one large node, and whose index shows no claim."""
    pool = node_pool_manifest(capacity_types=("on-demand",))
    pool["spec"]["limits"] = {"cpu": "20"}
    world = PlanningWorld().ready(reservation(total_count=1, available_count=0), pool=pool)

    def nothing() -> tuple[NodeClaim, ...]:
        return ()

    world.state.node_claims.list_live = nothing  # type: ignore[method-assign] # the index lags
    return world


def nodes(world: PlanningWorld) -> list[str]:
    return [claim.offering.instance_type for claim in world.state.claim_rows.values()]


@pytest.mark.parametrize("seconds", [5, 300], ids=["seconds between", "a clock that jumps"])
def test_limits_of_a_pool_count_nodes_that_are_not_listed_yet(seconds: int) -> None:
    world = a_pool_of_one_node()
    planner = world.provisioner()
    for number in range(3):
        world.submit(f"job-{number}", replicas=1, requests=BIG)
        planner.run()
        world.clock.advance(seconds=seconds)

    assert nodes(world) == ["m5.4xlarge"]


def test_so_they_do_where_the_answer_to_the_commit_was_lost() -> None:
    world = a_pool_of_one_node()
    commit = world.state.node_claims.commit

    def unanswered(it: PlannedCommit) -> None:
        commit(it)
        raise UnknownOutcomeError("ReadTimeout", "commit")

    planner = world.provisioner()
    world.submit("first", replicas=1, requests=BIG)
    world.state.node_claims.commit = unanswered  # type: ignore[method-assign, assignment] # once
    with pytest.raises(UnknownOutcomeError):
        planner.run()
    world.state.node_claims.commit = commit  # type: ignore[method-assign] # as before
    world.submit("second", replicas=1, requests=BIG)
    planner.run()

    assert nodes(world) == ["m5.4xlarge"]


def test_a_node_that_has_ended_frees_its_limit_although_nothing_lists_it() -> None:
    world = a_pool_of_one_node()
    planner = world.provisioner()
    world.submit("first", replicas=1, requests=BIG)
    planner.run()
    (claim,) = world.state.claim_rows.values()
    world.state.claim_rows[claim.id] = replace(
        claim, state=ClaimState.FAILED, revision=claim.revision + 1
    )
    world.submit("second", replicas=1, requests=BIG)
    planner.run()

    assert nodes(world) == ["m5.4xlarge", "m5.4xlarge"]


def test_a_node_that_nobody_can_read_any_more_stops_no_pass() -> None:
    world = a_pool_of_one_node()
    planner = world.provisioner()
    world.submit("first", replicas=1, requests=BIG)
    planner.run()
    world.state.unreadable |= world.state.claim_rows.keys()  # a newer release wrote it
    world.submit("second", replicas=1, requests=BIG)

    assert planner.run().claim_count == 1  # a node that cannot be read is not counted


def after(seconds: float) -> Callable[[], float]:
    """Return what the process measures: 0 at first, then so much."""
    looks = iter([0.0])
    return lambda: next(looks, seconds)


@pytest.mark.parametrize(
    ("listed", "seconds", "is_asked_for"),
    [(None, 1, True), (None, 3600, True), (3, 3600, True), (4, 1, False), (5, 3600, False)],
    ids=["not listed", "never listed", "as it was before", "as it is", "changed since"],
)
def test_a_claim_is_asked_for_until_listings_show_it_as_committed(
    listed: int | None, seconds: float, is_asked_for: bool
) -> None:
    recent = RecentCommits(after(seconds))
    before = node_claim("nc-1", revision=3)
    grown = replace(before, placements=(PlacedReplicas("research/train", 2),))
    recent.add(PlannedCommit(existing=((before, grown),)))

    shown = {} if listed is None else {"nc-1": node_claim("nc-1", revision=listed)}
    assert recent.not_in(shown) == (["nc-1"] if is_asked_for else [])
    # Another copy of the index may be behind the one that showed it; an hour later none is.
    assert recent.not_in({}) == ([] if listed == 5 else ["nc-1"])


@pytest.mark.parametrize(
    "stored",
    [
        None,
        node_claim("nc-1", revision=1),
        node_claim("nc-1", revision=2, state=ClaimState.FAILED),
    ],
    ids=["no row", "never committed", "ended"],
)
def test_what_is_not_live_or_not_committed_is_forgotten(stored: NodeClaim | None) -> None:
    recent = RecentCommits(after(1))
    before = node_claim("nc-1", revision=1)
    recent.add(PlannedCommit(claims=(node_claim("nc-0"),), existing=((before, before),)))
    assert recent.not_in({}) == ["nc-0", "nc-1"]
    recent.forget_ended(
        ["nc-0", "nc-1"],
        {"nc-0": node_claim("nc-0")} | ({} if stored is None else {"nc-1": stored}),
    )
    assert recent.not_in({}) == ["nc-0"]
