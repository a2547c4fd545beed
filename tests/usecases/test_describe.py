"""What senders are told of a workload when they ask."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.messaging import MemoryBus
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from lab.fakes.values import node_claim, workload_record
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.ports.safety import UnreadableRowError
from reservoir.usecases.demand import describe
from reservoir.usecases.demand.describe import Describe

KEY = "research/train"


class World:
    """What is stored, and who tells of it."""

    def __init__(self) -> None:
        self.state = MemoryState(ManualClock())
        self.bus = MemoryBus()
        self.describe = Describe(self.state.workloads, self.state.node_claims, self.bus)

    def store(self, replicas: int, **changes: Any) -> None:
        self.state.workload_rows[KEY] = replace(
            workload_record(replicas=replicas), **changes
        )

    def ask(self, name: str = "train") -> list[dict[str, Any]]:
        """Ask; return the answer's parts."""
        self.bus.events.clear()
        body = {
            "action": "describe",
            "requestId": "r-1",
            "workload": {"metadata": {"namespace": "research", "name": name}},
        }
        message = parse_demand(json.dumps(body))
        assert isinstance(message, DescribeMessage)
        self.describe(message)
        return self.bus.of("Workload Described")


def on(*keys: str) -> tuple[PlacedReplicas, ...]:
    return tuple(PlacedReplicas(key, 1) for key in keys)


def test_what_nobody_sent_is_answered_too() -> None:
    (answer,) = World().ask("nobody")
    assert answer["workload"] == {"namespace": "research", "name": "nobody"}
    assert (answer["requestId"], answer["wanted"], answer["nodes"]) == ("r-1", 0, [])


def test_the_answer_tells_what_is_stored_who_sent_it_and_why_it_waits() -> None:
    world = World()
    waits = UnplacedReplicas(
        KEY, 2, ReasonCode.RESERVATION_FULL, "cr-1 has no free unit", earliest_at=START
    )
    world.store(
        3,
        generation=4,
        placed_count=1,
        unplaced=(waits,),
        sent_by="AROA:ada",
        sent_at=START,
    )

    (answer,) = world.ask()
    assert (answer["workload"]["generation"], answer["wanted"], answer["placed"]) == (
        4,
        3,
        1,
    )
    assert answer["sentBy"] == "AROA:ada"
    assert answer["waiting"][0]["reason"] == "ReservationFull"


def test_the_nodes_of_this_workload_alone_are_told_those_that_drain_with_their_deadline() -> (
    None
):
    world = World()
    world.store(2, placed_count=1)
    drain = Drain("d-1", DrainReason.EXPIRED, START, START, on(KEY, "other/secret"))
    for claim in (
        node_claim("nc-1", placements=on(KEY, "other/secret"), state=ClaimState.RUNNING),
        node_claim("nc-2", placements=on("other/secret"), state=ClaimState.RUNNING),
        node_claim("nc-3", placements=(), state=ClaimState.DRAINING, drain=drain),
    ):
        world.state.claim_rows[claim.id] = claim

    (answer,) = world.ask()
    assert [
        (node["nodeClaim"], node["replicas"], node["state"]) for node in answer["nodes"]
    ] == [
        ("nc-1", 1, "running"),
        ("nc-3", 0, "draining"),
    ]
    assert answer["nodes"][1]["drain"]["awaiting"] == 1
    assert "secret" not in json.dumps(answer)


def test_many_nodes_come_in_parts_that_eventbridge_takes() -> None:
    world = World()
    count = 2 * describe.NODES_IN_A_PART + 1
    world.store(count, placed_count=count)
    for number in range(count):
        claim = node_claim(f"nc-{number:04}", placements=on(KEY), state=ClaimState.RUNNING)
        world.state.claim_rows[claim.id] = claim

    parts = world.ask()
    assert [(part["part"], part["partCount"], len(part["nodes"])) for part in parts] == [
        (1, 3, describe.NODES_IN_A_PART),
        (2, 3, describe.NODES_IN_A_PART),
        (3, 3, 1),
    ]
    assert max(len(json.dumps(part)) for part in parts) < 200_000


def test_a_row_that_cannot_be_read_is_no_answer() -> None:
    world = World()
    world.state.unreadable.add(KEY)
    with pytest.raises(UnreadableRowError):
        world.ask()
    assert world.bus.events == []
