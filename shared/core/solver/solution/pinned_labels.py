"""Labels that must not change under replicas, because some rule counted on them when they were placed."""

from collections.abc import Mapping, Sequence

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.topology import DomainLedger


class PinnedLabels:
    """Knows which labels topology counted, by group and by bin."""

    def __init__(self, groups: Sequence[Group], ledger: DomainLedger) -> None:
        self._groups = groups
        self._ledger = ledger
        self._known: dict[object, frozenset[str]] = {}

    def under(self, levels: Mapping[int, int]) -> tuple[str, ...]:
        """Return those that must not change under groups (by index) at their levels of relaxation."""
        return tuple(sorted({key for index, level in levels.items() for key in self.of(self._groups[index], level)}))

    def of(self, group: Group, level: int) -> frozenset[str]:
        """Return the labels that must not change under a group's replicas once they are placed at a level."""
        gang = group.workload.gang
        single = None if gang is None else gang.single_topology_key
        memo_key = (group.equivalence_class, level, single)
        known = self._known.get(memo_key)
        if known is None:
            terms = self._ledger.by_term.items()
            keys = {counts.topology_key for term, counts in terms if group.matching >> term & 1}
            keys.update([term.topology_key for term in group.constraints[level]], () if single is None else (single,))
            known = self._known[memo_key] = frozenset(keys - {HOSTNAME})
        return known
