"""What the plan leaves over, and whether it may: rule 3, priorities on reserved units, and the truth of every refusal.

These checks report only certain violations: requirements, taints, limits and topology are read strictly here. A case
that the final state does not decide (a gang bound by topology, for instance) is accepted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reservoir.core.checking.constraints.spread import admits, is_bound
from reservoir.core.checking.constraints.topology import Topology
from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.checking.residual.open_nodes import (
    OpenNodes,
    once_where_limited,
    wants_many,
)
from reservoir.core.checking.residual.reasons import reason_problem
from reservoir.core.checking.residual.room_left import RoomLeft
from reservoir.core.checking.residual.splitting import can_split, copies_that_fit
from reservoir.core.checking.team_resources import TeamResources
from reservoir.core.checking.team_shares import TeamShares
from reservoir.core.checking.totals import gang_domains, node_use
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.policy import PreferencePolicy
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.resources import Resources

_ROOMED_ALIKE: Final = Likeness(
    Workload,
    {
        "name": "which of them is reported is no matter of room",
        "generation": "only the newest generation is in a snapshot",
        "replicas": "it is asked where one more would fit",
        "labels": "stand beside, where any rule looks at them",
        "annotations": "no rule reads them",
        "priority": "what nobody has is free for all",
        "preferred_node_terms": "room is room, also where they would sooner not be",
        "gang": "gangs are asked by themselves",
        "fallback": "the markets that it has reached stand beside",
        "do_not_disrupt": "a plan ends no node",
        "handover": "when a replica may start is no matter of room",
        "rolling_update": "when a replica is replaced is no matter of where it is",
        "unknown": "what a newer release means by it no rule of this one knows",
    },
)


class ResidualCheck:
    """The rules about the leftovers, and about what could use free units."""

    def __init__(self, facts: Facts, topology: Topology) -> None:
        self._facts, self._topology = facts, topology
        self._rooms_found: dict[object, str | None] = {}
        self._bound: dict[str, bool] = {}
        self._shares = TeamShares(facts)
        self._resources = TeamResources(facts)
        self._left = RoomLeft(facts, self._shares, self._resources)
        self._unplaced = {refusal.workload_key for refusal in facts.plan.unplaced}

    def violations(self) -> Iterator[Violation]:
        """Check rule 3, the floor beside it, priority inversion, what teams are owed, and every refusal."""
        yield from self._paid_while_free()
        yield from self._below_the_floor()
        yield from self._owed()
        yield from self._priority_inversions()
        for refusal in self._facts.plan.unplaced:
            if refusal.workload_key in self._facts.workloads:
                yield from self._refused(
                    refusal, self._facts.workloads[refusal.workload_key]
                )

    def _is_bound(self, workload: Workload) -> bool:
        known = self._bound.get(workload.key)
        if known is None:
            known = self._bound[workload.key] = is_bound(self._topology, workload)
        return known

    # -- rule 7

    def _refused(
        self, refusal: UnplacedReplicas, workload: Workload
    ) -> Iterator[Violation]:
        if refusal.code is ReasonCode.OUT_OF_TIME:
            return  # the plan itself says that it had no time
        problem = reason_problem(
            self._facts, refusal, workload, is_bound=self._is_bound(workload)
        )
        if problem is not None:
            yield Violation(
                ViolationCode.UNPLACED_WITHOUT_CAUSE, workload.key, problem, (workload.key,)
            )
        where = (
            self._gang_room(workload)
            if workload.gang is not None
            else self._room_for_alike(workload)
        )
        if where is not None:
            message = f"refused with {refusal.code} although it fits: {where}"
            yield Violation(
                ViolationCode.UNPLACED_WITHOUT_CAUSE, workload.key, message, (workload.key,)
            )

    def _room_for_alike(self, workload: Workload) -> str | None:
        """Return where one more replica would fit; equal workloads share one lookup."""
        rules = (
            workload.topology_spread,
            workload.affinity,
            workload.anti_affinity,
            self._is_bound(workload),
        )
        labels_seen = tuple(sorted(workload.labels.items())) if any(rules) else ()
        about = (
            _ROOMED_ALIKE.key(workload),
            self._facts.markets(workload),
            labels_seen,
            self._is_bound(workload),
        )
        if about not in self._rooms_found:
            self._rooms_found[about] = self._room(workload)
        return self._rooms_found[about]

    def _room(self, workload: Workload) -> str | None:
        bound = self._is_bound(workload)
        for room in self._left.nodes_for(workload):
            if not bound or admits(self._topology, workload, room.domains):
                return room.subject
        return None

    def _rooms_of_gang(self, workload: Workload) -> Iterator[OpenNodes]:
        """Yield where replicas of a gang may go: only beside those that run already, if all must be in one domain."""
        key, there = (
            workload.single_topology_key,
            gang_domains(self._topology, workload),
        )
        for room in once_where_limited(self._left.nodes_for(workload)):
            if key is None or not there or room.domains.get(key) in there:
                yield room

    def _gang_room(self, workload: Workload) -> str | None:
        """Say where all replicas of a gang would fit; a gang bound by topology is let pass."""
        assert workload.gang is not None
        if self._is_bound(workload):
            return None
        key, needs = workload.gang.single_topology_key, self._facts.needs(workload)
        total: Counter[str] = Counter()
        # by domain and reservation, which several pools may reach
        taken: Counter[tuple[str, str]] = Counter()
        for room in self._rooms_of_gang(workload):
            domain = room.domains.get(key, "") if key is not None else "all"
            units = room.units
            if (
                room.pool is not None
                and room.key is not None
                and room.key.reservation_id is not None
            ):
                about = domain, room.key.reservation_id
                units = min(
                    units, self._left.free_units[room.key.reservation_id] - taken[about]
                )
                taken[about] += units
            total[domain] += units * copies_that_fit(room.free, needs) if domain else 0
            if total[domain] >= self._facts.pending[workload.key]:
                return f"{total[domain]} replicas, the last on {room.subject}"
        return None

    # -- rule 3

    def _paid_while_free(self) -> Iterator[Violation]:
        facts = self._facts
        units = list(self._left.free_reserved())
        able: dict[str, frozenset[int]] = {}
        for host in facts.changed if units else ():
            if not host.is_bought or not host.placed:
                continue
            for key in host.placed:
                if key not in able:
                    able[key] = frozenset(self._able(facts.workloads[key], units))
            if all(able[key] for key in host.placed):
                yield from self._paid(host, units, able)

    def _able(self, workload: Workload, units: Sequence[OpenNodes]) -> Iterator[int]:
        """Yield the indices of the units on which one replica could run alone."""
        needs = self._facts.needs(workload)
        for index, unit in enumerate(units):
            if (
                needs.fits_in(unit.free)
                and self._may_have(workload, unit)
                and self._prefers_nothing_else(workload, unit)
                and (
                    unit.key is None
                    or self._shares.open_units(workload.key, unit.key.reservation_id) > 0
                )
                and not self._resources.bounds(workload, CapacityType.RESERVED)
            ):
                yield index

    def _may_have(self, workload: Workload, unit: OpenNodes) -> bool:
        """Whether a replica certainly may be on the unit, size and topology apart."""
        pool = unit.pool
        may_launch = (
            pool is not None
            and self._left.tolerates(workload, pool)
            and not wants_many(pool)
        )
        return may_launch and self._left.may_run(workload, unit)

    def _prefers_nothing_else(self, workload: Workload, unit: OpenNodes) -> bool:
        """Whether the unit meets all that it prefers: a preference for something else has a price (R-47)."""
        if self._facts.policy.preference_policy is PreferencePolicy.IGNORE:
            return True
        return all(
            unit.description.admits(it.requirements, unit.undefined)
            for it in workload.preferred_node_terms
        )

    def _paid(
        self, host: Host, units: Sequence[OpenNodes], able: Mapping[str, frozenset[int]]
    ) -> Iterator[Violation]:
        """Report a paid node whose replicas could all run on one free unit, or be split over several."""
        common = frozenset.intersection(*(able[key] for key in host.placed))
        for index in sorted(common):
            if self._takes_over(host, units[index]):
                message = f"could run on free {units[index].subject}"
                yield Violation(
                    ViolationCode.PAID_WHILE_FREE, host.subject, message, tuple(host.placed)
                )
                return
        is_free = not any(self._is_held(self._facts.workloads[key]) for key in host.placed)
        if is_free and can_split(self._facts, host, units, able, self._left.free_units):
            message = "could be split over units left free"
            yield Violation(
                ViolationCode.PAID_WHILE_FREE, host.subject, message, tuple(host.placed)
            )

    def _takes_over(self, host: Host, unit: OpenNodes) -> bool:
        facts = self._facts
        assert unit.pool is not None
        assert unit.key is not None
        load = facts.load(host.placed)
        if not load.fits_in(unit.free) or self._below_floor(load, unit.free):
            return False
        if not facts.together(unit.description, unit.undefined, tuple(sorted(host.placed))):
            return False
        if any(
            self._is_held(facts.workloads[key]) for key in host.placed
        ) and not self._same_place(host, unit):
            return False
        return self._left.within_limits(unit.pool, unit.key, self._freed(host, unit.pool))

    def _is_held(self, workload: Workload) -> bool:
        return self._is_bound(workload) or workload.gang is not None

    def _same_place(self, host: Host, unit: OpenNodes) -> bool:
        """Whether moving a whole node there changes no count by zone or host, and no other topology key is in play."""
        facts = self._facts
        keys: set[str] = set()
        for workload in facts.workloads.values():
            keys.update(item.topology_key for item in workload.topology_spread)
            keys.update(
                term.topology_key for term in (*workload.affinity, *workload.anti_affinity)
            )
            keys.add(workload.single_topology_key or "")
        is_plain = keys <= {labels.ZONE, labels.ZONE_ID, labels.HOSTNAME, ""}
        return is_plain and host.labels.get(labels.ZONE_ID) == unit.domains.get(
            labels.ZONE_ID
        )

    def _freed(self, host: Host, pool: NodePool) -> Counter[str]:
        launch = host.planned
        if launch is None or launch.node_pool_name != pool.name:
            return Counter()
        return node_use(
            self._facts.launched_as(pool, launch.offering.instance_type).capacity
        )

    def _below_floor(self, load: Resources, slot: Resources) -> bool:
        floor = self._facts.policy.reserved_floor_percent
        return floor > 0 and all(
            amount * 100 < floor * slot[name] for name, amount in load.items() if slot[name]
        )

    def _below_the_floor(self) -> Iterator[Violation]:
        """No reserved slot is launched for less than the policy's floor if all that it holds could be bought."""
        facts = self._facts
        for host in facts.changed if facts.policy.reserved_floor_percent else ():
            if host.planned is None or host.is_bought or not host.placed:
                continue
            held = [facts.workloads[key] for key in host.placed]
            if self._below_floor(facts.load(host.placed), host.allocatable) and all(
                map(self._is_buyable, held)
            ):
                message = "holds less than the floor, and all of it could be bought"
                yield Violation(
                    ViolationCode.BELOW_FLOOR, host.subject, message, tuple(host.placed)
                )

    def _is_buyable(self, workload: Workload) -> bool:
        """Whether a replica certainly has a place that is bought, whatever else it prefers or others insist on."""
        is_capped = workload.max_price_micro_usd_per_hour is not None
        if is_capped or workload.preferred_node_terms or self._is_held(workload):
            return False
        return any(
            self._resources.is_open(workload, room.capacity_type)
            for room in self._left.bought_for(workload)
        )

    # -- priority

    # Branches: hosts against waiting workloads; each condition excuses a pair.
    def _priority_inversions(self) -> Iterator[Violation]:
        """No lower-priority replica holds a reserved unit that a higher-priority one, paid or waiting, could use."""
        facts = self._facts
        pending = [
            class_.first
            for class_ in facts.workload_classes
            if not facts.pending.keys().isdisjoint(class_.workloads)
        ]
        if len({workload.priority for workload in pending}) < 2:
            return
        waiting = self._waiting()
        for host in facts.changed:
            if host.planned is None or host.is_bought or not host.placed:
                continue
            lowest = min(
                facts.workloads[key].priority
                for key in host.placed
                if key in facts.workloads
            )
            for workload in waiting:
                if self._resources.bounds(
                    workload, CapacityType.RESERVED
                ) or self._shares.is_between_teams(
                    host.placed, workload.key, host.planned.offering.reservation_id
                ):
                    continue
                if workload.priority > lowest and self._would_fit(host, workload):
                    message = f"holds priority {lowest} while {workload.key} ({workload.priority}) could use it"
                    yield Violation(
                        ViolationCode.PRIORITY_INVERSION,
                        host.subject,
                        message,
                        tuple(host.placed),
                    )
                    break

    # Branches: hosts against waiting workloads; each condition excuses a pair.
    def _owed(self) -> Iterator[Violation]:
        """No team borrows what another one owns, which could use it now and waits."""
        for workload in (
            self._waiting() if self._shares.accounts or self._resources.pools else ()
        ):
            for host in self._facts.changed:
                if host.planned is None or host.pool is None or not host.placed:
                    continue
                offering = host.planned.offering
                unit = self._left.new_nodes(host.pool, offering, 1)
                borrower = min(host.placed)
                could = self._facts.needs(workload).fits_in(unit.free) and self._would_use(
                    workload, unit
                )
                owes = self._shares.owes(borrower, workload.key, offering.reservation_id)
                owes = owes or self._resources.owes(
                    borrower, workload, offering.capacity_type
                )
                if owes and could:
                    message = f"is on loan to {borrower} while {workload.key} waits for what its team owns"
                    yield Violation(
                        ViolationCode.TEAM_OWED, host.subject, message, tuple(host.placed)
                    )

    def _waiting(self) -> list[Workload]:
        facts = self._facts
        keys = {
            refusal.workload_key
            for refusal in facts.plan.unplaced
            if refusal.code is not ReasonCode.OUT_OF_TIME
        }
        for host in facts.changed:
            if host.is_bought:
                keys.update(host.placed)
        found = (facts.workloads[key] for key in sorted(keys) if key in facts.workloads)
        return [item for item in found if item.gang is None and not self._is_bound(item)]

    def _would_fit(self, host: Host, workload: Workload) -> bool:
        facts = self._facts
        launch, pool = host.planned, host.pool
        assert launch is not None
        assert pool is not None
        kept = {
            key: count
            for key, count in host.placed.items()
            if facts.workloads[key].priority >= workload.priority
        }
        load = facts.load({**kept, workload.key: kept.get(workload.key, 0) + 1})
        if not load.fits_in(host.allocatable) or self._below_floor(load, host.allocatable):
            return False
        unit = self._left.new_nodes(pool, launch.offering, 1)
        site = facts.site(host)
        fits = facts.together(
            site.description, site.undefined, (*sorted(kept), workload.key)
        )
        return fits and self._would_use(workload, unit)

    def _would_use(self, workload: Workload, unit: OpenNodes) -> bool:
        """Whether a replica that waits may have the unit, and one that is paid for would sooner be on it."""
        is_waiting = workload.key in self._unplaced
        return self._may_have(workload, unit) and (
            is_waiting or self._prefers_nothing_else(workload, unit)
        )
