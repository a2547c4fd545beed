"""Gangs near themselves: in one part of the network, or in one UltraServer."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Gang
from reservoir.core.scheduling_terms import labels
from tests.core.scheduler.world import (
    block,
    demand,
    fx_type,
    node,
    plain,
    planned,
    pool,
    reservation,
    with_demand,
    workload,
)

LAYER_1, LAYER_2, LAYER_3 = labels.NETWORK_NODE_LAYERS
HOST = replace(fx_type("host", pods=1), on_demand_price_micro_usd_per_hour=1_000_000)


def near(identity: str, units: int, *nodes: str, **changes: Any) -> CapacityReservation:
    return reservation(identity, "host", units, network_nodes=nodes, **changes)


def ultra_server(identity: str, units: int) -> CapacityReservation:
    return block(
        identity,
        "host",
        units,
        ends_in=timedelta(days=2),
        ultra_server=True,
        capacity_block_id=f"cb-{identity}",
    )


def world(*reservations: CapacityReservation) -> Snapshot:
    return plain(HOST, reservations=reservations, node_pools=(pool(),))


def gang(count: int, key: str | None = None, name: str = "train", **changes: Any) -> Any:
    job = workload(name, cpu=100, gang=Gang(key), duration_s=3600, **changes)
    return demand(job, count)


def used(plan: Plan, name: str = "train") -> dict[str, int]:
    """Count replicas of a workload by the reservation of their new nodes."""
    found: dict[str, int] = {}
    for launch in plan.launches:
        count = sum(it.count for it in launch.placements if it.workload_key.endswith(name))
        where = launch.offering.reservation_id or "bought"
        if count:
            found[where] = found.get(where, 0) + count * launch.count
    return found


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [
        (LAYER_1, 5, {"cr-a": 3, "cr-b": 2}),
        (LAYER_2, 5, {"cr-a": 3, "cr-b": 2}),
        (LAYER_3, 4, {"cr-c": 4}),
    ],
)
def test_a_gang_is_under_one_network_node(
    key: str, count: int, expected: dict[str, int]
) -> None:
    apart = near("cr-0", 3, "nn-9", "nn-91", "nn-911")
    snapshot = world(
        apart,
        near("cr-a", 3, "nn-1", "nn-11", "nn-111"),
        near("cr-b", 2, "nn-1", "nn-11", "nn-112"),
        near("cr-c", 4, "nn-2", "nn-21", "nn-211"),
    )
    assert used(planned(with_demand(snapshot, gang(count, key)))) == expected


def test_a_gang_is_not_put_where_ec2_does_not_tell_the_layer() -> None:
    snapshot = world(near("cr-a", 9, "nn-1", "nn-11"), near("cr-b", 9))
    plan = planned(with_demand(snapshot, gang(2, LAYER_3)))
    assert not plan.launches
    (unplaced,) = plan.unplaced
    assert LAYER_3 in unplaced.message


def test_the_smallest_part_that_holds_a_gang_is_taken_so_that_a_larger_one_has_a_place() -> (
    None
):
    snapshot = world(near("cr-a", 4, "nn-1"), near("cr-b", 2, "nn-2"))
    plan = planned(
        with_demand(
            snapshot, gang(2, LAYER_1, "first", priority=1), gang(4, LAYER_1, "second")
        )
    )
    assert (used(plan, "first"), used(plan, "second")) == ({"cr-b": 2}, {"cr-a": 4})


@pytest.mark.parametrize("key", [None, labels.ULTRA_SERVER_ID])
def test_a_gang_that_fits_into_one_ultra_server_is_in_one(key: str | None) -> None:
    snapshot = world(ultra_server("cr-a", 3), ultra_server("cr-b", 4))
    assert used(planned(with_demand(snapshot, gang(4, key)))) == {"cr-b": 4}


def test_a_larger_gang_may_take_two_unless_it_asks_for_one() -> None:
    snapshot = world(ultra_server("cr-a", 3), ultra_server("cr-b", 4))
    assert used(planned(with_demand(snapshot, gang(7)))) == {"cr-a": 3, "cr-b": 4}
    assert not planned(with_demand(snapshot, gang(7, labels.ULTRA_SERVER_ID))).launches


def running(identity: str, where: str, *nodes: str) -> Node:
    """Return a node of the gang in a reservation, under network nodes."""
    own = dict(zip(labels.NETWORK_NODE_LAYERS, nodes, strict=False))
    return node(identity, HOST, {"train": 1}, labels=own, reservation_id=where)


def test_a_replica_that_was_lost_comes_back_to_where_the_others_are() -> None:
    here, there = near("cr-a", 1, "nn-1"), near("cr-b", 1, "nn-2")
    snapshot = world(here, there)
    for others_at, expected in (("nn-1", "cr-a"), ("nn-2", "cr-b")):
        left = replace(snapshot, nodes=(running("nc-1", "cr-x", others_at),))
        assert used(planned(with_demand(left, gang(1, LAYER_1)))) == {expected: 1}


def test_a_replica_that_was_lost_waits_where_nothing_is_free_beside_the_others() -> None:
    left = replace(world(near("cr-a", 1, "nn-1")), nodes=(running("nc-1", "cr-x", "nn-2"),))
    assert not planned(with_demand(left, gang(1, LAYER_1))).launches


def test_a_gang_without_a_key_leaves_no_part_of_itself_outside_an_ultra_server() -> None:
    """Two free nodes are in one, and so is the unit for the third; another one would cost as much."""
    own = {labels.ULTRA_SERVER_ID: "cb-cr-b"}
    free = tuple(
        node(
            name,
            HOST,
            labels=own,
            reservation_id="cr-b",
            capacity_type=CapacityType.RESERVED,
        )
        for name in ("nc-1", "nc-2")
    )
    snapshot = world(ultra_server("cr-a", 3), ultra_server("cr-b", 2))
    plan = planned(with_demand(replace(snapshot, nodes=free), gang(3)))
    assert (used(plan), len(plan.existing)) == ({"cr-b": 1}, 2)
