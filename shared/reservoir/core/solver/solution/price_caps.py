"""How much may still be spent on nodes of a workload, in atto-USD an hour, by its price cap and its team's budget.

A price cap is charged for the workload's nodes that run or are planned, a budget for those that the plan buys.
"""

from collections.abc import Iterator, Sequence

from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.nodes import NodeFacts
from reservoir.core.solver.solution.bins import Bin


class PriceCaps:
    """Sums the cost of nodes with replicas of a workload: those that run, and the ``bins`` at the time of the call."""

    def __init__(
        self, groups: Sequence[Group], bins: Sequence[Bin], facts: NodeFacts
    ) -> None:
        self._groups = groups
        self._bins = bins
        self._caps = {
            g.index: cap
            for g in groups
            if (cap := g.workload.max_price_micro_usd_per_hour) is not None
        }
        self._running_cost = facts.running_cost(
            {group.workload.key for group in groups if group.is_price_capped}
        )

    def left(self, group: Group) -> int:
        """Return what the workload may still spend, the lower of what its own cap and its team's budget leave."""
        left = [self.team_budget_left(group)] if group.team_budget is not None else []
        return min([self._cap_left(group), *left] if group.index in self._caps else left)

    def team_budget_left(self, group: Group) -> int:
        """Return what the team's budget leaves for bought nodes; reserved units are not charged to it."""
        assert group.team_budget is not None
        return group.team_budget - self._planned_cost(group, bought_only=True)

    def margin(self, bin_: Bin) -> int | None:
        """Return how much more than planned each of the bin's nodes may cost; None without a cap.

        Each bought node may be launched as a dearer alternative, so all bought nodes of a workload share what its cap
        leaves.
        """
        margins = []
        for index in bin_.contents.keys() & self._caps.keys():
            nodes = sum(
                each.count for each in self._bins_of(self._groups[index]) if each.is_paid
            )
            margins.append(self._cap_left(self._groups[index]) // max(1, nodes))
        return min(margins, default=None)

    def _cap_left(self, group: Group) -> int:
        spent = self._running_cost.get(group.workload.key, 0) + self._planned_cost(
            group, bought_only=False
        )
        return self._caps[group.index] * ATTO_USD_PER_MICRO_USD - spent

    def _planned_cost(self, group: Group, *, bought_only: bool) -> int:
        """Return the cost of the planned nodes with replicas of the workload.

        Quotas may have divided the workload into several groups, which share its cap and budget.
        """
        cost = 0
        for bin_ in self._bins_of(group):
            if bin_.option is None or (bought_only and bin_.option.reservation is not None):
                continue
            cost += bin_.option.price * bin_.count
        return cost

    def _bins_of(self, group: Group) -> Iterator[Bin]:
        key = group.workload.key
        for bin_ in self._bins:
            if any(self._groups[index].workload.key == key for index in bin_.contents):
                yield bin_
