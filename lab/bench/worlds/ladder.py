"""Karpenter's own scheduling benchmark, regenerated: its ladder of instance types and its two mixes of pods."""

import random
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeVar

from lab.bench.worlds.common import (
    NAMESPACE,
    NOW,
    counted,
    node_class,
    node_pool,
    one_of,
    single,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    LabelSelector,
    PreferredNodeTerm,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

ZONES: Final = tuple((f"test-zone-{index}", f"test-az{index}") for index in (1, 2, 3))
_SPOT_ZONES: Final = 2
_CPU_MILLIS: Final = (100, 250, 500, 1000, 1500)
_MEMORY_MIB: Final = (100, 256, 512, 1024, 2048, 4096)
_LETTERS: Final = "abcdefg"
_MIB: Final = 2**20
_SEED: Final = 42
_T = TypeVar("_T")


class Draws(Protocol):
    """Where draws come from: Python's ``random.Random``, or what Go's drew."""

    def choice(self, seq: Sequence[_T], /) -> _T:
        """Draw one of them."""
        ...


def price_micro_usd(cpus: int, memory_bytes: int) -> int:
    """Return Karpenter's made-up price: 0.1 USD a vCPU and 0.1 USD a (decimal) GB."""
    return round(100_000 * cpus + 100_000 * memory_bytes / 1e9)


def ladder(count: int = 400) -> tuple[InstanceType, ...]:
    """Type i has i+1 vCPU, 2(i+1) GiB, 10(i+1) pods; spot in two zones and on demand in three at one price."""
    return tuple(_rung(index) for index in range(count))


def _rung(index: int) -> InstanceType:
    name, cpus, memory = f"fake-it-{index}", index + 1, 2 * (index + 1) * 2**30
    price = price_micro_usd(cpus, memory)
    spot = tuple(Offering(*zone, CapacityType.SPOT, price) for zone in ZONES[:_SPOT_ZONES])
    on_demand = tuple(Offering(*zone, CapacityType.ON_DEMAND, price) for zone in ZONES)
    return InstanceType(
        name=name,
        requirements=Requirements.of(
            one_of(labels.INSTANCE_TYPE, name),
            one_of(labels.ARCH, "amd64"),
            one_of(labels.OS, "linux"),
        ),
        capacity=Resources.of({"cpu": cpus * 1000, "memory": memory, "pods": 10 * cpus}),
        overhead=Resources.of({"cpu": 100, "memory": 10 * _MIB}),
        offerings=spot + on_demand,
        on_demand_price_micro_usd_per_hour=price,
    )


def _requests(rng: Draws) -> Resources:
    return Resources.of(
        {
            "cpu": rng.choice(_CPU_MILLIS),
            "memory": rng.choice(_MEMORY_MIB) * _MIB,
            "pods": 1,
        }
    )


def _selecting(key: str, value: str) -> LabelSelector:
    return LabelSelector(match_labels=((key, value),))


def _pod(rng: Draws, pod_labels: dict[str, str], **constraints: object) -> Workload:
    return Workload(NAMESPACE, "", 1, 1, _requests(rng), labels=pod_labels, **constraints)  # type: ignore[arg-type]  # the callers below pass Workload's own fields


def _generic(rng: Draws) -> Workload:
    return _pod(rng, {"my-label": rng.choice(_LETTERS)})


def _spread(rng: Draws, key: str) -> Workload:
    pod_labels = {"my-label": rng.choice(_LETTERS)}
    # Drawn apart from the pod's own letter, as upstream does: such a pod often does not count for itself.
    constraint = TopologySpreadConstraint(
        key, 1, _selecting("my-label", rng.choice(_LETTERS))
    )
    return _pod(rng, pod_labels, topology_spread=(constraint,))


def _zone_affine(rng: Draws) -> Workload:
    letter = rng.choice(_LETTERS)
    term = AffinityTerm(labels.ZONE, _selecting("my-affinity", letter))
    return _pod(rng, {"my-affinity": letter}, affinity=(term,))


def _host_anti_affine(rng: Draws) -> Workload:
    term = AffinityTerm(labels.HOSTNAME, _selecting("app", "nginx"))
    return _pod(rng, {"app": "nginx"}, anti_affinity=(term,))


def diverse(count: int, seed: int = _SEED) -> Iterator[Workload]:
    """Yield ``count`` pods of the mix, drawn from a seed."""
    yield from drawn(count, random.Random(seed))


def drawn(count: int, rng: Draws) -> Iterator[Workload]:
    """Yield ``count`` pods: a fifth each generic, zone-spread, host-spread, zone-affine and host-anti-affine."""
    fifth = count // 5
    for _ in range(fifth):
        yield _generic(rng)
    for key in (labels.ZONE, labels.HOSTNAME):
        for _ in range(fifth):
            yield _spread(rng, key)
    for _ in range(fifth):
        yield _zone_affine(rng)
    for _ in range(fifth):
        yield _host_anti_affine(rng)
    for _ in range(count - 5 * fifth):
        yield _generic(rng)


def preferring(count: int, seed: int = _SEED) -> Iterator[Workload]:
    """Yield equal pods that prefer zone 1, prefer not to share a zone, and prefer (less) not to share a host."""
    rng = random.Random(seed)
    app = _selecting("app", "nginx")
    pod = _pod(
        rng,
        {"app": "nginx"},
        preferred_node_terms=(
            PreferredNodeTerm(1, Requirements.of(one_of(labels.ZONE, ZONES[0][0]))),
        ),
        anti_affinity=(
            AffinityTerm(labels.ZONE, app, weight=10),
            AffinityTerm(labels.HOSTNAME, app, weight=1),
        ),
    )
    for _ in range(count):
        yield pod


def snapshot(demands: tuple[Demand, ...], types: int = 400) -> Snapshot:
    """Return an empty cluster with one unlimited pool over the ladder."""
    return Snapshot(
        instance_types=ladder(types),
        node_pools=(node_pool("default"),),
        node_classes=(node_class(ZONES),),
        demands=demands,
    )


def diverse_snapshot(count: int, *, one_workload_a_pod: bool = False) -> Snapshot:
    """Return the cluster with ``diverse(count)`` pending; equal pods are one workload unless told otherwise."""
    demands = single if one_workload_a_pod else counted
    return snapshot(demands(diverse(count), "pod"))


def preference_snapshot(count: int) -> Snapshot:
    """Return the cluster with ``preferring(count)`` pending."""
    return snapshot(counted(preferring(count), "pod"))


__all__ = [
    "NOW",
    "ZONES",
    "diverse_snapshot",
    "ladder",
    "preference_snapshot",
    "price_micro_usd",
    "snapshot",
]
