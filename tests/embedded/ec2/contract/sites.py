"""An EC2 on which contract tests run, emulated or real."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from lab.worlds.cloud import launched

TAG = {"Key": "reservoir:contract", "Value": "test"}
IMAGE_NAME = "al2023-ami-2023.*-kernel-*-x86_64"
WAIT_S, POLL_S = 300, 5
# what launches at a group of reservations need of it
GROUP = [
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
]


@dataclass
class Site:
    """Where one contract test runs, with the calls that it makes and what must be undone after it."""

    ec2: Any
    groups: Any
    """The client of Resource Groups."""
    wait_a_moment: Callable[[], None]
    """Let time pass: on the emulation the clock is moved, on an account the test waits."""
    undo: list[Callable[[], Any]] = field(default_factory=list)
    launcher: Any = None
    """The client of EC2 that launches, where one has fewer permissions than ``ec2``."""
    node_role: str = ""
    """The role that ``launcher`` may hand to instances; their profile has its name."""
    other_role: str = ""
    """Such a role that it may not hand to them."""

    # The cheapest types that have more than one size and exist nearly everywhere.
    small, large = "t3.micro", "t3.small"

    def zone(self) -> str:
        """Return a zone in which both types are offered, with a default subnet."""
        offered = self.ec2.describe_instance_type_offerings(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [self.small, self.large]}],
        )["InstanceTypeOfferings"]
        places = [o["Location"] for o in offered]
        zone: str = min(zone for zone in places if places.count(zone) == 2)
        return zone

    def image(self) -> str:
        """Return a current Amazon Linux image."""
        images = self.ec2.describe_images(
            Owners=["amazon"], Filters=[{"Name": "name", "Values": [IMAGE_NAME]}]
        )["Images"]
        image_id: str = max(images, key=lambda i: str(i["CreationDate"]))["ImageId"]
        return image_id

    def reserve(
        self, count: int = 1, instance_type: str | None = None, criteria: str = "targeted"
    ) -> str:
        """Make a reservation that the end of the test cancels."""
        made = self.ec2.create_capacity_reservation(
            InstanceType=instance_type or self.small,
            InstancePlatform="Linux/UNIX",
            AvailabilityZone=self.zone(),
            InstanceCount=count,
            InstanceMatchCriteria=criteria,
            TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": [TAG]}],
        )["CapacityReservation"]["CapacityReservationId"]
        self.undo.append(
            lambda: self.ec2.cancel_capacity_reservation(CapacityReservationId=made)
        )
        reservation_id: str = made
        self.until(lambda: self.reservation(reservation_id)["State"] == "active")
        return reservation_id

    def reservation(self, reservation_id: str) -> dict[str, Any]:
        """Return a reservation as described now."""
        found = self.ec2.describe_capacity_reservations(
            CapacityReservationIds=[reservation_id]
        )
        described: dict[str, Any] = found["CapacityReservations"][0]
        return described

    def template(self, specification: dict[str, Any] | None = None) -> str:
        """Make a launch template that the end of the test deletes."""
        data = {"ImageId": self.image()} | (
            {"CapacityReservationSpecification": specification} if specification else {}
        )
        made = self.ec2.create_launch_template(
            LaunchTemplateName=f"reservoir-contract-{secrets.token_hex(8)}",
            LaunchTemplateData=data,
        )["LaunchTemplate"]["LaunchTemplateId"]
        self.undo.append(lambda: self.ec2.delete_launch_template(LaunchTemplateId=made))
        template_id: str = made
        return template_id

    def group(self) -> str:
        """Make a group of reservations that the end of the test deletes; return its ARN."""
        made = self.groups.create_group(
            Name=f"reservoir-contract-{secrets.token_hex(8)}", Configuration=GROUP
        )
        arn: str = made["Group"]["GroupArn"]
        self.undo.append(lambda: self.groups.delete_group(Group=arn))
        return arn

    def split(self, source: str, count: int, **more: Any) -> str:
        """Split a reservation off that the end of the test cancels, unless it went by itself."""
        made = self.ec2.create_capacity_reservation_by_splitting(
            SourceCapacityReservationId=source, InstanceCount=count, **more
        )["DestinationCapacityReservation"]["CapacityReservationId"]
        self.undo.append(
            lambda: self.ec2.cancel_capacity_reservation(CapacityReservationId=made)
        )
        reservation_id: str = made
        return reservation_id

    def lend(self, source: str, count: int, **more: Any) -> str:
        """Lend units of a reservation, which the end of the test takes back."""
        self.ec2.create_interruptible_capacity_reservation_allocation(
            CapacityReservationId=source, InstanceCount=count, **more
        )
        self.undo.append(lambda: self.lend_only(source, 0, ZeroSizePreference="default"))
        lent: str = self.reservation(source)["InterruptibleCapacityAllocation"][
            "InterruptibleCapacityReservationId"
        ]
        return lent

    def lend_only(self, source: str, count: int, **more: Any) -> None:
        """Lend more or fewer units of a reservation that lends some."""
        self.ec2.update_interruptible_capacity_reservation_allocation(
            CapacityReservationId=source, TargetInstanceCount=count, **more
        )

    def sizes(self, *reservation_ids: str) -> list[int]:
        """Return how many units reservations have now."""
        return [
            int(self.reservation(each)["TotalInstanceCount"]) for each in reservation_ids
        ]

    def join(self, group_arn: str, reservation_id: str) -> None:
        """Put a reservation into a group."""
        arn = self.reservation(reservation_id)["CapacityReservationArn"]
        answer = self.groups.group_resources(Group=group_arn, ResourceArns=[arn])
        assert answer.get("Failed", []) == []

    def fleet(
        self, overrides: dict[str, list[dict[str, Any]]], total: int = 1, **more: Any
    ) -> dict[str, Any]:
        """Create an instant fleet from overrides by template id; the end of the test terminates its instances."""
        answer: dict[str, Any] = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateId": t,
                        "Version": "$Default",
                    },
                    "Overrides": o,
                }
                for t, o in overrides.items()
            ],
            TargetCapacitySpecification={
                "TotalTargetCapacity": total,
                "DefaultTargetCapacityType": "on-demand",
            },
            TagSpecifications=[{"ResourceType": "instance", "Tags": [TAG]}],
            **more,
        )
        ids = launched(answer)
        if ids:
            self.undo.append(lambda: self.ec2.terminate_instances(InstanceIds=ids))
            self.until(lambda: len(self.instances(ids)) == len(ids))
        return answer

    def instances(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return the instances that are visible so far; just after a launch that may be fewer than there are."""
        found = self.ec2.describe_instances(
            Filters=[{"Name": "instance-id", "Values": ids}]
        )
        return [i for r in found["Reservations"] for i in r["Instances"]]

    def pool(self, instance_type: str | None = None) -> dict[str, Any]:
        """Return an override in the zone of the test."""
        return {
            "InstanceType": instance_type or self.small,
            "AvailabilityZone": self.zone(),
        }

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what EC2 makes true eventually."""
        for _ in range(WAIT_S // POLL_S):
            if condition():
                return
            self.wait_a_moment()
        raise AssertionError("EC2 did not come to the expected state in time")

    def clean_up(self) -> None:
        """Undo in reverse order; what is gone already is fine."""
        for step in reversed(self.undo):
            try:
                step()
            except ClientError as error:
                if not error.response["Error"]["Code"].startswith("Invalid"):
                    raise
