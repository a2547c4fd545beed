"""Updates that share nodes: they never wait for each other, and each keeps to its workload's bounds."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.disruption.rollout import (
    RollingNode,
    RollingWorkload,
    RolloutSteps,
    next_steps,
)
from reservoir.core.model.workload import RollingUpdate

START = datetime(2026, 1, 1, tzinfo=UTC)
SURGE_ONE = RollingUpdate("1", "0")


def node(number: int, replicas: dict[str, int], *, is_new: bool = False) -> RollingNode:
    return RollingNode(
        f"nc-{number}",
        "pool",
        START + timedelta(minutes=number),
        replicas,
        {} if is_new else replicas,
        is_running=True,
        is_steady=True,
    )


class Fleet:
    """Nodes with replicas of several workloads, minute by minute; every replica that is wanted starts within one."""

    def __init__(
        self, nodes: list[dict[str, int]], bounds: dict[str, RollingUpdate]
    ) -> None:
        self.nodes = [node(number, each) for number, each in enumerate(nodes)]
        self.wanted = Counter[str]()
        for each in nodes:
            self.wanted.update(each)
        self.bounds = {key: bounds[key] for key in self.wanted}
        self.surges = dict.fromkeys(bounds, 0)
        self.at_once = 1  # nodes that the pool's budget lets go in a minute
        self.least: dict[str, int] = dict(self.wanted)  # that ran at any time

    def running(self) -> Counter[str]:
        counts = Counter[str]()
        for each in self.nodes:
            counts.update(each.replicas)
        return counts

    def minute(self) -> RolloutSteps:
        rolling = [
            RollingWorkload(key, self.wanted[key], bounds, self.surges[key])
            for key, bounds in self.bounds.items()
        ]
        found = next_steps(rolling, self.nodes, {"pool": self.at_once})
        self.nodes = [each for each in self.nodes if each.claim_id not in found.going]
        running = self.running()
        for key in self.bounds:
            self.least[key] = min(self.least[key], running[key])
            self.surges[key] = found.steps[key].surge_count if key in found.steps else 0
            missing = self.wanted[key] + self.surges[key] - running[key]
            self.nodes += [
                node(1000 + len(self.nodes), {key: 1}, is_new=True) for _ in range(missing)
            ]
        return found

    def is_updated(self) -> bool:
        return not any(each.outdated for each in self.nodes)


def test_two_updates_that_share_two_nodes_make_room_for_the_same_one_first() -> None:
    nodes = [node(1, {"team/a": 1, "team/b": 3}), node(2, {"team/a": 3, "team/b": 1})]
    rolling = [
        RollingWorkload("team/a", 4, SURGE_ONE),
        RollingWorkload("team/b", 4, SURGE_ONE),
    ]
    steps = next_steps(rolling, nodes, {"pool": 1}).steps
    assert {key: step.surge_count for key, step in steps.items()} == {
        "team/a": 1,  # what the first node holds
        "team/b": 3,
    }


def test_three_updates_that_wait_in_a_ring_come_about() -> None:
    fleet = Fleet(
        [
            {"team/a": 1, "team/b": 3},
            {"team/b": 1, "team/c": 3},
            {"team/c": 1, "team/a": 3},
        ],
        dict.fromkeys(("team/a", "team/b", "team/c"), SURGE_ONE),
    )
    for _ in range(10):
        fleet.minute()
    assert fleet.is_updated()
    assert fleet.least == fleet.wanted


def test_an_update_says_which_other_workload_its_node_waits_for() -> None:
    nodes = [
        node(1, {"team/a": 1, "team/b": 1}),
        node(2, {"team/a": 1}, is_new=True),
    ]
    rolling = [
        RollingWorkload("team/a", 1, SURGE_ONE, 1),
        RollingWorkload("team/b", 1, SURGE_ONE),
    ]
    steps = next_steps(rolling, nodes, {"pool": 1}).steps
    assert steps["team/a"].waits_for == "more replicas of team/b to run"
    assert steps["team/b"].waits_for == "1 more of its replicas to run"


KEYS = ("team/a", "team/b", "team/c", "team/d")
HOLDS = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 6), min_size=1)
BOUNDS = st.builds(
    RollingUpdate,
    st.sampled_from(("0", "1", "2", "25%", "100%")),
    st.sampled_from(("0", "1", "25%", "50%")),
)


@given(
    st.lists(HOLDS, min_size=1, max_size=6),
    st.fixed_dictionaries(dict.fromkeys(KEYS, BOUNDS)),
    st.integers(1, 3),
)
def test_whatever_shares_nodes_every_update_ends_within_its_bounds(
    held: list[dict[str, int]], bounds: dict[str, RollingUpdate], at_once: int
) -> None:
    fleet = Fleet(held, bounds)
    fleet.at_once = at_once
    for _ in range(2 * len(held) + 1):
        fleet.minute()
    assert fleet.is_updated()
    for key, update in fleet.bounds.items():
        missing = update.bounds(fleet.wanted[key])[1]
        assert fleet.least[key] >= fleet.wanted[key] - missing
