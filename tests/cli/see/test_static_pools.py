"""``reservoir get pools`` says how far a static pool is, and why it has fewer nodes than it wants."""

from typing import Any, Final

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.cli.nouns.pools import NOUN
from reservoir.cli.output import as_table
from reservoir.core.model.node_claim import Operation
from reservoir.core.static_pools.shortfall import growth_decision_id
from reservoir.ports.policy import Pause, PolicyKind
from reservoir.ports.state import UnreadableRowsError
from reservoir.usecases.policy.show_policy import ShowPolicy

ARN: Final = "arn:aws:iam::123456789012:role/ada"


def static_world(replicas: int | str, *capacity_types: str, **spec: Any) -> DisruptWorld:
    """One static pool; ``spec`` are further fields of it."""
    world = DisruptWorld(*(capacity_types or ("reserved", "on-demand")))
    stored = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    manifest = stored.manifest
    world.apply({**manifest, "spec": {**manifest["spec"], "replicas": replicas, **spec}})
    return world


def shown(world: DisruptWorld, name: str = "gpu") -> dict[str, Any]:
    show = ShowPolicy(
        world.store,
        world.state.reservations,
        world.state.node_claims,
        world.state.workloads,
        world.clock,
        None,
        world.state.offerings,
        world.state.decisions,
    )
    (found,) = show.show(PolicyKind.NODE_POOL, name)
    return found


def counted(world: DisruptWorld, name: str = "gpu") -> dict[str, Any]:
    found: dict[str, Any] = shown(world, name)["status"]["replicas"]
    return found


def test_a_pool_that_has_what_it_wants_waits_for_nothing() -> None:
    world = static_world(2)
    world.minutes(3)
    assert counted(world) == {"wanted": 2, "there": 2, "coming": 0}


def test_a_pool_whose_nodes_are_coming_waits_for_nothing_else() -> None:
    world = static_world(2, limits={"nodes": "2"})
    world.minute()
    assert counted(world) == {"wanted": 2, "there": 0, "coming": 2}


def test_a_limit_is_named_as_for_replicas_that_wait() -> None:
    world = static_world(5, limits={"nodes": "2"})
    world.minutes(4)
    found = counted(world)
    assert (found["wanted"], found["there"], found["reason"]) == (5, 2, "LimitExceeded")
    assert "nodes limit of pool gpu" in found["message"]
    (line,) = as_table([shown(world)], NOUN.listing(world.clock.now()), 400, is_wide=False)[
        1:
    ]
    assert line.plain.endswith(f"LimitExceeded: {found['message']}")


def test_units_that_others_use_are_named() -> None:
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=3)
    world.submit("train", gpus=8)
    world.minutes(2)
    stored = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    fixed = {**stored.manifest["spec"], "replicas": "allReserved"}
    world.apply({**stored.manifest, "metadata": {"name": "fixed"}, "spec": fixed})
    world.minutes(3)
    found = counted(world, "fixed")
    assert (found["wanted"], found["there"]) == (3, 2)
    assert (found["reason"], found["message"]) == (
        "ReservationFull",
        "1 unit is used or held by others, or by nodes that leave",
    )


def test_a_paused_pool_says_who_paused_it_and_not_what_was_planned_before() -> None:
    world = static_world(2, "reserved")
    world.minutes(2)
    assert counted(world)["reason"] == "Incompatible"
    asked = Operation("pause", ARN, "too dear", world.clock.now())
    world.store.save_pause(
        "gpu", Pause(is_paused=True, operations=(asked,)), expected=Pause()
    )
    found = counted(world)
    assert found["reason"] == "NodePoolPaused"
    assert "too dear" in found["message"]


def test_what_cannot_be_read_keeps_nobody_from_the_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = static_world(2, "reserved")
    world.minutes(2)

    def unreadable(plan_id: str) -> Any:
        assert plan_id == growth_decision_id("gpu")
        raise UnreadableRowsError([plan_id])

    monkeypatch.setattr(world.state.decisions, "load", unreadable)
    assert counted(world) == {"wanted": 2, "there": 0, "coming": 0}
