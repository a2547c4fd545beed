"""Tables go back to an earlier point; whoever looks at them makes them count again."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.stores.safety import ROLES
from lab.fakes.values import node_claim
from lab.simulation.faults import NO_FAULTS
from lab.simulation.invariants.base import Violation
from lab.simulation.invariants.promises import UnknownTablesEndNothing
from lab.simulation.kernel import MINUTE, START
from lab.simulation.world import World
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason
from reservoir.names import Queue as QueueName


def restored() -> World:
    """A world in which a claim was written a minute after a point to which the tables then went back."""
    world = World(1)
    world._now = replace(NO_FAULTS, restored=1.0)
    world.restores.each_minute()  # the first point: nothing to go back to yet
    world.state.claim_rows["nc-1"] = node_claim("nc-1")
    while world.restores.restored_at is None:
        world.kernel.step()
    return world


def test_rows_and_indexes_are_those_of_before_and_the_tables_are_others() -> None:
    world = restored()
    assert world.state.node_claims.get("nc-1") is None
    assert world.state.node_claims.list_live() == ()
    assert {table.table_id for table in world.marks.read()} == {
        f"{role}-1-restored" for role in ROLES
    }


def test_somebody_looks_at_them_and_users_say_again_what_they_want() -> None:
    world = restored()
    sent = world.users.want_one_more()
    world.restores.adopt()
    assert not world.restores.is_unknown
    bodies = [message.body for queue in world.queues.values() for message in queue.messages]
    assert bodies == [sent.message()] * 2


def test_old_messages_come_once_more_after_a_restore() -> None:
    world = World(1)
    for _ in range(3):
        world.users.want_one_more()
    queue = world.queues[QueueName.DEMAND]
    before = [message.body for message in queue.messages]
    world.users.send_what_was_sent()
    until_us = world.kernel.now_us + 6 * MINUTE
    queue.look = lambda: None
    while world.kernel.now_us < until_us and world.kernel.step():
        pass
    again = [message.body for message in queue.messages][len(before) :]
    assert again
    assert set(again) <= set(before)


def test_an_instance_of_the_time_in_between_is_forgotten() -> None:
    world = restored()
    before = Instance("i-1", "running", "m5.large", "us-east-1a", "use1-az1", START)
    world.restores.adopt()
    assert world.is_forgotten(before)
    assert not world.is_forgotten(
        replace(before, launched_at=world.kernel.now() + timedelta(seconds=1))
    )


@pytest.mark.parametrize(
    ("reason", "ends"), [(DrainReason.EMPTY, True), (DrainReason.INTERRUPTION, False)]
)
def test_a_drain_by_choice_while_nobody_has_looked_is_found_out(
    reason: DrainReason, *, ends: bool
) -> None:
    world = restored()
    claim = node_claim("nc-1")
    drain = Drain("drain-nc-1", reason, START, START + timedelta(minutes=MINUTE))
    seen = UnknownTablesEndNothing(world)
    drained = replace(claim, state=ClaimState.DRAINING, drain=drain)
    if ends:
        with pytest.raises(Violation, match="the tables are those of before"):
            seen.row_written("nc-1", claim, drained)
    else:
        seen.row_written("nc-1", claim, drained)
