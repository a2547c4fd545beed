"""A team that may use some pools is placed in these alone; its neighbours anywhere."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.checking.violation import ViolationCode
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import ON_DEMAND, markets, pool
from tests.core.sharing.world import planned, team, violations, wants, world

POOLS = (pool("first", markets(ON_DEMAND), weight=10), pool("second", markets(ON_DEMAND)))


def pools_of(plan: Plan) -> dict[str, str]:
    return {
        launch.placements[0].workload_key: launch.node_pool_name for launch in plan.launches
    }


def held(*names: str) -> Snapshot:
    teams = (team("audio", None, node_pools=names), team("vision", None))
    return world(teams, [wants("audio", 2), wants("vision", 2)], units=0, node_pools=POOLS)


def test_a_team_is_placed_in_the_pools_that_it_may_use() -> None:
    assert pools_of(planned(held())) == {"audio/job": "first", "vision/job": "first"}
    assert pools_of(planned(held("second"))) == {
        "audio/job": "second",
        "vision/job": "first",
    }


def test_without_any_of_its_pools_a_team_waits_and_its_neighbours_do_not() -> None:
    plan = planned(held("gone"))
    assert pools_of(plan) == {"vision/job": "first"}
    (refusal,) = plan.unplaced
    assert refusal.workload_key == "audio/job"


def test_a_team_joins_no_node_of_another_pool() -> None:
    snapshot = held("second")
    (running,) = world((), [], {"vision": 1}).nodes
    roomy = replace(
        running, used=running.used * 0, node_pool_name="first", reservation_id=None
    )
    joined = {
        placed.workload_key
        for each in planned(replace(snapshot, nodes=(roomy,))).existing
        for placed in each.placements
    }
    assert joined == {"vision/job"}


def test_the_checker_forbids_a_pool_that_a_team_may_not_use() -> None:
    snapshot = held()
    plan = planned(snapshot)
    found = violations(held("second"), plan)
    assert {(violation.code, violation.workload_keys) for violation in found} == {
        (ViolationCode.TEAM_POOL, ("audio/job",))
    }


NAMES = ("audio", "vision", "of-no-team")
POOL_NAMES = ("first", "second")
MAY_USE = st.sampled_from([(), ("first",), ("second",), ("gone",)])


@given(
    MAY_USE,
    MAY_USE,
    st.tuples(*[st.integers(0, 3)] * 3),
    st.tuples(*[st.integers(0, 3)] * 2),
)
def test_no_choice_of_pools_places_more(
    audio: tuple[str, ...],
    vision: tuple[str, ...],
    wanted: tuple[int, ...],
    sizes: tuple[int, ...],
) -> None:
    """All choices of small worlds: who is where, within what each pool may have and each team may use."""
    may_use = {
        "audio": audio or POOL_NAMES,
        "vision": vision or POOL_NAMES,
        "of-no-team": POOL_NAMES,
    }
    teams = (team("audio", None, node_pools=audio), team("vision", None, node_pools=vision))
    pools = [
        replace(pool(name, markets(ON_DEMAND)), limits=Resources.of({"nodes": size}))
        for name, size in zip(POOL_NAMES, sizes, strict=True)
    ]
    demands = [
        wants(name, count) for name, count in zip(NAMES, wanted, strict=True) if count
    ]
    plan = planned(world(teams, demands, units=0, node_pools=tuple(pools)))
    placed: Counter[str] = Counter()
    for launch in plan.launches:
        (name,) = {each.workload_key.partition("/")[0] for each in launch.placements}
        assert launch.node_pool_name in may_use[name]
        placed[name] += launch.count

    def choices(name: str, count: int) -> Iterator[Counter[str]]:
        for first, second in product(range(count + 1), repeat=2):
            found = Counter({"first": first, "second": second})
            if first + second <= count and all(each in may_use[name] for each in +found):
                yield found

    most = max(
        sum(each.total() for each in choice)
        for choice in product(
            *(list(choices(name, count)) for name, count in zip(NAMES, wanted, strict=True))
        )
        if all(
            sum(each[name] for each in choice) <= size
            for name, size in zip(POOL_NAMES, sizes, strict=True)
        )
    )
    assert placed.total() == most
