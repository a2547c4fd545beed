"""Work on a unit that is paid for does not move, for no money, to where it is worse off."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes import values
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from tests.core.disruption.world import (
    LARGE,
    NOW,
    ON_DEMAND,
    RESERVED,
    SMALL,
    Fleet,
    node_pool,
    reservation,
    workload,
)

WEB, TRAINING = workload("web", 1), workload("training", 4)
WORK = {it.key: it for it in (WEB, TRAINING)}


def block(identity: str, *, ends_in_days: int) -> CapacityReservation:
    end_at = NOW + timedelta(days=ends_in_days)
    return reservation(
        identity, "large", 1, 0, kind=ReservationKind.CAPACITY_BLOCK, end_at=end_at
    )


def put(it: Fleet, name: str, held: CapacityReservation) -> None:
    """Add a node on a unit of the reservation with the work of that name."""
    it.add_node(
        name,
        held.instance_type,
        RESERVED,
        {f"default/{name}": 1},
        reservation_id=held.id,
        drain_at=held.drain_at(),
    )


def fleet(*held: CapacityReservation) -> Fleet:
    """A node of the last reservation, which has room beside a training job."""
    it = Fleet((SMALL, LARGE), (node_pool(),), WORK, held)
    put(it, "training", held[-1])
    return it


def goes(it: Fleet) -> list[str]:
    commands = it.decide().commands
    return [claim_id for command in commands for claim_id in command.claim_ids]


FOR_GOOD = reservation("for-good", "small", 1, 0)


def test_it_does_not_move_onto_a_block_that_ends() -> None:
    it = fleet(FOR_GOOD, block("block", ends_in_days=1))
    put(it, "web", FOR_GOOD)

    assert goes(it) == []


def test_it_moves_beside_others_on_a_unit_that_stays() -> None:
    it = fleet(FOR_GOOD, reservation("large", "large", 1, 0))
    put(it, "web", FOR_GOOD)

    assert goes(it) == ["web"]


def test_it_does_not_move_onto_accelerators_that_it_does_not_use() -> None:
    accelerated = values.instance_type("gpu", 8, 64, extra={"nvidia.com/gpu": 1})
    gpus = reservation("gpus", "gpu", 1, 0)
    it = Fleet((SMALL, accelerated), (node_pool(),), WORK, (FOR_GOOD, gpus))
    put(it, "training", gpus)
    put(it, "web", FOR_GOOD)

    assert goes(it) == []


@pytest.mark.parametrize(("ends_in_days", "moves"), [(2, ["training"]), (4, ["web"])])
def test_between_blocks_work_moves_to_the_one_that_ends_later(
    ends_in_days: int, moves: list[str]
) -> None:
    own = block("own", ends_in_days=3)
    it = fleet(own, block("other", ends_in_days=ends_in_days))
    put(it, "web", own)

    assert goes(it) == moves


@pytest.mark.parametrize(("kind", "moves"), [("block", []), ("for good", ["web"])])
def test_it_does_not_move_into_a_free_unit_of_a_block(kind: str, moves: list[str]) -> None:
    free = reservation("free", "small", 1, 1)
    if kind == "block":
        ends = NOW + timedelta(days=1)
        free = replace(free, kind=ReservationKind.CAPACITY_BLOCK, end_at=ends)
    roomy = reservation("roomy", "large", 1, 0)
    it = Fleet((SMALL, LARGE), (node_pool(),), WORK, (free, roomy))
    put(it, "web", roomy)

    assert goes(it) == moves


def test_work_that_is_paid_by_the_hour_moves_onto_a_block() -> None:
    it = fleet(block("block", ends_in_days=1))
    it.add_node("web", "small", ON_DEMAND, {WEB.key: 1})

    assert goes(it) == ["web"]
