"""Karpenter's topology bookkeeping: a group for each constraint counts replicas by domain as they are placed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from reservoir.core.model.workload import LabelSelector, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement


class Kind(Enum):
    """What a group does."""

    SPREAD = "spread"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Constraints that are equal share one group."""

    kind: Kind
    topology_key: str
    namespace: str
    selector: LabelSelector
    max_skew: int = 0
    min_domains: int | None = None
    is_inverse: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """Counts by domain. Inverse groups count the carriers of an anti-affinity instead of what it selects."""

    key: GroupKey
    counts: Counter[str] = field(default_factory=Counter)

    def selects(self, workload: Workload) -> bool:
        """Whether the constraint is about the workload."""
        return workload.namespace == self.key.namespace and self.key.selector.matches(
            workload.labels
        )

    def record(self, domains: Requirement) -> None:
        """Count a replica: in every possible domain for anti-affinity (R-64), else where it is known to be."""
        if domains.complement:
            return
        if self.key.kind is Kind.ANTI_AFFINITY or len(domains.values) == 1:
            self.counts.update(sorted(domains.values))

    def next_domains(
        self,
        workload: Workload,
        wanted: Requirement,
        offered: Requirement,
        universe: Iterable[str],
    ) -> list[str]:
        """Return where the workload may go: wanted by it, offered by the node, allowed by the rule."""
        if self.key.topology_key == labels.HOSTNAME:
            universe = sorted(offered.values)
        possible = [
            domain for domain in universe if wanted.has(domain) and offered.has(domain)
        ]
        if self.key.kind is Kind.SPREAD:
            return self._least(
                workload, possible, [domain for domain in universe if wanted.has(domain)]
            )
        if self.key.kind is Kind.ANTI_AFFINITY:
            return [domain for domain in possible if not self.counts[domain]]
        populated = [domain for domain in possible if self.counts[domain]]
        if populated or not self.selects(workload) or self.counts.total():
            return populated
        return possible[:1]

    def _least(
        self, workload: Workload, possible: list[str], eligible: list[str]
    ) -> list[str]:
        """Return the emptiest domain within the skew; hosts have a minimum of 0 (R-60, R-61)."""
        is_own = self.selects(workload)
        least = 0
        is_short = self.key.min_domains is not None and len(eligible) < self.key.min_domains
        if self.key.topology_key != labels.HOSTNAME and not is_short:
            least = min((self.counts[domain] for domain in eligible), default=0)
        within = [
            domain
            for domain in possible
            if self.counts[domain] + is_own - least <= self.key.max_skew
        ]
        return [min(within, key=lambda domain: self.counts[domain])] if within else []


class Topology:
    """All groups, by what carries them and by what they count."""

    def __init__(self, universes: Mapping[str, Iterable[str]]) -> None:
        self._universes = {key: sorted(values) for key, values in universes.items()}
        self._groups: dict[GroupKey, Group] = {}

    def groups(self, keys: Iterable[GroupKey]) -> tuple[Group, ...]:
        """Return the groups of these constraints, made on first use."""
        return tuple(self._groups.setdefault(key, Group(key)) for key in keys)

    def counting(self, workload: Workload) -> tuple[Group, ...]:
        """Return the plain groups that count this workload."""
        return tuple(
            group
            for group in self._groups.values()
            if not group.key.is_inverse and group.selects(workload)
        )

    def against(self, workload: Workload) -> tuple[Group, ...]:
        """Return the inverse groups whose carriers do not want to be beside this workload."""
        return tuple(
            group
            for group in self._groups.values()
            if group.key.is_inverse and group.selects(workload)
        )

    def domains(
        self, group: Group, workload: Workload, wanted: Requirement, offered: Requirement
    ) -> Requirement | None:
        """Return where the group lets the workload go, or None when nowhere."""
        key = group.key.topology_key
        found = group.next_domains(workload, wanted, offered, self._universes.get(key, ()))
        return Requirement.new(key, Operator.IN, found) if found else None
