"""Rule 3: nothing is bought for replicas that could run on free reserved units; and the floor that bounds this rule."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reservoir.core.checking.final_state.facts import Host
from reservoir.core.checking.residual.leftovers import Leftovers
from reservoir.core.checking.residual.open_nodes import OpenNodes
from reservoir.core.checking.residual.splitting import can_split
from reservoir.core.checking.totals import node_use
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels

# Topology keys whose counts stay the same if a whole node is replaced by one of the same zone.
_KEYS_OF_PLACE = frozenset({labels.ZONE, labels.ZONE_ID, labels.HOSTNAME, ""})


class PaidWhileFreeCheck:
    """Judges what is bought beside free units, and what holds a reserved unit for too little."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._facts = leftovers.facts

    def violations(self) -> Iterator[Violation]:
        """Report nodes that are bought although their replicas fit on free units, and units held below the floor."""
        yield from self._bought_beside_free_units()
        yield from self._below_the_floor()

    def _bought_beside_free_units(self) -> Iterator[Violation]:
        units = list(self._leftovers.room.free_reserved())
        if not units:
            return
        able: dict[str, frozenset[int]] = {}  # indices of units, by workload
        for host in self._facts.changed:
            if not host.is_bought or not host.placed:
                continue
            for key in host.placed:
                if key not in able:
                    able[key] = frozenset(self._able(self._facts.workloads[key], units))
            if all(able[key] for key in host.placed):
                yield from self._could_be_free(host, units, able)

    def _able(self, workload: Workload, units: Sequence[OpenNodes]) -> Iterator[int]:
        """Yield the indices of the units on which one replica could run alone."""
        needs = self._facts.needs(workload)
        shares = self._leftovers.shares
        if self._leftovers.resources.bounds(workload, CapacityType.RESERVED):
            return
        for index, unit in enumerate(units):
            is_open = (
                unit.key is None
                or shares.open_units(workload.key, unit.key.reservation_id) > 0
            )
            if (
                is_open
                and needs.fits_in(unit.free)
                and self._leftovers.may_have(workload, unit)
                and self._leftovers.has_all_it_prefers(workload, unit)
            ):
                yield index

    def _could_be_free(
        self, host: Host, units: Sequence[OpenNodes], able: Mapping[str, frozenset[int]]
    ) -> Iterator[Violation]:
        """Report a bought node whose replicas could all run on one free unit, or be split over several."""
        able_all = frozenset.intersection(*(able[key] for key in host.placed))
        for index in sorted(able_all):
            if self._takes_over(host, units[index]):
                yield _paid_while_free(host, f"could run on free {units[index].subject}")
                return
        if self._has_held_replicas(host):
            return
        if can_split(self._facts, host, units, able, self._leftovers.room.free_units):
            yield _paid_while_free(host, "could be split over units left free")

    def _takes_over(self, host: Host, unit: OpenNodes) -> bool:
        """Whether all replicas of the node fit on the unit together, and every rule lets them go there."""
        assert unit.pool is not None
        assert unit.key is not None
        load = self._facts.load(host.placed)
        if not load.fits_in(unit.free) or self._leftovers.is_below_floor(load, unit.free):
            return False
        keys = tuple(sorted(host.placed))
        if not self._facts.together(unit.description, unit.undefined, keys):
            return False
        if self._has_held_replicas(host) and not self._same_place(host, unit):
            return False
        freed = self._freed(host, unit.pool)
        return self._leftovers.room.within_limits(unit.pool, unit.key, freed)

    def _has_held_replicas(self, host: Host) -> bool:
        workloads = (self._facts.workloads[key] for key in host.placed)
        return any(self._leftovers.is_held(workload) for workload in workloads)

    def _same_place(self, host: Host, unit: OpenNodes) -> bool:
        """Whether moving a whole node there changes no count by zone or host, and no other topology key is in use."""
        keys: set[str] = set()
        for workload in self._facts.workloads.values():
            keys.update(spread.topology_key for spread in workload.topology_spread)
            keys.update(term.topology_key for term in workload.affinity)
            keys.update(term.topology_key for term in workload.anti_affinity)
            keys.add(workload.single_topology_key or "")
        zone_id = host.labels.get(labels.ZONE_ID)
        return keys <= _KEYS_OF_PLACE and zone_id == unit.domains.get(labels.ZONE_ID)

    def _freed(self, host: Host, pool: NodePool) -> Counter[str]:
        """Return the part of the pool's limits that the node would give back."""
        launch = host.planned
        if launch is None or launch.node_pool_name != pool.name:
            return Counter()
        launched = self._facts.launched_as(pool, launch.offering.instance_type)
        return node_use(launched.capacity)

    def _below_the_floor(self) -> Iterator[Violation]:
        """No reserved unit is launched for less than the policy's floor if all that it holds could be bought."""
        if not self._facts.policy.reserved_floor_percent:
            return
        for host in self._facts.changed:
            if host.planned is None or host.is_bought or not host.placed:
                continue
            load = self._facts.load(host.placed)
            if not self._leftovers.is_below_floor(load, host.allocatable):
                continue
            workloads = (self._facts.workloads[key] for key in host.placed)
            if all(map(self._is_buyable, workloads)):
                message = "holds less than the floor, and all of it could be bought"
                yield Violation(
                    ViolationCode.BELOW_FLOOR, host.subject, message, tuple(host.placed)
                )

    def _is_buyable(self, workload: Workload) -> bool:
        """Whether a replica certainly has a place that is bought, whatever else it prefers or others insist on."""
        is_capped = workload.max_price_micro_usd_per_hour is not None
        if is_capped or workload.preferred_node_terms or self._leftovers.is_held(workload):
            return False
        return any(
            self._leftovers.resources.is_open(workload, room.capacity_type)
            for room in self._leftovers.room.bought_for(workload)
        )


def _paid_while_free(host: Host, message: str) -> Violation:
    return Violation(
        ViolationCode.PAID_WHILE_FREE, host.subject, message, tuple(host.placed)
    )
