"""DescribeCapacityReservations, and where reservations are in the network (DescribeCapacityReservationTopology).

One unfiltered, paged listing serves every selector form, finds every state, and is one call a thousand reservations;
EC2 has no filter for ids that tolerates an unknown one, and none for the block or the kind.

That a block is an UltraServer, which EC2 reclaims earlier, stands in DescribeCapacityBlocks only. It is asked once a
block and remembered; the list of known types is what remains where EC2 does not say.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.core.model.capacity_reservation import (
    LentUnits,
    ObservedReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import is_ultra_server
from reservoir.names import OWNER_TAG
from reservoir.ports.errors import AwsError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_PAGE_SIZE: Final = 1000
_PLACES_A_CALL: Final = 10  # EC2's own limit
_NOT_IN_THIS_REGION: Final = "UnsupportedOperation"
_UNKNOWN_STATE: Final = (
    "unknown"  # a state that no launch is made in, and that ends nothing
)
_NO_ALLOCATION: Final = ("canceled", "failed")
_RESERVATION_TYPE: Final = "AWS::EC2::CapacityReservation"


class Ec2ReservationReader:
    """Implements ``reservoir.ports.discovery.ReservationReader``."""

    def __init__(self, ec2: "EC2Client", resource_groups: Any) -> None:
        self._ec2 = ec2
        self._resource_groups = resource_groups
        # by the block's id; it never changes
        self._ultra_server_blocks: dict[str, bool] = {}

    def list_visible(self) -> tuple[ObservedReservation, ...]:
        """Return all reservations in every state, by id."""
        found: dict[str, ObservedReservation] = {}
        with map_client_errors():
            pages = self._ec2.get_paginator("describe_capacity_reservations").paginate(
                PaginationConfig={"PageSize": _PAGE_SIZE}
            )
            for page in pages:
                for described in page["CapacityReservations"]:
                    if "CapacityReservationId" not in described:
                        # an entry without an id belongs to no reservation, and must not hide all others
                        continue
                    reservation = parse(described, self._zone_names)
                    found[reservation.id] = reservation
        blocks = {
            r.capacity_block_id for r in found.values() if r.capacity_block_id is not None
        }
        if not blocks <= self._ultra_server_blocks.keys():
            self._read_blocks(blocks)
        return tuple(
            self._as_sold(_with_lender(found[key], found)) for key in sorted(found)
        )

    def _read_blocks(self, wanted: Set[str]) -> None:
        """Remember which blocks are UltraServers; one that EC2 does not show here (a shared one) is none."""
        types: dict[str, bool] = {}
        try:
            with map_client_errors():
                for page in self._ec2.get_paginator("describe_capacity_blocks").paginate():
                    for block in page["CapacityBlocks"]:
                        types[block.get("CapacityBlockId", "")] = bool(
                            block.get("UltraserverType")
                        )
        except AwsError:
            return  # asked again by the next listing; until then the type's name decides
        self._ultra_server_blocks |= {
            block_id: types.get(block_id, False) for block_id in wanted
        }

    def _as_sold(self, reservation: ObservedReservation) -> ObservedReservation:
        if self._ultra_server_blocks.get(reservation.capacity_block_id or "", False):
            return replace(reservation, ultra_server=True)
        return reservation

    def list_group(self, group_arn: str) -> frozenset[str]:
        """Return the ids of the reservations in a resource group."""
        with map_client_errors():
            pages = self._resource_groups.get_paginator("list_group_resources").paginate(
                Group=group_arn
            )
            identifiers = list(pages.search("Resources[].Identifier"))
        return frozenset(
            identifier["ResourceArn"].rpartition("/")[2]
            for identifier in identifiers
            if identifier.get("ResourceType") == _RESERVATION_TYPE
        )

    @cached_property
    def _zone_names(self) -> Mapping[str, str]:
        """Zone names of this account by zone id; they never change."""
        zones = self._ec2.describe_availability_zones(AllAvailabilityZones=False)[
            "AvailabilityZones"
        ]
        return {zone["ZoneId"]: zone["ZoneName"] for zone in zones}


class Ec2NetworkReader:
    """Implements ``reservoir.ports.discovery.NetworkReader``."""

    def __init__(self, ec2: "EC2Client") -> None:
        self._ec2 = ec2
        # EC2 leaves out of its answers what is of a type without a topology; such types are not asked about again.
        self._types_without: set[str] = set()

    def of_reservations(self, types: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
        """Return the network nodes above reservations, from the top, by id, if EC2 shows any."""
        asked = sorted(key for key, it in types.items() if it not in self._types_without)
        found: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(asked), _PLACES_A_CALL):
            part = asked[start : start + _PLACES_A_CALL]
            shown = self._shown(part)
            self._types_without |= {types[key] for key in part if key not in shown}
            found |= shown
        return {key: nodes for key, nodes in found.items() if nodes}

    def _shown(self, reservation_ids: list[str]) -> dict[str, tuple[str, ...]]:
        try:
            with map_client_errors():
                answer = self._ec2.describe_capacity_reservation_topology(
                    CapacityReservationIds=reservation_ids
                )
        except AwsError as error:
            if error.code == _NOT_IN_THIS_REGION:
                return {}
            raise
        return {
            each["CapacityReservationId"]: tuple(each.get("NetworkNodes", ()))
            for each in answer["CapacityReservations"]
        }


def parse(
    described: Mapping[str, Any], zone_names: Mapping[str, str]
) -> ObservedReservation:
    """Read one element of EC2's answer.

    The zone id is the key: an owner in another account calls the same zone by another name. A state or match criteria
    that EC2 adds one day is kept as it is. One without a state, or without a type, is there and takes no launches: it
    neither ends discovery of the others nor counts as gone.
    """
    zone_id = described.get("AvailabilityZoneId", "")
    instance_type = described.get("InstanceType", "")
    return ObservedReservation(
        id=described["CapacityReservationId"],
        owner_id=described.get("OwnerId", ""),
        instance_type=instance_type,
        zone=zone_names.get(zone_id, described.get("AvailabilityZone", "")),
        zone_id=zone_id,
        kind=_kind(described),
        state=described.get("State", _UNKNOWN_STATE),
        total_count=described.get("TotalInstanceCount", 0),
        available_count=described.get("AvailableInstanceCount", 0),
        instance_match_criteria=described.get("InstanceMatchCriteria", "targeted"),
        platform=described.get("InstancePlatform", "Linux/UNIX"),
        tenancy=described.get("Tenancy", "default"),
        start_at=described.get("StartDate"),
        end_at=_end(described),
        ultra_server=is_ultra_server(instance_type),
        is_launchable=described.get("LaunchStatus") != "unlaunchable",
        placement_group_arn=described.get("PlacementGroupArn"),
        capacity_block_id=described.get("CapacityBlockId"),
        unused_billing_owner_id=described.get("UnusedReservationBillingOwnerId"),
        lent=lent_units(described),
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags", [])},
    )


def lent_units(described: Mapping[str, Any]) -> LentUnits | None:
    """Read what a reservation lends; None: it lends nothing, and can begin to."""
    allocation = described.get("InterruptibleCapacityAllocation") or {}
    lent_id = allocation.get("InterruptibleCapacityReservationId")
    if lent_id is None or allocation.get("Status") in _NO_ALLOCATION:
        return None
    count = allocation.get("InstanceCount", 0)
    return LentUnits(lent_id, count, allocation.get("TargetInstanceCount", count))


def _with_lender(
    reservation: ObservedReservation, shown: Mapping[str, ObservedReservation]
) -> ObservedReservation:
    """Say which deployment lends its units: the interruptible reservation has the tag."""
    lent = reservation.lent
    if lent is None or lent.reservation_id not in shown:
        return reservation
    lent_by = shown[lent.reservation_id].tags.get(OWNER_TAG)
    return replace(reservation, lent=replace(lent, lent_by=lent_by))


def _kind(described: Mapping[str, Any]) -> ReservationKind:
    # EC2's type is default for interruptible reservations too; the flag distinguishes them.
    if described.get("Interruptible"):
        return ReservationKind.INTERRUPTIBLE
    if described.get("ReservationType") == ReservationKind.CAPACITY_BLOCK:
        return ReservationKind.CAPACITY_BLOCK
    return ReservationKind.DEFAULT


def _end(described: Mapping[str, Any]) -> datetime | None:
    end: datetime | None = described.get("EndDate")
    return None if described.get("EndDateType") == "unlimited" else end
