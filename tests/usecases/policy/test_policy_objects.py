"""Stored policy is parsed once a process, and a manifest that changed is never taken for what it was."""

from dataclasses import replace
from typing import Any

from lab.simulation.catalogue import node_class_manifest, node_pool_manifest
from reservoir.core.model.node_class import NodeClassStatus
from reservoir.ports.policy import Pause, PolicyKind, PolicyObject, PolicyStatus
from reservoir.usecases.policy.policy_objects import policy_of


def stored(kind: PolicyKind, manifest: dict[str, Any]) -> PolicyObject:
    return PolicyObject(
        kind, manifest["metadata"]["name"], manifest, generation=1, revision=1
    )


def pool(cpu: str) -> PolicyObject:
    return stored(
        PolicyKind.NODE_POOL, node_pool_manifest("pool", ["reserved"], {}, {"cpu": cpu})
    )


def test_a_changed_manifest_is_read_anew_though_its_generation_is_the_same() -> None:
    limits = [policy_of([pool(cpu)]).node_pools[0].limits for cpu in ("40", "50", "40")]
    assert [None if each is None else each["cpu"] for each in limits] == [
        40_000,
        50_000,
        40_000,
    ]


def test_what_is_not_in_the_manifest_is_that_of_the_object() -> None:
    paused = replace(pool("40"), pause=Pause(is_paused=False))
    assert policy_of([paused]).node_pools[0].paused is None
    node_class = stored(PolicyKind.NODE_CLASS, node_class_manifest())
    found = [
        policy_of(
            [
                replace(
                    node_class,
                    status=PolicyStatus((), NodeClassStatus(launch_blocked_reason=reason)),
                )
            ]
        )
        for reason in ("denied", None)
    ]
    assert [each.node_classes[0].status.launch_blocked_reason for each in found] == [
        "denied",
        None,
    ]


def test_a_manifest_that_cannot_be_read_is_named_each_time() -> None:
    broken = stored(
        PolicyKind.NODE_POOL,
        {"kind": "NodePool", "metadata": {"name": "pool"}, "spec": {"no": "such"}},
    )
    for _ in range(2):
        assert policy_of([broken]).unreadable == {(PolicyKind.NODE_POOL, "pool")}
