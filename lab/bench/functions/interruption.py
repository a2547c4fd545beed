"""Karpenter's interruption benchmark: a queue full of warnings, one node each, through our reaction handler.

A third scheduled changes, a third spot interruptions, the rest state changes drawn evenly from stopping, stopped,
shutting-down and terminated. As many messages a batch as the queue delivers. State, queue and EC2 are in memory, so
the figures are those of the function itself; the calls that it would make are counted. Upstream handles ten messages in
parallel, reads no instance in bulk and has published no figure.
"""

import contextlib
import io
import json
import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from typing import Any

import functions.react.handler as function
from infra.config import FUNCTIONS
from lab.fakes.messaging import MemoryRedelivery
from lab.fakes.stores.state import MemoryNodeClaims, MemoryState
from lab.worlds.launch_world import ZONES, World
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.names import Function

SIZES = (100, 1_000, 5_000, 15_000)
BATCH = FUNCTIONS[Function.REACT].batch_size
SEED = 42
STATES = ("stopping", "stopped", "shutting-down", "terminated")


def cases() -> Sequence[str]:
    """Return one case a size of the upstream benchmark."""
    return [f"interruption-{size}" for size in SIZES]


def run(case: str) -> dict[str, object]:
    """Handle the messages and return figures."""
    count = int(case.rpartition("-")[2])
    world, messages = _prepare(count)
    claims = _IndexedClaims(world.state)
    world.state.node_claims = claims
    replaced = ("marking_functions", "react", "redelivery")
    original = {name: vars(function)[name] for name in replaced}
    react, redelivery = world.react(), MemoryRedelivery()
    # In place of the composition root's.
    vars(function).update(
        marking_functions=frozenset, react=lambda: react, redelivery=lambda: redelivery
    )
    latencies = []
    try:
        # logs and metrics are written and not shown
        with contextlib.redirect_stdout(io.StringIO()):
            started, used_s = time.perf_counter(), time.process_time()
            for first in range(0, count, BATCH):
                before = time.perf_counter()
                answer = function.handler(
                    {"Records": messages[first : first + BATCH]}, None
                )
                latencies.append(time.perf_counter() - before)
                assert answer == {"batchItemFailures": []}, (
                    "nothing stands in the way of any message"
                )
            total_s, used_s = time.perf_counter() - started, time.process_time() - used_s
    finally:
        vars(function).update(original)
    _check(world, count)
    latencies.sort()
    ec2_calls = world.ec2.describe_count + len(world.ec2.terminate_calls)
    return {
        "messages": count,
        "total_s": round(total_s, 3),
        "messages_per_s": round(count / total_s),
        "cpu_ms_per_message": round(used_s / count * 1000, 3),
        "batch_p50_s": round(latencies[len(latencies) // 2], 5),
        "batch_p99_s": round(latencies[int(len(latencies) * 0.99)], 5),
        "ec2_calls_per_message": round(ec2_calls / count, 3),
        "state_reads_per_message": round(claims.read_count / count, 3),
        "state_writes_per_message": round(world.state.write_count / count, 3),
        "events_per_message": round(len(world.bus.events) / count, 3),
    }


class _IndexedClaims(MemoryNodeClaims):
    """The store in memory with the index by instance that the table has; a scan would be all that is measured."""

    def __init__(self, state: MemoryState) -> None:
        super().__init__(state)
        self._by_instance = {
            claim.instance_id: claim.id for claim in state.claim_rows.values()
        }
        self.read_count = 0

    def find_by_instance(self, instance_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        self.read_count += len(instance_ids) + 1  # a query each, one batch read of the rows
        found = {
            i: self.get(self._by_instance[i])
            for i in sorted(instance_ids)
            if i in self._by_instance
        }
        self.read_count -= len(found)
        return {
            instance_id: claim for instance_id, claim in found.items() if claim is not None
        }

    def get(self, claim_id: str) -> NodeClaim | None:
        self.read_count += 1
        return super().get(claim_id)

    def get_many(self, claim_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        self.read_count -= len(set(claim_ids)) - 1  # one call reads a hundred
        return super().get_many(claim_ids)

    def return_many(
        self, claims: Sequence[NodeClaim], *, returned_at: datetime
    ) -> Mapping[str, NodeClaim]:
        before = self._state.write_count
        returned = super().return_many(claims, returned_at=returned_at)
        self._state.write_count = before + 1  # one transaction
        return returned


@dataclass(frozen=True, slots=True)
class Warned:
    """One node of the benchmark: what EC2 shows of its instance, and what its message says."""

    number: int
    state: str  # of the instance
    kind: str

    def body(self, instance_id: str, at: datetime) -> str:
        """Return the message about the node's instance."""
        if self.kind == "health":
            return json.dumps(_scheduled_change(instance_id, at))
        if self.kind == "spot":
            detail_type = "EC2 Spot Instance Interruption Warning"
            return json.dumps(
                _event(at, detail_type, instance_id, {"instance-action": "terminate"})
            )
        detail_type = "EC2 Instance State-change Notification"
        return json.dumps(_event(at, detail_type, instance_id, {"state": self.state}))


def mix(count: int) -> Iterator[Warned]:
    """Yield the nodes of the benchmark, the same on every machine."""
    random_numbers = random.Random(SEED)
    for number in range(count):
        kind = ("health", "spot", "state")[number % 3]
        yield Warned(
            number, random_numbers.choice(STATES) if kind == "state" else "running", kind
        )


def claim_id(number: int) -> str:
    """Return the id of a node's claim."""
    return f"nc-{number:06d}"


def running_claim(
    number: int, instance_id: str, offering: OfferingKey, workload_key: str, at: datetime
) -> NodeClaim:
    """Return the claim of a node with one replica on it."""
    return NodeClaim(
        id=claim_id(number),
        state=ClaimState.RUNNING,
        revision=1,
        node_pool_name="gpu",
        node_class_name="default",
        batch_id="b-1",
        attempt=1,
        offering=offering,
        price_atto_usd_per_hour=1,
        placements=(PlacedReplicas(workload_key, 1),),
        allocatable=Resources.of({}),
        created_at=at,
        instance_id=instance_id,
        launched_at=at,
    )


def _prepare(count: int) -> tuple[World, list[dict[str, Any]]]:
    """Make one running node and one message each, in random order."""
    world = World()
    world.add_workload(replicas=count)
    offering = OfferingKey("m5.large", *ZONES[0], CapacityType.SPOT)
    now = world.clock.now()
    bodies = []
    for node in mix(count):
        instance_id = f"i-{node.number:017x}"
        bodies.append(node.body(instance_id, now))
        claim = running_claim(node.number, instance_id, offering, "research/train", now)
        instance = Instance(
            instance_id,
            node.state,
            "m5.large",
            *ZONES[0],
            now,
            owner="test",
            lifecycle="spot",
        )
        world.ec2.add(replace(instance, claim_id=claim.id))
        world.state.claim_rows[claim.id] = claim
    record = world.state.workload_rows["research/train"]
    world.state.workload_rows["research/train"] = replace(record, placed_count=count)
    random.Random(SEED).shuffle(bodies)
    messages = [{"messageId": f"m-{n}", "body": body} for n, body in enumerate(bodies)]
    world.state.write_count = 0
    return world, messages


def _event(
    at: datetime, detail_type: str, instance_id: str, detail: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "version": "0",
        "source": "aws.ec2",
        "detail-type": detail_type,
        "time": at.isoformat(),
        "detail": {"instance-id": instance_id, **detail},
    }


def _scheduled_change(instance_id: str, at: datetime) -> dict[str, Any]:
    return {
        "version": "0",
        "source": "aws.health",
        "detail-type": "AWS Health Event",
        "time": at.isoformat(),
        "detail": {
            "service": "EC2",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "eventTypeCategory": "scheduledChange",
            "statusCode": "upcoming",
            "startTime": format_datetime(at, usegmt=True),
            "affectedEntities": [{"entityValue": instance_id}],
        },
    }


def _check(world: World, count: int) -> None:
    """Every node is on its way out, and every replica is demand again exactly once."""
    states = {claim.state for claim in world.state.claim_rows.values()}
    assert states <= {ClaimState.DRAINING, ClaimState.TERMINATING, ClaimState.TERMINATED}, (
        states
    )
    assert world.placed() == 0
    assert len(world.state.claim_rows) == count
