"""Warm nodes are seen as what they are: free units, with a node in them."""

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.cli.nouns import nodes, pools
from reservoir.cli.output import as_table
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.listing.list_nodes import ListNodes
from reservoir.usecases.listing.list_reservations import ListReservations
from reservoir.usecases.policy.show_policy import ShowPolicy


def warm_world() -> DisruptWorld:
    """Three units: on one there is work, and one of the others is kept warm."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=3)
    world.submit("train", gpus=8)
    world.minutes(2)
    world.change_pool(warmReserved=1)
    world.minutes(2)
    return world


def test_a_node_says_that_it_is_warm() -> None:
    world = warm_world()
    rows = ListNodes(world.state.node_claims).list()
    assert [(row.status.replicas, row.status.is_warm) for row in rows] == [
        (1, None),
        (0, True),
    ]
    listing = nodes.NOUN.listing(world.clock.now())
    lines = [line.plain for line in as_table(rows, listing, 400, is_wide=False)]
    assert "running (warm)" not in lines[1]
    assert "running (warm)" in lines[2]


def test_its_unit_is_free_and_not_ours() -> None:
    world = warm_world()
    (row,) = ListReservations(world.state.reservations, world.state.node_claims).list()
    status = row.status
    assert (status.total, status.ours, status.others) == (3, 1, 0)
    assert (status.free, status.warm) == (2, 1)


def test_a_pool_says_how_many_it_keeps() -> None:
    world = warm_world()
    show = ShowPolicy(
        world.store,
        world.state.reservations,
        world.state.node_claims,
        world.state.workloads,
        world.clock,
    )
    (found,) = show.show(PolicyKind.NODE_POOL, "gpu")
    assert found["status"]["warm"] == 1
    listing = pools.NOUN.listing(world.clock.now())
    head, line = as_table([found], listing, 400, is_wide=False)
    assert "WARM" in head.plain.split()
    assert line.plain.split()[-5:] == ["2", "1", "2", "0", "0"]
