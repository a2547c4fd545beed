"""The pods of Karpenter's loop: size, requirements and topology groups of a workload, and what relaxing makes of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lab.bench.karpenter.index import Index
from lab.bench.karpenter.topology import Group, GroupKey, Kind, Topology
from reservoir.core.model.workload import AffinityTerm, Demand, WhenUnsatisfiable, Workload
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import PODS


@dataclass(slots=True, eq=False)
class Shape:
    """A workload in one state of relaxation; equal replicas share it."""

    workload: Workload
    size: tuple[tuple[str, int], ...]
    strict: Requirements
    requirements: Requirements
    groups: tuple[Group, ...]
    own_inverse: tuple[Group, ...]
    counting: tuple[Group, ...] = ()
    against: tuple[Group, ...] = ()
    relaxed: "Shape | None" = None

    @property
    def is_bound(self) -> bool:
        """Whether where it may go depends on where others are."""
        return bool(self.groups or self.against)


def all_shapes(
    demands: Iterable[Demand], index: Index, topology: Topology
) -> list[tuple[Shape, int]]:
    """Return a shape and its number of pods for each demand; afterwards each shape knows the groups that count it."""
    found = [
        (_shape(demand.workload, index, topology), demand.pending_count)
        for demand in demands
    ]
    for shape, _ in found:
        current: Shape | None = shape
        while current is not None:
            current.counting = topology.counting(shape.workload)
            current.against = topology.against(shape.workload)
            current = current.relaxed
    return found


def _shape(workload: Workload, index: Index, topology: Topology) -> Shape:
    terms = workload.required_node_terms
    strict = workload.node_selector.merged(terms[0]) if terms else workload.node_selector
    preferred = sorted(workload.preferred_node_terms, key=lambda term: -term.weight)
    wanted = strict.merged(preferred[0].requirements) if preferred else strict
    size = {**workload.requests, PODS: max(1, workload.requests[PODS])}
    keys = tuple(_group_keys(workload))
    inverse = tuple(
        replace(key, is_inverse=True)
        for key in _group_keys(workload, only_required=True)
        if key.kind is Kind.ANTI_AFFINITY
    )
    weaker = _relaxed(workload)
    return Shape(
        workload,
        tuple(sorted(size.items())),
        index.interned(strict),
        index.interned(wanted),
        topology.groups(keys),
        topology.groups(inverse),
        relaxed=None if weaker is None else _shape(weaker, index, topology),
    )


def _group_keys(workload: Workload, *, only_required: bool = False) -> Iterator[GroupKey]:
    """Yield the groups of a workload; preferred terms count as long as they are not relaxed."""
    for constraint in workload.topology_spread:
        yield GroupKey(
            Kind.SPREAD,
            constraint.topology_key,
            workload.namespace,
            constraint.selector,
            constraint.max_skew,
            constraint.min_domains,
        )
    for kind, terms in (
        (Kind.AFFINITY, workload.affinity),
        (Kind.ANTI_AFFINITY, workload.anti_affinity),
    ):
        for term in terms:
            if term.weight is None or not only_required:
                yield GroupKey(kind, term.topology_key, workload.namespace, term.selector)


def _without_heaviest(terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...] | None:
    preferred = [term for term in terms if term.weight is not None]
    if not preferred:
        return None
    heaviest = max(preferred, key=lambda term: term.weight or 0)
    return tuple(term for term in terms if term is not heaviest)


def _relaxed(workload: Workload) -> Workload | None:
    """Return the workload with its next preference given up (R-47), or None when none is left."""
    if len(workload.required_node_terms) > 1:
        return replace(workload, required_node_terms=workload.required_node_terms[1:])
    affinity = _without_heaviest(workload.affinity)
    if affinity is not None:
        return replace(workload, affinity=affinity)
    anti_affinity = _without_heaviest(workload.anti_affinity)
    if anti_affinity is not None:
        return replace(workload, anti_affinity=anti_affinity)
    if workload.preferred_node_terms:
        heaviest = max(workload.preferred_node_terms, key=lambda term: term.weight)
        kept = tuple(term for term in workload.preferred_node_terms if term is not heaviest)
        return replace(workload, preferred_node_terms=kept)
    soft = [
        item
        for item in workload.topology_spread
        if item.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY
    ]
    if soft:
        return replace(
            workload,
            topology_spread=tuple(
                item for item in workload.topology_spread if item is not soft[0]
            ),
        )
    return None
