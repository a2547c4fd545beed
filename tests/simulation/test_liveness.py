"""What must come about when mishaps stop is asked for, and found missing when it does not."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

from lab.fakes.values import node_claim, workload_record
from lab.simulation.invariants.base import Violation
from lab.simulation.kernel import SECOND
from lab.simulation.liveness import (
    CALLS_PER_HOUR_MAX,
    QUIET_FOR,
    SETTLED_WITHIN,
    heed_wake_ups,
    stay_quiet,
    unsettled,
)
from lab.simulation.people.teams import spent_atto_usd
from lab.simulation.people.users import KINDS, Wanted
from lab.simulation.play import hushed
from lab.simulation.world import World
from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    DrainReason,
    Lease,
    LeaseState,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Team
from reservoir.names import Function
from reservoir.names import Queue as QueueName
from reservoir.ports.policy import PolicyKind

LARGE_GANG = KINDS[3]
NODE_MICRO_USD = 768_000  # an hour, of a node that holds two of it


def begun(seed: int = 1) -> World:
    """A deployment that has found its feet, without mishaps and without anybody who wants anything."""
    world = World(seed)
    with hushed():
        world.begin()
        world.calm()
    return world


@pytest.fixture(scope="module")
def quiet() -> World:
    return begun()


def test_a_deployment_that_nobody_asks_for_anything_is_quiet(quiet: World) -> None:
    with hushed():
        stay_quiet(quiet)


def test_calls_in_every_window_that_no_schedule_asks_for_are_found() -> None:
    world = begun()
    # alone as often as is allowed, and schedules come to that
    every_us = 3600 * SECOND // CALLS_PER_HOUR_MAX

    def restless() -> None:
        world.lambdas.calls[Function.PROVISION, "workloads.get"] += 1
        world.kernel.after(every_us, restless)

    restless()
    with (
        hushed(),
        pytest.raises(Violation, match=r"IdlenessIsQuiet: .* provision workloads\.get"),
    ):
        stay_quiet(world)


@pytest.mark.parametrize("renews", [False, True])
def test_a_launch_in_every_window_is_found_unless_it_renews_a_node(*, renews: bool) -> None:
    world = begun()

    def restless() -> None:
        world.lambdas.calls[Function.LAUNCH, "launch_attempts.latest"] += 1
        world.kernel.after(QUIET_FOR - SECOND, restless)
        now = world.kernel.now()
        drain = Drain(
            "drain-nc-1", DrainReason.EXPIRED if renews else DrainReason.EMPTY, now, now
        )
        world.state.claim_rows["nc-1"] = node_claim(
            "nc-1", state=ClaimState.TERMINATED, drain=drain, terminated_at=now
        )

    restless()
    with (
        hushed(),
        nullcontext() if renews else pytest.raises(Violation, match="IdlenessIsQuiet"),
    ):
        stay_quiet(world)


def test_a_burst_that_ends_is_no_loop() -> None:
    world = begun()
    burst = partial(
        world.lambdas.calls.update,
        {(Function.PROVISION, "workloads.get"): CALLS_PER_HOUR_MAX},
    )
    world.kernel.after(SECOND, burst)
    with hushed():
        stay_quiet(world)


def test_what_is_wanted_is_planned_without_the_minutes_schedule(quiet: World) -> None:
    with hushed():
        heed_wake_ups(quiet)


def block(world: World) -> None:
    """Let EC2 have refused a launch: the class rests."""
    (stored,) = [
        each for each in world.policy.list_all() if each.kind is PolicyKind.NODE_CLASS
    ]
    resting = replace(
        stored.status.node_class,
        launch_blocked_reason="Permission",
        launch_blocked_generation=stored.generation,
        launch_blocked_at=world.kernel.now(),
    )
    world.policy.save_status(
        stored.kind, stored.name, replace(stored.status, node_class=resting)
    )


def test_what_is_wanted_while_the_only_class_rests_is_planned_once_it_launches_again() -> (
    None
):
    world = begun()
    block(world)
    with hushed():
        heed_wake_ups(world)


def test_a_class_that_rests_for_ever_is_found() -> None:
    world = begun()
    block(world)
    world.schedules.stopped_until[Function.DISCOVER_RESERVATIONS] = (
        world.kernel.now_us + SETTLED_WITHIN * 2
    )
    with (
        hushed(),
        pytest.raises(
            Violation, match="EverythingComesAbout: default launches nothing 100 minutes on"
        ),
    ):
        heed_wake_ups(world)


def test_a_wake_up_that_is_lost_is_found() -> None:
    world = begun()
    planning = world.queues[QueueName.PLANNING]
    planning.look = lambda: planning.messages.clear()
    with (
        hushed(),
        pytest.raises(
            Violation, match="WakeUpsAreNeverLost: research/job-1 has waited for a minute"
        ),
    ):
        heed_wake_ups(world)


@pytest.mark.parametrize(
    ("budget_micro_usd", "found"),
    [(None, True), (NODE_MICRO_USD - 1, False), (NODE_MICRO_USD, True), (0, False)],
    ids=["no budget", "a little too little", "just enough", "nothing"],
)
def test_a_gang_may_wait_for_a_budget_that_is_too_little_and_for_no_other(
    budget_micro_usd: int | None, *, found: bool
) -> None:
    world = World(1)
    world.limits, world.markets = {}, ("reserved", "on-demand")
    world.teams = (
        Team("vision", namespaces=("vision",), budget_micro_usd_per_hour=budget_micro_usd),
    )
    wanted = Wanted("job-1", LARGE_GANG, 2, namespace="vision")
    world.users.wanted[wanted.key] = wanted
    record = replace(workload_record("job-1", replicas=2), key=wanted.key)
    world.state.workload_rows[wanted.key] = record
    assert [*unsettled(world)] == (
        [f"{wanted.key} has 2 replicas waiting: []"] if found else []
    )


def test_what_the_nodes_of_a_team_cost_is_off_its_budget() -> None:
    team = Team("vision", namespaces=("vision",))
    shared = (PlacedReplicas("vision/a", 1), PlacedReplicas("audio/b", 3))
    bought = node_claim("nc-1", placements=shared, lease=None, price_atto_usd_per_hour=400)
    assert spent_atto_usd([bought], team) == 100
    assert (
        spent_atto_usd([replace(bought, lease=Lease("cr-1", LeaseState.ABSORBED))], team)
        == 0
    )
    assert spent_atto_usd([replace(bought, state=ClaimState.TERMINATED)], team) == 0


def test_what_a_pass_had_no_time_for_has_to_come_about_by_the_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lab.simulation.liveness._ran_out_of_time", lambda _: True)
    world = begun()
    planning = world.queues[QueueName.PLANNING]
    planning.look = lambda: planning.messages.clear()
    with hushed(), pytest.raises(Violation, match="EverythingComesAbout"):
        heed_wake_ups(world)
