"""Whatever happens to a fleet, and wherever passes of disruption die: when nothing happens any more, it comes to rest.

Each seed is another story: demand that comes, changes and ends, reservations that grow and shrink, pools that change,
and passes that are killed. What must hold after every minute is in ``DisruptWorld.check``.
"""

from random import Random

import pytest

from lab.fakes.effects import Effects
from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.launch_world import ZONES
from reservoir.core.model.node_claim import ClaimState

MARKETS = (
    ("reserved",),
    ("reserved", "on-demand"),
    ("reserved", "spot", "on-demand"),
    ("on-demand", "spot"),
)
RESERVED_TYPES = ("m5.large", "m5.xlarge", "m5.4xlarge", "p5.48xlarge")
QUIET_MINUTES = 45  # longer than the longest wait: a slot that does not come free
AT_REST = 5


def begin(random: Random) -> DisruptWorld:
    budgets = [{"nodes": random.choice(["100%", "30%", "1", "2"])}]
    after = random.choice(["0s", "0s", "90s"])
    world = DisruptWorld(*random.choice(MARKETS), consolidateAfter=after, budgets=budgets)
    for number, (zone, zone_id) in enumerate(ZONES[: random.randint(1, 2)]):
        world.add_reservation(
            f"cr-{number}",
            instance_type=random.choice(RESERVED_TYPES),
            total_count=random.randint(1, 3),
            zone=zone,
            zone_id=zone_id,
        )
    world.holds_on = random.random() < 0.3
    return world


def something_happens(world: DisruptWorld, random: Random, step: int) -> None:
    names = [key.partition("/")[2] for key in sorted(world.state.workload_rows)]
    what = random.random()
    if what < 0.45 or not names:
        gpus = 8 if random.random() < 0.2 else 0
        cpus = 0.0 if gpus else random.choice([0.5, 1, 1.5, 3, 7, 12])
        priority = random.choice([0, 0, 10])
        world.submit(
            f"w{step}",
            replicas=random.randint(1, 4),
            cpus=cpus,
            gpus=gpus,
            priority=priority,
        )
    elif what < 0.7:
        world.scale(random.choice(names), random.randint(0, 4))
    elif what < 0.85:
        reservation_id = random.choice(sorted(world.ec2.reservations))
        used = world.ec2.reservations[reservation_id].total_count - world.ec2.free_units(
            reservation_id
        )
        world.resize(reservation_id, max(used, random.randint(0, 4)))
    else:
        world.change_pool(labels={"version": str(step)})


def minutes(world: DisruptWorld, random: Random) -> None:
    for _ in range(random.randint(1, 3)):
        world.armed = Effects()
        if random.random() < 0.4:
            number = random.randint(1, 12)
            world.armed = (
                Effects(kill_before=number)
                if random.random() < 0.5
                else Effects(lose_answer_of=number)
            )
        world.minute()


@pytest.mark.parametrize("seed", range(8))
def test_a_fleet_comes_to_rest(seed: int) -> None:
    random = Random(seed)  # noqa: S311 # stories, not secrets
    world = begin(random)
    for step in range(random.randint(6, 12)):
        something_happens(world, random, step)
        minutes(world, random)
    world.armed, world.holds_on = Effects(), False
    world.minutes(QUIET_MINUTES)
    launched = len(world.ec2.all())
    world.minutes(AT_REST)
    assert len(world.ec2.all()) == launched
    assert all(
        report.drained == report.replaced == report.refilled == 0
        for report in world.reports[-AT_REST:]
    )
    assert {claim.state for claim in world.live()} <= {ClaimState.RUNNING}
    assert not [
        claim
        for claim in world.live()
        if claim.disruption is not None or claim.waits_for_slot
    ]
