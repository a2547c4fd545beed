"""Rolling updates: what runs with an earlier spec is replaced, node by node, within the workload's own bounds."""

import json
from dataclasses import replace
from typing import Any

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.workload import RollingUpdate
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.manifests.answers.listed import WorkloadRow
from reservoir.manifests.messages import WithdrawMessage, parse_demand
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.demand.intake import submitted, withdrawn
from reservoir.usecases.listing.list_workloads import ListWorkloads

WEB = "research/web"
SURGE_ONE = RollingUpdate("1", "0")
ONE_LESS = RollingUpdate("0", "1")


def rolling(bounds: RollingUpdate | None, replicas: int = 4, **world: Any) -> DisruptWorld:
    """A service of one replica a node that runs."""
    made = DisruptWorld("on-demand", consolidateAfter="Never", **world)
    made.submit("web", replicas=replicas, gpus=8, rolling_update=bounds)
    made.minutes(2)
    return made


def stored(world: DisruptWorld) -> WorkloadRecord:
    return world.state.workload_rows[WEB]


def update(world: DisruptWorld, **changes: Any) -> None:
    """Send the workload's next generation, as intake applies it."""
    record = stored(world)
    assert record.workload is not None
    wanted = replace(
        record.workload,
        generation=record.generation + 1,
        **changes or {"labels": {"rev": str(record.generation + 1)}},
    )
    after = submitted(record, wanted, world.clock.now())
    assert after is not None
    world.state.workloads.put(after, expected_revision=record.revision)


def listed(world: DisruptWorld) -> WorkloadRow:
    (row,) = ListWorkloads(world.state.workloads, world.state.node_claims).named([WEB])
    return row


def up(world: DisruptWorld) -> int:
    """Replicas on nodes that run and do not drain."""
    running = [claim for claim in world.live() if claim.state is ClaimState.RUNNING]
    return sum(placed.count for claim in running for placed in claim.placements)


def play(world: DisruptWorld, minutes: int = 20) -> list[tuple[int, int]]:
    """Let time pass; return after each minute how many replicas had a place, and how many of them ran."""
    seen = []
    for _ in range(minutes):
        world.minute()
        seen.append((stored(world).placed_count, up(world)))
    return seen


def test_a_surge_replaces_one_after_the_other_and_none_is_ever_missing() -> None:
    world = rolling(SURGE_ONE)
    old = {claim.id for claim in world.live()}
    update(world)
    seen = play(world)
    assert max(placed for placed, _ in seen) == 5
    assert min(running for _, running in seen) == 4
    assert old.isdisjoint(claim.id for claim in world.live())
    assert (stored(world).placed_count, stored(world).rollout) == (4, None)
    assert len(world.ec2.all()) == 8  # none was launched in vain


def test_without_a_surge_one_goes_before_the_next_comes() -> None:
    world = rolling(ONE_LESS)
    update(world)
    seen = play(world)
    assert max(placed for placed, _ in seen) == 4
    assert min(running for _, running in seen) == 3
    assert listed(world).status.outdated == 0


def test_what_names_no_strategy_stays_as_it_was_placed() -> None:
    world = rolling(None)
    old = {claim.id for claim in world.live()}
    update(world)
    play(world, 5)
    assert {claim.id for claim in world.live()} == old


def test_the_pools_budget_bounds_it_too() -> None:
    world = rolling(RollingUpdate("0", "4"), budgets=[{"nodes": "0"}])
    update(world)
    play(world, 5)
    assert listed(world).status.outdated == 4
    rollout = stored(world).rollout
    assert rollout is not None
    assert rollout.waits_for == "the budget of NodePool gpu, which is used up"
    world.change_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})
    seen = play(world)
    assert min(running for _, running in seen) == 3  # although all four might go
    assert listed(world).status.outdated == 0


def test_a_node_with_more_replicas_than_the_bounds_goes_when_as_many_run_elsewhere() -> (
    None
):
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=10, cpus=1.5, rolling_update=RollingUpdate("10%", "10%"))
    world.minutes(2)
    assert len(world.live()) == 1
    update(world)
    seen = play(world)
    assert min(running for _, running in seen) >= 9
    assert listed(world).status.outdated == 0
    assert stored(world).placed_count == 10


def test_a_node_where_another_team_works_is_left() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=1, cpus=1, rolling_update=ONE_LESS)
    world.submit("theirs", namespace="other", replicas=1, cpus=1)
    world.minutes(2)
    (node,) = world.live()
    update(world)
    play(world, 5)
    assert [claim.id for claim in world.live()] == [node.id]
    rollout = stored(world).rollout
    assert rollout is not None
    assert rollout.waits_for == f"{node.id} to be left: other work runs there, too"


def test_do_not_disrupt_of_a_neighbour_keeps_the_node_and_ones_own_does_not() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=1, cpus=1, rolling_update=SURGE_ONE, do_not_disrupt=True)
    world.submit("still", replicas=1, cpus=1, do_not_disrupt=True)
    world.minutes(2)
    update(world)
    play(world, 5)
    assert listed(world).status.outdated == 1
    world.scale("still", 0)
    play(world, 10)
    assert listed(world).status.outdated == 0


def test_an_update_ends_a_node_that_a_workload_shares_whose_update_is_through() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=1, cpus=1, rolling_update=SURGE_ONE)
    world.submit("api", replicas=1, cpus=0.5, rolling_update=SURGE_ONE)
    world.minutes(2)
    (old,) = world.live()
    update(world)
    world.minute()
    record = world.state.workload_rows["research/api"]
    assert record.rollout is not None
    assert record.rollout.surge_count == 1  # although nothing of it is outdated
    seen = play(world)
    assert min(running for _, running in seen) == 2
    assert old.id not in {claim.id for claim in world.live()}
    rows = world.state.workload_rows.values()
    assert [row.rollout for row in rows] == [None, None]
    assert [row.placed_count for row in rows] == [1, 1]


def test_do_not_disrupt_of_what_runs_as_wanted_keeps_a_node_that_another_update_leaves() -> (
    None
):
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=1, cpus=1, rolling_update=SURGE_ONE)
    world.submit("api", replicas=1, cpus=0.5, rolling_update=SURGE_ONE, do_not_disrupt=True)
    world.minutes(2)
    (node,) = world.live()
    update(world)
    play(world, 5)
    assert [claim.id for claim in world.live()] == [node.id]
    rollout = stored(world).rollout
    assert rollout is not None
    assert rollout.waits_for.endswith("workload research/api says do-not-disrupt")


def test_an_update_that_no_replica_runs_with_is_no_rollout() -> None:
    world = rolling(SURGE_ONE)
    update(world, replicas=5)
    play(world, 3)
    assert stored(world).rollout is None
    assert len(world.ec2.all()) == 5


def test_a_withdraw_ends_it() -> None:
    world = rolling(SURGE_ONE)
    update(world)
    world.minute()
    record = stored(world)
    assert record.rollout is not None
    message = parse_demand(
        json.dumps(
            {
                "action": "withdraw",
                "workload": {
                    "metadata": {
                        "namespace": "research",
                        "name": "web",
                        "generation": record.generation + 1,
                    }
                },
            }
        )
    )
    assert isinstance(message, WithdrawMessage)
    after = withdrawn(record, message, world.clock.now())
    assert after is not None
    world.state.workloads.put(after, expected_revision=record.revision)
    play(world, 6)
    assert world.live() == []
    assert stored(world).rollout is None


def test_an_update_in_the_middle_is_rolled_too() -> None:
    world = rolling(SURGE_ONE)
    update(world)
    play(world, 4)
    update(world, requests=Resources.of({"nvidia.com/gpu": 7}))
    seen = play(world, 25)
    assert max(placed for placed, _ in seen) <= 5
    assert min(running for _, running in seen) == 4
    assert listed(world).status.outdated == 0
