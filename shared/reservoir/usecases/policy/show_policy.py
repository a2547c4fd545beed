"""Policy objects with their status, in the form that can be applied again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.conditions import not_yet_looked_at
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import Plan
from reservoir.core.model.team import Team
from reservoir.core.serialisation.json_codec import loads
from reservoir.core.sharing.accounts import owners
from reservoir.core.static_pools.census import Census, census
from reservoir.core.static_pools.shortfall import (
    Shortfall,
    growth_decision_id,
    shortfall,
)
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.manifests.answers.render import in_field_order
from reservoir.manifests.answers.status import (
    QuotaUse,
    ResourceUse,
    TeamSpending,
    node_class_status,
    node_pool_status,
    team_status,
)
from reservoir.manifests.validate import KINDS
from reservoir.ports.accounts import AccountStore
from reservoir.ports.errors import AwsError
from reservoir.ports.history import DecisionStore
from reservoir.ports.policy import PolicyKind, PolicyObject, PolicyStore
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    ReservationStore,
    UnreadableRowsError,
    WorkloadStore,
)
from reservoir.ports.system import Clock
from reservoir.usecases.policy.policy_objects import paused_text, policy_of
from reservoir.usecases.policy.team_quotas import as_placed, quota_uses, resource_uses
from reservoir.usecases.policy.team_spending import spending


@dataclass(frozen=True, slots=True)
class ShowPolicy:
    """Reads policy objects and what discovery found about them."""

    store: PolicyStore
    reservations: ReservationStore
    node_claims: NodeClaimStore
    workloads: WorkloadStore
    clock: Clock
    accounts: AccountStore | None = None  # None: spending is not shown
    # read where a pool follows reservations; None: by names of types alone
    offerings: OfferingStore | None = None
    # read where a static pool lacks nodes; None: the reason is not shown
    decisions: DecisionStore | None = None

    def show(
        self, kind: PolicyKind | None = None, name: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the objects of a kind (None: all) and a name (None: all) as manifests with their status."""
        rows = [row for row in self.store.list_all() if row.is_readable]
        wanted = [
            row for row in rows if kind in (None, row.kind) and name in (None, row.name)
        ]
        kinds = {row.kind for row in wanted}
        teams: Sequence[Team] = ()
        if PolicyKind.TEAM in kinds:
            teams = policy_of(row for row in rows if row.kind is PolicyKind.TEAM).teams
        are_shared = any(team.quotas or team.resource_quotas for team in teams)
        reservations: dict[str, CapacityReservation] = {}
        pools = policy_of(row for row in rows if row.kind is not PolicyKind.TEAM)
        static = {pool.name: pool for pool in pools.node_pools if pool.is_static}
        follows_any = any(pool.all_reserved for pool in static.values())
        follows = follows_any and PolicyKind.NODE_POOL in kinds
        if PolicyKind.NODE_CLASS in kinds or are_shared or follows:
            records = self.reservations.list_current()
            reservations = {record.reservation.id: record.reservation for record in records}
        claims: Sequence[NodeClaim] = ()
        if PolicyKind.NODE_POOL in kinds or are_shared:
            claims = self.node_claims.list_live()
        uses: Mapping[str, Sequence[QuotaUse]] = {}
        amounts: Mapping[str, Sequence[ResourceUse]] = {}
        if are_shared:
            running, known = as_placed(claims, self.workloads)
            uses = quota_uses(teams, reservations.values(), running, known)
            amounts = resource_uses(teams, running, known)
        spent: Mapping[str, TeamSpending] = {}
        if teams and self.accounts is not None:
            spent = self._spent(teams, self.accounts)
        types: Sequence[InstanceType] | None = None
        if follows and self.offerings is not None:
            types, _ = self.offerings.load_with_rests()
        reserved = ReservedCapacity.of(
            reservations.values(), pools.node_classes, types, self.clock.now()
        )
        live = {claim.id: claim for claim in claims}
        counts = {name: census(pool, live, reserved) for name, pool in static.items()}
        found: list[dict[str, Any]] = []
        for row in wanted:
            if row.kind is PolicyKind.TEAM:
                status = team_status(
                    row.status.conditions,
                    row.status.principals,
                    uses.get(row.name, ()),
                    spent.get(row.name),
                    amounts.get(row.name, ()),
                )
            else:
                status = self._status(row, reservations, claims, counts.get(row.name))
            found.append(_printed(row, status))
        return found

    def _spent(
        self, teams: Sequence[Team], accounts: AccountStore
    ) -> Mapping[str, TeamSpending]:
        now = self.clock.now()
        spent = spending(accounts, now, owners(teams))
        return {team.name: spent.of_team(team.name, now) for team in teams}

    def _lacking(
        self, pool_name: str, counted: Census, paused: str | None
    ) -> Shortfall | None:
        """Return why a static pool has fewer nodes than it wants.

        What cannot be read is left out: the answer is only shown.
        """
        known = shortfall(counted, paused, None)
        if known is not None or self.decisions is None or not counted.missing:
            return known
        try:
            found = self.decisions.load(growth_decision_id(pool_name))
        except (UnreadableRowsError, AwsError):
            return None
        planned = None if found is None else loads(Plan, found[0].plan_json)
        return shortfall(counted, paused, planned)

    def _status(
        self,
        row: PolicyObject,
        reservations: Mapping[str, CapacityReservation],
        claims: Sequence[NodeClaim],
        counted: Census | None,
    ) -> dict[str, Any]:
        conditions = row.status.conditions or not_yet_looked_at(self.clock.now())
        if row.kind is PolicyKind.NODE_POOL:
            live = [claim for claim in claims if claim.node_pool_name == row.name]
            paused = paused_text(row.pause)
            lacking = None if counted is None else self._lacking(row.name, counted, paused)
            return node_pool_status(conditions, live, paused, counted, lacking)
        found = row.status.node_class
        selected = [
            reservations[each] for each in found.reservation_ids if each in reservations
        ]
        return node_class_status(found, conditions, selected, self.clock.now())


def _printed(row: PolicyObject, status: dict[str, Any]) -> dict[str, Any]:
    manifest = in_field_order(row.manifest, KINDS[row.kind][1])
    metadata = {
        **manifest["metadata"],
        "generation": row.generation,
        "resourceVersion": str(row.revision),
    }
    return {**manifest, "metadata": metadata, "status": status}
