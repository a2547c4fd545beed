"""Objects that are valid one by one and cannot work together: warnings that say "can never launch because".

Two teams that claim one namespace are an error.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import NodeClass, SelectorTerm
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import (
    TOLERATE_ALL_PREFER_NO_SCHEDULE,
    Taint,
    binding_taints,
    tolerates_all,
)
from reservoir.core.sharing.quota_groups import quota_groups
from reservoir.manifests.kinds.launch_limits import LaunchLimits, excesses
from reservoir.manifests.known_values import KnownValues
from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.fields import EC2_RESOURCES
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Problem, Severity, path_of, shown

# Labels that only types with accelerators have, and labels that name types, families and categories.
_OF_ACCELERATORS: Final = frozenset(
    {
        labels.INSTANCE_GPU_NAME,
        labels.INSTANCE_GPU_MANUFACTURER,
        labels.INSTANCE_GPU_COUNT,
        labels.INSTANCE_GPU_MEMORY,
        labels.INSTANCE_ACCELERATOR_NAME,
        labels.INSTANCE_ACCELERATOR_MANUFACTURER,
        labels.INSTANCE_ACCELERATOR_COUNT,
    }
)
_BLOCKS: Final = frozenset({"capacity-block"})
_OF_TYPES: Final = frozenset(
    {labels.INSTANCE_TYPE, labels.INSTANCE_FAMILY, labels.INSTANCE_CATEGORY}
)
# EC2's accelerated computing (https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html), but for F: FPGAs are no
# resource that work asks for.
_ACCELERATED_CATEGORIES: Final = frozenset({"p", "g", "gr", "trn", "inf", "dl", "vt"})
# How image names and parameters spell an architecture.
_SPELLINGS: Final = {"arm64": ("arm64", "aarch64"), "amd64": ("x86_64", "amd64", "x86-64")}


@dataclass(frozen=True, slots=True)
class Doubt:
    """One warning (or error) about an object ("NodePool", "gpu") at a path of its manifest."""

    kind: str
    name: str
    path: tuple[str | int, ...]
    rule: str
    message: str
    suggestion: str | None = None
    severity: Severity = Severity.WARNING


def problem_of(doubt: Doubt, document: Document | None) -> Problem:
    """Place a doubt in the document that it is about."""
    return Problem(
        path=path_of(doubt.path),
        rule=doubt.rule,
        message=doubt.message,
        line=None if document is None else document.line_of(doubt.path),
        suggestion=doubt.suggestion,
        severity=doubt.severity,
        subject=f"{doubt.kind}/{doubt.name}",
        source="" if document is None else document.source,
    )


@dataclass(frozen=True, slots=True)
class ObjectSet:
    """All objects that would exist. Classes carry in their status what discovery has found, if it has run."""

    node_pools: Sequence[NodePool] = ()
    node_classes: Sequence[NodeClass] = ()
    workloads: Sequence[Workload] = ()
    teams: Sequence[Team] = ()
    # None when it is not known where the objects are to be deployed
    limits: LaunchLimits | None = None
    known: KnownValues | None = None  # None when nothing is known of what EC2 offers
    # as discovery knows them; none where it is not asked
    reservations: Sequence[CapacityReservation] = ()


_REQUIREMENTS: Final = ("spec", "template", "spec", "requirements")
# Rules that say that something is not there, with its kind: an object that cannot be read yet may be it.
_MISSING_KINDS: Final[Mapping[str, str]] = {
    "no-class": "EC2NodeClass",
    "no-node-pool": "NodePool",
    "no-pool": "NodePool",
    "ladder": "NodePool",
    "reservations-unused": "NodePool",
}
# Bounds of the work that one megabyte of input can cause.
_MOST_DOUBTS: Final = 100
_MOST_COMPARED_NAMES: Final = 2_000
_MOST_PAIRS: Final = 50_000  # of a workload and a pool
_MOST_REASONS: Final = 5  # pools named in one message


class _Names:
    """Finds the nearest name, as long as that is worthwhile."""

    def __init__(self) -> None:
        self._left = _MOST_COMPARED_NAMES

    def nearest(self, name: str, known: Collection[str]) -> str | None:
        if len(known) > self._left or len(name) > nearest.LONGEST:
            return None
        self._left -= len(known)
        return labels.closest(name, known)


def cross_check(
    objects: ObjectSet, unread_kinds: Collection[str] = ()
) -> tuple[Doubt, ...]:
    """Return everything that can never launch, or never the way it says, in a fixed order, at most a hundred.

    There may be more objects of ``unread_kinds`` than these: nothing that one of them could supply is reported missing.
    """
    found = (
        doubt
        for doubt in _all_doubts(objects)
        if _MISSING_KINDS.get(doubt.rule) not in unread_kinds
    )
    doubts = list(islice(found, _MOST_DOUBTS + 1))
    if len(doubts) > _MOST_DOUBTS:
        last = doubts.pop()
        doubts.append(
            Doubt(
                last.kind, last.name, (), "more", "this object and others raise doubts too"
            )
        )
    return tuple(
        sorted(
            doubts, key=lambda doubt: (doubt.kind, doubt.name, doubt.rule, doubt.message)
        )
    )


def _all_doubts(objects: ObjectSet) -> Iterator[Doubt]:
    # errors, so that no number of warnings leaves them out
    yield from _team_doubts(objects.teams)
    names = _Names()
    yield from _quota_doubts(objects.teams, objects.reservations)
    yield from _team_pool_doubts(objects.teams, objects.node_pools, names)
    pools = sorted(objects.node_pools, key=lambda pool: pool.name)
    classes = {
        node_class.name: node_class
        for node_class in sorted(objects.node_classes, key=lambda each: each.name)
    }
    for pool in pools:
        yield from _pool_doubts(pool, classes, names)
        yield from _value_doubts(
            "NodePool", pool.name, _REQUIREMENTS, [pool.requirements], objects.known, names
        )
    for node_class in classes.values():
        yield from _class_doubts(node_class, pools)
        if objects.limits is not None:
            for excess in excesses(node_class, objects.limits):
                yield Doubt("EC2NodeClass", node_class.name, *excess)
    for index, workload in enumerate(
        sorted(objects.workloads, key=lambda workload: workload.key)
    ):
        if index * len(pools) > _MOST_PAIRS:
            message = "this workload and those after it were not checked against the pools: there are too many"
            yield Doubt("Workload", workload.key, (), "not-checked", message)
            return
        yield from _workload_doubts(workload, pools, names)
        asked = [workload.node_selector, *workload.required_node_terms]
        yield from _value_doubts(
            "Workload", workload.key, ("spec",), asked, objects.known, names
        )


def _never(subject: str, reason: str) -> str:
    return f"{subject} can never launch because {reason}"


def _pool_doubts(
    pool: NodePool, classes: Mapping[str, NodeClass], names: _Names
) -> Iterator[Doubt]:
    for key in pool.requirements:
        hint = None if key in labels.WELL_KNOWN else names.nearest(key, labels.WELL_KNOWN)
        if hint is not None or labels.is_of_other_provider(key):
            message = (
                f"{key} is not a label that Reservoir or EC2 sets: "
                "every node of the pool will carry it as a custom"
            )
            yield Doubt(
                "NodePool",
                pool.name,
                _REQUIREMENTS,
                "custom-label",
                f"{message} label",
                hint,
            )
    for key, requirement in pool.requirements.items():
        is_absent = requirement.allows_absence and key not in labels.OF_EVERY_NODE
        if (
            key in labels.WELL_KNOWN - labels.RESERVATION_LABELS
            and not len(requirement)
            and not is_absent
        ):
            reason = f"its requirements on {key} leave no value"
            yield Doubt(
                "NodePool", pool.name, _REQUIREMENTS, "no-value", _never("the pool", reason)
            )
    yield from _accelerator_doubts(pool)
    node_class = classes.get(pool.node_class_name)
    if node_class is None:
        path = ("spec", "template", "spec", "nodeClassRef", "name")
        reason = f"there is no EC2NodeClass {pool.node_class_name}"
        hint = names.nearest(pool.node_class_name, classes)
        yield Doubt(
            "NodePool", pool.name, path, "no-class", _never("the pool", reason), hint
        )
        return
    yield from _architecture_doubts(pool, node_class)
    yield from _reservation_doubts(pool, node_class)


def _accelerator_doubts(pool: NodePool) -> Iterator[Doubt]:
    """Propose a taint where every node has accelerators and any work may fill it."""
    if pool.taints or not _has_accelerators_alone(pool.requirements):
        return
    message = (
        "every node of the pool has accelerators, and no taint keeps work without them off it: "
        "work without accelerators may take the room that other work needs"
    )
    yield Doubt(
        "NodePool",
        pool.name,
        ("spec", "template", "spec"),
        "no-taint",
        message,
        "taints: [{key: nvidia.com/gpu, effect: NoSchedule}], which the work tolerates",
    )


def _has_accelerators_alone(requirements: Requirements) -> bool:
    """Whether the requirements leave only instance types with accelerators."""
    for key, requirement in requirements.items():
        if key in _OF_ACCELERATORS and not requirement.allows_absence:
            return True
        if requirement.complement or not requirement.values:
            continue
        # EC2 sells Capacity Blocks of nothing else.
        if key == labels.CAPACITY_RESERVATION_TYPE and requirement.values == _BLOCKS:
            return True
        categories = {_category(value) for value in requirement.values}
        if key in _OF_TYPES and categories <= _ACCELERATED_CATEGORIES:
            return True
    return False


def _category(instance_type: str) -> str:
    """Return the letters with which a type, family or category begins: "p" of p5en.48xlarge."""
    return "".join(takewhile(str.isalpha, instance_type))


def _value_doubts(
    kind: str,
    name: str,
    path: tuple[str, ...],
    asked: Iterable[Requirements],
    known: KnownValues | None,
    names: _Names,
) -> Iterator[Doubt]:
    """Yield a doubt for each value that EC2 does not have, as far as is known: it was probably mistyped."""
    if known is None:
        return
    pairs: set[tuple[str, str]] = set()
    for requirements in asked:
        for key, requirement in requirements.items():
            pairs.update((key, value) for value in requirement.values)
    for key, value in sorted(pairs):
        among = known.of(key, value)
        if among:
            message = f"{key} {shown(value)} is not offered {known.where}"
            yield Doubt(
                kind, name, path, "unknown-value", message, names.nearest(value, among)
            )


def _architecture_doubts(pool: NodePool, node_class: NodeClass) -> Iterator[Doubt]:
    """Compare the architectures of the class's images with those of the pool (first ODCR RFC, open questions)."""
    available = image_architectures(node_class)
    if available is None:
        return
    wanted = [
        arch
        for arch in labels.KNOWN_VALUES[labels.ARCH]
        if pool.requirements[labels.ARCH].has(arch)
    ]
    missing = [arch for arch in wanted if arch not in available]
    images = f"EC2NodeClass {node_class.name} selects only {' and '.join(sorted(available))} images"
    if missing and len(missing) == len(wanted):
        reason = f"it allows only {' and '.join(wanted)} and {images}"
        yield Doubt(
            "NodePool", pool.name, _REQUIREMENTS, "architecture", _never("the pool", reason)
        )
    elif missing and labels.ARCH in pool.requirements:
        message = _never(f"{' and '.join(missing)} capacity of the pool", images)
        yield Doubt("NodePool", pool.name, _REQUIREMENTS, "architecture", message)


def image_architectures(node_class: NodeClass) -> frozenset[str] | None:
    """Return the architectures of a class's images: as discovered, else as their names say; None when unknown."""
    if node_class.status.machine_images:
        return frozenset(image.architecture for image in node_class.status.machine_images)
    named = [_named_architecture(term) for term in node_class.ami_selector_terms]
    known = [architecture for architecture in named if architecture is not None]
    return frozenset(known) if known and len(known) == len(named) else None


def _named_architecture(term: SelectorTerm) -> str | None:
    """Return the one architecture that the term's name or parameter names, or None."""
    text = f"{term.name or ''} {term.ssm_parameter or ''}".lower()
    named = []
    for architecture, spellings in _SPELLINGS.items():
        if any(spelling in text for spelling in spellings):
            named.append(architecture)
    return named[0] if len(named) == 1 else None


def _reservation_doubts(pool: NodePool, node_class: NodeClass) -> Iterator[Doubt]:
    capacity_types = pool.requirements[labels.CAPACITY_TYPE]
    may_reserve = capacity_types.has(CapacityType.RESERVED)
    may_buy = capacity_types.has(CapacityType.SPOT) or capacity_types.has(
        CapacityType.ON_DEMAND
    )
    if may_reserve and not may_buy and not node_class.capacity_reservation_selector_terms:
        reason = f"it allows only reserved capacity and EC2NodeClass {node_class.name} selects no reservation"
        yield Doubt(
            "NodePool",
            pool.name,
            _REQUIREMENTS,
            "no-reservation",
            _never("the pool", reason),
        )
    if not may_reserve:
        yield from _unit_doubts(pool, "it excludes reserved capacity")
    elif not node_class.capacity_reservation_selector_terms:
        yield from _unit_doubts(pool, "its class selects no reservation")
    asked = [
        key
        for key in sorted(labels.RESERVATION_LABELS)
        if len(pool.requirements[key]) and _asks(pool, key)
    ]
    if asked and not may_reserve:
        reason = f"it requires {asked[0]}, which only reserved capacity has, and excludes reserved capacity"
        yield Doubt(
            "NodePool", pool.name, _REQUIREMENTS, "not-reserved", _never("the pool", reason)
        )


def _unit_doubts(pool: NodePool, why: str) -> Iterator[Doubt]:
    """Yield what a pool wants to do with reserved units, and cannot because it has none."""
    if pool.all_reserved:
        reason = f"it wants as many nodes as it has reserved units, and {why}"
        path = ("spec", "replicas")
        yield Doubt("NodePool", pool.name, path, "no-units", _never("the pool", reason))
    if pool.warm_reserved is not None:
        reason = f"the pool has no units to keep warm because {why}"
        path = ("spec", "warmReserved")
        yield Doubt("NodePool", pool.name, path, "no-units", reason)


def _asks(pool: NodePool, key: str) -> bool:
    return key in pool.requirements and not pool.requirements[key].allows_absence


def _class_doubts(node_class: NodeClass, pools: Sequence[NodePool]) -> Iterator[Doubt]:
    if not node_class.capacity_reservation_selector_terms:
        return
    users = [pool for pool in pools if pool.node_class_name == node_class.name]
    if users and not any(
        pool.requirements[labels.CAPACITY_TYPE].has(CapacityType.RESERVED) for pool in users
    ):
        names = ", ".join(sorted(pool.name for pool in users))
        reason = f"no pool that uses the class allows capacity type reserved ({names})"
        path = ("spec", "capacityReservationSelectorTerms")
        message = _never("instances in the selected reservations", reason)
        yield Doubt("EC2NodeClass", node_class.name, path, "reservations-unused", message)


def _team_doubts(teams: Sequence[Team]) -> Iterator[Doubt]:
    owners: dict[str, str] = {}
    for team in sorted(teams, key=lambda team: team.name):
        for namespace in team.namespaces:
            owner = owners.setdefault(namespace, team.name)
            if owner != team.name:
                message = f"{namespace} belongs to Team {owner} already"
                path = ("spec", "namespaces")
                yield Doubt(
                    "Team",
                    team.name,
                    path,
                    "namespace-taken",
                    message,
                    severity=Severity.ERROR,
                )


def _quota_doubts(
    teams: Sequence[Team], reservations: Sequence[CapacityReservation]
) -> Iterator[Doubt]:
    """Yield groups of reservations in which teams own more units than there are."""
    if not reservations:
        return
    snapshot = Snapshot((), tuple(reservations), teams=tuple(teams))
    for group in quota_groups(snapshot):
        owned = sum(quota.nominal_units for quota in group.quotas.values())
        if owned > group.total_units:
            who = ", ".join(
                f"{name} {group.nominal(name)}" for name in sorted(group.quotas)
            )
            message = f"of {group.key} {owned} units are owned ({who}), and there are {group.total_units}"
            yield Doubt(
                "Team",
                max(group.quotas),
                ("spec", "quotas"),
                "quota-exceeds-units",
                message,
            )


def _team_pool_doubts(
    teams: Sequence[Team], pools: Sequence[NodePool], names: _Names
) -> Iterator[Doubt]:
    known = {pool.name for pool in pools}
    for team in teams:
        for name in team.node_pools:
            if name not in known:
                message = f"there is no NodePool {name}"
                yield Doubt(
                    "Team",
                    team.name,
                    ("spec", "nodePools"),
                    "no-node-pool",
                    message,
                    names.nearest(name, known),
                )


def _workload_doubts(
    workload: Workload, pools: Sequence[NodePool], names: _Names
) -> Iterator[Doubt]:
    for resource in workload.requests:
        hint = names.nearest(resource, EC2_RESOURCES) if "/" in resource else None
        if hint is not None and resource not in EC2_RESOURCES:
            message = _never("the workload", f"no instance type of EC2 has {resource}")
            yield Doubt(
                "Workload",
                workload.key,
                ("spec", "resources", "requests"),
                "resource",
                message,
                hint,
            )
    terms = workload.required_node_terms or (workload.node_selector,)
    wanted = [workload.node_selector.merged(term) for term in terms]
    open_pools = [pool for pool in pools if _admits(workload, wanted, pool)]
    if not open_pools:
        why = "; ".join(
            f"{pool.name}: {_why_not(workload, wanted, pool)}"
            for pool in pools[:_MOST_REASONS]
        )
        reason = f"no NodePool can serve it ({why})" if pools else "there is no NodePool"
        yield Doubt(
            "Workload", workload.key, ("spec",), "no-pool", _never("the workload", reason)
        )
        return
    for index, step in enumerate(workload.fallback):
        if not any(
            pool.requirements[labels.CAPACITY_TYPE].has(step.capacity_type)
            for pool in open_pools
        ):
            named = ", ".join(pool.name for pool in open_pools[:_MOST_REASONS])
            reason = (
                f"every NodePool that can serve it excludes {step.capacity_type} ({named})"
            )
            message = _never(f"this step ({step.capacity_type})", reason)
            yield Doubt(
                "Workload", workload.key, ("spec", "fallback", index), "ladder", message
            )


def _admits(workload: Workload, wanted: Sequence[Requirements], pool: NodePool) -> bool:
    return _untolerated(workload, pool) is None and any(
        pool.requirements.admits(each, labels.WELL_KNOWN) for each in wanted
    )


def _untolerated(workload: Workload, pool: NodePool) -> Taint | None:
    # it can always be relaxed to that
    tolerations = (*workload.tolerations, TOLERATE_ALL_PREFER_NO_SCHEDULE)
    return tolerates_all(
        binding_taints(pool.taints, pool.startup_taints, initialized=False), tolerations
    )


def _why_not(
    workload: Workload, wanted: Sequence[Requirements], pool: NodePool
) -> str | None:
    taint = _untolerated(workload, pool)
    if taint is not None:
        return f"taint {taint} is not tolerated"
    return pool.requirements.compatible(wanted[0], labels.WELL_KNOWN)
