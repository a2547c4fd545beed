"""A thousand claims of mixed kinds that were planned at once: how few CreateFleet calls launch them, how fast.

The use case and its EC2 adapters run against the emulated EC2 (requests serialised, signed, validated and parsed as
ever), state and queue are in memory. One launcher handles the messages in order; the calls keep to EC2's own rate.
``message_to_call`` counts from the moment at which all messages were sent, ``handling_to_call`` from that at which the
function got its message. The queue has no batch window, so nothing is added for one.
"""

import time
from collections.abc import Sequence
from typing import Any

from lab.worlds.live_world import LiveWorld
from reservoir.core.launching.launch_outcome import LaunchOutcome
from reservoir.core.launching.launch_request import LaunchRequest
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.plan import OfferingKey
from reservoir.ports.messaging import LaunchBatch

CLAIMS = 1_000
ODCR_COUNT, ODCR_UNITS = 10, 45
BLOCK_COUNT, BLOCK_UNITS = 4, 25
INTERRUPTIBLE_COUNT, INTERRUPTIBLE_UNITS = 2, 25
SPOT_COUNT, ON_DEMAND_COUNT = 250, 150


def cases() -> Sequence[str]:
    """Return the one case."""
    return ["launch-1000"]


def run(case: str) -> dict[str, object]:
    """Launch and return figures."""
    del case
    world = LiveWorld()
    world.add_workload("many", replicas=CLAIMS)
    batches = _plan(world)
    fleet = _Stopwatch(world.aws.fleet)
    world.ec2.parts = (fleet, *world.ec2.parts[1:])
    launch = world.launch()
    handling: list[float] = []
    sent_at = time.perf_counter()
    for batch in batches:
        started = time.perf_counter()
        launch.run(batch)
        handling.append(fleet.called_at[-1] - started)
    total_s = time.perf_counter() - sent_at
    _check(world)
    waiting = sorted(called - sent_at for called in fleet.called_at)
    handling.sort()
    return {
        "claims": CLAIMS,
        "create_fleet_calls": len(fleet.called_at),
        "fewest_possible_calls": ODCR_COUNT + BLOCK_COUNT + INTERRUPTIBLE_COUNT + 2,
        "create_launch_template_calls": len(world.aws.templates.list_owned()),
        "claims_tagged_at_once": sum(
            i.claim_id is not None for i in world.aws.instances.list_owned()
        ),
        "total_s": round(total_s, 3),
        "handling_to_call_p50_s": round(handling[len(handling) // 2], 4),
        "handling_to_call_p99_s": round(handling[int(len(handling) * 0.99)], 4),
        "message_to_call_p50_s": round(waiting[len(waiting) // 2], 3),
        "message_to_call_p99_s": round(waiting[int(len(waiting) * 0.99)], 3),
    }


class _Stopwatch:
    """The fleet launcher, with the time of each call."""

    def __init__(self, fleet: Any) -> None:
        self._fleet = fleet
        self.called_at: list[float] = []

    def launch(self, request: LaunchRequest, client_token: str) -> LaunchOutcome:
        self.called_at.append(time.perf_counter())
        outcome: LaunchOutcome = self._fleet.launch(request, client_token)
        return outcome


def _plan(world: LiveWorld) -> list[LaunchBatch]:
    """Plan one batch a launch key, as the planner does."""
    cloud = world.aws.cloud
    reservations = [(cloud.reserve(ODCR_UNITS), ODCR_UNITS) for _ in range(ODCR_COUNT)]
    for count, units, action, kind in (
        (BLOCK_COUNT, BLOCK_UNITS, "purchase_capacity_block", "p5.48xlarge"),
        (INTERRUPTIBLE_COUNT, INTERRUPTIBLE_UNITS, "create_interruptible", "m5.large"),
    ):
        for _ in range(count):
            made = cloud.control(action, instance_type=kind, zone="us-east-1a", count=units)
            reservations.append((made["capacity_reservation_id"], units))
    world.discover(*(reservation_id for reservation_id, _ in reservations))
    batches = [
        world.plan(
            units,
            world.aws.reserved(reservation_id),
            batch_id=reservation_id,
            workload="research/many",
        )
        for reservation_id, units in reservations
    ]
    for count, capacity_type in (
        (SPOT_COUNT, CapacityType.SPOT),
        (ON_DEMAND_COUNT, CapacityType.ON_DEMAND),
    ):
        first, *others = _alternatives(world, capacity_type)
        batches.append(
            world.plan(
                count,
                first,
                *others,
                batch_id=f"b-{capacity_type.value}",
                workload="research/many",
            )
        )
    return batches


def _alternatives(world: LiveWorld, capacity_type: CapacityType) -> list[OfferingKey]:
    return [
        world.aws.offering(name, zone, capacity_type)
        for name in ("m5.large", "m5.xlarge")
        for zone in ("us-east-1a", "us-east-1b")
    ]


def _check(world: LiveWorld) -> None:
    """Each claim has its own instance, in its own reservation."""
    instances = {instance.id: instance for instance in world.aws.instances.list_owned()}
    claims = world.claims()
    assert len(claims) == len(instances) == CLAIMS
    assert {claim.state for claim in claims} == {ClaimState.LAUNCHED}
    assert {claim.instance_id for claim in claims} == instances.keys()
    for claim in claims:
        found = instances[claim.instance_id or ""].capacity_reservation_id
        assert found == claim.offering.reservation_id
