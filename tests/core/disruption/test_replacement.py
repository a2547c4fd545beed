"""What the replacements of one pass leave to each other."""

from reservoir.core.disruption.command import DisruptionCommand
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.disruption.world import (
    LARGE,
    ON_DEMAND,
    RESERVED,
    SMALL,
    Fleet,
    node_pool,
    refusal,
    reservation,
    short,
    workload,
)

WORK = {it.key: it for it in (workload("big", 6), workload("one", 2), workload("two", 2))}


def fleet(nodes_max: int) -> Fleet:
    """Two drifted nodes: one that only its own unit can replace, and one whose work takes two small nodes."""
    pool = node_pool(
        "default",
        RESERVED,
        ON_DEMAND,
        static_hash="new",
        limits=Resources.of({"nodes": nodes_max}),
    )
    it = Fleet((SMALL, short(LARGE)), (pool,), WORK, (reservation("cr", "large", 1, 0),))
    it.add_node(
        "a",
        "large",
        RESERVED,
        {"default/big": 1},
        reservation_id="cr",
        node_pool_hash="old",
    )
    work = {"default/one": 1, "default/two": 1}
    it.add_node("b", "large", ON_DEMAND, work, node_pool_hash="old")
    return it


def replaced(commands: tuple[DisruptionCommand, ...]) -> dict[str, int]:
    """Return how many nodes replace each."""
    return {
        command.claim_ids[0]: sum(planned.count for planned in command.replacements)
        for command in commands
    }


def test_a_node_that_goes_before_its_replacement_keeps_its_place_under_the_limit() -> None:
    assert replaced(fleet(nodes_max=2).decide().commands) == {"a": 1}


def test_under_a_limit_with_room_both_are_replaced() -> None:
    assert replaced(fleet(nodes_max=3).decide().commands) == {"a": 1, "b": 2}


def test_a_unit_that_comes_free_in_the_same_pass_is_waited_for() -> None:
    pool = node_pool("default", RESERVED, ON_DEMAND, static_hash="new")
    whole = workload("whole", 8)
    it = Fleet(
        (SMALL, short(LARGE)),
        (pool,),
        {**WORK, whole.key: whole},
        (reservation("cr", "large", 2, 0),),
    )
    work = {"moves": {"default/one": 1, "default/two": 1}, "stays": {whole.key: 1}}
    for name, replicas in work.items():
        it.add_node(
            name,
            "large",
            RESERVED,
            replicas,
            reservation_id="cr",
            node_pool_hash="old",
        )

    decision = it.decide()

    assert replaced(decision.commands) == {"moves": 2}
    assert "waits for a unit of its reservation" in refusal(decision, "stays")
