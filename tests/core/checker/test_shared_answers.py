"""What is looked at once for many: the first may not speak for those that differ in what decides."""

# ruff: noqa: E501 - one case a line reads as a table

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.oracle.world import (
    LARGE,
    NOW,
    ON_DEMAND,
    SMALL,
    SPOT,
    Case,
    demand,
    existing,
    found,
    launch,
    node,
    offering,
    one_of,
    plan,
    pool,
    reservation,
    reserved,
    snapshot,
    workload,
)
from reservoir.core.checker import ViolationCode as V
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.plan import PlannedNodes
from reservoir.core.model.workload import (
    AffinityTerm,
    FallbackStep,
    Gang,
    LabelSelector,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import Taint, Toleration

ALIKE = LabelSelector((("app", "a"),))
TAINTED = (pool(taints=(Taint("dedicated", "gpu"),)),)
TOLERANT = (Toleration("dedicated", value="gpu"),)
BLOCK = (reservation(kind=ReservationKind.CAPACITY_BLOCK, end_at=NOW + timedelta(hours=3)),)
PLAIN = workload("good")


def on(first: PlannedNodes, content: dict[str, int]) -> PlannedNodes:
    """A launch that shares all but its content with another, as the scheduler's do."""
    return replace(first, placements=launch(first.offering, content).placements)


def pair(
    bad: Workload,
    count: int,
    first: PlannedNodes,
    code: V,
    title: str,
    good: Workload = PLAIN,
    **world: Any,
) -> Case:
    """A good launch before a bad one of the same lot."""
    whole = snapshot(demand(good), demand(bad, count), **world)
    return Case(title, whole, plan(first, on(first, {"bad": count})), code)


ONE = launch(offering(), {"good": 1})
WITH_ALTERNATIVE = launch(
    offering(LARGE, SPOT), {"good": 1}, alternatives=(offering(LARGE),)
)
IN_TWO_ZONES = launch(
    offering(LARGE, SPOT),
    {"good": 1},
    alternatives=(offering(LARGE), replace(offering(LARGE), zone="zone-2", zone_id="az2")),
)

LAUNCHES = [
    pair(workload("bad", cpus=3), 1, ONE, V.RESOURCES, "too large"),
    pair(workload("bad"), 3, ONE, V.RESOURCES, "too many"),
    pair(workload("bad", node_selector=Requirements.of(one_of(labels.ARCH, "arm64"))), 1, ONE, V.REQUIREMENTS, "requires something else"),
    pair(workload("bad", fallback=(FallbackStep(SPOT),)), 1, ONE, V.FALLBACK, "its ladder is not so far"),
    pair(workload("bad"), 1, ONE, V.TAINT, "tolerates less", replace(PLAIN, tolerations=TOLERANT), node_pools=TAINTED),
    pair(workload("bad", duration_s=10**5), 1, launch(reserved(), {"good": 1}), V.DURATION, "runs too long", replace(PLAIN, duration_s=60), reservations=BLOCK),
    pair(workload("bad", node_selector=Requirements.of(one_of(labels.CAPACITY_TYPE, "spot"))), 1, WITH_ALTERNATIVE, V.ALTERNATIVE, "does not accept an alternative"),
    pair(workload("bad", gang=Gang(labels.ZONE)), 1, IN_TWO_ZONES, V.ALTERNATIVE, "is held to its zone"),
    Case("a workload that is not pending", snapshot(demand(PLAIN)), plan(ONE, on(ONE, {"stranger": 1})), V.UNKNOWN_NAME),
    Case("nothing, and then too much", snapshot(demand(workload("bad", cpus=3))), plan(on(ONE, {}), on(ONE, {"bad": 1})), V.RESOURCES),
]  # fmt: skip


@pytest.mark.parametrize("turned", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("case", LAUNCHES, ids=lambda case: case.title)
def test_a_good_launch_does_not_speak_for_a_bad_one(case: Case, turned: bool) -> None:
    launches = case.plan.launches[::-1] if turned else case.plan.launches
    assert case.breaks in found(replace(case, plan=replace(case.plan, launches=launches)))
    is_good = found(
        replace(case, plan=replace(case.plan, launches=case.plan.launches[:1]))
    ) - {V.REPLICA_COUNT, V.COST}
    assert is_good == set()


def test_a_load_that_fits_the_node_may_be_too_large_for_an_alternative() -> None:
    first = launch(
        offering(LARGE, SPOT),
        {"good": 1},
        price_atto_usd_per_hour=0,
        alternatives=(offering(SMALL),),
    )
    world = snapshot(demand(PLAIN), demand(workload("bad", cpus=3)))

    assert V.ALTERNATIVE not in found(Case("small enough", world, plan(first)))
    assert V.ALTERNATIVE in found(
        Case("too large", world, plan(first, on(first, {"bad": 1})))
    )


def test_alternatives_of_which_no_type_is_known_are_wrong() -> None:
    nowhere = replace(ONE, alternatives=(offering("x9.large"),))
    assert found(Case("unknown", snapshot(demand(PLAIN)), plan(nowhere))) == {V.ALTERNATIVE}


def placed_on(*changes: dict[str, Any], wanted: Workload) -> set[V]:
    """What is found when a replica goes to each of several existing nodes."""
    nodes = tuple(node(f"claim-{at}", **change) for at, change in enumerate(changes))
    world = snapshot(demand(wanted, len(nodes)), nodes=nodes)
    return found(
        Case(
            "",
            world,
            plan(
                existing=tuple(existing(item.claim_id, {wanted.name: 1}) for item in nodes)
            ),
        )
    )


LABELS = {
    labels.NODE_POOL: "default",
    labels.ARCH: "amd64",
    labels.ZONE: "zone-1",
    labels.CAPACITY_TYPE: "on-demand",
}


@pytest.mark.parametrize(
    ("second", "wanted", "code"),
    [
        ({"labels": {**LABELS, labels.ARCH: "arm64"}}, workload(node_selector=Requirements.of(one_of(labels.ARCH, "amd64"))), V.REQUIREMENTS),
        ({"labels": {"rack": "1"}}, workload(node_selector=Requirements.of(one_of(labels.ARCH, "amd64"))), V.REQUIREMENTS),
        ({"labels": {**LABELS, "rack": "1"}}, workload(node_selector=Requirements.of(Requirement.new("rack", Operator.DOES_NOT_EXIST))), V.REQUIREMENTS),
        ({"taints": (Taint("dedicated"),)}, workload(), V.TAINT),
        ({"drain_at": NOW + timedelta(hours=1)}, workload(duration_s=7200), V.DURATION),
        ({"capacity_type": SPOT}, workload(fallback=(FallbackStep(ON_DEMAND),)), V.FALLBACK),
        ({"cpus": 0}, workload(), V.RESOURCES),
    ],
    ids=["another value", "no value", "a value", "a taint", "an end", "another market", "no room"],
)  # fmt: skip
def test_a_good_node_does_not_speak_for_a_bad_one(
    second: dict[str, Any], wanted: Workload, code: V
) -> None:
    first: dict[str, Any] = {"labels": LABELS}
    assert placed_on(first, first, wanted=wanted) == set()
    for nodes in ((first, {**first, **second}), ({**first, **second}, first)):
        assert placed_on(*nodes, wanted=wanted) == {code}


@pytest.mark.parametrize(
    ("arch", "codes"), [("x86_64", set()), ("aarch64", {V.REQUIREMENTS})]
)
def test_labels_of_nodes_may_be_spelled_as_they_were(arch: str, codes: set[V]) -> None:
    wanted = workload(node_selector=Requirements.of(one_of(labels.ARCH, "amd64")))
    assert placed_on({"labels": {"beta.kubernetes.io/arch": arch}}, wanted=wanted) == codes


def test_one_crowded_host_among_many_is_found_for_whoever_carries_the_rule() -> None:
    rule = (TopologySpreadConstraint(labels.HOSTNAME, 1, ALIKE),)
    apart = (AffinityTerm(labels.HOSTNAME, ALIKE),)
    for rules in ({"topology_spread": rule}, {"anti_affinity": apart}):
        carrier, other = (
            workload("one", labels={"app": "a"}, **rules),
            workload("two", labels={"app": "a"}),
        )
        code = V.SPREAD if "topology_spread" in rules else V.ANTI_AFFINITY
        world = snapshot(demand(carrier, 3), demand(other, 4))
        separate, both = (
            launch(offering(LARGE), {"one": 1}, 3),
            launch(offering(LARGE), {"one": 1, "two": 1}),
        )
        two = launch(offering(LARGE), {"two": 2}, 2)

        assert found(Case("apart", world, plan(separate, two))) == set()
        rest = [launch(offering(LARGE), {"one": 1}, 2), launch(offering(LARGE), {"two": 3})]
        assert found(Case("together once", world, plan(*rest, both))) == {code}
