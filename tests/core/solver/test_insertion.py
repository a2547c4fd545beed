"""Insertion and what improves its result, each on a handful of replicas."""

from shared.core.model.policy import SchedulingPolicy
from shared.core.model.workload import Gang
from shared.core.scheduling_terms import labels
from shared.core.scheduling_terms.resources import Resources
from shared.core.solver.insertion.gangs import place_gang
from shared.core.solver.insertion.neighbourhood_search import NeighbourhoodSearch
from shared.core.solver.insertion.node_elimination import empty_paid_nodes
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    SPOT,
    demand,
    fx_type,
    launched,
    near,
    plain,
    planned,
    pool,
    with_demand,
    workload,
)
from tests.core.solver.world import inserting, undecided

FOUR = fx_type("four", 4, 16, 10)


def test_a_gang_that_finds_room_for_some_takes_none() -> None:
    two_nodes = pool("default", limits=Resources.of({"nodes": 2}))
    state = undecided(with_demand(plain(FOUR, node_pools=(two_nodes,)), demand(workload(cpu=3000, gang=Gang()), 3)))

    assert not place_gang(inserting(state), state.groups[0])
    assert (state.bins, state.remaining) == ([], [3])


def test_neighbourhood_search_moves_others_so_that_the_last_finds_room() -> None:
    """Two nodes with 2.9 CPU free each have a replica of 1: the one of 3.5 fits once both share a node."""
    two_nodes = pool("default", limits=Resources.of({"nodes": 2}))
    state = undecided(
        with_demand(
            plain(FOUR, node_pools=(two_nodes,)),
            demand(workload("large", 3500, GIB)),
            demand(workload("small", 1000, GIB), 2),
        )
    )
    large, small = state.groups
    for _ in range(2):
        state.place(state.open_bin(state.catalogue.options[0], 1), small.relaxed[0], 1)

    NeighbourhoodSearch(inserting(state)).serve([large])

    assert state.remaining == [0, 0]
    assert sorted(sum(bin_.contents.values()) for bin_ in state.bins) == [1, 2]


def test_a_bought_node_whose_replicas_fit_elsewhere_is_not_bought() -> None:
    state = undecided(with_demand(plain(FOUR), demand(workload(cpu=1000, memory=GIB), 3)))
    (group,) = state.groups
    for copies in (1, 2):
        state.place(state.open_bin(state.catalogue.options[0], 1), group.relaxed[0], copies)

    empty_paid_nodes(inserting(state))

    assert [dict(bin_.contents) for bin_ in state.bins] == [{group.index: 3}]


def test_replicas_that_seek_each_other_go_where_the_first_one_went() -> None:
    pair = workload("pair", 2000, GIB, affinity=(near(labels.ZONE, app="pair"),))

    plan = planned(with_demand(plain(FOUR), demand(workload("apart", 3500, GIB), 2), demand(pair, 2)))

    with_pairs = [launch for launch in plan.launches if any(it.workload_key == "ns/pair" for it in launch.placements)]
    assert len({launch.labels[labels.ZONE] for launch in with_pairs}) == 1


def test_no_spot_pool_gets_more_than_its_share() -> None:
    share = SchedulingPolicy(spot_pool_share_percent=50, spot_share_from_nodes=2)
    cheap_spot = fx_type("four", 4, 16, 10, price={SPOT: 10_000, ON_DEMAND: 100_000})

    plan = planned(with_demand(plain(cheap_spot), demand(workload(cpu=3500, memory=GIB), 4)), policy=share)

    assert launched(plan) == {"four:spot": 4}
    assert max(launch.count for launch in plan.launches) == 2
