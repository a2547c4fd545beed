"""The checker's facts about demand: which workloads are pending, what each replica takes, and what it accepts.

All checker modules are written from the rules (docs/rules.md), never from the solver, so that the two can disagree.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Final

from reservoir.core.checking.final_state.packed_vector import PackedVector
from reservoir.core.model.capacity_reservation import BlockDrain, CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import PODS, Resources

_ALL_MARKETS: Final = frozenset(CapacityType)
_NO_REQUIREMENTS: Final = (Requirements.of(),)
_NOTHING: Final = Resources.of({})

# The placement class of replicas on a node that are not pending.
STRANGER: Final = 1

# What no check asks of one workload for another.
_OF_EACH: Final = {
    "name": "whoever reports a workload names it by its own key",
    "generation": "only the newest generation is in a snapshot",
    "replicas": "what is pending is counted by workload",
    "requests": "loads are summed by workload, and what a replica takes stands beside a class where that matters",
    "labels": "who is selected is looked up by workload",
    "annotations": "no rule reads them",
    "preferred_node_terms": "preferences are looked at by workload",
    "do_not_disrupt": "a plan ends no node",
    "handover": "when a replica may start is no matter of where it is",
    "rolling_update": "when a replica is replaced is no matter of where it is",
    "unknown": "what a newer release means by it no rule of this one knows",
    "fallback": "a ladder counts from when its workload came: who has one is a class of its own",
}
# Beside those, fields that do not limit which nodes a replica may be on.
_OF_OTHERS: Final = {
    "namespace": "teams and selectors are looked up by workload",
    "priority": "priorities are about who comes first",
    "topology_spread": "rules about other replicas are judged apart",
    "affinity": "rules about other replicas are judged apart",
    "anti_affinity": "rules about other replicas are judged apart",
    "gang": "gangs are counted by workload",
    "max_price_micro_usd_per_hour": "prices are summed by workload",
}
# Beside those, fields that do not limit which offerings it may use.
_OF_NODES: Final = {
    "tolerations": "taints are of pools and nodes",
    "duration_s": "when a node must be empty is a matter of its reservation",
    "checkpoint_period_s": "when a node must be empty is a matter of its reservation",
}
_ALIKE: Final = Likeness(Workload, _OF_EACH)
# The markets that a ladder has reached are added to these.
_PLACED_ALIKE: Final = Likeness(Workload, {**_OF_EACH, **_OF_OTHERS})
_OFFERED_ALIKE: Final = Likeness(Workload, {**_OF_EACH, **_OF_OTHERS, **_OF_NODES})


@dataclass(slots=True, eq=False)
class WorkloadClass:
    """Workloads by key; what is true of one is true of all, except for the fields in ``_OF_EACH``."""

    first: Workload  # one of them
    workloads: Mapping[str, Workload]


class DemandFacts:
    """Lookups over one snapshot and one plan by name. Unknown names give None; the checks report them."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
    ) -> None:
        self.snapshot, self.plan, self.now, self.policy = snapshot, plan, now, policy
        self.types: dict[str, InstanceType] = {
            item.name: item for item in snapshot.instance_types
        }
        self.pools: dict[str, NodePool] = {item.name: item for item in snapshot.node_pools}
        self.classes: dict[str, NodeClass] = {
            item.name: item for item in snapshot.node_classes
        }
        self.reservations: dict[str, CapacityReservation] = {
            item.id: item for item in snapshot.reservations
        }
        self.nodes: dict[str, Node] = {item.claim_id: item for item in snapshot.nodes}
        pending = {demand.workload.key: demand.workload for demand in snapshot.demands}
        self.workloads: dict[str, Workload] = {**snapshot.workloads, **pending}
        self.pending: dict[str, int] = {
            demand.workload.key: demand.pending_count for demand in snapshot.demands
        }
        if len(pending) < len(snapshot.demands):  # some workload has several
            self.pending = dict.fromkeys(pending, 0)
            for demand in snapshot.demands:
                self.pending[demand.workload.key] += demand.pending_count
        self._terms: dict[
            tuple[Requirements, tuple[Requirements, ...]], tuple[Requirements, ...]
        ] = {}
        self._markets: dict[str, frozenset[CapacityType]] = {}
        self._needs: dict[Resources, Resources] = {}

    @cached_property
    def pending_since(self) -> Mapping[str, datetime]:
        """When each workload began to wait, which starts its ladder's clock."""
        since: dict[str, datetime] = {}
        for demand in self.snapshot.demands:
            key = demand.workload.key
            since[key] = min(demand.pending_since, since.get(key, demand.pending_since))
        return since

    @cached_property
    def workload_classes(self) -> Sequence[WorkloadClass]:
        """All workloads, in classes: thousands may be pending that few rules distinguish."""
        found: defaultdict[Hashable, dict[str, Workload]] = defaultdict(dict)
        numbers = _ALIKE.numbers(self.workloads.values())
        for number, (key, workload) in zip(numbers, self.workloads.items(), strict=True):
            found[(number, key) if workload.fallback else number][key] = workload
        return [
            WorkloadClass(next(iter(workloads.values())), workloads)
            for workloads in found.values()
        ]

    def needs(self, workload: Workload) -> Resources:
        """Return what one replica takes: its requests, and a pod even where the requests do not say so (R-54)."""
        requests = workload.requests
        known = self._needs.get(requests)
        if known is None:
            is_said = requests[PODS] >= 1
            known = self._needs[requests] = (
                requests if is_said else Resources.of({**requests, PODS: 1})
            )
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
    def _sizes(self) -> Mapping[Resources, Workload]:
        """A workload for each of the requests; few differ."""
        return {workload.requests: workload for workload in self.workloads.values()}

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The resources that replicas take."""
        return tuple(
            sorted({PODS}.union(*[workload.requests for workload in self._sizes.values()]))
        )

    def by_name(self, amounts: Resources) -> Sequence[int]:
        """Return amounts as a number for each of ``resource_names``."""
        return [amounts[name] for name in self.resource_names]

    def terms(self, workload: Workload) -> tuple[Requirements, ...]:
        """Return the requirement sets of which one must hold: the node selector with each ORed term (R-15)."""
        about = (workload.node_selector, workload.required_node_terms)
        known = self._terms.get(about)
        if known is None:
            selector = workload.node_selector
            if workload.required_node_terms:
                known = tuple(
                    selector.merged(term) for term in workload.required_node_terms
                )
            else:
                known = (selector,) if selector else _NO_REQUIREMENTS
            self._terms[about] = known
        return known

    @cached_property
    def required_keys(self) -> frozenset[str]:
        """The label keys that some workload requires something of."""
        unlike = set(
            chain.from_iterable(
                self.terms(class_.first) for class_ in self.workload_classes
            )
        )
        return frozenset().union(*unlike)

    def markets(self, workload: Workload) -> frozenset[CapacityType]:
        """Return the capacity types that the workload's ladder has reached by now; all of them without a ladder."""
        known = self._markets.get(workload.key)
        if known is None:
            known = (
                frozenset(self._reached(workload)) if workload.fallback else _ALL_MARKETS
            )
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

    def outlasts(
        self, workload: Workload, drain: BlockDrain | None, longest_notice_s: int = 0
    ) -> bool:
        """Whether the workload would still run when its node starts to drain.

        The drain starts earlier by its own notice, or by a neighbour's if that is longer. Without a duration that is
        not known, unless the notice has begun already.
        """
        if drain is None or (
            workload.duration_s is None and not workload.checkpoint_period_s
        ):
            return False
        until = self.now + timedelta(seconds=workload.duration_s or 0)
        return (
            until
            > drain.for_notice(
                max(workload.checkpoint_period_s or 0, longest_notice_s)
            ).starts_at
        )

    def offering_class(self, workload: Workload) -> int:
        """Return a number for requirements and reached markets: workloads of one class may go to the same offerings."""
        return self._numbers[0][workload.key]

    def placement_class(self, workload: Workload) -> int:
        """Return a bit for all but size and topology: replicas of one class may be on the same nodes."""
        return self._numbers[1][workload.key]

    @cached_property
    def _numbers(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The offering class and the placement class of each workload."""
        numbers: dict[Hashable, int] = {}
        classes: dict[Hashable, int] = {}
        offering_class_of: dict[str, int] = {}
        placement_class_of: dict[str, int] = {}
        for class_ in self.workload_classes:
            first, keys = class_.first, class_.workloads
            markets = self.markets(first)
            offering_class = numbers.setdefault(
                (_OFFERED_ALIKE.key(first), markets), len(numbers)
            )
            about = (_PLACED_ALIKE.key(first), markets)
            placement_class = classes.setdefault(about, STRANGER << 1 + len(classes))
            offering_class_of.update(dict.fromkeys(keys, offering_class))
            placement_class_of.update(dict.fromkeys(keys, placement_class))
        return offering_class_of, placement_class_of

    # -- what many replicas are together

    def carried(self, placed: Mapping[str, int]) -> tuple[int, int]:
        """Return the packed load of replicas and the bits of their placement classes."""
        load, classes, known = 0, 0, self._carried
        # the innermost loop of all: once for each workload on each node
        for key, count in placed.items():
            amounts, placement_class = known[key]
            load += amounts * count
            classes |= placement_class
        return load, classes

    @cached_property
    def _carried(self) -> Mapping[str, tuple[int, int]]:
        """What one replica of each workload adds: its packed load, and the bit of its placement class."""
        pack, classes = self.packing.load, self._numbers[1]
        loads = {
            size: pack(self.by_name(self.needs(workload)))
            for size, workload in self._sizes.items()
        }
        known = {
            key: (loads[workload.requests], classes[key])
            for key, workload in self.workloads.items()
        }
        for key in self.workloads.keys() - self.pending.keys():
            known[key] = (known[key][0], STRANGER)
        return defaultdict(lambda: (0, STRANGER), known)

    @cached_property
    def packing(self) -> PackedVector:
        """How loads are packed: no node can carry more than the plan counts, each as large as the largest replica."""
        counts = self.counts
        replicas = max(max(counts, default=0), -min(counts, default=0)) * len(counts)
        needs = [self.needs(workload).values() for workload in self._sizes.values()]
        largest = max(map(abs, chain.from_iterable(needs)), default=0)
        return PackedVector(largest * replicas, len(self.resource_names))

    @cached_property
    def counts(self) -> Sequence[int]:
        """The replicas of every placement of the plan."""
        on_new = chain.from_iterable(launch.placements for launch in self.plan.launches)
        on_existing = chain.from_iterable(node.placements for node in self.plan.existing)
        return [item.count for item in (*on_new, *on_existing)]
