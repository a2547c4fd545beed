"""One trace through both sides: the rules of Karpenter's that are played, and what both must come to."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lab.bench.peers import karpenter, ours
from lab.bench.peers.account import Meter, play
from lab.bench.peers.karpenter import Karpenter
from lab.bench.peers.ours import Moves
from lab.bench.peers.trace import Job, Trace, Units, services
from lab.bench.scheduling.peers import compared
from reservoir.core.model.instance_type import CapacityType

HOURS = 1.0
WORLD = services(1, HOURS, scale=0.3)


def job(
    name: str,
    at_s: float,
    ends_s: float = 9 * 3600.0,
    replicas: int = 1,
    millicores: int = 1000,
) -> Job:
    return Job(name, at_s, ends_s, replicas, millicores, 3 * millicores)


def trace(
    *jobs: Job,
    hours: float = 0.5,
    reservations: Sequence[Units] = (),
    markets: str = "on-demand",
) -> Trace:
    return Trace(1, hours, jobs, reservations, markets.split(), 1e9)


def after(given: Trace) -> tuple[Karpenter, Meter, list[float]]:
    """Play Karpenter's side; return it with the seconds at which its live instances were launched."""
    world = Karpenter(given)
    began = world.kernel.now()
    meter = play(world, given, world.submit, world.withdraw)
    return (
        world,
        meter,
        sorted((each.launched_at - began).total_seconds() for each in world.ec2.live()),
    )


def check_nobody_is_crowded(world: Karpenter) -> None:
    for node in world.cluster.nodes.values():
        used = {
            name: sum(pod.size[name] for pod in node.pods)
            for name in ("cpu", "memory", "pods")
        }
        assert all(used[name] <= node.allocatable[name] for name in used)


def test_a_pod_waits_for_a_second_of_silence() -> None:
    _, meter, launched = after(trace(job("a", 60.0)))
    assert launched == [61.0]
    assert 6 <= meter.waits_s[0] <= 61  # a boot takes 5 to 60 s


def test_pods_that_keep_coming_are_batched_for_ten_seconds() -> None:
    _, _, launched = after(
        trace(*(job(f"j{number}", 60 + number / 2) for number in range(30)), hours=0.02)
    )
    assert launched[0] == 70.0


def test_pods_go_where_there_is_room_without_waiting() -> None:
    small = replace(job("b", 200.0), millicores=100, mebibytes=100)
    _, meter, launched = after(trace(job("a", 60.0), small, hours=0.1))
    assert launched == [61.0]
    assert meter.waits_s[1] == 0


def test_reserved_units_come_first_and_are_not_exceeded() -> None:
    units = Units("m6i.xlarge", 0, 2)
    jobs = [job("a", 60.0, replicas=3, millicores=3000)]
    world, meter, _ = after(
        trace(*jobs, hours=0.1, reservations=[units], markets="reserved on-demand")
    )
    places = [node.place.capacity_type for node in world.cluster.nodes.values()]
    assert sorted(places) == [
        CapacityType.ON_DEMAND,
        CapacityType.RESERVED,
        CapacityType.RESERVED,
    ]
    assert meter.used_unit_h <= meter.unit_h == pytest.approx(0.2)


def test_nodes_that_empty_go_after_their_time_and_not_before() -> None:
    given = trace(job("a", 60.0, ends_s=300.0))
    world, meter, launched = after(given)
    assert launched == []
    assert world.moves == Moves()
    # Five minutes, a pass every ten seconds, fifteen seconds before it is validated.
    assert 300 <= meter.empty_node_h * 3600 <= 300 + 10 + 15


def test_half_empty_nodes_are_put_together_by_moving_their_pods() -> None:
    # Two nodes of a pod each and, once their neighbours are gone, room for both pods on one.
    stay = [job("a", 60.0, millicores=3000), job("b", 90.0, millicores=3000)]
    go = [
        job(f"g{n}", 60.0 + 30 * n, ends_s=200.0, replicas=9, millicores=3000)
        for n in range(2)
    ]
    world, meter, launched = after(trace(*stay, *go, hours=1.0))
    check_nobody_is_crowded(world)
    assert len(launched) == 1
    assert world.moves.by_choice >= 1
    assert len(meter.waits_s) == 20


def test_spot_nodes_are_not_replaced_by_spot_nodes() -> None:
    given = trace(
        job("a", 60.0),
        job("g", 60.0, ends_s=200.0, replicas=7, millicores=3000),
        hours=1.0,
        markets="spot on-demand",
    )
    world, _, launched = after(given)
    assert launched == [61.0]
    assert world.moves.by_choice == 0
    assert [node.place.capacity_type for node in world.cluster.nodes.values()] == [
        CapacityType.SPOT
    ]
    paid = Karpenter(replace(given, markets=("on-demand",)))
    play(paid, given, paid.submit, paid.withdraw)
    assert paid.moves.by_choice == 1  # a smaller node on demand takes its place


def test_an_interrupted_node_is_provisioned_for_before_it_ends() -> None:
    given = replace(
        trace(job("a", 60.0), hours=2.0, markets="spot on-demand"), spot_life_s=1200.0
    )
    world, meter, _ = after(given)
    assert world.moves.interrupted > 0
    assert meter.lacking_h * 3600 < 61 * (world.moves.interrupted + 1)


@pytest.mark.parametrize("side", [ours.played, karpenter.played])
def test_everybody_runs_on_either_side_and_it_plays_the_same_again(side: object) -> None:
    assert callable(side)
    meter, moves = side(WORLD)
    figures = compared([(meter, moves)])
    came = [each for each in WORLD.jobs if each.ends_s - each.at_s > 120]
    assert len(meter.waits_s) >= sum(each.replicas for each in came)
    assert 0.5 < meter.used_unit_h / meter.unit_h <= 1
    assert meter.lacking_h < 0.05 * meter.wanted_h
    assert meter.bought_usd > 0
    assert compared([side(WORLD)]) == figures


def test_both_play_the_same_world() -> None:
    (ours_counted, _), (theirs, _) = ours.played(WORLD), karpenter.played(WORLD)
    assert ours_counted.wanted_h == pytest.approx(theirs.wanted_h, rel=0.001)
    assert ours_counted.unit_h == pytest.approx(theirs.unit_h, rel=0.02)


def test_idle_units_are_lent_and_come_back_after_their_notice() -> None:
    late = job("late", 1800.0, millicores=14_000)
    given = trace(
        late, hours=1.0, reservations=[Units("m6i.4xlarge", 0, 2)], markets="reserved"
    )
    meter, _ = ours.played(given, lends=True)
    assert meter.unit_h == pytest.approx(2.0, abs=0.01)
    assert 1.0 < meter.lent_unit_h < 1.5, "both units from the tenth minute, then one"
    assert meter.bought_usd == 0.0
    (wait_s,) = meter.waits_s
    assert 120.0 < wait_s < 180.0 + 60.0, "the notice, and a boot"
