"""List capacity reservations."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.answers.listed import (
    Named,
    ReservationRow,
    ReservationRowSpec,
    ReservationRowStatus,
    UnitHolder,
)
from reservoir.ports.state import NodeClaimStore, ReservationRecord, ReservationStore


@dataclass(frozen=True, slots=True)
class ListReservations:
    """Lists reservations that are or may become usable, by their index; ended ones by name."""

    reservations: ReservationStore
    claims: NodeClaimStore

    def list(self, ids: Collection[str] = ()) -> list[ReservationRow]:
        """Return the reservations with these ids; without ids, all current ones. By id.

        Raises UnreadableRowsError for reservations that are named.
        """
        if ids:
            asked = [self.reservations.get(each) for each in sorted(set(ids))]
            records = [record for record in asked if record is not None]
        else:
            records = list(self.reservations.list_current())
        claims: dict[str | None, list[NodeClaim]] = defaultdict(list)
        for claim in self.claims.list_live():
            claims[claim.offering.reservation_id].append(claim)
        return [_row(record, claims[record.reservation.id]) for record in records]


def _holders(claims: Sequence[NodeClaim]) -> list[UnitHolder]:
    """Return the namespaces whose replicas are on the nodes, including replicas that are leaving."""
    units: Counter[str] = Counter()
    replicas: Counter[str] = Counter()
    for claim in claims:
        leaving = () if claim.drain is None else claim.drain.awaiting
        for placed in claim.placements or leaving:
            units[placed.workload_key] += 1
            replicas[placed.workload_key] += placed.count
    names = {key: key.partition("/") for key in units}
    return [
        UnitHolder(
            namespace=names[key][0],
            name=names[key][2],
            units=units[key],
            replicas=replicas[key],
        )
        for key in sorted(units, key=lambda key: (-units[key], key))
    ]


def _row(record: ReservationRecord, claims: Sequence[NodeClaim]) -> ReservationRow:
    warm_count = sum(claim.is_kept_warm for claim in claims)
    found = record.reservation
    return ReservationRow(
        metadata=Named(name=found.id, labels=dict(found.tags)),
        spec=ReservationRowSpec(
            kind=found.kind,
            instance_type=found.instance_type,
            zone=found.zone,
            zone_id=found.zone_id,
            owner_id=found.owner_id,
            instance_match_criteria=found.instance_match_criteria,
            start_at=found.start_at,
            end_at=found.end_at,
        ),
        status=ReservationRowStatus(
            state=found.state,
            total=found.total_count,
            free=found.free_units + warm_count,
            ours=len(claims) - warm_count,
            warm=warm_count,
            others=found.units_of_others(len(claims)),
            lent=0 if found.lent is None else found.lent.count,
            returning=0 if found.lent is None else found.lent.returning_count,
            lent_as=None if found.lent is None else found.lent.reservation_id,
            refusal=None if found.refusal is None else found.refusal.reason,
            holders=_holders(claims),
            drain_at=found.drain_at(),
            idle_since=record.idle_since,
            observed_at=record.observed_at,
            stale=found.stale,
        ),
    )
