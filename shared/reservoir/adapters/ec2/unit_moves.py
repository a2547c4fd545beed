"""MoveCapacityReservationInstances."""

from typing import TYPE_CHECKING

from reservoir.adapters.aws_errors import map_client_errors

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
