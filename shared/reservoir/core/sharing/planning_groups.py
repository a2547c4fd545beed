"""Which NodePools have nothing to do with each other, so that their demand may be planned side by side.

Pools are of one group if they share anything that a plan counts: a reservation, what teams own together, a budget, the
deployment's ceiling. Demand that may run on pools of several groups, or whose topology rules concern demand of others,
joins them for as long as it waits.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.capacity.reservation_selection import matches
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.model.workload import NO_REQUIREMENTS, Workload
from reservoir.core.scheduling_terms.labels import NODE_POOL, WELL_KNOWN
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.taint import TaintEffect, binding_taints, untolerated

# Each is a planner of its own at most, and a row of each transaction that concerns it. Further groups are one.
GROUPS_MAX: Final = 16
# So many workloads are planned, column generation and all, in 0.1 to 0.3 s of processor time. To hand them
# on costs a message, and for each group but one a planner that begins: 0.7 s.
PLANNED_AT_ONCE_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class PlanningTurn:
    """How many commits of plans for a group there were, and when the last one was made."""

    number: int = 0
    taken_at: datetime | None = None


def planning_turn_row(group_key: str) -> str:
    """Return the key of the row that keeps a group's turn."""
    return f"planning-turn {group_key}"


@dataclass(frozen=True, slots=True)
class PlanningGroup:
    """Pools that are planned together. ``parts`` are the groups that policy alone makes of them."""

    node_pools: frozenset[str]
    parts: tuple[str, ...]
    workload_keys: frozenset[str] = frozenset()  # of the demand that made the groups

    @property
    def key(self) -> str:
        """The group's name: the first of its pools."""
        return self.parts[0]


class PlanningGroups:
    """The groups of pools, and which demand belongs to which."""

    def __init__(
        self,
        pools: Sequence[NodePool],
        classes: Iterable[NodeClass],
        reservations: Sequence[CapacityReservation],
        teams: Sequence[Team],
        *,
        has_ceiling: bool,
    ) -> None:
        self._pools = sorted(pools, key=lambda pool: pool.name)
        self._teams = by_namespace(teams)
        self._eligible: dict[object, frozenset[str]] = {}
        links = _Links([pool.name for pool in self._pools])
        for names in _sharing(self._pools, classes, reservations, teams):
            links.join(names)
        if has_ceiling:
            links.join([pool.name for pool in self._pools])
        beyond = links.parts()[GROUPS_MAX - 1 :]
        links.join(chain.from_iterable(beyond))
        self._parts = links.parts()
        self._part_of: dict[str, str] = {}
        for part in self._parts:
            self._part_of.update(dict.fromkeys(part, part[0]))

    @property
    def are_several(self) -> bool:
        """Whether policy leaves more than one group."""
        return len(self._parts) > 1

    def of_demand(self, demand: Iterable[Workload]) -> tuple[PlanningGroup, ...]:
        """Return the groups in order of their keys, joined as the waiting demand needs it.

        Demand that no pool accepts belongs to the first group, which says why it waits.
        """
        workloads = list(demand)
        links = _Links([part[0] for part in self._parts])
        for workload in workloads:
            links.join(self.parts_of(workload))
        for one, others in _tied(workloads):
            for other in others:
                links.join([*self.parts_of(one), *self.parts_of(other)])
        members: dict[str, set[str]] = {}
        for workload in workloads:
            members.setdefault(links.root(self.parts_of(workload)[0]), set()).add(
                workload.key
            )
        groups: list[PlanningGroup] = []
        for parts in links.parts():
            pools = frozenset(name for name, part in self._part_of.items() if part in parts)
            workloads_of_group = frozenset(members.get(links.root(parts[0]), ()))
            groups.append(PlanningGroup(pools, tuple(parts), workloads_of_group))
        return tuple(groups)

    def parts_of(self, workload: Workload) -> Sequence[str]:
        """Return the keys of the groups, as policy makes them, that the workload may run in; at least one."""
        found = sorted({self._part_of[name] for name in self._accepting(workload)})
        return found or [self._parts[0][0]]

    def _accepting(self, workload: Workload) -> frozenset[str]:
        """Return the pools whose nodes the workload may run on, whatever they have room for."""
        team = self._teams.get(workload.namespace)
        of_team = () if team is None else team.node_pools
        wanted = (
            workload.node_selector,
            workload.required_node_terms,
            workload.tolerations,
            of_team,
        )
        if wanted not in self._eligible:
            self._eligible[wanted] = frozenset(
                pool.name
                for pool in self._pools
                if (not of_team or pool.name in of_team) and _accepts(pool, workload)
            )
        return self._eligible[wanted]


def _accepts(pool: NodePool, workload: Workload) -> bool:
    taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
    if any(
        taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        for taint in untolerated(taints, workload.tolerations)
    ):
        return False
    described = pool.requirements.add(Requirement.new(NODE_POOL, Operator.IN, (pool.name,)))
    return any(
        described.admits(workload.node_selector.merged(term), WELL_KNOWN)
        for term in workload.required_node_terms or (NO_REQUIREMENTS,)
    )


# Branches: one cause of sharing after the other; each yields the pools that it ties.
def _sharing(
    pools: Sequence[NodePool],
    classes: Iterable[NodeClass],
    reservations: Sequence[CapacityReservation],
    teams: Sequence[Team],
) -> Iterator[Collection[str]]:
    """Yield names of pools that something has to be counted for together."""
    units = {reservation.id: reservation.unit_key for reservation in reservations}
    of_class: dict[str, list[str]] = {}
    for pool in pools:
        of_class.setdefault(pool.node_class_name, []).append(pool.name)
    users: dict[str, list[str]] = {}  # of each reservation
    for node_class in classes:
        for reservation_id in node_class.status.reservation_ids:
            key = units.get(reservation_id, reservation_id)
            users.setdefault(key, []).extend(of_class.get(node_class.name, ()))
    yield from users.values()
    names = [pool.name for pool in pools]
    cohorts: dict[str, set[str]] = {}
    for team in teams:
        own = [name for name in names if not team.node_pools or name in team.node_pools]
        if (
            team.budget_micro_usd_per_hour is not None
            or team.budget_micro_usd_per_month is not None
        ):
            yield own
        if team.resource_quotas:
            cohorts.setdefault(team.cohort, set()).update(own)
        for unit_key in _owned(team, reservations):
            cohorts.setdefault(team.cohort, set()).update(users.get(unit_key, ()))
    yield from cohorts.values()


def _owned(team: Team, reservations: Sequence[CapacityReservation]) -> Iterator[str]:
    """Yield the units for which the team has quotas."""
    groups: dict[str, set[str]] = {}
    for reservation in reservations if team.quotas else ():
        for arn in reservation.resource_group_arns:
            groups.setdefault(arn, set()).add(reservation.id)
    members: Mapping[str, frozenset[str]] = {
        arn: frozenset(ids) for arn, ids in groups.items()
    }
    terms = list(chain.from_iterable(quota.reservation_terms for quota in team.quotas))
    for reservation in reservations:
        if any(matches(term, reservation, members) for term in terms):
            yield reservation.unit_key


def _tied(workloads: Sequence[Workload]) -> Iterator[tuple[Workload, Iterable[Workload]]]:
    """Yield workloads with others that their topology rules count, one of each kind."""
    looks: dict[object, Workload] = {}
    carriers: dict[object, Workload] = {}
    for workload in workloads:
        labels = tuple(sorted(workload.labels.items()))
        accepted = (
            workload.node_selector,
            workload.required_node_terms,
            workload.tolerations,
        )
        looks.setdefault((workload.namespace, labels, accepted), workload)
        rules = (workload.topology_spread, workload.affinity, workload.anti_affinity)
        if any(rules):
            carriers.setdefault((workload.namespace, labels, accepted, rules), workload)
    for carrier in carriers.values():
        yield carrier, [other for other in looks.values() if _counts(carrier, other)]


def _counts(carrier: Workload, other: Workload) -> bool:
    """Whether a topology rule of ``carrier`` counts ``other``."""
    at_home: Collection[str] = (carrier.namespace,)
    rules = [(spread.selector, at_home) for spread in carrier.topology_spread]
    for term in (*carrier.affinity, *carrier.anti_affinity):
        rules.append((term.selector, term.namespaces or at_home))
    return any(
        other.namespace in namespaces and selector.matches(other.labels)
        for selector, namespaces in rules
    )


class _Links:
    """Names, some of which are joined."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: str) -> str:
        """Return the first of the names that the name is joined with."""
        while self._parent[name] != name:
            name = self._parent[name]
        return name

    def join(self, names: Iterable[str]) -> None:
        """Join names with each other and all that they are joined with."""
        roots = sorted({self.root(name) for name in names})
        for root in roots[1:]:
            self._parent[root] = roots[0]

    def parts(self) -> list[list[str]]:
        """Return the joined names together, everything sorted."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._parent):
            found.setdefault(self.root(name), []).append(name)
        return list(found.values())
