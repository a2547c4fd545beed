"""What a plan leaves for one replica more: nodes with room, free units, and what could still be bought."""

from collections import Counter
from collections.abc import Iterator

from reservoir.core.checking.constraints.spread import domains_of
from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.checking.final_state.offering_facts import in_words
from reservoir.core.checking.final_state.place_facts import place_of
from reservoir.core.checking.residual.open_nodes import OpenNodes, wants_many
from reservoir.core.checking.team_resources import TeamResources
from reservoir.core.checking.team_shares import TeamShares
from reservoir.core.checking.totals import pool_use, used_units
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.policy import NoDurationPolicy
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources, counted
from reservoir.core.scheduling_terms.taint import binding_taints, tolerates_all

_UNLIMITED = 10**9


class RoomLeft:
    """The final state's free room: its size and which replicas may have it, without topology.

    ``free_units`` by reservation id.
    """

    def __init__(self, facts: Facts, shares: TeamShares, resources: TeamResources) -> None:
        self._facts, self._shares, self._resources = facts, shares, resources
        used = used_units(facts)
        self.free_units = {
            item.id: max(0, item.free_units - used[item.id])
            for item in facts.snapshot.reservations
        }
        self._uses: dict[str, Counter[str]] = {}
        self._open: dict[str, tuple[OfferingKey, ...]] = {}
        self._free: list[tuple[Host, Resources]] | None = None

    def within_limits(self, pool: NodePool, key: OfferingKey, freed: Counter[str]) -> bool:
        """Whether one more such node stays within the pool's limits, once ``freed`` is given back."""
        if pool.limits is None:
            return True
        if pool.name not in self._uses:
            self._uses[pool.name] = pool_use(self._facts, pool.name, with_deleting=True)
        use = self._uses[pool.name]
        capacity = self._facts.launched_as(pool, key.instance_type).capacity
        return all(
            use[name] - freed[name] + counted(capacity, name) <= limit
            for name, limit in pool.limits.items()
        )

    def may_run(self, workload: Workload, room: OpenNodes) -> bool:
        """Whether one replica may be in the room, size and topology apart."""
        facts = self._facts
        reservation_id = None if room.key is None else room.key.reservation_id
        reservation = facts.reservations.get(reservation_id or "")
        drain = None if reservation is None else reservation.block_drain()
        if drain is not None and facts.policy.no_duration_policy is NoDurationPolicy.AVOID:
            return False
        return (
            room.capacity_type in facts.markets(workload)
            and not facts.outlasts(workload, drain)
            and facts.together(
                room.description, room.undefined, (*room.carried, workload.key)
            )
        )

    def tolerates(self, workload: Workload, pool: NodePool) -> bool:
        """Whether a replica may be on a new node of the pool, as far as taints say."""
        taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
        return tolerates_all(taints, workload.tolerations) is None

    def _launchable(self, *, reserved: bool, workload: Workload) -> Iterator[OpenNodes]:
        """Yield nodes that could still be launched for the workload: free units, or what can be bought."""
        facts, needs = self._facts, self._facts.needs(workload)
        for pool in facts.snapshot.node_pools:
            if not self.tolerates(workload, pool):
                continue
            if not self._shares.may_use(workload.key, pool.name):
                continue
            for key in self._still_open(pool):
                if (key.capacity_type is CapacityType.RESERVED) is not reserved:
                    continue
                launched = facts.launched_as(pool, key.instance_type)
                if not needs.fits_in(launched.allocatable):
                    continue
                if not facts.accepts(pool, key.instance_type, (place_of(key),), workload):
                    continue
                units = self._units_for(workload, key)
                if units > 0:
                    yield self.new_nodes(pool, key, units if pool.limits is None else 1)

    def _units_for(self, workload: Workload, key: OfferingKey) -> int:
        """Return how many units of an offering are free, and open to the workload's team."""
        free_units = _UNLIMITED
        if key.reservation_id is not None:
            free_units = self.free_units[key.reservation_id]
        return min(free_units, self._shares.open_units(workload.key, key.reservation_id))

    def _still_open(self, pool: NodePool) -> tuple[OfferingKey, ...]:
        """Return what limits and units still let be launched for the pool."""
        if pool.name not in self._open:
            self._open[pool.name] = tuple(
                key
                for key in self._facts.open_offerings(pool)
                if (key.reservation_id is None or self.free_units[key.reservation_id] > 0)
                and self.within_limits(pool, key, Counter())
            )
        return self._open[pool.name]

    def new_nodes(self, pool: NodePool, key: OfferingKey, units: int) -> OpenNodes:
        """Return so many nodes of the offering, empty."""
        description = self._facts.description(pool, key)
        assert description is not None
        return OpenNodes(
            subject=in_words(key),
            units=units,
            free=self._facts.launched_as(pool, key.instance_type).allocatable,
            description=description,
            undefined=labels.WELL_KNOWN,
            carried=(),
            capacity_type=key.capacity_type,
            domains=domains_of(description.labels(), "a new node"),
            pool=pool,
            key=key,
        )

    # Branches: one filter after the other over the hosts; what passes is described once.
    def _hosting(self, workload: Workload) -> Iterator[OpenNodes]:
        """Yield the hosts of the final state on which one more replica has the resources and tolerates the taints."""
        facts = self._facts
        needs = self._facts.needs(workload)
        owns = self._shares.buys_its_own(workload)
        for host, free in self._free_on_hosts():
            if owns and host.is_bought:
                continue
            if not self._shares.may_use(workload.key, host.pool_name):
                continue
            # one of these two is nearly always short: they are compared first, because that is fast
            if free["cpu"] < needs["cpu"] or free["memory"] < needs["memory"]:
                continue
            if not needs.fits_in(free):
                continue
            node, launch = host.node, host.planned
            if node is None and wants_many(host.pool):
                continue
            # whether it may join a node that will drain depends on more than the free room
            if node is not None and (node.drain_at is not None or host.pool is None):
                continue
            if tolerates_all(facts.site(host).taints, workload.tolerations) is None:
                yield OpenNodes(
                    subject=host.subject,
                    units=host.nodes,
                    free=free,
                    description=facts.site(host).description,
                    undefined=facts.site(host).undefined,
                    carried=tuple(sorted(host.placed)),
                    capacity_type=host.capacity_type,
                    domains=domains_of(host.labels, host.name),
                    key=None if launch is None else launch.offering,
                )

    def _free_on_hosts(self) -> list[tuple[Host, Resources]]:
        if self._free is None:
            facts = self._facts
            self._free = [
                (host, host.allocatable - host.used - facts.load(host.placed))
                for host in facts.hosts
            ]
        return self._free

    def nodes_for(self, workload: Workload) -> Iterator[OpenNodes]:
        """Yield everything that could still take a replica of the workload (all of a gang), topology apart."""
        for room in self._whatever_its_quota(workload):
            if self._resources.is_open(workload, room.capacity_type):
                yield room

    def _whatever_its_quota(self, workload: Workload) -> Iterator[OpenNodes]:
        """Yield the same, also where a quota of resources leaves its team nothing."""
        for room in self._hosting(workload):
            if self.may_run(workload, room):
                yield room
        for room in self._launchable(reserved=True, workload=workload):
            if not wants_many(room.pool) and self.may_run(workload, room):
                yield room
        yield from self.bought_for(workload)

    def bought_for(self, workload: Workload) -> Iterator[OpenNodes]:
        """Yield what could still be bought for the workload, where no share of spot pools or team may object."""
        if self._shares.buys_its_own(workload):
            return
        for room in self._launchable(reserved=False, workload=workload):
            is_shared = (
                room.capacity_type is CapacityType.SPOT
                and self._facts.policy.spot_pool_share_percent < 100
            )
            if not is_shared and not wants_many(room.pool) and self.may_run(workload, room):
                yield room

    def free_reserved(self) -> Iterator[OpenNodes]:
        """Yield the free units of reservations, once for each pool that may launch into them."""
        for pool in self._facts.snapshot.node_pools:
            for key in self._facts.open_reserved(pool):
                free_units = self.free_units[key.reservation_id or ""]
                if free_units > 0:
                    yield self.new_nodes(pool, key, free_units)
