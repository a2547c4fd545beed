"""The demo's units that are used without a launch for them: those of a static pool, and one that a node moves into."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.example import EXAMPLES
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE

POLICY: Final[Path] = EXAMPLES / "paid-units.yaml"
READY: Final = "ready"  # the title of the block
READY_COUNT: Final = 2
READY_BEGINS_IN: Final = timedelta(minutes=75)
DATABASE: Final = "database"  # the title of the reservation
DATABASE_TYPE: Final = "r5.2xlarge"
DATABASE_COUNT: Final = 2  # units, and a node more is wanted
WORKLOAD: Final = "storage/database"
_GROUP: Final = "reservoir-database"
_DAY: Final = timedelta(days=1)
_CONFIGURATION: Final = (
    {"Type": "AWS::EC2::CapacityReservationPool"},
    {
        "Type": "AWS::ResourceGroups::Generic",
        "Parameters": [
            {
                "Name": "allowed-resource-types",
                "Values": ["AWS::EC2::CapacityReservation"],
            }
        ],
    },
)


def reserve(aws: EmbeddedAws) -> Mapping[str, str]:
    """Buy a block that begins later, make a reservation of the database's, and its empty group; return titles by id."""
    block: str = aws.ec2(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1b",
        count=READY_COUNT,
        start_in_s=READY_BEGINS_IN.total_seconds(),
        end_in_s=(READY_BEGINS_IN + _DAY).total_seconds(),
        tags={"purpose": READY},
    )["capacity_reservation_id"]
    tags = {"purpose": DATABASE, MOVABLE_TAG: MOVABLE_VALUE}
    made = aws.client("ec2").create_capacity_reservation(
        InstanceType=DATABASE_TYPE,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=DATABASE_COUNT,
        InstanceMatchCriteria="targeted",
        TagSpecifications=[
            {
                "ResourceType": "capacity-reservation",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
    )
    aws.client("resource-groups").create_group(
        Name=_GROUP, Configuration=list(_CONFIGURATION)
    )
    return {
        block: READY,
        made["CapacityReservation"]["CapacityReservationId"]: DATABASE,
    }


def enlarge(aws: EmbeddedAws, reservation_id: str) -> None:
    """Let the database's reservation have units for all its nodes, and the one that EC2 wants to stay."""
    aws.client("ec2").modify_capacity_reservation(
        CapacityReservationId=reservation_id, InstanceCount=DATABASE_COUNT + 2
    )


def database_workload() -> Mapping[str, Any]:
    """Return a workload that fills a node more than there are units."""
    namespace, _, name = WORKLOAD.partition("/")
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"namespace": namespace, "name": name, "generation": 1},
        "spec": {
            "replicas": DATABASE_COUNT + 1,
            "resources": {"requests": {"cpu": "6", "memory": "10Gi"}},
            "nodeSelector": {"karpenter.sh/nodepool": DATABASE},
            "tolerations": [{"key": DATABASE, "operator": "Exists"}],
        },
    }
