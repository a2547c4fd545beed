"""Reports units of a reservation in which one node after the other fails to boot, with EC2's status of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.boot_failure import BootFailures, after_boot_failure
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.events import BlockStatusDetail, CapacitySuspected
from reservoir.ports.capacity_blocks import BlockStatusReader, BootFailureStore
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import ReservationStore
from reservoir.usecases.claims import unreadable

# A node that fails its checks this soon has never been fit for work; later it is a machine that broke in use.
BOOT_WITHIN: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class BrokenCapacity:
    """Remembers nodes that did not boot. The planner leaves as many units alone as are suspected."""

    failures: BootFailureStore
    blocks: BlockStatusReader
    reservations: ReservationStore
    publisher: EventPublisher

    def note(self, claims: Sequence[NodeClaim], now: datetime) -> int:
        """Note nodes that did not boot; return how many blocks have become suspected of (more) broken units.

        To be called before the claims move on: a repeat of the same claims changes nothing, an omission loses them.
        """
        by_reservation: dict[str, list[NodeClaim]] = {}
        for claim in sorted(claims, key=lambda claim: claim.id):
            if claim.offering.reservation_id is not None:
                by_reservation.setdefault(claim.offering.reservation_id, []).append(claim)
        return sum(
            self._note(key, by_reservation[key], now) for key in sorted(by_reservation)
        )

    def _note(
        self, reservation_id: str, claims: Sequence[NodeClaim], now: datetime
    ) -> bool:
        record = unreadable.reservation(self.reservations, reservation_id)
        if record is None:
            return False
        before = self.failures.get(reservation_id)
        after = before
        for claim in claims:
            after = after_boot_failure(
                after, claim.id, claim.launched_at or claim.created_at, now
            )
        if after is None or after == before:
            return False
        suspects_more = after.suspected_count(now) > (
            0 if before is None else before.suspected_count(now)
        )
        # Published before it is stored: a run that dies in between publishes it again, and it is never lost.
        if suspects_more:
            self.publisher.publish(
                [self._suspicion(record.reservation, after, claims, now)]
            )
        self.failures.put(reservation_id, after)
        return suspects_more

    def _suspicion(
        self,
        block: CapacityReservation,
        failures: BootFailures,
        claims: Sequence[NodeClaim],
        now: datetime,
    ) -> CapacitySuspected:
        return CapacitySuspected(
            capacity_reservation_id=block.id,
            capacity_block_id=block.capacity_block_id,
            instance_type=block.instance_type,
            zone=block.zone,
            zone_id=block.zone_id,
            suspected_count=failures.suspected_count(now),
            rounds=failures.round_count,
            node_claims=list(failures.claim_ids),
            instance_ids=[
                claim.instance_id for claim in claims if claim.instance_id is not None
            ],
            unused_until=failures.until,
            block_status=self._status(block.capacity_block_id),
        )

    def _status(self, capacity_block_id: str | None) -> BlockStatusDetail | None:
        """Return EC2's status of the instances; the report is useful without it."""
        if capacity_block_id is None:
            return None
        try:
            shown = self.blocks.block_status(capacity_block_id)
        except AwsError:
            return None
        if shown is None:
            return None
        return BlockStatusDetail(
            interconnect_status=shown.interconnect,
            total_count=shown.total_count,
            available_count=shown.available_count,
            unavailable_count=shown.unavailable_count,
        )
