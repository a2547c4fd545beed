"""Whether each refusal of a plan is true: its reason is possible, and the final state has no room for the replica."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from reservoir.core.checking.constraints.spread import admits
from reservoir.core.checking.residual.leftovers import Leftovers
from reservoir.core.checking.residual.open_nodes import OpenNodes, once_where_limited
from reservoir.core.checking.residual.reasons import reason_problem
from reservoir.core.checking.residual.splitting import copies_that_fit
from reservoir.core.checking.totals import gang_domains
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.likeness import Likeness

_ROOMED_ALIKE: Final = Likeness(
    Workload,
    {
        "name": "which of them is reported is no matter of room",
        "generation": "only the newest generation is in a snapshot",
        "replicas": "it is asked where one more would fit",
        "labels": "stand beside, where any rule looks at them",
        "annotations": "no rule reads them",
        "priority": "what nobody has is free for all",
        "preferred_node_terms": "a replica may also run where a preference is not met",
        "gang": "gangs are asked by themselves",
        "fallback": "the markets that it has reached stand beside",
        "do_not_disrupt": "a plan ends no node",
        "handover": "when a replica may start is no matter of room",
        "rolling_update": "when a replica is replaced is no matter of where it is",
        "unknown": "no rule of this release knows what a newer one means by it",
    },
)


class RefusalCheck:
    """Judges refusals; workloads that would have room in the same places share one lookup."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._rooms_found: dict[object, str | None] = {}

    def violations(self) -> Iterator[Violation]:
        """Report each workload that was refused for an impossible reason, or although a replica of it fits."""
        facts = self._leftovers.facts
        for refusal in facts.plan.unplaced:
            # the plan itself says that it had no time to look at these
            if refusal.code is ReasonCode.OUT_OF_TIME:
                continue
            workload = facts.workloads.get(refusal.workload_key)
            if workload is not None:
                yield from self._about(refusal, workload)

    def _about(self, refusal: UnplacedReplicas, workload: Workload) -> Iterator[Violation]:
        problem = reason_problem(
            self._leftovers.facts,
            refusal,
            workload,
            is_bound=self._leftovers.is_bound(workload),
        )
        if problem is not None:
            yield _without_cause(workload, problem)
        find_room = self._room_for_one if workload.gang is None else self._room_for_gang
        where = find_room(workload)
        if where is not None:
            message = f"refused with {refusal.code} although it fits: {where}"
            yield _without_cause(workload, message)

    def _room_for_one(self, workload: Workload) -> str | None:
        """Return where one more replica would fit."""
        is_bound = self._leftovers.is_bound(workload)
        looks_at_labels = (
            workload.topology_spread
            or workload.affinity
            or workload.anti_affinity
            or is_bound
        )
        question = (
            _ROOMED_ALIKE.key(workload),
            self._leftovers.facts.markets(workload),
            tuple(sorted(workload.labels.items())) if looks_at_labels else (),
            is_bound,
        )
        if question not in self._rooms_found:
            self._rooms_found[question] = self._first_room(workload)
        return self._rooms_found[question]

    def _first_room(self, workload: Workload) -> str | None:
        is_bound = self._leftovers.is_bound(workload)
        for room in self._leftovers.room.nodes_for(workload):
            if not is_bound or admits(self._leftovers.topology, workload, room.domains):
                return room.subject
        return None

    def _room_for_gang(self, workload: Workload) -> str | None:
        """Return where all waiting replicas of a gang would fit.

        A gang that a topology rule concerns is not judged: counting room does not decide whether it has a place.
        """
        assert workload.gang is not None
        if self._leftovers.is_bound(workload):
            return None
        facts = self._leftovers.facts
        key = workload.gang.single_topology_key
        needs = facts.needs(workload)
        fitting: Counter[str] = Counter()  # replicas, by domain
        # by domain and reservation: several pools may reach the same units
        counted_units: Counter[tuple[str, str]] = Counter()
        for room in self._rooms_of_gang(workload):
            domain = "all" if key is None else room.domains.get(key, "")
            units = room.units
            reservation_id = None if room.key is None else room.key.reservation_id
            if room.pool is not None and reservation_id is not None:
                about = domain, reservation_id
                free_units = self._leftovers.room.free_units[reservation_id]
                units = min(units, free_units - counted_units[about])
                counted_units[about] += units
            if domain:
                fitting[domain] += units * copies_that_fit(room.free, needs)
            if fitting[domain] >= facts.pending[workload.key]:
                return f"{fitting[domain]} replicas, the last on {room.subject}"
        return None

    def _rooms_of_gang(self, workload: Workload) -> Iterator[OpenNodes]:
        """Yield where replicas of a gang may go: only beside those that run already, if all must be in one domain."""
        key = workload.single_topology_key
        domains_in_use = gang_domains(self._leftovers.topology, workload)
        for room in once_where_limited(self._leftovers.room.nodes_for(workload)):
            if key is None or not domains_in_use or room.domains.get(key) in domains_in_use:
                yield room


def _without_cause(workload: Workload, message: str) -> Violation:
    return Violation(
        ViolationCode.UNPLACED_WITHOUT_CAUSE, workload.key, message, (workload.key,)
    )
