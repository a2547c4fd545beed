"""The stand-ins for AWS do what AWS documents, as far as the pipeline depends on it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.values import node_claim, reservation
from lab.simulation.aws.ec2 import SimulatedEc2
from lab.simulation.aws.scheduler import Scheduler
from lab.simulation.aws.sqs import Queue, Sqs
from lab.simulation.aws.tables import LAG_MAX, SimulatedState
from lab.simulation.faults import NO_FAULTS, Faults
from lab.simulation.kernel import HOUR, MINUTE, SECOND, START, Chance, Kernel
from reservoir.adapters.scheduler_timers import SchedulerDrainTimers
from reservoir.core.launching.launch_request import (
    LaunchConfig,
    LaunchOverride,
    LaunchRequest,
)
from reservoir.core.launching.launch_template import LaunchTemplate
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType


class Account:
    """The stand-ins without functions."""

    def __init__(self, faults: Faults = NO_FAULTS) -> None:
        self.kernel, self.chance, self.told = Kernel(), Chance(1), list[str]()
        self.sqs = Sqs(self.kernel, self.chance, lambda: faults)
        self.fired: list[str] = []
        self.scheduler = Scheduler(
            self.kernel, self.chance, lambda: faults, self.fired.append
        )
        self.ec2 = SimulatedEc2(
            self.kernel, self.chance, lambda: faults, lambda kind, _: self.told.append(kind)
        )
        self.state = SimulatedState(
            self.kernel, self.chance, lambda: faults, _nobody_listens
        )

    def queue(self, *, fifo: bool = False) -> Queue:
        return self.sqs.queues.setdefault("q", Queue("q", 30 * SECOND, 2, fifo=fifo))

    def wait(self, us: int) -> None:
        done = list[bool]()
        self.kernel.after(us, lambda: done.append(True))
        while not done:
            self.kernel.step()


def test_a_message_that_is_not_deleted_comes_again_and_then_goes_to_the_dead_letters() -> (
    None
):
    account = Account()
    queue = account.queue()
    account.sqs.send_message(QueueUrl="q", MessageBody="b")
    for count in (1, 2):
        (message,) = account.sqs.take(queue, 10)
        assert message.received_count == count
        assert account.sqs.take(queue, 10) == []
        account.wait(31 * SECOND)
    assert account.sqs.take(queue, 10) == []
    assert [message.body for message in queue.dead] == ["b"]


@pytest.mark.parametrize("fifo", [False, True])
def test_hidden_time_that_runs_out_while_a_function_works_brings_the_message_again(
    *, fifo: bool
) -> None:
    account = Account(replace(NO_FAULTS, hidden_short=1.0))
    queue = account.queue(fifo=fifo)
    account.sqs.send_message(QueueUrl="q", MessageBody="b", MessageDeduplicationId="one")
    (message,) = account.sqs.take(queue, 1)
    began_us, receipt = account.kernel.now_us, message.receipt
    while message.visible_us > account.kernel.now_us:
        account.wait(SECOND)
    assert account.kernel.now_us - began_us < queue.hidden_us
    (again,) = account.sqs.take(queue, 1)
    account.sqs.delete(queue, [receipt])
    assert (again.body, queue.messages) == ("b", [message]), (
        "the receipt of before deletes nothing"
    )


def test_a_hastened_message_comes_earlier() -> None:
    account = Account()
    queue = account.queue()
    account.sqs.send_message(QueueUrl="q", MessageBody="b")
    (message,) = account.sqs.take(queue, 1)
    entry = {"Id": "0", "ReceiptHandle": message.receipt, "VisibilityTimeout": 2}
    account.sqs.change_message_visibility_batch(QueueUrl="q", Entries=[entry])
    account.wait(3 * SECOND)
    assert account.sqs.take(queue, 1) == [message]


def test_a_fifo_queue_drops_what_it_has_seen_and_delivers_nothing_beside_what_is_in_flight() -> (
    None
):
    account = Account()
    queue = account.queue(fifo=True)
    for body in ("a", "a again", "b"):
        identity = "one" if body.startswith("a") else "two"
        account.sqs.send_message(
            QueueUrl="q", MessageBody=body, MessageDeduplicationId=identity
        )
    (first,) = account.sqs.take(queue, 1)
    assert not account.sqs.take(queue, 1)
    account.sqs.send_message(
        QueueUrl="q",
        MessageBody="c",
        MessageDeduplicationId="three",
        MessageGroupId="other",
    )
    (other,) = account.sqs.take(queue, 1)
    assert other.body == "c"
    account.sqs.delete(queue, [other.receipt])
    account.sqs.delete(queue, [first.receipt])
    (second,) = account.sqs.take(queue, 1)
    assert (first.body, second.body) == ("a", "b")
    account.wait(5 * MINUTE)
    account.sqs.send_message(QueueUrl="q", MessageBody="a", MessageDeduplicationId="one")
    assert len(queue.messages) == 2


def test_a_timer_that_was_moved_fires_once_at_its_new_time() -> None:
    account = Account()
    timers = SchedulerDrainTimers(
        account.scheduler,  # type: ignore[arg-type] # stands for the client
        group="g",
        role_arn="r",
        target_arn="t",
        dead_letters_arn="d",
        clock=account.kernel,
        on_refusal=lambda name, error: account.told.append(f"{name}: {error}"),
    )
    timers.set_timer("cr-1", START + timedelta(minutes=1))
    timers.set_timer("cr-1", START + timedelta(minutes=5))
    account.wait(4 * MINUTE)
    assert (account.fired, account.told) == ([], [])
    account.wait(2 * MINUTE)
    assert account.fired == [
        '{"capacityReservationId": "cr-1", "due": "2026-01-15T12:05:00+00:00"}'
    ]


def test_an_index_shows_writes_in_their_order_and_some_of_them_later() -> None:
    account = Account(replace(NO_FAULTS, index_lags=1.0))
    account.state.claim_rows["nc-1"] = node_claim("nc-1", revision=1)
    account.state.claim_rows["nc-1"] = node_claim("nc-1", revision=2)
    assert account.state.node_claims.list_live() == ()
    assert account.state.node_claims.get("nc-1") is not None
    account.wait(LAG_MAX)
    assert [claim.revision for claim in account.state.node_claims.list_live()] == [2]


def _nobody_listens(_key: str, _before: object, _after: object) -> None:
    """No invariant is watched here."""


def instance(instance_id: str, reservation_id: str) -> Instance:
    made = Instance(instance_id, "running", "p5.48xlarge", "us-east-1a", "use1-az1", START)
    return replace(made, capacity_reservation_id=reservation_id)


def test_a_block_begins_is_reclaimed_half_an_hour_before_its_end_and_expires() -> None:
    account = Account()
    times = {
        "start_at": START + timedelta(minutes=10),
        "end_at": START + timedelta(hours=2),
    }
    account.ec2.reserve(
        reservation("cr-1", kind=ReservationKind.CAPACITY_BLOCK, state="scheduled", **times)
    )
    account.wait(11 * MINUTE)
    assert account.ec2.reservations["cr-1"].state == "active"
    account.ec2.add(instance("i-1", "cr-1"))
    account.wait(HOUR + 15 * MINUTE)
    assert account.ec2.live()
    account.wait(5 * MINUTE)
    assert account.ec2.live() == []
    account.wait(HOUR)
    assert account.ec2.reservations["cr-1"].state == "expired"
    assert account.told[0] == "Capacity Block Reservation Delivered"


def test_a_block_that_was_extended_is_reclaimed_later() -> None:
    account = Account()
    account.ec2.reserve(
        reservation(
            "cr-1", kind=ReservationKind.CAPACITY_BLOCK, end_at=START + timedelta(hours=1)
        )
    )
    account.ec2.add(instance("i-1", "cr-1"))
    account.ec2.alter("cr-1", end_at=START + timedelta(hours=2))
    account.wait(HOUR)
    assert [each.id for each in account.ec2.live()] == ["i-1"]
    account.wait(31 * MINUTE)
    assert account.ec2.live() == []


def test_instances_outlive_a_reservation_that_is_no_block() -> None:
    account = Account()
    account.ec2.reserve(reservation("cr-1"))
    account.ec2.add(instance("i-1", "cr-1"))
    account.ec2.alter("cr-1", state="cancelled")
    assert [each.capacity_reservation_id for each in account.ec2.live()] == [None]


def test_a_unit_is_free_when_its_instance_has_terminated_and_of_a_block_when_it_was_scrubbed() -> (
    None
):
    account = Account()
    account.ec2.reserve(reservation("cr-1", total_count=2))
    account.ec2.reserve(
        reservation(
            "cr-2",
            total_count=2,
            kind=ReservationKind.CAPACITY_BLOCK,
            end_at=START + timedelta(hours=9),
        )
    )
    for number in (1, 2):
        account.ec2.add(instance(f"i-{number}", f"cr-{number}"))
    account.ec2.terminate(["i-1", "i-2"])
    assert [account.ec2.free_units(key) for key in ("cr-1", "cr-2")] == [1, 1]
    account.wait(91 * SECOND)
    assert account.ec2.free_units("cr-1") == 2
    account.wait(10 * MINUTE)
    assert account.ec2.free_units("cr-2") == 2


@pytest.mark.parametrize("lags", [0.0, 1.0])
def test_a_count_may_be_some_seconds_old(lags: float) -> None:
    account = Account(replace(NO_FAULTS, count_lags=lags))
    account.ec2.reserve(reservation("cr-1", total_count=2))
    account.wait(MINUTE)
    account.ec2.add(instance("i-1", "cr-1"))
    account.ec2.note_counts()
    shown = {account.ec2.list_visible()[0].available_count for _ in range(20)}
    assert shown == ({2} if lags else {1})
    account.wait(25 * SECOND)
    assert {account.ec2.list_visible()[0].available_count for _ in range(20)} == {1}


def test_what_is_launched_while_a_key_may_not_be_used_ends_before_it_runs() -> None:
    account = Account()
    account.ec2.key_denied_until = MINUTE
    template = LaunchTemplate("template", {}, {})
    account.ec2.ensure(template)
    pool = LaunchOverride("m5.large", "us-east-1a", "use1-az1", "subnet-a", 0)
    request = LaunchRequest(
        "default", (LaunchConfig(template, (pool,)),), 1, CapacityType.ON_DEMAND, {}
    )
    (launched,) = account.ec2.launch(request, "token").instances
    account.wait(10 * SECOND)
    ended = account.ec2.truth(launched.id)
    assert ended is not None
    assert (ended.is_gone, ended.state_reason) == (True, "Client.InternalError")
