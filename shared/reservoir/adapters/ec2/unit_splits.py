"""CreateCapacityReservationBySplitting and GroupResources."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.ports.errors import RefusedError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_JOIN: Final = "GroupResources"


class Ec2UnitSplitter:
    """Implements ``reservoir.ports.ec2.UnitSplitter``."""

    def __init__(self, ec2: "EC2Client", resource_groups: Any) -> None:
        self._ec2 = ec2
        self._resource_groups = resource_groups

    def split(self, source_id: str, tags: Mapping[str, str], client_token: str) -> str:
        """Split one unit off."""
        with map_client_errors():
            answer = self._ec2.create_capacity_reservation_by_splitting(
                SourceCapacityReservationId=source_id,
                InstanceCount=1,
                ClientToken=client_token,
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
        return answer["DestinationCapacityReservation"]["CapacityReservationId"]

    def join(self, reservation_id: str, group_arn: str) -> None:
        """Put a reservation into a group; both are in the group's account and region."""
        _, partition, _, region, account_id, _ = group_arn.split(":", 5)
        arn = f"arn:{partition}:ec2:{region}:{account_id}:capacity-reservation/{reservation_id}"
        with map_client_errors():
            answer = self._resource_groups.group_resources(
                Group=group_arn, ResourceArns=[arn]
            )
        for failed in answer.get("Failed", []):
            raise RefusedError(failed.get("ErrorCode", "Failed"), _JOIN)
