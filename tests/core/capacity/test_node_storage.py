"""Ephemeral storage follows the class: the size of its volume, or the local disks of the type."""

from dataclasses import replace

import pytest

from lab.fakes import values
from reservoir.core.capacity.node_storage import as_launched, storage_elsewhere
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_class import KubeletAmounts, NodeClass
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import EPHEMERAL_STORAGE, Resources
from tests.core.scheduler.world import (
    demand,
    fx_type,
    launched,
    plain,
    planned,
    pool,
    types_launched,
    with_demand,
    workload,
)

GIB = 1 << 30
CATALOGUE_GIB = 20


def with_disks(name: str, local_gb: int | None = None, price: int = 100) -> InstanceType:
    base = fx_type(name, extra={EPHEMERAL_STORAGE: CATALOGUE_GIB * GIB}, price=price)
    told = (
        Requirement.new(labels.INSTANCE_LOCAL_NVME, Operator.DOES_NOT_EXIST)
        if local_gb is None
        else values.one_of(labels.INSTANCE_LOCAL_NVME, str(local_gb))
    )
    return replace(base, requirements=Requirements.of(*base.requirements.values(), told))


def asking(gib: int, name: str = "job") -> Workload:
    return workload(
        name, 100, requests=Resources.of({"cpu": 100, EPHEMERAL_STORAGE: gib * GIB})
    )


def world(node_class: NodeClass, *types: InstanceType, **changes: object) -> Snapshot:
    return replace(plain(*types), node_classes=(node_class,), **changes)  # type: ignore[arg-type] # fields by name


@pytest.mark.parametrize(
    ("node_class", "local_gb", "size"),
    [
        (NodeClass("default"), None, CATALOGUE_GIB * GIB),
        (NodeClass("default"), 900, CATALOGUE_GIB * GIB),
        (NodeClass("default", root_volume_bytes=500 * GIB), 900, 500 * GIB),
        (
            NodeClass("default", root_volume_bytes=500 * GIB, local_disks_are_storage=True),
            900,
            900 * 10**9,
        ),
        (
            NodeClass("default", root_volume_bytes=500 * GIB, local_disks_are_storage=True),
            None,
            500 * GIB,
        ),
    ],
)
def test_a_node_has_what_its_class_gives_it(
    node_class: NodeClass, local_gb: int | None, size: int
) -> None:
    launched_type = as_launched(with_disks("a", local_gb), node_class)
    assert (
        launched_type.allocatable[EPHEMERAL_STORAGE]
        == launched_type.capacity[EPHEMERAL_STORAGE]
        == size
    )


@pytest.mark.parametrize(
    ("volume_gib", "nodes"), [(None, {}), (99, {}), (100, {"a": 3}), (500, {"a": 1})]
)
def test_replicas_share_the_volume_of_their_node(
    volume_gib: int | None, nodes: dict[str, int]
) -> None:
    node_class = NodeClass(
        "default", root_volume_bytes=None if volume_gib is None else volume_gib * GIB
    )
    plan = planned(with_demand(world(node_class, with_disks("a")), demand(asking(100), 3)))
    assert types_launched(plan) == nodes


def test_a_type_with_local_disks_is_chosen_where_they_are_storage() -> None:
    node_class = NodeClass("default", local_disks_are_storage=True)
    snapshot = world(
        node_class, with_disks("plain", price=100), with_disks("disks", 900, price=200)
    )
    assert types_launched(planned(with_demand(snapshot, demand(asking(100), 2)))) == {
        "disks": 1
    }
    assert types_launched(planned(with_demand(snapshot, demand(asking(10), 2)))) == {
        "plain": 1
    }


def test_two_pools_launch_one_type_with_volumes_of_different_sizes() -> None:
    snapshot = world(NodeClass("small"), with_disks("a"), node_pools=(
        pool("small", class_name="small", weight=10), pool("large", class_name="large")
    ))  # fmt: skip
    classes = (NodeClass("small"), NodeClass("large", root_volume_bytes=200 * GIB))
    plan = planned(
        with_demand(
            replace(snapshot, node_classes=classes),
            demand(asking(150)),
            demand(asking(5, "b")),
        )
    )
    assert sorted(launch.node_pool_name for launch in plan.launches) in (
        ["large"],
        ["large", "small"],
    )
    assert not plan.unplaced


def test_limits_count_the_storage_that_is_launched() -> None:
    limited = pool("default", limits=Resources.of({EPHEMERAL_STORAGE: 250 * GIB}))
    node_class = NodeClass("default", root_volume_bytes=100 * GIB)
    plan = planned(
        with_demand(
            world(node_class, with_disks("a"), node_pools=(limited,)), demand(asking(60), 3)
        )
    )
    assert sum(launched(plan).values()) == 2


def test_another_type_keeps_the_volume_and_brings_its_own_disks() -> None:
    planned_labels = with_disks("a", 900).requirements.labels()
    on_volume = Resources.of({EPHEMERAL_STORAGE: 100 * GIB})
    on_disks = Resources.of({EPHEMERAL_STORAGE: 900 * 10**9})
    other = with_disks("b", 1900)
    assert storage_elsewhere(on_volume, planned_labels, other) == 100 * GIB
    assert storage_elsewhere(on_disks, planned_labels, other) == 1900 * 10**9


def sized(cpus: int = 4, gib: int = 4, pods: int = 20) -> InstanceType:
    return fx_type("a", cpus, gib, pods)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (KubeletAmounts(), (4000, 4 * GIB, 20)),
        (KubeletAmounts(max_pods=8), (4000, 4 * GIB, 8)),
        (KubeletAmounts(max_pods=250), (4000, 4 * GIB, 20)),
        (KubeletAmounts(pods_per_core=2), (4000, 4 * GIB, 8)),
        (KubeletAmounts(max_pods=5, pods_per_core=2), (4000, 4 * GIB, 5)),
        (
            KubeletAmounts(reserved_cpu_millis=250, reserved_memory_bytes=GIB),
            (3750, 3 * GIB, 20),
        ),
        (KubeletAmounts(evicted_memory_ppm=250_000), (4000, 3 * GIB, 20)),
        (
            KubeletAmounts(evicted_memory_ppm=250_000, evicted_memory_bytes=2 * GIB),
            (4000, 2 * GIB, 20),
        ),
        (KubeletAmounts(reserved_memory_bytes=9 * GIB), (4000, 0, 20)),
    ],
)
def test_a_class_keeps_its_kubelets_amounts_from_replicas(
    kept: KubeletAmounts, expected: tuple[int, int, int]
) -> None:
    bare = replace(sized(), overhead=Resources.of({}))
    left = as_launched(bare, NodeClass("default", kubelet=kept)).allocatable
    assert (left["cpu"], left["memory"], left["pods"]) == expected


@pytest.mark.parametrize(
    ("kept", "nodes"),
    [
        (None, 1),
        (KubeletAmounts(max_pods=2), 2),
        (KubeletAmounts(reserved_cpu_millis=3000), 4),
    ],
)
def test_replicas_are_packed_by_what_is_left(
    kept: KubeletAmounts | None, nodes: int
) -> None:
    node_class = NodeClass("default", kubelet=kept)
    wanted = workload(cpu=500)
    plan = planned(with_demand(world(node_class, sized()), demand(wanted, 4)))
    assert (types_launched(plan), plan.unplaced) == ({"a": nodes}, ())


def test_what_no_node_has_room_for_waits_as_too_large() -> None:
    node_class = NodeClass("default", kubelet=KubeletAmounts(reserved_cpu_millis=3000))
    plan = planned(with_demand(world(node_class, sized()), demand(workload(cpu=2000))))
    (waiting,) = plan.unplaced
    assert waiting.code is ReasonCode.TOO_LARGE
