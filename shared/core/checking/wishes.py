"""What the checker knows of demand: who is pending, what each replica takes, and what it will and will not accept.

All checker modules are written from the rules (DESIGN section 3), never from the solver, so that
the two can disagree.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
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
_NOTHING: Final = Resources.of({})


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
            self.pending[key] = self.pending.get(key, 0) + demand.pending_count
            self.pending_since[key] = min(demand.pending_since, self.pending_since.get(key, demand.pending_since))
        self._terms: dict[str, tuple[Requirements, ...]] = {}
        self._markets: dict[str, frozenset[CapacityType]] = {}
        self._needs: dict[int, Resources] = {}
        self._rows: dict[str, Sequence[int]] = {}
        self._row_of: dict[int | None, Sequence[int]] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._kind_of: dict[str, int] = {}
        self._manners: dict[tuple[object, ...], int] = {}
        self._manner_of: dict[str, int] = {}
        self._alike: dict[tuple[object, ...], tuple[int, int]] = {}

    def needs(self, workload: Workload) -> Resources:
        """Return what one replica takes: its requests, and a pod even where the requests do not say so (R-54)."""
        requests = workload.requests
        known = self._needs.get(id(requests))  # which the snapshot keeps alive, the same for equal ones
        if known is None:
            is_said = requests[PODS] >= 1
            known = self._needs[id(requests)] = requests if is_said else Resources.of({**requests, PODS: 1})
        return known

    def load(self, placed: Mapping[str, int]) -> Resources:
        """Sum what replicas take; names that are no workload take nothing."""
        total: Counter[str] = Counter()
        for key, count in placed.items():
            if key in self.workloads:
                for name, amount in self.needs(self.workloads[key]).items():
                    total[name] += amount * count
        return Resources.of(total)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The resources that replicas take."""
        unlike = {id(workload.requests): workload.requests for workload in self.workloads.values()}
        return tuple(sorted({PODS}.union(*unlike.values())))

    def amounts(self, placed: Mapping[str, int]) -> Sequence[int]:
        """Return the load as a number for each of ``resource_names``: there are thousands of nodes to sum it for."""
        rows = []
        for key, count in placed.items():
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = self._row(key)
            rows.append(row if count == 1 else [amount * count for amount in row])
        return [*map(sum, zip(*rows, strict=True))]

    def _row(self, key: str) -> Sequence[int]:
        workload = self.workloads.get(key)
        about = None if workload is None else id(workload.requests)
        known = self._row_of.get(about)
        if known is None:
            known = self._row_of[about] = self.by_name(_NOTHING if workload is None else self.needs(workload))
        return known

    def by_name(self, amounts: Resources) -> Sequence[int]:
        """Return amounts as a number for each of ``resource_names``."""
        return [amounts[name] for name in self.resource_names]

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
        known = self._kind_of.get(workload.key)
        return self._numbered(workload)[0] if known is None else known

    def manners(self, keys: Iterable[str]) -> frozenset[int]:
        """Return numbers for all but size and topology; replicas of one manner may be on the same nodes."""
        known = self._manner_of.get
        return frozenset([known(key) or self._numbered(self.workloads[key])[1] for key in keys])

    def _numbered(self, workload: Workload) -> tuple[int, int]:
        """Return numbers for the workload's kind and manner, the latter from 1."""
        rest = (workload.tolerations, workload.duration_s, workload.checkpoint_period_s)
        # Most workloads have the one selector that says nothing, so by identity most are told apart from few others.
        alike = (id(workload.node_selector), workload.required_node_terms, *rest)
        numbers = None if workload.fallback else self._alike.get(alike)
        if numbers is None:
            kinds = (self.terms(workload), self.markets(workload))
            kind = self._kinds.setdefault(kinds, len(self._kinds))
            numbers = kind, self._manners.setdefault((kind, *rest), len(self._manners) + 1)
            if not workload.fallback:  # whose markets depend on when it came
                self._alike[alike] = numbers
        self._kind_of[workload.key], self._manner_of[workload.key] = numbers
        return numbers
