"""Which pools are planned together: those that share what is counted, and those that waiting demand joins."""

from dataclasses import replace
from typing import Any

from lab.fakes.values import reservation, workload
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    NodeClass,
    NodeClassStatus,
)
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Quota, ResourceQuota, Team
from reservoir.core.model.workload import AffinityTerm, LabelSelector, Workload
from reservoir.core.scheduling_terms.labels import NODE_POOL, ZONE
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import Taint, Toleration, TolerationOperator
from reservoir.core.sharing.planning_groups import GROUPS_MAX, PlanningGroups


def pool(name: str, **changes: Any) -> NodePool:
    return NodePool(name, name, Requirements.from_labels({"kind": name}), **changes)


def selecting(name: str, *reservation_ids: str) -> NodeClass:
    return NodeClass(name, status=NodeClassStatus(reservation_ids=reservation_ids))


def groups(*pools: NodePool, **parts: Any) -> PlanningGroups:
    given = {"classes": (), "reservations": (), "teams": (), "has_ceiling": False, **parts}
    return PlanningGroups(pools, **given)


def bound_to(name: str, **changes: Any) -> Workload:
    return workload(
        f"for-{name}", node_selector=Requirements.from_labels({"kind": name}), **changes
    )


def pools_of(found: PlanningGroups, *demand: Workload) -> list[list[str]]:
    return [sorted(group.node_pools) for group in found.of_demand(demand)]


A, B, C = pool("a"), pool("b"), pool("c")


def test_pools_that_share_nothing_are_groups_of_their_own() -> None:
    found = groups(A, B)
    assert found.are_several
    assert [
        (group.key, group.workload_keys) for group in found.of_demand([bound_to("b")])
    ] == [
        ("a", frozenset()),
        ("b", frozenset({"research/for-b"})),
    ]


def test_a_reservation_that_two_classes_select_joins_their_pools() -> None:
    classes = (selecting("a", "cr-1"), selecting("b", "cr-2"), selecting("c", "cr-1"))
    assert pools_of(groups(A, B, C, classes=classes)) == [["a", "c"], ["b"]]


def test_a_budget_joins_the_pools_of_its_team_and_a_ceiling_all() -> None:
    team = Team(
        "one", namespaces=("one",), node_pools=("b", "c"), budget_micro_usd_per_month=1
    )
    assert pools_of(groups(A, B, C, teams=(team,))) == [["a"], ["b", "c"]]
    assert not groups(A, B, C, teams=(replace(team, node_pools=()),)).are_several
    assert not groups(A, B, C, has_ceiling=True).are_several


def test_a_team_that_owns_nothing_joins_nothing() -> None:
    team = Team("one", namespaces=("one",), node_pools=("b", "c"))
    assert pools_of(groups(A, B, C, teams=(team,))) == [["a"], ["b"], ["c"]]


def test_quotas_of_a_cohort_join_the_pools_on_which_they_are_used() -> None:
    quota = ResourceQuota((CapacityType.SPOT,), "cpu", 1)
    one = Team("one", namespaces=("one",), node_pools=("a",), resource_quotas=(quota,))
    two = Team("two", namespaces=("two",), node_pools=("c",), resource_quotas=(quota,))
    assert pools_of(groups(A, B, C, teams=(one, two))) == [["a", "c"], ["b"]]
    apart = replace(two, cohort="others")
    assert pools_of(groups(A, B, C, teams=(one, apart))) == [["a"], ["b"], ["c"]]


def test_units_that_a_cohort_owns_join_the_pools_that_use_them() -> None:
    def owner(name: str, tag: str) -> Team:
        term = CapacityReservationSelectorTerm(tags={"team": tag})
        return Team(name, namespaces=(name,), quotas=(Quota((term,), 1),))

    known = (
        reservation("cr-1", tags={"team": "x"}),
        reservation("cr-2", tags={"team": "y"}),
    )
    classes = (selecting("a", "cr-1"), selecting("b"), selecting("c", "cr-2"))
    found = groups(
        A,
        B,
        C,
        classes=classes,
        reservations=known,
        teams=(owner("one", "x"), owner("two", "y")),
    )
    assert pools_of(found) == [["a", "c"], ["b"]]


def test_demand_that_several_pools_accept_joins_them_while_it_waits() -> None:
    found = groups(A, B, C)
    by_pool = workload(
        "either",
        required_node_terms=tuple(bound_to(name).node_selector for name in ("b", "c")),
    )
    assert pools_of(found, by_pool, bound_to("a")) == [["a"], ["b", "c"]]
    named = workload("named", node_selector=Requirements.from_labels({NODE_POOL: "b"}))
    assert pools_of(found, named) == [["a"], ["b"], ["c"]]
    assert found.of_demand([by_pool])[1].parts == ("b", "c")


def test_taints_and_teams_keep_demand_to_pools() -> None:
    team = Team("research", namespaces=("research",), node_pools=("a", "c"))
    found = groups(A, B, pool("c", taints=(Taint("gpu"),)), teams=(team,))
    assert list(found.parts_of(workload())) == ["a"]
    tolerant = workload(tolerations=(Toleration("gpu", TolerationOperator.EXISTS),))
    assert list(found.parts_of(tolerant)) == ["a", "c"]


def test_demand_that_no_pool_accepts_belongs_to_the_first_group() -> None:
    found = groups(B, C)
    (first, _) = found.of_demand([bound_to("nothing")])
    assert (first.key, first.workload_keys) == ("b", frozenset({"research/for-nothing"}))


def test_rules_about_each_other_join_the_groups_of_demand() -> None:
    found = groups(A, B, C)
    away = AffinityTerm(ZONE, LabelSelector(match_labels=(("app", "web"),)))
    shy = bound_to("c", anti_affinity=(away,))
    web = bound_to("a", labels={"app": "web"})
    assert pools_of(found, shy, web, bound_to("b")) == [["a", "c"], ["b"]]
    elsewhere = replace(web, namespace="other")
    assert pools_of(found, shy, elsewhere, bound_to("b")) == [["a"], ["b"], ["c"]]


def test_there_are_no_more_groups_than_a_transaction_has_room_for() -> None:
    many = [pool(f"p{number:03}") for number in range(GROUPS_MAX + 5)]
    found = groups(*many)
    sizes = [len(group.node_pools) for group in found.of_demand([])]
    assert sizes == [1] * (GROUPS_MAX - 1) + [6]
