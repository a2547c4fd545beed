"""What the solver plans together: each entry of each key matters, and a new field is in every key.

Two workloads, or nodes, that differ in a single field get another plan than if that field were left out of the key.
"""

from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from reservoir.core.disruption import feasibility_filter
from reservoir.core.disruption.feasibility_filter import FeasibilityFilter
from reservoir.core.disruption.simulation import PassState
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import (
    Demand,
    FallbackStep,
    PreferredNodeTerm,
    Workload,
)
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import Taint, Toleration
from reservoir.core.solver.problem import groups, nodes, queue
from tests.core.disruption import world as disruption
from tests.core.disruption.test_feasibility_filter import candidates, no_solve
from tests.core.scheduler.world import (
    NOW,
    ON_DEMAND,
    POLICY,
    RESERVED,
    SPOT,
    block,
    demand,
    fx_type,
    markets,
    near,
    node,
    plain,
    pool,
    reservation,
    spread,
    with_demand,
    workload,
)

Key = tuple[ModuleType, str]
ACCEPTS: Key = (queue, "ACCEPTS")
GROUPED: Key = (groups, "_GROUPED")
DEMANDED: Key = (groups, "_DEMANDED")
MET: Key = (nodes, "_MET_ALIKE")
BARE: Key = (feasibility_filter, "_BARE_ALIKE")
KINDS: dict[Key, type] = {
    ACCEPTS: Workload,
    GROUPED: Workload,
    DEMANDED: Demand,
    MET: Node,
    BARE: Workload,
}

MINUTE, HOUR = 60, 3600
P5, SMALL = fx_type("p5", 4, 4, pods=5), fx_type("small", 2, 2)
ON_SPOT, NOT_ON_SPOT = (Requirements.of(markets(market)) for market in (SPOT, ON_DEMAND))
TAINTED, TOLERANT = (
    (pool(taints=(Taint("dedicated", "gpu"),)),),
    (Toleration("dedicated", value="gpu"),),
)
BLOCK = block("b", "p5", 2, ends_in=timedelta(hours=3))
RESERVED_ONLY = (pool("default", markets(RESERVED)),)
APP = {"labels": {"app": "job"}}


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
    name: str, first: Any, second: Any, same: dict[str, Any] | None = None, **world: Any
) -> Snapshot:
    """Demand of two workloads that differ in one field."""
    wanted = [
        workload(key, cpu=1500, **{**(same or {}), name: value})
        for key, value in (("a", first), ("b", second))
    ]
    return with_demand(plain(P5, SMALL, **world), *[demand(it, 2) for it in wanted])


OF_WORKLOADS = {
    "node_selector": two("node_selector", ON_SPOT, NOT_ON_SPOT),
    "required_node_terms": two("required_node_terms", (ON_SPOT,), (NOT_ON_SPOT,)),
    "preferred_node_terms": two(
        "preferred_node_terms",
        (PreferredNodeTerm(1, ON_SPOT),),
        (PreferredNodeTerm(1, NOT_ON_SPOT),),
    ),
    "tolerations": two("tolerations", TOLERANT, (), node_pools=TAINTED),
    "topology_spread": two(
        "topology_spread", (spread(labels.HOSTNAME, 9),), (spread(labels.HOSTNAME),), APP
    ),
    "affinity": two(
        "affinity", (near(labels.HOSTNAME),), (near(labels.HOSTNAME, app="nobody"),), APP
    ),
    "anti_affinity": two(
        "anti_affinity",
        (near(labels.HOSTNAME, app="nobody"),),
        (near(labels.HOSTNAME),),
        APP,
    ),
    "duration_s": two(
        "duration_s", MINUTE, 9 * HOUR, reservations=(BLOCK,), node_pools=RESERVED_ONLY
    ),
    "checkpoint_period_s": two(
        "checkpoint_period_s",
        MINUTE,
        9 * HOUR,
        reservations=(BLOCK,),
        node_pools=RESERVED_ONLY,
    ),
}
BETWEEN_EQUALS = (
    demand(workload("urgent", cpu=1500, priority=9)),
    demand(workload("between", cpu=1600, priority=5)),
    demand(workload("idle", cpu=1500)),
)
TWO_UNITS = plain(
    SMALL, reservations=(reservation("r", "small", 2),), node_pools=RESERVED_ONLY
)
OF_GROUPS = {"priority": with_demand(TWO_UNITS, *BETWEEN_EQUALS)}

SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(hours=2)


def on_nodes(first: dict[str, Any], second: dict[str, Any], **wanted: Any) -> Snapshot:
    """Demand for two nodes that differ in one field, and nothing else to be had."""
    there = [
        node(key, P5, capacity_type=RESERVED, labels={}) for key in ("first", "second")
    ]
    both = (replace(there[0], **first), replace(there[1], **second))
    asking = demand(workload("job", cpu=3000, **wanted), 2)
    return with_demand(plain(P5, node_pools=RESERVED_ONLY, nodes=both), asking)


OF_NODES = {
    "capacity_type": on_nodes(
        {}, {"capacity_type": SPOT}, fallback=(FallbackStep(RESERVED),)
    ),
    "drain_at": on_nodes(
        {"drain_at": LATER, "drain_deadline": LATER},
        {"drain_at": SOON, "drain_deadline": LATER},
        duration_s=HOUR + MINUTE,
    ),
    "drain_deadline": on_nodes(
        {"drain_at": SOON, "drain_deadline": LATER},
        {"drain_at": SOON, "drain_deadline": SOON},
        duration_s=MINUTE,
        checkpoint_period_s=HOUR,
    ),
}
PLANNED: dict[Key, dict[str, Snapshot]] = {
    ACCEPTS: OF_WORKLOADS,
    GROUPED: OF_GROUPS,
    DEMANDED: {},
    MET: OF_NODES,
}
ALL = [
    pytest.param(key, name, snapshot, id=f"{key[1]}-{name}")
    for key, examples in PLANNED.items()
    for name, snapshot in examples.items()
]


@pytest.mark.parametrize(("key", "name", "snapshot"), ALL)
def test_what_differs_in_an_entry_of_a_key_is_not_planned_as_one(
    key: Key, name: str, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    right: Plan = solve(snapshot, now=NOW, policy=POLICY)
    without(monkeypatch, key, name)

    assert solve(snapshot, now=NOW, policy=POLICY) != right


OF_DISRUPTION: dict[str, tuple[Any, Any]] = {
    "node_selector": (ON_SPOT, NOT_ON_SPOT),
    "required_node_terms": ((ON_SPOT,), (NOT_ON_SPOT,)),
    "tolerations": ((), TOLERANT),
    "duration_s": (MINUTE, 9 * HOUR),
    "checkpoint_period_s": (MINUTE, 9 * HOUR),
    "fallback": ((FallbackStep(SPOT),), (FallbackStep(ON_DEMAND),)),
}


def distinct_asks(name: str) -> int:
    """Count the requirement sets that the quick look before disruption sees for two that differ in a field."""
    make = partial(disruption.workload, cpus=1)
    work = {
        it.key: it
        for it in (
            make(key, **{name: value})
            for key, value in zip("ab", OF_DISRUPTION[name], strict=True)
        )
    }
    it = disruption.Fleet(workloads=work)
    it.add_node("there", "large", ON_DEMAND, dict.fromkeys(work, 1))
    world = PassState.of(it.snapshot(), no_solve, disruption.NOW)
    everyone = candidates(it)
    return len(
        {
            ask.requirement_sets
            for ask in FeasibilityFilter(world, everyone).asks(everyone[0])
        }
    )


@pytest.mark.parametrize("name", OF_DISRUPTION)
def test_the_quick_look_takes_no_workload_for_another(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert distinct_asks(name) == 2
    without(monkeypatch, BARE, name)
    assert distinct_asks(name) == 1


@pytest.mark.parametrize(
    ("key", "examples"),
    [*PLANNED.items(), (BARE, OF_DISRUPTION)],
    ids=lambda it: it[1] if isinstance(it, tuple) else "",
)
def test_every_entry_has_its_example(key: Key, examples: dict[str, Any]) -> None:
    """Whoever adds a field shows what it is for, or names it as one that cannot matter."""
    assert {*examples} == {*getattr(*key).names}
