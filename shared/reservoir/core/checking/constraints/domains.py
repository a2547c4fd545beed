"""Topology domains: which node is in which, and which exist at all."""

from collections.abc import Iterable, Sequence
from typing import Final

from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.checking.final_state.place_facts import Place
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.workload import TopologySpreadConstraint, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.taint import Toleration, binding_taints

_OF_OFFERINGS: Final = frozenset({labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE})


def domain_of(host: Host, key: str) -> str | None:
    """Return the host's value of a topology key; a host is its own hostname. None: it has none (yet)."""
    return host.name if key == labels.HOSTNAME else host.labels.get(key)


class Domains:
    """The values of topology keys that nodes have or could have."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._existing: dict[str, frozenset[str]] = {}
        self._universes: dict[tuple[object, ...], frozenset[str]] = {}
        self._all_offered: dict[str, frozenset[str]] = {}
        self._open_pools: dict[tuple[Toleration, ...], Sequence[NodePool]] = {}

    def universe(
        self, carrier: Workload, constraint: TopologySpreadConstraint, *, only_hosting: bool
    ) -> frozenset[str]:
        """Return the domains over which a spread is measured (R-62): of pools and types, and of existing nodes.

        With ``only_hosting`` a domain without nodes counts only if something there could hold a replica of the carrier.
        The true set lies between the two: fewer domains raise the minimum and allow more.
        """
        facts, key = self._facts, constraint.topology_key
        is_wide = not only_hosting and not constraint.node_affinity_policy_honor
        known = (
            key,
            facts.placement_class(carrier),
            facts.needs(carrier),
            only_hosting,
            is_wide,
        )
        if known not in self._universes:
            existing = self._of_nodes(key)
            values = sorted(self._offered(key) | existing)
            if not is_wide:
                values = [value for value in values if self._accepts(carrier, key, value)]
            if only_hosting:
                values = [
                    value
                    for value in values
                    if value in existing or self._hosts(carrier, key, value)
                ]
            self._universes[known] = frozenset(values)
        return self._universes[known]

    def _of_nodes(self, topology_key: str) -> frozenset[str]:
        """Return the values that nodes have which stay; never asked of hosts."""
        if topology_key not in self._existing:
            staying = [
                node.labels.get(topology_key)
                for node in self._facts.snapshot.nodes
                if not node.deleting
            ]
            self._existing[topology_key] = frozenset(
                [value for value in staying if value is not None]
            )
        return self._existing[topology_key]

    def _accepts(self, carrier: Workload, topology_key: str, value: str) -> bool:
        """Whether some alternative of the carrier's requirements, and its markets, allow the value."""
        if topology_key == labels.CAPACITY_TYPE and value not in self._facts.markets(
            carrier
        ):
            return False
        return any(term[topology_key].has(value) for term in self._facts.terms(carrier))

    def _offered(self, topology_key: str) -> frozenset[str]:
        """Return the values that new nodes of any pool could have."""
        if topology_key not in self._all_offered:
            facts = self._facts
            found: set[str] = set()
            for pool in facts.snapshot.node_pools:
                for name, places in facts.ever_offered(pool):
                    found.update(self._values(topology_key, facts.types[name], places))
                if (
                    topology_key not in _OF_OFFERINGS
                    and not pool.requirements[topology_key].complement
                ):
                    found.update(pool.requirements[topology_key].values)
            self._all_offered[topology_key] = frozenset(found)
        return self._all_offered[topology_key]

    def _hosts(self, carrier: Workload, topology_key: str, value: str) -> bool:
        """Whether some new node with this value could hold one replica of the carrier."""
        facts, needs = self._facts, self._facts.needs(carrier)
        for pool in self._open_to(carrier):
            for name, places in facts.open_places(pool).items():
                instance_type = facts.launched_as(pool, name)
                if not needs.fits_in(instance_type.allocatable):
                    continue
                for place in places:
                    is_there = topology_key not in _OF_OFFERINGS
                    is_there = is_there or value in self._values(
                        topology_key, instance_type, (place,)
                    )
                    if is_there and facts.accepts(pool, name, (place,), carrier):
                        return True
        return False

    def _open_to(self, carrier: Workload) -> Sequence[NodePool]:
        """Return the pools whose taints the carrier tolerates."""
        known = self._open_pools.get(carrier.tolerations)
        if known is None:
            known = self._open_pools[carrier.tolerations] = [
                pool
                for pool in self._facts.snapshot.node_pools
                if self._facts.tolerates(
                    binding_taints(pool.taints, pool.startup_taints, initialized=False),
                    carrier,
                )
            ]
        return known

    def _values(
        self, topology_key: str, instance_type: InstanceType, places: Iterable[Place]
    ) -> Iterable[str]:
        """Return the values that nodes of the type in these places have."""
        if topology_key == labels.ZONE:
            return {place.zone for place in places}
        if topology_key == labels.ZONE_ID:
            return {place.zone_id for place in places}
        if topology_key == labels.CAPACITY_TYPE:
            return {str(place.capacity_type) for place in places}
        requirement = instance_type.requirements[topology_key]
        return () if requirement.complement else requirement.values
