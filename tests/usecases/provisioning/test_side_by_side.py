"""Planners side by side: each plans the demand of its own group of pools, and nobody's is forgotten."""

from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_class_manifest, node_pool_manifest
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.sharing.planning_groups import PLANNED_AT_ONCE_MAX
from reservoir.ports.state import PlannedCommit
from reservoir.usecases.provisioning.provision import Provision
from reservoir.usecases.provisioning.share_demand import Woken

SMALL = Resources.of({"cpu": 1_000})


def pool(name: str, **limits: str) -> dict[str, Any]:
    made = node_pool_manifest(name, capacity_types=("on-demand",))
    made["spec"]["template"]["metadata"] = {"labels": {"kind": name}}
    return {**made, "spec": {**made["spec"], "limits": limits}} if limits else made


def world_of(*pools: dict[str, Any], units: int = 0) -> PlanningWorld:
    """A world whose pools share a class that selects ``units`` reserved ones; without units they share nothing."""
    known = [reservation("cr-1", units, tags={"team": "research"})] if units else []
    world = PlanningWorld().ready(*known, pool=pools[0], node_class=node_class_manifest())
    world.apply(*pools[1:])
    world.queue.wake_ups.clear()
    return world


def submit(world: PlanningWorld, name: str, *kinds: str, **changes: Any) -> str:
    terms = tuple(Requirements.from_labels({"kind": kind}) for kind in kinds)
    return world.submit(
        name, required_node_terms=terms, **{"replicas": 1, "requests": SMALL, **changes}
    ).key


def named(*keys: str, group: str = "") -> Woken:
    """Why a pass runs for a group with these parts, one letter each, or for one that finds out."""
    return Woken(
        frozenset(keys),
        names_all=True,
        group_keys=frozenset(group[:1]),
        parts=frozenset(group),
    )


def pools_in_use(world: PlanningWorld) -> list[str]:
    return sorted(claim.node_pool_name for claim in world.state.claim_rows.values())


def test_whoever_finds_out_wakes_a_planner_for_each_group_that_was_written_for() -> None:
    world = world_of(pool("a"), pool("b"), pool("c"))
    one, two = submit(world, "one", "a"), submit(world, "two", "b")
    submit(world, "three", "c")

    report = world.provisioner(at_once_max=0).run(named(one, two))

    assert (report.attempts, world.state.claim_rows) == (0, {})
    assert world.queue.groups == {"a": frozenset({one}), "b": frozenset({two})}


def test_whoever_finds_out_plans_for_the_groups_itself_while_few_wait() -> None:
    world = world_of(pool("a"), pool("b"), pool("c"))
    one, two = submit(world, "one", "a"), submit(world, "two", "b")
    submit(world, "three", "c")

    report = world.provisioner().run(named(one, two))

    assert (report.placed_count, pools_in_use(world), world.queue.groups) == (
        2,
        ["a", "b"],
        {},
    )
    assert {key: turn.number for key, turn in world.state.planning_turns.items()} == {
        "a": 1,
        "b": 1,
    }


@pytest.mark.parametrize(
    ("count", "placed"),
    [(PLANNED_AT_ONCE_MAX, PLANNED_AT_ONCE_MAX), (PLANNED_AT_ONCE_MAX + 1, 0)],
)
def test_few_are_counted_in_all_groups_that_a_wake_up_is_about(
    count: int, placed: int
) -> None:
    world = world_of(pool("a"), pool("b"), pool("c"))
    keys = [submit(world, f"job-{number}", "ab"[number % 2]) for number in range(count)]
    submit(world, "elsewhere", "c")

    assert world.provisioner().run(named(*keys)).placed_count == placed

    assert world.queue.groups.keys() == (set() if placed else {"a", "b"})


def test_what_grows_to_many_while_a_pass_waits_for_more_is_handed_on() -> None:
    world = world_of(pool("a"), pool("b"))
    keys = [submit(world, f"job-{number}", "ab"[number]) for number in range(2)]

    def more(seconds: float) -> None:
        world.pause(seconds)
        if len(world.state.workload_rows) == 2:
            for number in range(PLANNED_AT_ONCE_MAX):
                submit(world, f"more-{number}", "b")

    report = world.provisioner(pause=more).run(named(*keys))

    assert (report.attempts, world.state.claim_rows) == (0, {})
    assert world.queue.groups == {"a": frozenset(keys[:1]), "b": frozenset(keys[1:])}


def test_a_planner_plans_its_own_group_and_leaves_what_others_wait_for_as_it_is() -> None:
    world = world_of(pool("a"), pool("b", cpu="0"))
    one, two = submit(world, "one", "a"), submit(world, "two", "b")
    planner = world.provisioner()
    planner.run(named(two, group="b"))
    waiting = world.workload("two").unplaced
    assert waiting

    assert planner.run(named(one, group="a")).placed_count == 1

    assert pools_in_use(world) == ["a"]
    assert world.workload("two").unplaced == waiting


def test_the_minute_wakes_every_group_in_which_somebody_waits() -> None:
    world = world_of(pool("a"), pool("b"), pool("c"))
    for kind in "ac":
        submit(world, f"job-{kind}", kind)

    world.provisioner(at_once_max=0).run()

    assert world.queue.groups == {"a": frozenset(), "c": frozenset()}


def test_a_withdrawn_workload_has_the_groups_planned_that_it_may_have_run_in() -> None:
    world = world_of(pool("a"), pool("b"))
    gone = submit(world, "gone", "a", replicas=0)
    submit(world, "waits", "a")
    submit(world, "elsewhere", "b")

    world.provisioner(at_once_max=0).run(named(gone))

    assert world.queue.groups == {"a": frozenset()}


def test_pools_that_share_a_reservation_are_planned_by_whoever_is_woken() -> None:
    world = world_of(pool("a"), pool("b"), units=1)
    keys = [submit(world, f"job-{kind}", kind) for kind in "ab"]

    assert world.provisioner().run(named(*keys)).placed_count == 2
    assert (world.queue.groups, world.state.planning_turns) == ({}, {})


def test_demand_that_either_pool_may_serve_is_planned_with_both() -> None:
    world = world_of(pool("a"), pool("b"))
    one, either = submit(world, "one", "b"), submit(world, "either", "a", "b")

    world.provisioner(at_once_max=0).run(named(one, either))
    assert world.queue.groups == {"a+b": frozenset({one, either})}
    assert world.provisioner().run(named(one, either, group="ab")).placed_count == 2

    assert {key: turn.number for key, turn in world.state.planning_turns.items()} == {
        "a": 1,
        "b": 1,
    }


def test_a_wake_up_for_a_group_that_is_part_of_another_now_is_handed_on() -> None:
    world = world_of(pool("a"), pool("b"))
    one, either = submit(world, "one", "b"), submit(world, "either", "a", "b")

    assert world.provisioner().run(named(one, group="b")).attempts == 0

    assert world.queue.groups == {"a+b": frozenset({one})}
    assert either


def test_what_was_joined_is_planned_also_if_the_demand_that_joined_it_has_found_a_place() -> (
    None
):
    world = world_of(pool("a"), pool("b"))
    submit(world, "one", "b")

    world.provisioner().run(named(group="ab"))

    assert world.queue.groups == {"b": frozenset()}


def test_demand_that_joins_groups_while_a_planner_waits_for_more_is_not_left_to_nobody() -> (
    None
):
    world = world_of(pool("a"), pool("b"))
    keys = [submit(world, f"job-{number}", "b") for number in range(2)]

    def joined(seconds: float) -> None:
        world.pause(seconds)
        # whoever wrote it dies before it wakes anybody
        if len(world.state.workload_rows) == 2:
            submit(world, "either", "a", "b")

    report = world.provisioner(pause=joined).run(named(*keys, group="b"))

    assert report.attempts == 0
    assert world.queue.groups == {"a+b": frozenset(keys)}


@pytest.mark.parametrize("group", ["", "a"])
def test_of_two_passes_that_share_a_pool_one_commits_and_the_other_counts_its_nodes(
    group: str,
) -> None:
    world = world_of(pool("a", cpu="2"), pool("b"))
    submit(world, "either", "a", "b")
    mine = submit(world, "mine", "a", requests=Resources.of({"cpu": 1_500}))
    rival = world.provisioner()
    planner = world.provisioner()
    write = world.state.node_claims.commit
    seen = list[int]()

    def overtaken(commit: PlannedCommit) -> None:
        seen.append(len(commit.planning_turns))
        if len(seen) == 1:
            world.state.node_claims.commit = write  # type: ignore[method-assign] # the store itself again
            rival.run(named(mine, group=group))
            world.state.node_claims.commit = overtaken  # type: ignore[method-assign] # somebody else commits first
        write(commit)

    world.state.node_claims.commit = overtaken  # type: ignore[method-assign] # somebody else commits first
    report = planner.run(named(mine, group="a"))

    assert report.conflict_count == 1
    cpus = sum(
        claim.allocatable["cpu"]
        for claim in world.state.claim_rows.values()
        if claim.node_pool_name == "a"
    )
    assert cpus <= 2_000


def test_limits_count_what_another_process_has_just_committed() -> None:
    world = world_of(pool("a", cpu="20"), pool("b"))
    big = Resources.of({"cpu": 12_000})
    written_at: dict[str, float] = {}

    # the index shows claims half a second after they were written
    def listed() -> tuple[NodeClaim, ...]:
        now = world.clock.now().timestamp()
        for key in world.state.claim_rows:
            written_at.setdefault(key, now)
        return tuple(
            row
            for key, row in sorted(world.state.claim_rows.items())
            if now - written_at[key] > 0.5
        )

    world.state.node_claims.list_live = listed  # type: ignore[method-assign] # the index lags
    for number in range(2):
        key = submit(world, f"job-{number}", "a", requests=big)
        world.provisioner().run(named(key, group="a"))  # each in a process of its own
        listed()

    assert pools_in_use(world) == ["a"]
    assert world.pauses_s == [1.0]


def test_eight_planners_side_by_side_promise_no_unit_twice() -> None:
    """Groups as they were before somebody let two classes select one reservation: leases hold all the same."""
    world = world_of(pool("a"), units=3)
    planners = [world.provisioner() for _ in range(8)]
    for number in range(8):
        world.submit(f"job-{number}", replicas=1)
    write = world.state.node_claims.commit
    waiting = list[Provision](planners[1:])

    def beside(commit: PlannedCommit) -> None:
        if waiting:
            waiting.pop().run()
        write(commit)

    world.apply(node_pool_manifest("a"))
    world.state.node_claims.commit = beside  # type: ignore[method-assign] # others commit meanwhile
    planners[0].run()

    reserved = [
        claim
        for claim in world.state.claim_rows.values()
        if claim.offering.capacity_type is CapacityType.RESERVED
    ]
    assert len(reserved) == 3
    assert world.reservation().balance.free_units == 0


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_batch_of_several_groups_is_planned_by_one_pass(count: int) -> None:
    kinds = "abcd"[:count]
    world = world_of(*[pool(kind) for kind in "abcd"])
    keys = [submit(world, f"job-{kind}", kind) for kind in kinds]

    woken = replace(named(*keys, group=kinds), group_keys=frozenset(kinds))

    assert world.provisioner().run(woken).placed_count == count
    assert pools_in_use(world) == list(kinds)
