"""What the checker knows of demand: who is pending, what each replica takes, and what it will and will not accept.

All checker modules are written from the rules (DESIGN section 3), never from the solver, so that
the two can disagree.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from shared.core.capacity_reservation import CapacityReservation
from shared.core.instance_type import CapacityType, InstanceType
from shared.core.node_class import NodeClass
from shared.core.node_pool import NodePool
from shared.core.plan import Plan
from shared.core.policy import SchedulingPolicy
from shared.core.requirements import Requirements
from shared.core.resources import PODS, Resources
from shared.core.snapshot import Node, Snapshot
from shared.core.workload import Workload

_ALL_MARKETS: Final = frozenset(CapacityType)
_NO_REQUIREMENTS: Final = (Requirements.of(),)


class Wishes:
    """Lookups over one snapshot and one plan by name. Unknown names give None; the checks report them."""

    def __init__(self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy) -> None:
        self.snapshot, self.plan, self.now, self.policy = snapshot, plan, now, policy
        self.types: dict[str, InstanceType] = {item.name: item for item in snapshot.instance_types}
        self.pools: dict[str, NodePool] = {item.name: item for item in snapshot.node_pools}
        self.classes: dict[str, NodeClass] = {item.name: item for item in snapshot.node_classes}
        self.reservations: dict[str, CapacityReservation] = {item.id: item for item in snapshot.reservations}
        self.nodes: dict[str, Node] = {item.claim_id: item for item in snapshot.nodes}
        self.workloads: dict[str, Workload] = dict(snapshot.workloads)
        self.pending: Counter[str] = Counter()
        self.pending_since: dict[str, datetime] = {}
        for demand in snapshot.demands:
            key = demand.workload.key
            self.workloads[key] = demand.workload
            self.pending[key] += demand.pending_count
            self.pending_since[key] = min(demand.pending_since, self.pending_since.get(key, demand.pending_since))
        self._terms: dict[str, tuple[Requirements, ...]] = {}
        self._markets: dict[str, frozenset[CapacityType]] = {}
        self._needs: dict[str, Resources] = {}
        self._amounts: dict[str, tuple[tuple[str, int], ...]] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._kind_of: dict[str, int] = {}
        self._manners: dict[tuple[object, ...], int] = {}
        self._manner_of: dict[str, int] = {}

    def needs(self, workload: Workload) -> Resources:
        """Return what one replica takes: its requests, and a pod even where the requests do not say so (R-54)."""
        key = workload.key
        known = self._needs.get(key)
        if known is None:
            requests = workload.requests
            is_said = requests[PODS] >= 1
            known = self._needs[key] = requests if is_said else Resources.of({**requests, PODS: 1})
        return known

    def load(self, placed: Mapping[str, int]) -> dict[str, int]:
        """Sum what replicas take; names that are no workload take nothing."""
        total: dict[str, int] = {}
        for key, count in placed.items():
            amounts = self._amounts.get(key)
            if amounts is None:
                is_known = key in self.workloads
                amounts = tuple(self.needs(self.workloads[key]).items()) if is_known else ()
                self._amounts[key] = amounts
            for name, amount in amounts:
                total[name] = total.get(name, 0) + amount * count
        return total

    def terms(self, workload: Workload) -> tuple[Requirements, ...]:
        """Return the requirement sets of which one must hold: the node selector with each ORed term (R-15)."""
        known = self._terms.get(workload.key)
        if known is None:
            selector = workload.node_selector
            if workload.required_node_terms:
                known = tuple(selector.merged(term) for term in workload.required_node_terms)
            else:
                known = (selector,) if selector else _NO_REQUIREMENTS
            self._terms[workload.key] = known
        return known

    def markets(self, workload: Workload) -> frozenset[CapacityType]:
        """Return the capacity types that the workload's ladder has reached by now; all of them without a ladder."""
        known = self._markets.get(workload.key)
        if known is None:
            known = frozenset(self._reached(workload)) if workload.fallback else _ALL_MARKETS
            self._markets[workload.key] = known
        return known

    def _reached(self, workload: Workload) -> Iterator[CapacityType]:
        reached_at = self.pending_since.get(workload.key, self.now)
        for step in workload.fallback:
            if reached_at > self.now:
                return
            yield step.capacity_type
            if step.for_s is None:
                return
            reached_at += timedelta(seconds=step.for_s)

    def outlasts(self, workload: Workload, drain_at: datetime | None) -> bool:
        """Whether the workload would still run when its node starts to drain, the notice that it wants included.

        Without a hint nobody can say so, unless the notice has begun already.
        """
        if drain_at is None or (workload.duration_s is None and not workload.checkpoint_period_s):
            return False
        until = self.now + timedelta(seconds=workload.duration_s or 0)
        return until > drain_at - timedelta(seconds=workload.checkpoint_period_s or 0)

    def kind(self, workload: Workload) -> int:
        """Return a number for requirements and markets; workloads of one kind may go to the same offerings."""
        key = workload.key
        known = self._kind_of.get(key)
        if known is None:
            facts = (self.terms(workload), self.markets(workload))
            known = self._kind_of[key] = self._kinds.setdefault(facts, len(self._kinds))
        return known

    def manners(self, keys: Iterable[str]) -> frozenset[int]:
        """Return numbers for all but size and topology; replicas of one manner may be on the same nodes."""
        return frozenset([self._manner_of.get(key) or self._find_manner(key) for key in keys])

    def _find_manner(self, key: str) -> int:
        workload = self.workloads[key]
        facts = (self.kind(workload), workload.tolerations, workload.duration_s, workload.checkpoint_period_s)
        known = self._manner_of[key] = self._manners.setdefault(facts, len(self._manners) + 1)
        return known
