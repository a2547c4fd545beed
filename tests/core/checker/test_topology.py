"""Spread, affinity and anti-affinity in the final state."""

# ruff: noqa: E501 - one case a line reads as a table

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.oracle.world import (
    NOW,
    SMALL,
    SPOT,
    Case,
    demand,
    existing,
    found,
    instance_type,
    launch,
    node,
    offering,
    one_of,
    plan,
    pool,
    refused,
    snapshot,
    workload,
)
from reservoir.core.checker import ViolationCode as V
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements

SELF = LabelSelector((("app", "a"),))
OTHER = LabelSelector((("app", "b"),))
Z1, Z2 = offering(), offering(zone="zone-2")


def app(name: str = "job", label: str = "a", **changes: Any) -> Workload:
    return workload(name, labels={"app": label}, **changes)


def spread(key: str = labels.ZONE, skew: int = 1, **changes: Any) -> Workload:
    return app(topology_spread=(TopologySpreadConstraint(key, skew, SELF, **changes),))


def apart(
    key: str = labels.HOSTNAME,
    selector: LabelSelector = SELF,
    name: str = "job",
    label: str = "a",
) -> Workload:
    return app(name, label, anti_affinity=(AffinityTerm(key, selector),))


def beside(
    key: str = labels.ZONE,
    selector: LabelSelector = SELF,
    name: str = "job",
    label: str = "a",
) -> Workload:
    return app(name, label, affinity=(AffinityTerm(key, selector),))


def running(
    name: str, count: int, label: str = "a", zone: str = "zone-1", **changes: Any
) -> dict[str, Any]:
    return {
        "nodes": (node(content={name: count}, zone=zone, cpus=9, **changes),),
        "workloads": {f"ns/{name}": app(name, label)},
    }


def only_in_zone_1() -> InstanceType:
    whole = instance_type(SMALL, 2)
    tried_again_at = NOW + timedelta(minutes=3)
    return replace(
        whole,
        offerings=tuple(
            item
            if item.zone == "zone-1"
            else replace(item, unavailable_until=tried_again_at)
            for item in whole.offerings
        ),
    )


CASES = [
    Case("evenly spread", snapshot(demand(spread(), 3)), plan(launch(Z1, {"job": 2}), launch(Z2, {"job": 1}))),
    Case("unevenly spread", snapshot(demand(spread(), 3)), plan(launch(Z1, {"job": 1}, 3)), V.SPREAD),
    Case("uneven, as a wish", snapshot(demand(spread(when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY), 3)), plan(launch(Z1, {"job": 1}, 3))),
    Case("uneven within the skew", snapshot(demand(spread(skew=3), 3)), plan(launch(Z1, {"job": 1}, 3))),
    Case("uneven, but only one zone is possible", replace(snapshot(demand(spread(), 3)), node_pools=(pool(one_of(labels.ZONE, "zone-1")),)), plan(launch(Z1, {"job": 1}, 3))),
    Case("uneven with replicas that ran before", snapshot(demand(spread()), **running("old", 1)), plan(launch(Z1, {"job": 1})), V.SPREAD),
    Case("evened out", snapshot(demand(spread()), **running("old", 1)), plan(launch(Z2, {"job": 1}))),
    Case("uneven before, no worse now", snapshot(demand(spread(), 2), **running("old", 4)), plan(launch(Z2, {"job": 2}))),
    Case("fewer domains than wanted", snapshot(demand(spread(min_domains=3), 4)), plan(launch(Z1, {"job": 2}), launch(Z2, {"job": 2})), V.SPREAD),
    Case("two on a host", snapshot(demand(spread(labels.HOSTNAME), 2)), plan(launch(Z1, {"job": 2})), V.SPREAD),
    Case("one on each host", snapshot(demand(spread(labels.HOSTNAME), 2)), plan(launch(Z1, {"job": 1}, 2))),
    Case("one market twice", snapshot(demand(spread(labels.CAPACITY_TYPE), 2)), plan(launch(Z1, {"job": 1}, 2)), V.SPREAD),
    Case("a label that no node has", snapshot(demand(spread("rack"))), plan(launch(Z1, {"job": 1})), V.SPREAD),
    Case("only replicas of its own version count", snapshot(demand(replace(spread(match_label_keys=("version",)), labels={"app": "a", "version": "2"})), **running("old", 1)), plan(launch(Z1, {"job": 1}))),
    Case("only nodes that it may use count", snapshot(demand(replace(spread(), node_selector=Requirements.of(one_of(labels.CAPACITY_TYPE, "spot")))), **running("old", 1)), plan(launch(offering(market=SPOT), {"job": 1}))),
    # anti-affinity
    Case("apart", snapshot(demand(apart(), 2)), plan(launch(Z1, {"job": 1}, 2))),
    Case("not apart", snapshot(demand(apart(), 2)), plan(launch(Z1, {"job": 2})), V.ANTI_AFFINITY),
    Case("not apart from what runs there", snapshot(demand(apart()), **running("old", 1)), plan(existing=(existing("claim-1", {"job": 1}),)), V.ANTI_AFFINITY),
    Case("what runs there wants to be alone", snapshot(demand(app("job", "b")), nodes=(node(content={"old": 1}),), workloads={"ns/old": apart(selector=OTHER, name="old")}), plan(existing=(existing("claim-1", {"job": 1}),)), V.ANTI_AFFINITY),
    Case("apart by zone", snapshot(demand(apart(labels.ZONE), 2)), plan(launch(Z1, {"job": 1}), launch(Z2, {"job": 1}))),
    Case("two hosts of one zone", snapshot(demand(apart(labels.ZONE), 2)), plan(launch(Z1, {"job": 1}, 2)), V.ANTI_AFFINITY),
    Case("as a wish only", snapshot(demand(app(anti_affinity=(AffinityTerm(labels.HOSTNAME, SELF, weight=1),)), 2)), plan(launch(Z1, {"job": 2}))),
    Case("of another namespace", snapshot(demand(apart()), demand(replace(app("job"), namespace="other"))), plan(launch(Z1, {"job": 1}), replace(launch(Z1, {"job": 1}), placements=(replace(launch(Z1, {"job": 1}).placements[0], workload_key="other/job"),)))),
    Case("conflict that was there before", snapshot(demand(workload("new")), nodes=(node(content={"job": 2}, cpus=9),), workloads={"ns/job": apart()}), plan(existing=(existing("claim-1", {"new": 1}),))),
    # affinity
    Case("together in one zone", snapshot(demand(beside(), 2)), plan(launch(Z1, {"job": 1}, 2))),
    Case("together in two zones", snapshot(demand(beside(), 2)), plan(launch(Z1, {"job": 1}), launch(Z2, {"job": 1})), V.AFFINITY),
    Case("together on one of two hosts", snapshot(demand(beside(labels.HOSTNAME), 2)), plan(launch(Z1, {"job": 1}, 2)), V.AFFINITY),
    Case("beside what runs", snapshot(demand(beside()), **running("old", 1)), plan(launch(Z1, {"job": 1}))),
    Case("far from what runs", snapshot(demand(beside()), **running("old", 1)), plan(launch(Z2, {"job": 1})), V.AFFINITY),
    Case("beside what is placed with it", snapshot(demand(beside(selector=OTHER)), demand(app("other", "b"))), plan(launch(Z1, {"job": 1, "other": 1}))),
    Case("nobody to be beside of", snapshot(demand(beside(selector=OTHER))), plan(launch(Z1, {"job": 1})), V.AFFINITY),
    # refusals
    Case("refused although the other zone is empty", snapshot(demand(apart(labels.ZONE), 2)), plan(launch(Z1, {"job": 1}), unplaced=(refused("job", 1, ReasonCode.TOPOLOGY),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused, both zones taken", snapshot(demand(apart(labels.ZONE), 3)), plan(launch(Z1, {"job": 1}), launch(Z2, {"job": 1}), unplaced=(refused("job", 1, ReasonCode.TOPOLOGY),))),
    Case("refused, nobody to be beside of", snapshot(demand(beside(selector=OTHER))), plan(unplaced=(refused("job", 1, ReasonCode.TOPOLOGY),))),
    Case("refused, skew reached where it can go", replace(snapshot(demand(spread(), 2), **running("old", 1)), node_pools=(pool(one_of(labels.ZONE, "zone-2")),)), plan(launch(Z2, {"job": 2}), unplaced=())),
    Case("refused, skew reached for as long as the other zone has no capacity", snapshot(demand(spread(), 2), instance_types=(only_in_zone_1(),)), plan(launch(Z1, {"job": 1}), unplaced=(refused("job", 1, ReasonCode.TOPOLOGY),))),
    Case("refused although beside it there is room", snapshot(demand(beside()), **running("old", 1)), plan(unplaced=(refused("job", 1, ReasonCode.TOPOLOGY),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("an alternative in a zone that breaks the spread", snapshot(demand(spread(), 2)), plan(launch(Z1, {"job": 1}, alternatives=(Z2,)), launch(Z2, {"job": 1})), V.ALTERNATIVE),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_topology(case: Case) -> None:
    assert found(case) == ({case.breaks} if case.breaks else set())
