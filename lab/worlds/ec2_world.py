"""The emulated EC2 in this process, with a class that can launch into it."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from lab.fakes.values import node_claim
from lab.worlds.cloud import Cloud
from lab.worlds.launch_world import launchable
from reservoir.adapters.ec2.fleet import Ec2FleetLauncher
from reservoir.adapters.ec2.instances import Ec2Instances
from reservoir.adapters.ec2.launch_templates import Ec2LaunchTemplates
from reservoir.adapters.ec2.reservations import Ec2ReservationReader
from reservoir.core.launching.launch_outcome import LaunchOutcome
from reservoir.core.launching.launch_request import (
    LaunchFacts,
    LaunchRequest,
    build_launch_request,
    client_token,
)
from reservoir.core.model.capacity_reservation import ObservedReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.plan import OfferingKey

DEPLOYMENT = "test"
TYPES = {
    name: launchable(name, 96_000) for name in ("m5.large", "m5.xlarge", "p5.48xlarge")
}


class Ec2World:
    """Adapters on the emulation."""

    def __init__(self) -> None:
        self.cloud = Cloud()
        client = self.cloud.ec2
        self.fleet = Ec2FleetLauncher(client, self.cloud.clock)
        self.templates = Ec2LaunchTemplates(client, DEPLOYMENT, self.cloud.clock)
        self.instances = Ec2Instances(client, DEPLOYMENT)
        self.reader = Ec2ReservationReader(client, None)
        self.zones = {
            subnet["AvailabilityZone"]: Subnet(
                subnet["SubnetId"],
                subnet["AvailabilityZone"],
                subnet["AvailabilityZoneId"],
                subnet["AvailableIpAddressCount"],
            )
            for subnet in client.describe_subnets()["Subnets"]
        }
        group = client.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        self.node_class = NodeClass(
            "default",
            static_hash="h1",
            status=NodeClassStatus(
                subnets=tuple(self.zones.values()),
                security_group_ids=(group,),
                machine_images=(MachineImage(self.cloud.image_id, "amd64"),),
            ),
        )

    def offering(
        self,
        name: str = "m5.large",
        zone: str = "us-east-1a",
        capacity_type: CapacityType = CapacityType.ON_DEMAND,
        reservation_id: str | None = None,
    ) -> OfferingKey:
        return OfferingKey(
            name, zone, self.zones[zone].zone_id, capacity_type, reservation_id
        )

    def reserved(self, reservation_id: str) -> OfferingKey:
        reservation = self.reservation(reservation_id)
        return self.offering(
            reservation.instance_type,
            reservation.zone,
            CapacityType.RESERVED,
            reservation_id,
        )

    def reservation(self, reservation_id: str) -> ObservedReservation:
        return next(r for r in self.reader.list_visible() if r.id == reservation_id)

    def request(
        self,
        count: int,
        offering: OfferingKey,
        *alternatives: OfferingKey,
        gang: bool = False,
        **changes: Any,
    ) -> LaunchRequest:
        claims = [
            self.claim(number, offering, alternatives, gang) for number in range(count)
        ]
        reservation = (
            None
            if offering.reservation_id is None
            else self.reservation(offering.reservation_id)
        )
        facts = LaunchFacts(
            node_class=replace(self.node_class, **changes),
            catalogue=TYPES,
            deployment=DEPLOYMENT,
            now=self.now(),
            reservation=reservation,
        )
        return build_launch_request(claims, facts)

    def launch(self, request: LaunchRequest, attempt: int = 1) -> LaunchOutcome:
        for config in request.configs:
            self.templates.ensure(config.template)
        return self.fleet.launch(request, client_token("b-1", attempt, request))

    def claim(
        self,
        number: int,
        offering: OfferingKey,
        alternatives: tuple[OfferingKey, ...] = (),
        gang: bool = False,
    ) -> NodeClaim:
        return node_claim(
            f"nc-{number:04d}",
            attempt=0,
            offering=offering,
            placements=(),
            created_at=self.now(),
            alternatives=alternatives,
            gang_key="research/train" if gang else None,
        )

    def now(self) -> datetime:
        return self.cloud.clock.now()

    def running(self, instance_id: str) -> dict[str, Any]:
        self.cloud.advance(minutes=2)
        return self.cloud.instance(instance_id)
