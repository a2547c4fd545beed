"""Whether reserved units went to the right replicas: to higher priorities first, and to teams what they own."""

from collections.abc import Iterator

from reservoir.core.checking.final_state.facts import Host
from reservoir.core.checking.residual.leftovers import Leftovers
from reservoir.core.checking.residual.open_nodes import OpenNodes
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.workload import Workload


class HeldUnitsCheck:
    """Judges who holds the reserved units of a plan, against those who wait or are on bought nodes."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._facts = leftovers.facts

    def violations(self) -> Iterator[Violation]:
        """Report units that are on loan while their owner waits, and units held by a lower priority."""
        yield from self._owed_to_teams()
        yield from self._priority_inversions()

    # Branches: hosts against waiting workloads; each condition excuses a pair.
    def _priority_inversions(self) -> Iterator[Violation]:
        """No replica holds a reserved unit that one of a higher priority, bought for or waiting, could use."""
        facts = self._facts
        pending_priorities = {
            alike.first.priority
            for alike in facts.workload_classes
            if not facts.pending.keys().isdisjoint(alike.workloads)
        }
        if len(pending_priorities) < 2:
            return
        waiting = self._waiting()
        for host in facts.changed:
            if host.planned is None or host.is_bought or not host.placed:
                continue
            held = (facts.workloads[key] for key in host.placed if key in facts.workloads)
            lowest = min(workload.priority for workload in held)
            for workload in waiting:
                if workload.priority <= lowest or self._is_matter_of_teams(host, workload):
                    continue
                if self._would_fit(host, workload):
                    message = f"holds priority {lowest} while {workload.key} ({workload.priority}) could use it"
                    yield Violation(
                        ViolationCode.PRIORITY_INVERSION,
                        host.subject,
                        message,
                        tuple(host.placed),
                    )
                    break

    def _is_matter_of_teams(self, host: Host, workload: Workload) -> bool:
        """Whether quotas or owners, and not priority, decide between the unit's replicas and the workload."""
        assert host.planned is not None
        shares, resources = self._leftovers.shares, self._leftovers.resources
        is_bounded = resources.bounds(workload, CapacityType.RESERVED)
        reservation_id = host.planned.offering.reservation_id
        return is_bounded or shares.is_between_teams(
            host.placed, workload.key, reservation_id
        )

    def _owed_to_teams(self) -> Iterator[Violation]:
        """No team borrows what another one owns, which could use it now and waits."""
        if not (self._leftovers.shares.accounts or self._leftovers.resources.pools):
            return
        for workload in self._waiting():
            for host in self._facts.changed:
                if host.planned is None or host.pool is None or not host.placed:
                    continue
                if self._is_owed(host, workload):
                    borrower = min(host.placed)
                    message = f"is on loan to {borrower} while {workload.key} waits for what its team owns"
                    yield Violation(
                        ViolationCode.TEAM_OWED, host.subject, message, tuple(host.placed)
                    )

    def _is_owed(self, host: Host, workload: Workload) -> bool:
        """Whether the workload's team owns what the node holds, and the workload could use it."""
        assert host.planned is not None
        assert host.pool is not None
        offering = host.planned.offering
        borrower = min(host.placed)
        owes_units = self._leftovers.shares.owes(
            borrower, workload.key, offering.reservation_id
        )
        owes_quota = self._leftovers.resources.owes(
            borrower, workload, offering.capacity_type
        )
        if not (owes_units or owes_quota):
            return False
        unit = self._leftovers.room.new_nodes(host.pool, offering, 1)
        fits = self._facts.needs(workload).fits_in(unit.free)
        return fits and self._would_use(workload, unit)

    def _waiting(self) -> list[Workload]:
        """Return the workloads that wait or were bought for, without gangs and those that a topology rule concerns."""
        facts = self._facts
        keys = {
            refusal.workload_key
            for refusal in facts.plan.unplaced
            if refusal.code is not ReasonCode.OUT_OF_TIME
        }
        for host in facts.changed:
            if host.is_bought:
                keys.update(host.placed)
        workloads = (facts.workloads[key] for key in sorted(keys) if key in facts.workloads)
        return [item for item in workloads if not self._leftovers.is_held(item)]

    def _would_fit(self, host: Host, workload: Workload) -> bool:
        """Whether the workload could be on the node in the place of the replicas of lower priorities."""
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
        if not load.fits_in(host.allocatable):
            return False
        if self._leftovers.is_below_floor(load, host.allocatable):
            return False
        site = facts.site(host)
        keys = (*sorted(kept), workload.key)
        if not facts.together(site.description, site.undefined, keys):
            return False
        unit = self._leftovers.room.new_nodes(pool, launch.offering, 1)
        return self._would_use(workload, unit)

    def _would_use(self, workload: Workload, unit: OpenNodes) -> bool:
        """Whether a waiting replica may have the unit; one that is bought for must also prefer nothing else."""
        is_waiting = workload.key in self._leftovers.unplaced
        return self._leftovers.may_have(workload, unit) and (
            is_waiting or self._leftovers.has_all_it_prefers(workload, unit)
        )
