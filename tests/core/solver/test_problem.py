"""The problem: equal replicas are one group, whoever accepts an option is a bit of its mask, rules connect groups."""

from shared.core.scheduling_terms import labels
from shared.core.scheduling_terms.requirement import Operator
from shared.core.solver.problem.components import connected, connected_components
from shared.core.solver.problem.vectors import Sizes
from tests.core.scheduler.world import (
    GIB,
    demand,
    fx_type,
    near,
    plain,
    pool,
    require,
    spread,
    with_demand,
    workload,
)
from tests.core.solver.world import undecided


def test_replicas_that_ask_for_the_same_are_one_group() -> None:
    state = undecided(
        with_demand(
            plain(),
            demand(workload("a", 500, GIB), 3),
            demand(workload("b", 500, GIB), 2),
            demand(workload("c", 250, GIB), 1),
        )
    )

    assert [(group.count, [key for key, _, _ in group.members]) for group in state.groups] == [
        (5, ["ns/a", "ns/b"]),
        (1, ["ns/c"]),
    ]


def test_an_option_knows_by_a_mask_who_accepts_it() -> None:
    only_arm = workload("arm", 500, GIB, node_selector=require(labels.ARCH, Operator.IN, "arm64"))
    state = undecided(
        with_demand(
            plain(fx_type("x86"), fx_type("arm", arch="arm64")),
            demand(workload("any", 1000, GIB)),
            demand(only_arm),
        )
    )
    anyone, choosy = (group.requirement_sets[0] for group in state.groups)

    masks = {option.key.instance_type: option.requirement_sets for option in state.catalogue.options}

    assert masks == {"x86": anyone, "arm": anyone | choosy}


def test_workloads_that_want_different_values_of_an_open_label_get_pools_of_their_own() -> None:
    """The pool leaves the label open: a node carries one value, so it is repeated for each value that is wanted."""
    open_pool = pool("default", *require("team", Operator.EXISTS).values())
    red, blue = (workload(name, 500, GIB, node_selector=require("team", Operator.IN, name)) for name in ("red", "blue"))
    state = undecided(with_demand(plain(node_pools=(open_pool,)), demand(red), demand(blue)))

    assert {entry.labels["team"] for entry in state.catalogue.entries} >= {"red", "blue"}


def test_nobody_meets_on_a_node_who_wants_other_values_of_a_label_that_its_type_leaves_open() -> None:
    """The types run any operating system and the pool says nothing of it, but one node runs one."""
    systems = [
        workload(name, 500, GIB, node_selector=require(labels.OS, Operator.IN, name)) for name in ("linux", "windows")
    ]
    state = undecided(with_demand(plain(), *map(demand, systems)))
    linux, windows = (group.requirement_sets[0] for group in state.groups)

    assert {option.requirement_sets for option in state.catalogue.options} == {linux, windows}


def test_a_rule_connects_who_carries_it_with_whom_it_counts() -> None:
    together = workload("web", 500, GIB, topology_spread=(spread(labels.ZONE, app="db"),))
    state = undecided(
        with_demand(
            plain(),
            demand(together),
            demand(workload("db", 400, GIB)),
            demand(workload("batch", 300, GIB)),
            demand(workload("alone", 200, GIB, anti_affinity=(near(labels.HOSTNAME, app="alone"),))),
        )
    )

    components = connected_components(state.groups)

    assert [[group.workload.name for group in each.groups] for each in components] == [
        ["web", "db"],
        ["batch"],
        ["alone"],
    ]


def test_a_mask_that_comes_again_connects_what_it_did() -> None:
    found = connected([0b001, 0b010, 0b011, 0b100, 0b001])

    assert found[0b001] == found[0b010] == found[0b011] != found[0b100]


def test_who_holds_a_load_is_a_mask_over_the_sizes() -> None:
    sizes = Sizes([(2000, 8, 0), (4000, 8, 1), (4000, 32, 0)])

    assert sizes.holding((3000, 8, 0)) == 0b110
    assert sizes.holding((3000, 8, 1)) == 0b010
    assert sizes.holding((5000, 1, 0)) == 0
    assert sizes.holding((0, 0, 0)) == 0b111
