"""Which nodes may be taken apart: no price cap was reckoned with them, nobody sought company on them."""

from shared.core.scheduling_terms.labels import HOSTNAME
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import PartialPlan


class LooseNodes:
    """Tells them. ``near`` is a mask of the terms that somebody wants to be near to."""

    def __init__(self, state: PartialPlan) -> None:
        self.near = 0
        for group in state.groups:
            for constraints in group.constraints:
                for near in constraints.affinity:
                    self.near |= 1 << near.term
        hosts = self.near & state.ledger.host_mask
        self._capped = {group.index for group in state.groups if group.is_price_capped}
        self._in_company = {
            group.index
            for group in state.groups
            if group.matching & hosts or any(near.topology_key == HOSTNAME for near in group.constraints[0].affinity)
        }

    def has(self, bin_: Bin) -> bool:
        """Whether the bin is one of them."""
        fixed = self._in_company | self._capped if bin_.is_paid else self._in_company
        return fixed.isdisjoint(bin_.contents)
