"""What teams have: units of reservations, capacity that was bought for them, waiting work."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reservoir.core.history.sample import (
    MILLI_UNITS,
    BoughtSample,
    PendingForReason,
    ReservationSample,
    TeamSample,
)
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.money import split
from reservoir.core.sharing.quota_groups import quota_groups, users_of

_NOBODY: Final = ""


def measure_teams(
    teams: Sequence[Team],
    claims: Iterable[NodeClaim],
    workloads: Mapping[str, Workload],
    waiting: Iterable[PendingForReason],
    bought: Iterable[BoughtSample],
) -> Iterator[TeamSample]:
    """Yield what each team has, by name; ``workloads``, by key, are those on the claims.

    A unit counts whole, for the team that uses most of it, as quotas count it.
    """
    owners = {namespace: team.name for namespace, team in by_namespace(teams).items()}
    nodes = tuple(node_of(claim, workloads) for claim in claims)
    used = Counter(
        users_of(
            Snapshot((), nodes=nodes, workloads=workloads, teams=tuple(teams))
        ).values()
    )
    paid: Counter[str] = Counter()
    for each in bought:
        paid[_owner(owners, each.workload_key)] += each.micro_usd_per_hour
    waits: Counter[str] = Counter()
    for pending in waiting:
        waits[_owner(owners, pending.workload_key)] += pending.replica_count
    for team in sorted(teams, key=lambda team: team.name):
        owned = sum(quota.nominal_units for quota in team.quotas)
        yield TeamSample(
            team.name, owned, used[team.name], paid[team.name], waits[team.name]
        )


def with_owners(
    found: Sequence[ReservationSample],
    teams: Sequence[Team],
    reservations: Sequence[CapacityReservation],
    claims: Iterable[NodeClaim],
    workloads: Mapping[str, Workload],
) -> tuple[ReservationSample, ...]:
    """Return the reservations with the owners of their free units.

    Free units under one quota belong to the teams that use less than they own, to each as many as it has left; further
    free units belong to no team.
    """
    nodes = tuple(node_of(claim, workloads) for claim in claims)
    snapshot = Snapshot(
        (),
        reservations=tuple(reservations),
        nodes=nodes,
        workloads=workloads,
        teams=tuple(teams),
    )
    owned: dict[str, Mapping[str, int]] = {}
    for group in quota_groups(snapshot):
        left = {
            name: max(0, group.nominal(name) - group.used.get(name, 0))
            for name in sorted(group.quotas)
        }
        ids = {reservation.id for reservation in group.reservations}
        free = sum(each.free_count for each in found if each.id in ids)
        left[_NOBODY] = max(0, free - sum(left.values()))
        owned |= dict.fromkeys(ids, left)
    return tuple(_with_owner(each, owned.get(each.id, {_NOBODY: 1})) for each in found)


def _with_owner(found: ReservationSample, left: Mapping[str, int]) -> ReservationSample:
    if not found.free_count:
        return found
    shares = split(found.free_count * MILLI_UNITS, left.values())
    by_team = {name: share for name, share in zip(left, shares, strict=True) if share}
    return replace(found, free_milli_units=by_team)


def _owner(owners: Mapping[str, str], workload_key: str) -> str:
    return owners.get(workload_key.partition("/")[0], "")
