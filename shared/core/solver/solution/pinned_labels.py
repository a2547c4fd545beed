"""Labels that must not change under replicas, because some rule counted on them when they were placed."""

from collections.abc import Sequence

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.problem.groups import Group, RelaxedGroup
from shared.core.solver.problem.topology import DomainLedger
from shared.core.solver.solution.bins import Bin


class PinnedLabels:
    """Knows which labels topology counted, by group and by bin."""

    def __init__(self, groups: Sequence[Group], ledger: DomainLedger) -> None:
        self._groups = groups
        self._ledger = ledger
        self._known: dict[object, frozenset[str]] = {}

    def on(self, bin_: Bin) -> tuple[str, ...]:
        """Return the labels that must not change under a bin's replicas, because some constraint counted on them."""
        keys = (self.of(self._groups[index].relaxed[level]) for index, level in bin_.levels.items())
        return tuple(sorted(frozenset[str]().union(*keys)))

    def of(self, relaxed: RelaxedGroup) -> frozenset[str]:
        """Return the labels that must not change under a group's replicas once they are placed at a level."""
        group = relaxed.group
        gang = group.workload.gang
        single = None if gang is None else gang.single_topology_key
        memo_key = (group.equivalence_class, relaxed.level, single)
        known = self._known.get(memo_key)
        if known is None:
            terms = self._ledger.by_term.items()
            keys = {counts.topology_key for term, counts in terms if group.matching >> term & 1}
            keys.update(relaxed.constraints.topology_keys(), () if single is None else (single,))
            known = self._known[memo_key] = frozenset(keys - {HOSTNAME})
        return known
