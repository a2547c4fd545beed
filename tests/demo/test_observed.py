"""What is known of the world does not depend on the order in which facts arrive: EventBridge keeps none."""

from datetime import UTC, datetime
from itertools import permutations
from typing import Any

from lab.demo.observer import Instance, Observed

WEB = {"namespace": "story", "name": "web"}


def fact(kind: str, **detail: Any) -> dict[str, Any]:
    return {"detail-type": kind, "detail": detail}


PLACED_TWICE = fact(
    "Workload Placed",
    workload=WEB,
    replicas=8,
    nodes=[{"nodeClaim": "nc-runs"}, {"nodeClaim": "nc-refused"}],
)
LAUNCHED = fact("Node Launched", node={"nodeClaim": "nc-runs"})
REFUSED = fact(
    "Launch Failed", nodeClaims=["nc-refused"], workloads=[WEB | {"replicas": 4}]
)


def test_an_answer_that_overtakes_its_question_is_an_answer() -> None:
    for order in permutations([PLACED_TWICE, LAUNCHED, REFUSED]):
        seen = Observed()
        for event in order:
            seen.note(event)
        assert seen.awaited == set()
        assert seen.placed["story/web"] == 4


def test_an_instance_that_moved_in_is_paid_for_on_demand_until_then() -> None:
    began, moved, now = (
        datetime(2026, 1, 15, 12, minute, tzinfo=UTC) for minute in (0, 20, 50)
    )
    seen = Observed(now=now)
    seen.met["i-1"] = Instance(
        "i-1", "r5.2xlarge", "us-east-1a", "running", "on-demand", None, "nc-1"
    )
    seen.entered["i-1"] = {"running": began}
    told = fact("Node Moved Into Reservation", node={"instanceId": "i-1"})
    seen.note({**told, "time": moved.isoformat()})
    assert [(it.market, it.started_at, it.ended_at) for it in seen.stays()] == [
        ("on-demand", began, moved),
        ("reserved", moved, now),
    ]


def test_a_claim_is_awaited_until_it_is_launched_or_refused() -> None:
    seen = Observed()
    seen.note(PLACED_TWICE)
    assert seen.awaited == {"nc-runs", "nc-refused"}
    seen.note(LAUNCHED)
    assert seen.awaited == {"nc-refused"}
    assert not seen.all_run({"story/web": 8})
    seen.note(REFUSED)
    assert seen.awaited == set()
    assert not seen.all_run({"story/web": 8})
