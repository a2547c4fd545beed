"""Empty reserved nodes as destinations: they count like the free units that they would become again."""

import pytest

from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.model.node_pool import Disruption
from tests.core.disruption.world import (
    LARGE,
    ON_DEMAND,
    RESERVED,
    SMALL,
    Fleet,
    node_pool,
    reservation,
    workload,
)

TINY, SIX = workload("tiny", 1), workload("six", 6)
WORK = {it.key: it for it in (TINY, SIX)}
KEPT = Disruption(keep_reserved_s=0)


def fleet(disruption: Disruption | None = None) -> Fleet:
    held = (reservation("big", "large", 3, 0), reservation("little", "small", 1, 0))
    return Fleet(
        (SMALL, LARGE), (node_pool(disruption=disruption or Disruption()),), WORK, held
    )


def moves(decision: DisruptionDecision) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What goes, and where its replicas go."""
    return [(command.claim_ids, command.destinations) for command in decision.commands]


@pytest.mark.parametrize(("disruption", "goes"), [(None, [(("empty",), ())]), (KEPT, [])])
def test_reserved_work_does_not_move_onto_an_equal_empty_node(
    disruption: Disruption | None, goes: list[tuple[tuple[str, ...], tuple[str, ...]]]
) -> None:
    """The empty node goes, or is kept; the job is not disturbed for it."""
    it = fleet(disruption)
    it.add_node("busy", "large", RESERVED, {SIX.key: 1}, reservation_id="big")
    it.add_node("empty", "large", RESERVED, {}, reservation_id="big")

    assert moves(it.decide()) == goes


def test_reserved_work_moves_onto_a_smaller_empty_node() -> None:
    it = fleet()
    it.add_node("roomy", "large", RESERVED, {TINY.key: 1}, reservation_id="big")
    it.add_node("empty", "small", RESERVED, {}, reservation_id="little")

    assert moves(it.decide()) == [(("roomy",), ("empty",))]


def test_an_equal_empty_node_does_not_hide_a_smaller_one() -> None:
    it = fleet(KEPT)
    it.add_node("roomy", "large", RESERVED, {TINY.key: 1}, reservation_id="big")
    it.add_node("empty-large", "large", RESERVED, {}, reservation_id="big")
    it.add_node("empty-small", "small", RESERVED, {}, reservation_id="little")

    assert moves(it.decide()) == [(("roomy",), ("empty-small",))]


def test_reserved_nodes_become_fewer_beside_an_empty_one() -> None:
    it = fleet(KEPT)
    for name in ("a", "b"):
        it.add_node(name, "large", RESERVED, {TINY.key: 1}, reservation_id="big")
    it.add_node("empty", "large", RESERVED, {}, reservation_id="big")

    assert moves(it.decide()) == [(("a",), ("b",))]


def test_paid_work_moves_onto_an_empty_reserved_node() -> None:
    it = fleet()
    it.add_node("paid", "large", ON_DEMAND, {SIX.key: 1})
    it.add_node("empty", "large", RESERVED, {}, reservation_id="big")

    assert moves(it.decide()) == [(("paid",), ("empty",))]
