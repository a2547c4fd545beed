"""Objects that are valid one by one and cannot work together: warnings that say "can never launch because"."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared.core import labels
from shared.core.instance_type import CapacityType
from shared.core.node_class import NodeClass, SelectorTerm
from shared.core.node_pool import NodePool
from shared.core.taint import TOLERATE_ALL_PREFER_NO_SCHEDULE, binding_taints, tolerates_all
from shared.core.workload import Workload
from shared.manifests.load import Document
from shared.manifests.problems import Problem, Severity, path_of

# How image names and parameters spell an architecture.
_SPELLINGS: Final = {"arm64": ("arm64", "aarch64"), "amd64": ("x86_64", "amd64", "x86-64")}


@dataclass(frozen=True, slots=True)
class Doubt:
    """One warning about an object ("NodePool", "gpu") at a path of its manifest."""

    kind: str
    name: str
    path: tuple[str | int, ...]
    rule: str
    message: str
    suggestion: str | None = None


def problem_of(doubt: Doubt, document: Document | None) -> Problem:
    """Place a doubt in the document that it is about."""
    return Problem(
        path=path_of(doubt.path),
        rule=doubt.rule,
        message=doubt.message,
        line=None if document is None else document.line_of(doubt.path),
        suggestion=doubt.suggestion,
        severity=Severity.WARNING,
        subject=f"{doubt.kind}/{doubt.name}",
        source="" if document is None else document.source,
    )


@dataclass(frozen=True, slots=True)
class World:
    """All objects that would exist. Classes carry in their status what discovery has found, if it has run."""

    node_pools: Sequence[NodePool] = ()
    node_classes: Sequence[NodeClass] = ()
    workloads: Sequence[Workload] = ()


_REQUIREMENTS: Final = ("spec", "template", "spec", "requirements")


def cross_check(world: World) -> tuple[Doubt, ...]:
    """Return everything that can never launch, or never the way it says, in a fixed order."""
    classes = {node_class.name: node_class for node_class in world.node_classes}
    doubts = [doubt for pool in world.node_pools for doubt in _pool_doubts(pool, classes)]
    doubts += [doubt for node_class in world.node_classes for doubt in _class_doubts(node_class, world.node_pools)]
    doubts += [doubt for workload in world.workloads for doubt in _workload_doubts(workload, world.node_pools)]
    return tuple(sorted(doubts, key=lambda doubt: (doubt.kind, doubt.name, doubt.rule, doubt.message)))


def _never(subject: str, reason: str) -> str:
    return f"{subject} can never launch because {reason}"


def _pool_doubts(pool: NodePool, classes: Mapping[str, NodeClass]) -> Iterator[Doubt]:
    for key, requirement in pool.requirements.items():
        if key in labels.WELL_KNOWN and key not in labels.RESERVATION_LABELS and not len(requirement):
            reason = f"its requirements on {key} leave no value"
            yield Doubt("NodePool", pool.name, _REQUIREMENTS, "no-value", _never("the pool", reason))
    node_class = classes.get(pool.node_class_name)
    if node_class is None:
        path = ("spec", "template", "spec", "nodeClassRef", "name")
        reason = f"there is no EC2NodeClass {pool.node_class_name}"
        hint = labels.closest(pool.node_class_name, classes)
        yield Doubt("NodePool", pool.name, path, "no-class", _never("the pool", reason), hint)
        return
    yield from _architecture_doubts(pool, node_class)
    yield from _reservation_doubts(pool, node_class)


def _architecture_doubts(pool: NodePool, node_class: NodeClass) -> Iterator[Doubt]:
    """Compare the architectures of the class's images with those of the pool (first ODCR RFC, open questions)."""
    available = image_architectures(node_class)
    if available is None:
        return
    wanted = [arch for arch in labels.KNOWN_VALUES[labels.ARCH] if pool.requirements[labels.ARCH].has(arch)]
    missing = [arch for arch in wanted if arch not in available]
    images = f"EC2NodeClass {node_class.name} selects only {' and '.join(sorted(available))} images"
    if missing and len(missing) == len(wanted):
        reason = f"it allows only {' and '.join(wanted)} and {images}"
        yield Doubt("NodePool", pool.name, _REQUIREMENTS, "architecture", _never("the pool", reason))
    elif missing and labels.ARCH in pool.requirements:
        message = _never(f"{' and '.join(missing)} capacity of the pool", images)
        yield Doubt("NodePool", pool.name, _REQUIREMENTS, "architecture", message)


def image_architectures(node_class: NodeClass) -> frozenset[str] | None:
    """Return the architectures of a class's images: as discovered, else as their names say; None when unknown."""
    if node_class.status.machine_images:
        return frozenset(image.architecture for image in node_class.status.machine_images)
    told = [_told_architecture(term) for term in node_class.ami_selector_terms]
    known = [architecture for architecture in told if architecture is not None]
    return frozenset(known) if known and len(known) == len(told) else None


def _told_architecture(term: SelectorTerm) -> str | None:
    text = f"{term.name or ''} {term.ssm_parameter or ''}".lower()
    told = [arch for arch, spellings in _SPELLINGS.items() if any(spelling in text for spelling in spellings)]
    return told[0] if len(told) == 1 else None


def _reservation_doubts(pool: NodePool, node_class: NodeClass) -> Iterator[Doubt]:
    capacity_types = pool.requirements[labels.CAPACITY_TYPE]
    may_reserve = capacity_types.has(CapacityType.RESERVED)
    may_buy = capacity_types.has(CapacityType.SPOT) or capacity_types.has(CapacityType.ON_DEMAND)
    if may_reserve and not may_buy and not node_class.capacity_reservation_selector_terms:
        reason = f"it allows only reserved capacity and EC2NodeClass {node_class.name} selects no reservation"
        yield Doubt("NodePool", pool.name, _REQUIREMENTS, "no-reservation", _never("the pool", reason))
    asked = [key for key in sorted(labels.RESERVATION_LABELS) if len(pool.requirements[key]) and _asks(pool, key)]
    if asked and not may_reserve:
        reason = f"it requires {asked[0]}, which only reserved capacity has, and excludes reserved capacity"
        yield Doubt("NodePool", pool.name, _REQUIREMENTS, "not-reserved", _never("the pool", reason))


def _asks(pool: NodePool, key: str) -> bool:
    return key in pool.requirements and not pool.requirements[key].allows_absence


def _class_doubts(node_class: NodeClass, pools: Sequence[NodePool]) -> Iterator[Doubt]:
    if not node_class.capacity_reservation_selector_terms:
        return
    users = [pool for pool in pools if pool.node_class_name == node_class.name]
    if users and not any(pool.requirements[labels.CAPACITY_TYPE].has(CapacityType.RESERVED) for pool in users):
        names = ", ".join(sorted(pool.name for pool in users))
        reason = f"no pool that uses the class allows capacity type reserved ({names})"
        path = ("spec", "capacityReservationSelectorTerms")
        message = _never("instances in the selected reservations", reason)
        yield Doubt("EC2NodeClass", node_class.name, path, "reservations-unused", message)


def _workload_doubts(workload: Workload, pools: Sequence[NodePool]) -> Iterator[Doubt]:
    reasons = {pool.name: _why_not(workload, pool) for pool in pools}
    open_pools = [pool for pool in pools if reasons[pool.name] is None]
    if not open_pools:
        why = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items())[:10])
        reason = f"no NodePool can serve it ({why})" if pools else "there is no NodePool"
        yield Doubt("Workload", workload.key, ("spec",), "no-pool", _never("the workload", reason))
        return
    for index, step in enumerate(workload.fallback):
        if not any(pool.requirements[labels.CAPACITY_TYPE].has(step.capacity_type) for pool in open_pools):
            names = ", ".join(sorted(pool.name for pool in open_pools))
            reason = f"every NodePool that can serve it excludes {step.capacity_type} ({names})"
            message = _never(f"this rung ({step.capacity_type})", reason)
            yield Doubt("Workload", workload.key, ("spec", "fallback", index), "ladder", message)


def _why_not(workload: Workload, pool: NodePool) -> str | None:
    tolerations = (*workload.tolerations, TOLERATE_ALL_PREFER_NO_SCHEDULE)  # it can always be relaxed to that
    taint = tolerates_all(binding_taints(pool.taints, pool.startup_taints, initialized=False), tolerations)
    if taint is not None:
        return f"taint {taint} is not tolerated"
    terms = workload.required_node_terms or (workload.node_selector,)
    tried = [workload.node_selector.merged(term) for term in terms]
    refusals = [pool.requirements.compatible(wanted, labels.WELL_KNOWN) for wanted in tried]
    return None if None in refusals else refusals[0]
