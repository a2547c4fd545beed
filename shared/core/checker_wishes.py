"""What the checker knows of demand: who is pending, what each replica takes, and what it will and will not accept.

All checker modules are written from the rules (DESIGN section 3 and the issue's list), never from the solver, so that
the two can disagree.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

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
        self._kinds: dict[tuple[object, ...], int] = {}
        self._kind_of: dict[str, int] = {}

    def needs(self, workload: Workload) -> Resources:
        """Return what one replica takes: its requests, and a pod even where the requests do not say so (R-54)."""
        known = self._needs.get(workload.key)
        if known is None:
            known = Resources.of({**workload.requests, PODS: max(1, workload.requests[PODS])})
            self._needs[workload.key] = known
        return known

    def terms(self, workload: Workload) -> tuple[Requirements, ...]:
        """Return the requirement sets of which one must hold: the node selector with each ORed term (R-15)."""
        known = self._terms.get(workload.key)
        if known is None:
            selector = workload.node_selector
            known = tuple(selector.merged(term) for term in workload.required_node_terms) or (selector,)
            self._terms[workload.key] = known
        return known

    def markets(self, workload: Workload) -> frozenset[CapacityType]:
        """Return the capacity types that the workload's ladder has reached by now; all of them without a ladder."""
        known = self._markets.get(workload.key)
        if known is None:
            known = frozenset(self._reached(workload)) if workload.fallback else frozenset(CapacityType)
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
        known = self._kind_of.get(workload.key)
        if known is None:
            facts = (self.terms(workload), self.markets(workload))
            known = self._kind_of[workload.key] = self._kinds.setdefault(facts, len(self._kinds))
        return known
