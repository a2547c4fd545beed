"""A day of history for reports: one reservation, one block, work that waited, and a name that somebody made up."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import MarketSample, ReservationSample, Sample
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType

UNTIL = datetime(2026, 1, 16, 12, tzinfo=UTC)
SINCE = UNTIL - timedelta(hours=24)
TEN_MINUTES = timedelta(minutes=10)
# in which nobody took samples
GAP = (SINCE + timedelta(hours=6), SINCE + timedelta(hours=8))
EVIL = "<script>alert('x')</script>"
PRICE = 60_000_000


def samples() -> Iterator[Sample]:
    at = SINCE
    while at < UNTIL:
        if not GAP[0] < at < GAP[1]:
            ours = 2 if at < SINCE + timedelta(hours=12) else 3
            facts = (
                "p5.48xlarge",
                "us-east-1a",
                ReservationKind.DEFAULT,
                "active",
                4,
                ours,
                1,
                3 - ours,
            )
            block = (
                "p5e.48xlarge",
                "us-east-1b",
                ReservationKind.CAPACITY_BLOCK,
                "active",
                2,
                2,
                0,
                0,
            )
            yield Sample(
                at,
                (
                    ReservationSample("cr-1", *facts, PRICE),
                    ReservationSample("cr-block", *block, None, UNTIL - timedelta(hours=1)),
                ),
                (
                    MarketSample(CapacityType.RESERVED, ours + 2, 0, None),
                    MarketSample(CapacityType.SPOT, 1, 3_000_000, 6_000_000),
                ),
            )
        at += TEN_MINUTES


def events() -> list[PastEvent]:
    numbers = count()

    def at(hours: float, kind: str, **detail: Any) -> PastEvent:
        when = SINCE + timedelta(hours=hours)
        return PastEvent(f"e-{next(numbers)}", when, kind, detail)

    def workload(name: str) -> dict[str, str]:
        return {"namespace": "research", "name": name}

    node = {
        "nodeClaim": "nc-1",
        "instanceType": "p5.48xlarge",
        "capacityType": "reserved",
        "zone": "us-east-1a",
    }
    in_block = {
        name: {**node, "nodeClaim": name, "capacityReservationId": "cr-block"}
        for name in ("nc-2", "nc-3")
    }
    deadline = (SINCE + timedelta(hours=22.5)).isoformat()
    drain = {"reason": "CapacityBlockEnding", "deadline": deadline}
    return [
        at(
            1,
            "Workload Pending",
            workload=workload("a"),
            replicas=1,
            reason="LimitExceeded",
            message="",
        ),
        at(
            2,
            "Workload Pending",
            workload=workload("a"),
            replicas=1,
            reason="ReservationFull",
            message="",
        ),
        at(3, "Workload Placed", workload=workload("a"), replicas=1, nodes=[]),
        at(
            4,
            "Workload Pending",
            workload=workload("b"),
            replicas=1,
            reason="ReservationFull",
            message="",
        ),
        at(5, "Workload Placed", workload=workload("b"), replicas=1, nodes=[]),
        at(5.1, "Node Launched", node=node),
        at(
            14,
            "Workload Pending",
            workload=workload("c"),
            replicas=1,
            reason="ReservationFull",
            message="",
        ),
        at(
            20,
            "Launches Blocked",
            nodeClass="gpu",
            reason="UnauthorizedOperation",
            message=EVIL,
        ),
        at(21, "Node Draining", node=node, reason="Interruption", deadline=deadline),
        *(at(22, "Node Draining", node=each, **drain) for each in in_block.values()),
        at(22.4, "Node Terminated", node=in_block["nc-2"], reason="released"),
        at(23, "Node Terminated", node=in_block["nc-3"], reason="deadline"),
    ]
