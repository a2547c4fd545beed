"""The exact program of the bench `exact-small` finds what can be seen by eye, and judges plans by it."""

import pytest

from lab.bench.exact.exact_small import best_plan, measure
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.bench.worlds.common import NAMESPACE, NOW, node_class, node_pool, one_of
from lab.bench.worlds.small import ZONE, small_snapshot
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources

CATALOGUE = ec2_catalogue()
# 8 vCPUs, 7.91 of them for work
M5 = next(item for item in CATALOGUE.instance_types if item.name == "m5.2xlarge")
CHEAPEST_USD = (
    min(it.price_micro_usd_per_hour for it in M5.offerings if it.zone == ZONE) / 1e6
)


def world(*millicores: int, units: int = 0) -> Snapshot:
    """Return one type, replicas of so much CPU each, and so many reserved units."""
    reservation = CapacityReservation(
        id="cr-1",
        owner_id="111122223333",
        instance_type=M5.name,
        zone=ZONE,
        zone_id=dict(CATALOGUE.zones)[ZONE],
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=units,
        available_count=units,
        free_units=units,
    )
    demands = [
        Demand(
            Workload(NAMESPACE, f"w-{number}", 1, 1, Resources.of({"cpu": cpu, "pods": 1})),
            1,
            NOW,
        )
        for number, cpu in enumerate(millicores)
    ]
    return Snapshot(
        instance_types=(M5,),
        reservations=(reservation,) if units else (),
        node_pools=(node_pool("default", one_of(labels.ZONE, ZONE)),),
        node_classes=(node_class(CATALOGUE.zones, ["cr-1"]),),
        demands=tuple(demands),
    )


def test_the_best_plan_buys_the_fewest_nodes() -> None:
    best = best_plan(world(5_000, 5_000, 2_800, 2_800))

    assert best is not None
    assert (best.left_over, best.units) == (0, 0)
    assert best.bought_usd_per_hour == pytest.approx(2 * CHEAPEST_USD)


def test_units_come_first_and_no_more_of_them_than_are_needed() -> None:
    best = best_plan(world(5_000, 2_800, units=3))

    assert best is not None
    assert (best.left_over, best.bought_usd_per_hour, best.units) == (0, 0.0, 1)


def test_who_fits_nowhere_is_left_over() -> None:
    best = best_plan(world(9_000, 1_000, units=1))

    assert best is not None
    assert (best.left_over, best.bought_usd_per_hour, best.units) == (1, 0.0, 1)


def test_a_world_is_the_same_each_time_and_no_plan_beats_the_best() -> None:
    assert small_snapshot(3) == small_snapshot(3)
    figures = measure("certified", "9000", "6")
    assert figures["worlds_not_judged"] == figures["worlds_that_leave_more"] == 0
    assert float(str(figures["bought_over_least_mean"])) >= 1
