"""A small vocabulary for tests of the EC2 emulation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.embedded.ec2 import Ec2Emulation, install

START = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
ACCOUNT_ID = "123456789012"
REGION = "us-east-1"
ZONE_A, ZONE_B, ZONE_C = "us-east-1a", "us-east-1b", "us-east-1c"
TYPE = "m5.large"
LINUX = "Linux/UNIX"
Event = dict[str, Any]


class ManualClock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        return self._now

    def move(self, step: timedelta) -> None:
        self._now += step


class Cloud:
    """One emulated EC2 with the calls that tests make over and over."""

    def __init__(self, region: str = REGION) -> None:
        self.clock = ManualClock()
        self.events: list[Event] = []
        self.emulation: Ec2Emulation = install(
            clock=self.clock, emit=self.events.append, account_id=ACCOUNT_ID, region=region
        )
        self.ec2 = self.emulation.client()
        self.image_id = self._image("x86_64")
        self._templates = 0

    def advance(self, **step: float) -> None:
        self.clock.move(timedelta(**step))
        self.emulation.tick()

    def control(self, action: str, **payload: Any) -> dict[str, Any]:
        return self.emulation.control(action, payload)

    def reserve(self, count: int = 2, **parameters: Any) -> str:
        """Create a targeted on-demand reservation and return its id."""
        request = {
            "InstanceType": TYPE,
            "InstancePlatform": LINUX,
            "AvailabilityZone": ZONE_A,
            "InstanceCount": count,
            "InstanceMatchCriteria": "targeted",
        }
        answer = self.ec2.create_capacity_reservation(**(request | parameters))
        reservation_id: str = answer["CapacityReservation"]["CapacityReservationId"]
        return reservation_id

    def reservation(self, reservation_id: str) -> dict[str, Any]:
        answer = self.ec2.describe_capacity_reservations(
            CapacityReservationIds=[reservation_id]
        )
        found: dict[str, Any] = answer["CapacityReservations"][0]
        return found

    def available(self, reservation_id: str) -> int:
        count: int = self.reservation(reservation_id)["AvailableInstanceCount"]
        return count

    def template(
        self, *, preference: str | None = None, target: str | None = None, **data: Any
    ) -> str:
        """Create a launch template and return its id; ``target`` is a reservation id or a group ARN."""
        specification: dict[str, Any] = {}
        if preference:
            specification["CapacityReservationPreference"] = preference
        if target:
            key = (
                "CapacityReservationResourceGroupArn"
                if target.startswith("arn:")
                else "CapacityReservationId"
            )
            specification["CapacityReservationTarget"] = {key: target}
        content = {"ImageId": self.image_id} | (
            {"CapacityReservationSpecification": specification} if specification else {}
        )
        self._templates += 1
        answer = self.ec2.create_launch_template(
            LaunchTemplateName=f"template-{self._templates}",
            LaunchTemplateData=content | data,
        )
        template_id: str = answer["LaunchTemplate"]["LaunchTemplateId"]
        return template_id

    def fleet(
        self,
        configs: Sequence[dict[str, Any]],
        total: int = 1,
        default: str = "on-demand",
        **parameters: Any,
    ) -> dict[str, Any]:
        """Create an instant fleet and return its answer."""
        target = {"TotalTargetCapacity": total, "DefaultTargetCapacityType": default}
        answer: dict[str, Any] = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=list(configs),
            TargetCapacitySpecification=target,
            **parameters,
        )
        return answer

    def instances(self, **parameters: Any) -> list[dict[str, Any]]:
        answer = self.ec2.describe_instances(**parameters)
        return [i for r in answer["Reservations"] for i in r["Instances"]]

    def instance(self, instance_id: str) -> dict[str, Any]:
        return self.instances(InstanceIds=[instance_id])[0]

    def run(self, count: int = 1, **parameters: Any) -> list[str]:
        """Run on-demand instances in the first zone and return their ids."""
        request = {
            "ImageId": self.image_id,
            "InstanceType": TYPE,
            "MinCount": count,
            "MaxCount": count,
            "Placement": {"AvailabilityZone": ZONE_A},
        }
        return [
            i["InstanceId"]
            for i in self.ec2.run_instances(**(request | parameters))["Instances"]
        ]

    def events_of(self, detail_type: str) -> list[Event]:
        return [e for e in self.events if e["detail-type"] == detail_type]

    def _image(self, architecture: str) -> str:
        images = self.ec2.describe_images(
            Filters=[{"Name": "architecture", "Values": [architecture]}]
        )["Images"]
        image_id: str = next(i["ImageId"] for i in images if i.get("Platform") != "windows")
        return image_id


def config(template_id: str, *overrides: dict[str, Any]) -> dict[str, Any]:
    """Return one launch template configuration; without overrides, one of the usual type in the first zone."""
    return {
        "LaunchTemplateSpecification": {
            "LaunchTemplateId": template_id,
            "Version": "$Default",
        },
        "Overrides": list(overrides) or [override()],
    }


def override(instance_type: str = TYPE, zone: str = ZONE_A, **more: Any) -> dict[str, Any]:
    return {"InstanceType": instance_type, "AvailabilityZone": zone, **more}


def launched(answer: dict[str, Any]) -> list[str]:
    """Return the ids of the instances in a CreateFleet answer."""
    return [i for entry in answer["Instances"] for i in entry["InstanceIds"]]


def error_codes(answer: dict[str, Any]) -> list[str]:
    return [e["ErrorCode"] for e in answer["Errors"]]


@contextmanager
def refused(code: str) -> Iterator[None]:
    """Expect an EC2 error with exactly this code."""
    with pytest.raises(ClientError) as caught:
        yield
    assert caught.value.response["Error"]["Code"] == code


def code_of(call: Callable[[], Any]) -> str:
    """Return the code of the error that ``call`` ends in."""
    with pytest.raises(ClientError) as caught:
        call()
    code: str = caught.value.response["Error"]["Code"]
    return code
