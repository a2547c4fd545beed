"""Policy objects with their status, in the form that can be applied again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.model.capacity_reservation import CapacityReservation
from shared.core.model.conditions import not_yet_looked_at
from shared.core.model.node_claim import NodeClaim
from shared.manifests.render import in_field_order
from shared.manifests.status import node_class_status, node_pool_status, team_status
from shared.manifests.validate import KINDS
from shared.ports.policy import PolicyKind, PolicyObject, PolicyStore
from shared.ports.state import NodeClaimStore, ReservationStore
from shared.ports.system import Clock


@dataclass(frozen=True, slots=True)
class ShowPolicy:
    """Reads policy objects and what is known about them."""

    store: PolicyStore
    reservations: ReservationStore
    node_claims: NodeClaimStore
    clock: Clock

    def show(self, kind: PolicyKind | None = None, name: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a kind (None: all) and a name (None: all) as manifests with their status."""
        rows = [row for row in self.store.list_all() if row.is_readable]
        wanted = [row for row in rows if kind in (None, row.kind) and name in (None, row.name)]
        kinds = {row.kind for row in wanted}
        reservations: dict[str, CapacityReservation] = {}
        if PolicyKind.NODE_CLASS in kinds:
            records = self.reservations.list_current()
            reservations = {record.reservation.id: record.reservation for record in records}
        claims = self.node_claims.list_live() if PolicyKind.NODE_POOL in kinds else ()
        return [_printed(row, self._status(row, reservations, claims)) for row in wanted]

    def _status(
        self, row: PolicyObject, reservations: Mapping[str, CapacityReservation], claims: Sequence[NodeClaim]
    ) -> dict[str, Any]:
        conditions = row.status.conditions or not_yet_looked_at(self.clock.now())
        if row.kind is PolicyKind.NODE_POOL:
            return node_pool_status(conditions, [claim for claim in claims if claim.node_pool_name == row.name])
        if row.kind is PolicyKind.TEAM:
            return team_status(row.status.conditions, row.status.principals)
        found = row.status.node_class
        selected = [reservations[each] for each in found.reservation_ids if each in reservations]
        return node_class_status(found, conditions, selected, self.clock.now())


def _printed(row: PolicyObject, status: dict[str, Any]) -> dict[str, Any]:
    manifest = in_field_order(row.manifest, KINDS[row.kind][1])
    metadata = {**manifest["metadata"], "generation": row.generation, "resourceVersion": str(row.revision)}
    return {**manifest, "metadata": metadata, "status": status}
