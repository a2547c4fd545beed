"""EventBridge events in the shapes that EC2, Spot, Capacity Blocks and AWS Health send."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final

from lab.embedded.ec2.account.ids import IdMaker
from lab.embedded.ec2.account.state import CapacityReservation, Instance

Event = dict[str, Any]

INSTANCE_STATE: Final = "EC2 Instance State-change Notification"
SPOT_INTERRUPTION: Final = "EC2 Spot Instance Interruption Warning"
SPOT_REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
RESERVATION_INTERRUPTION: Final = "EC2 Capacity Reservation Instance Interruption Warning"
RECLAMATION_COMPLETED: Final = (
    "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed"
)
HEALTH: Final = "AWS Health Event"

# AWS documents two names for each; which one is on the wire is a setting of the emulation.
BLOCK_DELIVERED: Final = (
    "Capacity Block Delivered",
    "Capacity Block Reservation Delivered",
)
BLOCK_EXPIRING: Final = (
    "Capacity Block Expiration Warning",
    "Capacity Block Reservation Expiration Warning",
)

# States of a future-dated reservation that EC2 announces.
_ANNOUNCED_STATES: Final = {
    "scheduled": "Scheduled",
    "active": "Active",
    "delayed": "Delayed",
    "unsupported": "Unsupported",
    "failed": "Failed",
    "expired": "Expired",
    "cancelled": "Cancelled",
}


def iso(moment: datetime) -> str:
    """Return the form of time that events use."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _rfc1123(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


@dataclass(frozen=True)
class EventMaker:
    """Builds events of one account and region."""

    account_id: str
    region: str
    ids: IdMaker

    def instance_state(self, instance: Instance, at: datetime) -> Event:
        """Announce the state that ``instance`` has just entered."""
        return self._event(
            INSTANCE_STATE,
            at,
            [self._instance_arn(instance)],
            {"instance-id": instance.instance_id, "state": instance.state},
        )

    def spot_interruption(
        self, instance: Instance, at: datetime, action: str = "terminate"
    ) -> Event:
        """Announce a Spot interruption; the ARN names the zone and no account, as AWS documents it."""
        arn = f"arn:aws:ec2:{instance.spec.zone.name}:instance/{instance.instance_id}"
        return self._event(
            SPOT_INTERRUPTION,
            at,
            [arn],
            {"instance-id": instance.instance_id, "instance-action": action},
        )

    def rebalance(self, instance: Instance, at: datetime) -> Event:
        """Announce a raised risk of a Spot interruption."""
        arn = f"arn:aws:ec2:{instance.spec.zone.name}:instance/{instance.instance_id}"
        return self._event(SPOT_REBALANCE, at, [arn], {"instance-id": instance.instance_id})

    def block_interruption(
        self, instance: Instance, at: datetime, terminates_at: datetime
    ) -> Event:
        """Announce that EC2 will take an instance of a block: list of resources, zone id spelt out, a lifecycle."""
        detail = self._interruption(instance, terminates_at) | {
            "availability-zone-id": instance.spec.zone.zone_id,
            "instance-lifecycle": "capacity-block",
        }
        return self._event(
            RESERVATION_INTERRUPTION, at, [self._instance_arn(instance)], detail
        )

    def interruptible_interruption(
        self, instance: Instance, at: datetime, terminates_at: datetime
    ) -> Event:
        """Announce that EC2 will take an interruptible instance: bare string of resources, ``azId``."""
        detail = self._interruption(instance, terminates_at) | {
            "azId": instance.spec.zone.zone_id
        }
        event = self._event(RESERVATION_INTERRUPTION, at, [], detail)
        return event | {"resources": f"[{self._instance_arn(instance)}]"}

    def block(
        self,
        reservation: CapacityReservation,
        at: datetime,
        *,
        expiring: bool,
        older_name: bool,
    ) -> Event:
        """Announce that a capacity block was delivered or will expire."""
        names = BLOCK_EXPIRING if expiring else BLOCK_DELIVERED
        moment = "approaching-expiry" if expiring else "delivered"
        end = {"end-date": iso(reservation.end_at)} if reservation.end_at else {}
        detail = {"capacity-reservation-id": reservation.reservation_id} | end
        event = self._event(
            names[older_name], at, [self.reservation_arn(reservation)], detail
        )
        return event | {"customer_event_id": f"{reservation.reservation_id}-{moment}"}

    def reservation_state(
        self, reservation: CapacityReservation, at: datetime
    ) -> Event | None:
        """Announce the state of a future-dated reservation; some states have no event."""
        name = _ANNOUNCED_STATES.get(reservation.state)
        if name is None:
            return None
        detail = {
            "capacity-reservation-id": reservation.reservation_id,
            "state": reservation.state,
        }
        return self._event(
            f"EC2 Capacity Reservation {name}",
            at,
            [self.reservation_arn(reservation)],
            detail,
        )

    def reclamation_completed(
        self,
        source: CapacityReservation,
        allocation: CapacityReservation,
        at: datetime,
        *,
        reclaimed: int,
    ) -> Event:
        """Tell the source's owner that interruptible capacity came back; mixed spelling as documented."""
        detail = {
            "sourceCapacityReservationId": source.reservation_id,
            "instanceType": source.instance_type,
            "availabilityZoneId": source.zone.zone_id,
            "TotalInstanceCount": str(source.total_count),
            "ReclaimedInstanceCount": str(reclaimed),
            "targetInstanceCount": str(allocation.total_count),
        }
        return self._event(
            RECLAMATION_COMPLETED, at, [self.reservation_arn(source)], detail
        )

    def health_scheduled_change(
        self,
        entity_values: list[str],
        at: datetime,
        code: str,
        starts_at: datetime,
        *,
        overrides: Mapping[str, Any] | None = None,
    ) -> Event:
        """Announce maintenance of instances; ``overrides`` replaces members of the detail, such as statusCode."""
        return self._health(
            entity_values,
            at,
            {
                "eventTypeCode": code,
                "eventTypeCategory": "scheduledChange",
                "startTime": _rfc1123(starts_at),
                "endTime": _rfc1123(starts_at + timedelta(hours=2)),
                "statusCode": "upcoming",
                "affectedEntities": [
                    {"entityValue": value, "status": "PENDING"} for value in entity_values
                ],
                **(overrides or {}),
            },
        )

    def health_underutilized(
        self, entity_values: list[str], at: datetime, *, summary: bool
    ) -> Event:
        """Announce reservations that are less than a fifth used."""
        suffix = "_SUMMARY" if summary else ""
        return self._health(
            entity_values,
            at,
            {
                "eventTypeCode": f"AWS_EC2_ODCR_UNDERUTILIZATION_NOTIFICATION{suffix}",
                "eventTypeCategory": "accountNotification",
                "startTime": _rfc1123(at),
                "statusCode": "open",
                "affectedEntities": [{"entityValue": value} for value in entity_values],
            },
        )

    def reservation_arn(self, reservation: CapacityReservation) -> str:
        """Return the ARN, which carries the account of the owner."""
        return f"arn:aws:ec2:{self.region}:{reservation.owner_id}:capacity-reservation/{reservation.reservation_id}"

    def _interruption(self, instance: Instance, terminates_at: datetime) -> dict[str, str]:
        return {
            "instance-id": instance.instance_id,
            "instance-action": "terminate",
            "instance-termination-time": iso(terminates_at),
        }

    def _instance_arn(self, instance: Instance) -> str:
        return (
            f"arn:aws:ec2:{self.region}:{instance.owner_id}:instance/{instance.instance_id}"
        )

    def _health(self, resources: list[str], at: datetime, detail: dict[str, Any]) -> Event:
        event_id = self.ids.uuid("health")
        common = {
            "eventArn": f"arn:aws:health:{self.region}::event/EC2/{detail['eventTypeCode']}/{event_id}",
            "service": "EC2",
            "eventScopeCode": "ACCOUNT_SPECIFIC",
            "communicationId": event_id,
            "lastUpdatedTime": _rfc1123(at),
            "eventRegion": self.region,
            "eventDescription": [
                {"language": "en_US", "latestDescription": "Sent by the embedded AWS."}
            ],
            "affectedAccount": self.account_id,
            "page": "1",
            "totalPages": "1",
            "backupEvent": "false",
        }
        return self._event(HEALTH, at, resources, common | detail, source="aws.health")

    def _event(
        self,
        detail_type: str,
        at: datetime,
        resources: list[str],
        detail: dict[str, Any],
        source: str = "aws.ec2",
    ) -> Event:
        return {
            "version": "0",
            "id": self.ids.uuid("event"),
            "detail-type": detail_type,
            "source": source,
            "account": self.account_id,
            "time": iso(at),
            "region": self.region,
            "resources": resources,
            "detail": detail,
        }
