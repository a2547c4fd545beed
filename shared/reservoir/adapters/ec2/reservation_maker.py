"""EC2 as it makes and cancels on-demand capacity reservations."""

from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.core.model.capacity_reservation import ENDED_STATES
from reservoir.ports.ec2 import ReservationOrder
from reservoir.ports.errors import RefusedError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

# The code with which EC2 refuses to cancel a reservation that has ended, or whose state takes no cancellation yet.
_ENDED_CODE: Final = "InvalidCapacityReservationState"


class Ec2ReservationMaker:
    """Implements ``reservoir.ports.ec2.ReservationMaker``."""

    def __init__(self, client: "EC2Client") -> None:
        self._client: Any = client  # the stubs want an enumeration where EC2 takes a text

    def make(self, order: ReservationOrder) -> str:
        """Make the reservation; EC2 remembers the token, so the client may repeat the call."""
        tags = [{"Key": key, "Value": value} for key, value in sorted(order.tags.items())]
        with map_client_errors():
            answer = self._client.create_capacity_reservation(
                ClientToken=order.token,
                InstanceType=order.instance_type,
                InstancePlatform=order.platform,
                AvailabilityZone=order.zone,
                InstanceCount=1,
                InstanceMatchCriteria="targeted",
                EndDateType="limited",
                EndDate=order.end_at,
                TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
            )
        return str(answer["CapacityReservation"]["CapacityReservationId"])

    def living(self, tag: str, value: str) -> tuple[str, ...]:
        """Return the reservations with the tag that have not ended."""
        filters = [{"Name": f"tag:{tag}", "Values": [value]}]
        with map_client_errors():
            pages = self._client.get_paginator("describe_capacity_reservations").paginate(
                Filters=filters
            )
            shown = list(pages.search("CapacityReservations[]"))
        return tuple(
            sorted(
                each["CapacityReservationId"]
                for each in shown
                if each["State"] not in ENDED_STATES
            )
        )

    def cancel(self, reservation_id: str) -> None:
        """Cancel it; that one has ended already is no error, any other refusal is raised."""
        try:
            with map_client_errors():
                self._client.cancel_capacity_reservation(
                    CapacityReservationId=reservation_id
                )
        except RefusedError as error:
            if error.code != _ENDED_CODE or not self._has_ended(reservation_id):
                raise

    def _has_ended(self, reservation_id: str) -> bool:
        with map_client_errors():
            answer = self._client.describe_capacity_reservations(
                CapacityReservationIds=[reservation_id]
            )
        states = {each["State"] for each in answer["CapacityReservations"]}
        return states <= ENDED_STATES
