"""What the checker looks at once for many: each entry of each key matters, and a new field is in every key.

An example is a good one and a bad one that differ in a single field. With that field left out of the key the good one
would speak for the bad one, which each test shows too: so the examples are about the keys and not about the rules.
"""

from dataclasses import fields, replace
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from lab.oracle.world import (
    LARGE,
    NOW,
    ON_DEMAND,
    RESERVED,
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
    price_of,
    refused,
    reservation,
    reserved,
    snapshot,
    violations,
    workload,
)
from reservoir.core.checker import ViolationCode as V
from reservoir.core.checking.final_state import demand_facts, facts
from reservoir.core.checking.residual import refusals as refusal_rules
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.plan import PlannedNodes
from reservoir.core.model.snapshot import Node, PlacedReplicas
from reservoir.core.model.team import Team
from reservoir.core.model.workload import (
    AffinityTerm,
    FallbackStep,
    Gang,
    LabelSelector,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import Taint, Toleration

OWN = LabelSelector((("app", "a"),))
NOBODY = LabelSelector((("app", "nobody"),))
MINUTE, HOUR = 60, 3600
INTEL, ARM = (Requirements.of(one_of(labels.ARCH, arch)) for arch in ("amd64", "arm64"))
NOT_SPOT = Requirements.of(one_of(labels.CAPACITY_TYPE, "on-demand"))
TAINT, TOLERANT = Taint("dedicated", "gpu"), (Toleration("dedicated", value="gpu"),)
BLOCK = reservation(kind=ReservationKind.CAPACITY_BLOCK, end_at=NOW + timedelta(hours=3))
Key = tuple[ModuleType, str]
ALIKE: Key = (demand_facts, "_ALIKE")
PLACED: Key = (demand_facts, "_PLACED_ALIKE")
OFFERED: Key = (demand_facts, "_OFFERED_ALIKE")
LAUNCHED: Key = (facts, "_LAUNCHED_ALIKE")
SITED: Key = (facts, "_SITED_ALIKE")
ROOMED: Key = (refusal_rules, "_ROOMED_ALIKE")
KINDS: dict[Key, type] = {
    ALIKE: Workload,
    PLACED: Workload,
    OFFERED: Workload,
    LAUNCHED: PlannedNodes,
    SITED: Node,
    ROOMED: Workload,
}


def without(monkeypatch: pytest.MonkeyPatch, key: Key, name: str) -> None:
    """Leave one entry out of a key."""
    kept = {*getattr(*key).names} - {name}
    left_out = {
        field.name: ""
        for field in fields(KINDS[key])
        if field.compare and field.name not in kept
    }
    monkeypatch.setattr(*key, Likeness(KINDS[key], left_out))


def two(
    good: Workload,
    bad: Workload,
    bad_count: int = 1,
    first: PlannedNodes | None = None,
    **world: Any,
) -> Case:
    """A launch for the good workload, and the same for the bad one."""
    first = first or launch(offering(), {})
    launches = [
        replace(first, placements=(PlacedReplicas(good.key, 1),)),
        replace(first, placements=(PlacedReplicas(bad.key, bad_count),)),
    ]
    return Case(
        "", snapshot(demand(good), demand(bad, bad_count), **world), plan(*launches)
    )


def pair(name: str, good: Any, bad: Any, **same: Any) -> tuple[Workload, Workload]:
    """Two workloads that differ in one field."""
    return workload("good", **{name: good, **same}), workload("bad", **{name: bad, **same})


IN_BLOCK = launch(reserved(), {})
SPOT_OR_NOT = replace(launch(offering(LARGE, SPOT), {}), alternatives=(offering(LARGE),))
APART = AffinityTerm(labels.HOSTNAME, OWN)
PLAIN_LABELS = {"labels": {"app": "a"}}
WORKLOADS: dict[str, tuple[V, Case]] = {
    "namespace": (
        V.ANTI_AFFINITY,
        two(
            *pair("namespace", "ns", "other", anti_affinity=(APART,), **PLAIN_LABELS),
            bad_count=2,
        ),
    ),
    "node_selector": (V.REQUIREMENTS, two(*pair("node_selector", INTEL, ARM))),
    "required_node_terms": (
        V.REQUIREMENTS,
        two(*pair("required_node_terms", (INTEL,), (ARM,))),
    ),
    "tolerations": (
        V.TAINT,
        two(*pair("tolerations", TOLERANT, ()), node_pools=(pool(taints=(TAINT,)),)),
    ),
    "topology_spread": (
        V.SPREAD,
        two(
            *pair(
                "topology_spread",
                (TopologySpreadConstraint(labels.HOSTNAME, 2, OWN),),
                (TopologySpreadConstraint(labels.HOSTNAME, 1, OWN),),
                **PLAIN_LABELS,
            ),
            bad_count=2,
        ),
    ),
    "affinity": (
        V.AFFINITY,
        two(
            *pair(
                "affinity",
                (AffinityTerm(labels.HOSTNAME, OWN),),
                (AffinityTerm(labels.HOSTNAME, NOBODY),),
                **PLAIN_LABELS,
            )
        ),
    ),
    "anti_affinity": (
        V.ANTI_AFFINITY,
        two(
            *pair(
                "anti_affinity",
                (AffinityTerm(labels.HOSTNAME, NOBODY),),
                (APART,),
                **PLAIN_LABELS,
            ),
            bad_count=2,
        ),
    ),
    "duration_s": (
        V.DURATION,
        two(*pair("duration_s", MINUTE, 9 * HOUR), first=IN_BLOCK, reservations=(BLOCK,)),
    ),
    "checkpoint_period_s": (
        V.DURATION,
        two(
            *pair("checkpoint_period_s", MINUTE, 9 * HOUR),
            first=IN_BLOCK,
            reservations=(BLOCK,),
        ),
    ),
    "max_price_micro_usd_per_hour": (
        V.MAX_PRICE,
        two(*pair("max_price_micro_usd_per_hour", None, 1)),
    ),
}
GANG = Case(
    "",
    snapshot(demand(workload("good")), demand(workload("bad", gang=Gang()), 2)),
    plan(
        launch(offering(), {"good": 1}),
        launch(offering(), {"bad": 1}),
        unplaced=(refused("bad"),),
    ),
)
INVERTED = Case(
    "",
    snapshot(
        demand(workload("low")),
        demand(workload("high", priority=9)),
        reservations=(reservation(free_units=1),),
    ),
    plan(launch(reserved(), {"low": 1}), launch(offering(), {"high": 1})),
)
OF_WORKLOADS = {
    **WORKLOADS,
    "gang": (V.GANG, GANG),
    "priority": (V.PRIORITY_INVERSION, INVERTED),
}
OF_OFFERINGS = {
    name: (V.ALTERNATIVE, two(*pair(name, good, bad), first=SPOT_OR_NOT))
    for name, good, bad in (
        (
            "node_selector",
            Requirements.of(),
            Requirements.of(one_of(labels.CAPACITY_TYPE, "spot")),
        ),
        (
            "required_node_terms",
            (),
            (Requirements.of(one_of(labels.CAPACITY_TYPE, "spot")),),
        ),
    )
}

# -- launches that differ in one field beside what they carry

ONE = launch(offering(), {"good": 1})
OPEN = pool(Requirement.new("tier", Operator.IN, ("a", "b")))
CHOOSY = Requirements.of(one_of("tier", "a"))


def launches(
    bad: dict[str, Any],
    good: PlannedNodes = ONE,
    wanted: dict[str, Any] | None = None,
    **world: Any,
) -> Case:
    both = [workload(name, **(wanted or {})) for name in ("good", "bad")]
    second = replace(good, placements=launch(offering(), {"bad": 1}).placements, **bad)
    return Case("", snapshot(*map(demand, both), **world), plan(good, second))


OF_LAUNCHES = {
    "node_pool_name": (
        V.TAINT,
        launches(
            {"node_pool_name": "tainted"},
            node_pools=(pool(), pool(name="tainted", taints=(TAINT,))),
        ),
    ),
    "node_class_name": (V.UNKNOWN_NAME, launches({"node_class_name": "another"})),
    "offering": (V.OFFERING, launches({"offering": offering(zone="zone-9")})),
    "price_atto_usd_per_hour": (
        V.PRICE,
        launches({"price_atto_usd_per_hour": price_of(offering()) - 1}),
    ),
    "alternatives": (
        V.ALTERNATIVE,
        launches({"alternatives": (offering(LARGE, SPOT), offering())}),
    ),
    "labels": (
        V.REQUIREMENTS,
        launches(
            {"labels": {"tier": "b"}},
            replace(ONE, labels={"tier": "a"}),
            {"node_selector": CHOOSY},
            node_pools=(OPEN,),
        ),
    ),
}

# -- nodes that differ in one field


def nodes(
    good: dict[str, Any],
    bad: dict[str, Any],
    wanted: dict[str, Any] | None = None,
    **world: Any,
) -> Case:
    both = tuple(node(f"claim-{at}", **change) for at, change in enumerate((good, bad)))
    placed = tuple(existing(item.claim_id, {"job": 1}) for item in both)
    return Case(
        "",
        snapshot(demand(workload(**(wanted or {})), 2), nodes=both, **world),
        plan(existing=placed),
    )


STARTING = {"taints": (TAINT,), "initialized": False}
POOLS = (pool(startup_taints=(TAINT,)), pool(name="other"))
SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
OF_NODES = {
    "node_pool_name": (
        V.TAINT,
        nodes(STARTING, {**STARTING, "node_pool_name": "other"}, node_pools=POOLS),
    ),
    "initialized": (
        V.TAINT,
        nodes(STARTING, {**STARTING, "initialized": True}, node_pools=POOLS),
    ),
    "taints": (V.TAINT, nodes({}, {"taints": (TAINT,)})),
    "capacity_type": (
        V.FALLBACK,
        nodes(
            {"labels": {}},
            {"labels": {}, "capacity_type": SPOT},
            {"fallback": (FallbackStep(ON_DEMAND),)},
        ),
    ),
    "drain_at": (
        V.DURATION,
        nodes(
            {"drain_at": LATER, "drain_deadline": LATER},
            {"drain_at": SOON, "drain_deadline": LATER},
            {"duration_s": HOUR + MINUTE},
        ),
    ),
    "drain_deadline": (
        V.DURATION,
        nodes(
            {"drain_at": SOON, "drain_deadline": LATER},
            {"drain_at": SOON, "drain_deadline": SOON},
            {"duration_s": MINUTE, "checkpoint_period_s": HOUR},
        ),
    ),
}

# -- refusals of which one is true, and the other is not although it differs in one field


def refusals(
    name: str, true: Any, untrue: Any, same: dict[str, Any] | None = None, **world: Any
) -> tuple[V, Case]:
    both = [
        workload(who, **{name: value, **(same or {})})
        for who, value in (("a-true", true), ("b-untrue", untrue))
    ]
    unplaced = tuple(replace(refused(each.name), workload_key=each.key) for each in both)
    return V.UNPLACED_WITHOUT_CAUSE, Case(
        "", snapshot(*map(demand, both), **world), plan(unplaced=unplaced)
    )


BLOCK_ALONE: dict[str, Any] = {
    "node_pools": (pool(one_of(labels.CAPACITY_TYPE, str(RESERVED))),),
    "reservations": (BLOCK,),
}
EVERYWHERE = {
    "nodes": tuple(
        node(f"claim-{zone}", {"old": 1}, zone=zone, cpus=1)
        for zone in ("zone-1", "zone-2")
    ),
    "workloads": {"ns/old": workload("old", labels={"app": "old"})},
}
OLD = LabelSelector((("app", "old"),))
OF_ROOM = {
    "namespace": refusals(
        "namespace",
        "elsewhere",
        "ns",
        teams=(Team("elsewhere", namespaces=("elsewhere",), node_pools=("none",)),),
    ),
    "requests": refusals("requests", workload(cpus=99).requests, workload().requests),
    "node_selector": refusals("node_selector", ARM, INTEL),
    "required_node_terms": refusals("required_node_terms", (ARM,), (INTEL,)),
    "tolerations": refusals(
        "tolerations", (), TOLERANT, node_pools=(pool(taints=(TAINT,)),)
    ),
    "topology_spread": refusals(
        "topology_spread",
        (TopologySpreadConstraint("rack", 1, OWN),),
        (TopologySpreadConstraint(labels.HOSTNAME, 1, OWN),),
        PLAIN_LABELS,
    ),
    "affinity": refusals(
        "affinity",
        (AffinityTerm(labels.HOSTNAME, NOBODY),),
        (AffinityTerm(labels.HOSTNAME, OWN),),
        PLAIN_LABELS,
    ),
    "anti_affinity": refusals(
        "anti_affinity",
        (AffinityTerm(labels.ZONE, OLD),),
        (AffinityTerm(labels.HOSTNAME, OLD),),
        PLAIN_LABELS,
        **EVERYWHERE,
    ),
    "duration_s": refusals("duration_s", 9 * HOUR, MINUTE, **BLOCK_ALONE),
    "checkpoint_period_s": refusals("checkpoint_period_s", 9 * HOUR, MINUTE, **BLOCK_ALONE),
    "max_price_micro_usd_per_hour": refusals("max_price_micro_usd_per_hour", 1, None),
}

EXAMPLES: dict[Key, dict[str, tuple[V, Case]]] = {
    ALIKE: OF_WORKLOADS,
    PLACED: {name: OF_WORKLOADS[name] for name in demand_facts._PLACED_ALIKE.names},
    OFFERED: OF_OFFERINGS,
    LAUNCHED: OF_LAUNCHES,
    SITED: OF_NODES,
    ROOMED: OF_ROOM,
}
ALL = [
    pytest.param(key, name, *example, id=f"{key[1]}-{name}")
    for key, examples in EXAMPLES.items()
    for name, example in examples.items()
]


@pytest.mark.parametrize(("key", "name", "code", "case"), ALL)
def test_each_entry_of_each_key_keeps_one_from_speaking_for_another(
    key: Key, name: str, code: V, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = found(case)
    without(monkeypatch, key, name)

    assert code in right
    assert code not in {violation.code for violation in violations(case)}


@pytest.mark.parametrize("key", EXAMPLES, ids=lambda key: key[1])
def test_every_entry_has_its_example(key: Key) -> None:
    """Whoever adds a field shows what it is for, or names it as one that cannot matter."""
    assert {*EXAMPLES[key]} == {*getattr(*key).names}
