"""Workloads that are over: how long, what it cost, how it ended."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from reservoir.core.history.finished import COMPLETED, WITHDRAWN, Finished, finished
from reservoir.core.history.past_event import PastEvent

START = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PRICE = 6_000_000
A, B = {"namespace": "web", "name": "a"}, {"namespace": "web", "name": "b"}
NODE = {
    "nodeClaim": "nc-1",
    "instanceType": "m7i.large",
    "capacityType": "spot",
    "zone": "us-east-1a",
    "priceMicroUsdPerHour": PRICE,
}
NUMBERS = count()


def at(hours: float, kind: str, **detail: Any) -> PastEvent:
    return PastEvent(f"e-{next(NUMBERS)}", START + HOUR * hours, kind, detail)


def accepted(hours: float, workload: Any, action: str) -> PastEvent:
    return at(hours, "Workload Accepted", workload=workload, action=action, messageId="m")


def placed(hours: float, workload: Any, replicas: int) -> PastEvent:
    nodes = [{**NODE, "replicas": replicas}]
    return at(hours, "Workload Placed", workload=workload, replicas=replicas, nodes=nodes)


def launched(hours: float) -> PastEvent:
    return at(hours, "Node Launched", node=NODE, launchedAt="", workloads=[])


def done(hours: float, workload: Any, replicas: int, so_far: int, wanted: int) -> PastEvent:
    counts = {"replicas": replicas, "finished": so_far, "wanted": wanted}
    return at(hours, "Replica Finished", node=NODE, workload=workload, logTail="", **counts)


def read(*events: PastEvent, until: float = 24) -> list[Finished]:
    return list(finished(events, START + HOUR * until))


def test_one_that_completed_has_its_whole_life() -> None:
    life = [accepted(0, A, "submit"), placed(1, A, 2), launched(1), done(3, A, 2, 2, 2)]
    (run,) = read(*life)
    assert (run.namespace, run.name, run.how, run.replicas, run.exit_code) == (
        "web",
        "a",
        COMPLETED,
        2,
        0,
    )
    assert (run.submitted_at, run.placed_at, run.ended_at) == (
        START,
        START + HOUR,
        START + 3 * HOUR,
    )
    assert run.ran_s == 7200
    assert run.places == (("m7i.large", "spot", "us-east-1a"),)
    assert run.micro_usd == 2 * PRICE


def test_what_still_runs_or_has_replicas_left_is_not_over() -> None:
    assert read(accepted(0, A, "submit"), placed(1, A, 2), launched(1)) == []
    assert (
        read(accepted(0, A, "submit"), placed(1, A, 2), launched(1), done(2, A, 1, 1, 2))
        == []
    )


def test_a_shared_node_is_shared_by_replicas_while_both_are_there() -> None:
    life = [
        placed(0, A, 1),
        placed(0, B, 2),
        launched(0),
        done(3, A, 1, 1, 1),
        done(4, B, 2, 2, 2),
    ]
    a, b = read(*life)
    assert (a.micro_usd, b.micro_usd) == (PRICE, 2 * PRICE + PRICE)


def test_who_is_withdrawn_pays_until_its_node_ends() -> None:
    gone = at(3, "Node Terminated", node=NODE, reason="released", terminatedAt="")
    (run,) = read(placed(0, A, 1), launched(0), accepted(2, A, "withdraw"), gone)
    assert (run.how, run.ended_at, run.exit_code) == (WITHDRAWN, START + 2 * HOUR, None)
    assert run.micro_usd == 3 * PRICE


def test_a_name_that_is_used_again_is_another_run() -> None:
    once = [accepted(0, A, "submit"), placed(0, A, 1), launched(0), done(1, A, 1, 1, 1)]
    again = [accepted(2, A, "submit"), placed(2, A, 1), done(5, A, 1, 1, 1)]
    first, second = read(*once, *again)
    assert (first.ran_s, second.ran_s) == (3600, 3 * 3600)
    assert (first.micro_usd, second.micro_usd) == (PRICE, 3 * PRICE)


def test_failures_are_counted_and_the_last_exit_is_told() -> None:
    failed = at(1, "Replica Failed", node=NODE, workload=A, exitCode=-9, restarts=0)
    (run,) = read(placed(0, A, 1), launched(0), failed, failed, accepted(2, A, "withdraw"))
    assert (run.failure_count, run.exit_code) == (2, -9)


def test_of_a_run_that_began_before_what_was_read_the_beginning_is_not_known() -> None:
    (run,) = read(done(1, A, 1, 1, 1))
    assert (run.submitted_at, run.placed_at, run.ran_s, run.how) == (
        None,
        None,
        None,
        COMPLETED,
    )


def test_a_node_costs_nothing_before_it_is_launched_and_in_a_reservation() -> None:
    (late,) = read(placed(0, A, 1), launched(2), done(3, A, 1, 1, 1))
    assert late.micro_usd == PRICE
    free = {**NODE, "priceMicroUsdPerHour": 0}
    told = [
        at(0, "Workload Placed", workload=A, replicas=1, nodes=[{**free, "replicas": 1}]),
        at(0, "Node Launched", node=free, launchedAt="", workloads=[]),
        done(5, A, 1, 1, 1),
    ]
    (reserved,) = read(*told)
    assert reserved.micro_usd == 0
