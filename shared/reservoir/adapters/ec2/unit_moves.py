"""Free units that go elsewhere: MoveCapacityReservationInstances, and interruptible allocations, which are lent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.ec2.reservations import lent_units
from reservoir.core.model.capacity_reservation import LentUnits

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


class Ec2UnitMover:
    """Implements ``reservoir.ports.ec2.UnitMover``."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client

    def move(
        self, source_id: str, destination_id: str, count: int, client_token: str
    ) -> None:
        """Move units of a reservation; EC2 takes the free ones first."""
        with map_client_errors():
            self._client.move_capacity_reservation_instances(
                SourceCapacityReservationId=source_id,
                DestinationCapacityReservationId=destination_id,
                InstanceCount=count,
                ClientToken=client_token,
            )


class Ec2UnitLender:
    """Implements ``reservoir.ports.ec2.UnitLender``."""

    def __init__(self, client: "EC2Client") -> None:
        self._client: Any = client  # the stubs may know fewer parameters than EC2 does

    def lent(self, source_id: str) -> LentUnits | None:
        """Return what a reservation lends now."""
        with map_client_errors():
            answer = self._client.describe_capacity_reservations(
                CapacityReservationIds=[source_id]
            )
        return lent_units(answer["CapacityReservations"][0])

    def begin(
        self, source_id: str, count: int, tags: Mapping[str, str], client_token: str
    ) -> None:
        """Lend units; what is lent stays, with its id, its tags and whom it is shared with, when all come back."""
        with map_client_errors():
            self._client.create_interruptible_capacity_reservation_allocation(
                CapacityReservationId=source_id,
                InstanceCount=count,
                ClientToken=client_token,
                ZeroSizePreference="retain",
                TagSpecifications=[
                    {
                        "ResourceType": "capacity-reservation",
                        "Tags": [
                            {"Key": key, "Value": value}
                            for key, value in sorted(tags.items())
                        ],
                    }
                ],
            )

    def change(self, source_id: str, target_count: int) -> None:
        """Lend so many units in all."""
        with map_client_errors():
            self._client.update_interruptible_capacity_reservation_allocation(
                CapacityReservationId=source_id, TargetInstanceCount=target_count
            )
