"""Which NodePools have nothing to do with each other, so that their demand may be planned side by side.

Pools are of one group if they share anything that a plan counts: a reservation, what teams own together, a budget, the
deployment's ceiling. Demand that may run on pools of several groups, or whose topology rules concern demand of others,
joins them for as long as it waits.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reservoir.core.capacity.reservation_selection import matches
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.model.workload import NO_REQUIREMENTS, LabelSelector, Workload
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
        parts = links.parts()
        links.join([name for part in parts[GROUPS_MAX - 1 :] for name in part])
        self._parts = links.parts()
        self._part_of = {name: part[0] for part in self._parts for name in part}

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
            members.setdefault(links.root(self.parts_of(workload)[0]), set()).add(workload.key)
        return tuple(
            PlanningGroup(
                frozenset(name for name, part in self._part_of.items() if part in parts),
                tuple(parts),
                frozenset(members.get(links.root(parts[0]), ())),
            )
            for parts in links.parts()
        )

    def parts_of(self, workload: Workload) -> Sequence[str]:
        """Return the keys of the groups, as policy makes them, that the workload may run in; at least one."""
        found = sorted({self._part_of[name] for name in self._accepting(workload)})
        return found or [self._parts[0][0]]

    def _accepting(self, workload: Workload) -> frozenset[str]:
        """Return the pools whose nodes the workload may run on, whatever they have room for."""
        team = self._teams.get(workload.namespace)
        of_team = () if team is None else team.node_pools
        wanted = (workload.node_selector, workload.required_node_terms, workload.tolerations, of_team)
        if wanted not in self._eligible:
            self._eligible[wanted] = frozenset(
                pool.name for pool in self._pools if (not of_team or pool.name in of_team) and _accepts(pool, workload)
            )
        return self._eligible[wanted]


def _accepts(pool: NodePool, workload: Workload) -> bool:
    taints = binding_taints(pool.taints, pool.startup_taints, initialized=False)
    if any(taint.effect is not TaintEffect.PREFER_NO_SCHEDULE for taint in untolerated(taints, workload.tolerations)):
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
        if team.budget_micro_usd_per_hour is not None or team.budget_micro_usd_per_month is not None:
            yield own
        if team.resource_quotas:
            cohorts.setdefault(team.cohort, set()).update(own)
        cohorts.setdefault(team.cohort, set()).update(
            name for key in _owned(team, reservations) for name in users.get(key, ())
        )
    yield from cohorts.values()


def _owned(team: Team, reservations: Sequence[CapacityReservation]) -> Iterator[str]:
    """Yield the units of which the team has quotas."""
    groups: dict[str, set[str]] = {}
    for reservation in reservations if team.quotas else ():
        for arn in reservation.resource_group_arns:
            groups.setdefault(arn, set()).add(reservation.id)
    members: Mapping[str, frozenset[str]] = {arn: frozenset(ids) for arn, ids in groups.items()}
    terms = [term for quota in team.quotas for term in quota.reservation_terms]
    for reservation in reservations:
        if any(matches(term, reservation, members) for term in terms):
            yield reservation.unit_key


def _tied(workloads: Sequence[Workload]) -> Iterator[tuple[Workload, Iterable[Workload]]]:
    """Yield workloads with others that their topology rules count, one of each kind."""
    looks: dict[object, Workload] = {}
    carriers: dict[object, Workload] = {}
    for workload in workloads:
        labels = tuple(sorted(workload.labels.items()))
        accepted = (workload.node_selector, workload.required_node_terms, workload.tolerations)
        looks.setdefault((workload.namespace, labels, accepted), workload)
        rules = (workload.topology_spread, workload.affinity, workload.anti_affinity)
        if any(rules):
            carriers.setdefault((workload.namespace, labels, accepted, rules), workload)
    for carrier in carriers.values():
        counts = [_counted(carrier, *rule) for rule in _rules(carrier)]
        yield carrier, [other for other in looks.values() if any(counted(other) for counted in counts)]


def _rules(workload: Workload) -> Iterator[tuple[LabelSelector, Collection[str]]]:
    """Yield what the workload's rules select, and in which namespaces."""
    yield from ((spread.selector, ()) for spread in workload.topology_spread)
    yield from ((term.selector, term.namespaces) for term in (*workload.affinity, *workload.anti_affinity))


def _counted(carrier: Workload, selector: LabelSelector, namespaces: Collection[str]) -> Callable[[Workload], bool]:
    looked_at = namespaces or (carrier.namespace,)
    return lambda other: other.namespace in looked_at and selector.matches(other.labels)


class _Links:
    """Names, some of which are joined."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: str) -> str:
        """Return the first of those that the name is joined with."""
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
