"""The world of launches on the emulated EC2: state in memory, EC2's own events."""

import json
from dataclasses import replace
from typing import Any

from lab.fakes.effects import Effects
from lab.fakes.stores.capacity_blocks import MemoryBootFailures
from lab.worlds.ec2_world import Ec2World
from lab.worlds.launch_world import PRICES, World, launchable
from reservoir.adapters.ec2.capacity_blocks import Ec2CapacityBlocks
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.node_life.notice import Notice, parse_notice
from reservoir.ports.messaging import LaunchBatch


class LiveWorld(World):
    """The use cases on the emulated EC2 instead of the fake one; time is the emulation's."""

    def __init__(self) -> None:
        super().__init__()
        self.aws = Ec2World()
        self.clock: Any = self.aws.cloud.clock
        self.state.clock = self.clock
        self.boot_failures = MemoryBootFailures(self.clock)
        self.blocks = Ec2CapacityBlocks(self.aws.cloud.ec2)
        self.templates: Any = self.aws.templates
        self.ec2: Any = _Ec2(self.aws)
        self.policy.classes["default"] = self.aws.node_class
        self.effects = Effects()
        self.state.offerings.save_catalogue(
            [
                launchable(name, price)
                for name, price in PRICES.items()
                if name != "m6g.large"
            ]
        )
        self.add_workload(replicas=100)

    def discover(self, *reservation_ids: str) -> None:
        status = replace(
            self.policy.classes["default"].status, reservation_ids=reservation_ids
        )
        self.policy.classes["default"] = replace(
            self.policy.classes["default"], status=status
        )
        for reservation_id in reservation_ids:
            self.state.reservations.save_observation(
                self.aws.reservation(reservation_id),
                observed_at=self.clock.now(),
                absorbed=(),
                expected=self.state.reservations.get(reservation_id),
            )

    def launched(self, count: int, offering: Any, **options: Any) -> list[NodeClaim]:
        batch: LaunchBatch = self.plan(count, offering, **options)
        self.launch().run(batch)
        return [self.state.claim_rows[claim_id] for claim_id in batch.claim_ids]

    def events(self) -> list[Notice]:
        """Take the events that EC2 has sent since last time, through JSON as the queue would carry them."""
        sent, self.aws.cloud.events[:] = list(self.aws.cloud.events), []
        notices = [parse_notice(json.loads(json.dumps(event))) for event in sent]
        return [notice for notice in notices if notice is not None]


class _Ec2:
    """All EC2 ports of the emulation in one, as the fake has them."""

    def __init__(self, aws: Ec2World) -> None:
        self.parts: tuple[Any, ...] = (aws.fleet, aws.instances, aws.reader)

    def __getattr__(self, name: str) -> Any:
        for part in self.parts:
            if hasattr(part, name):
                return getattr(part, name)
        raise AttributeError(name)
