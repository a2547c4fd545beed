"""What an hour of discovery costs when nothing changes: API calls and DynamoDB units.

100 reservations, one class, every instance type of the emulated region over six zones. Reservations are discovered
every minute, the catalogue every twelve hours. Units follow DynamoDB's rules on the sizes that went over the wire: a
query reads half a unit for each 4 KB, a consistent read a whole one, a write takes one for each KB of a row.

``discovery-spot-wobble`` is ten days in which spot prices move as they do: each pool by a normal deviation of 0.5 % of
its price in twelve hours, and one type in thirty by a twentieth or a tenth in one zone.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, Final

from lab.bench.planners.ec2 import SimulatedClock
from lab.embedded.ec2 import install
from lab.fakes.messaging import MemoryBus, MemoryQueue, MemoryTimers
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.system import InTurn
from lab.local import ministack
from lab.local.stores import CLAIM_INDEXES, LISTING
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.offerings import DynamoDbOfferingStore
from reservoir.adapters.dynamodb.policy import DynamoDbPolicyStore
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.adapters.ec2.instance_types import Ec2InstanceTypeReader
from reservoir.adapters.ec2.network import Ec2LaunchEnvironment
from reservoir.adapters.ec2.reservations import Ec2NetworkReader, Ec2ReservationReader
from reservoir.adapters.pricing import AwsPriceReader
from reservoir.core.capacity.catalogue import DiscoveredType
from reservoir.core.capacity.idle import IDLE_AFTER
from reservoir.ports.discovery import ZoneOfferings
from reservoir.ports.policy import PolicyKind, PutPolicy
from reservoir.usecases.discovery.discover_offerings import DiscoverOfferings
from reservoir.usecases.discovery.discover_reservations import DiscoverReservations
from reservoir.usecases.discovery.observe_reservation import ReservationObserver
from reservoir.usecases.discovery.publish_readiness import PublishReadiness
from reservoir.usecases.policy.resolve_node_classes import NodeClassResolver

RESERVATIONS: Final = 100
REGION: Final = "us-east-1"
OFFERINGS_EVERY_H: Final = 12
_CATALOGUES: Final = 20
_TABLES: Final = ("reservations", "claims", "policy", "offerings")
_CLASS: Final = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "amiSelectorTerms": [{"name": "*"}],
        "subnetSelectorTerms": [{"tags": {"network": "private"}}],
        "securityGroupSelectorTerms": [{"name": "default"}],
        "capacityReservationSelectorTerms": [{"tags": {"team": "*"}}],
    },
}
_WRITES: Final = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"})


class Meter:
    """Counts calls of boto3 clients, and DynamoDB's units."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.read_units = Fraction(0)
        self.write_units = 0

    def watch(self, client: Any) -> Any:
        """Count every call of the client."""
        service = client.meta.service_model.service_name
        client.meta.events.register(f"before-parameter-build.{service}.*", self._before)
        client.meta.events.register(f"after-call.{service}.*", self._after)
        return client

    def _before(self, params: Any, model: Any, **_: Any) -> None:
        if model.service_model.service_name == "dynamodb" and model.name in _WRITES:
            weight = 2 if model.name == "TransactWriteItems" else 1
            self.write_units += weight * ceil(len(str(params)) / 1024)

    def _after(self, http_response: Any, model: Any, **_: Any) -> None:
        service = model.service_model.service_name
        self.calls[f"{service}.{model.name}"] += 1
        if service == "dynamodb" and model.name in ("Query", "GetItem", "BatchGetItem"):
            consistent = 1 if model.name != "Query" else Fraction(1, 2)
            self.read_units += max(1, ceil(len(http_response.content) / 4096)) * consistent


def cases() -> Sequence[str]:
    """Return the names of the cases."""
    return ("discovery-steady-hour", "discovery-spot-wobble")


def run(case: str) -> dict[str, object]:
    """Measure one case."""
    assert case in cases()  # the harness asks for no other
    with ministack.running("dynamodb") as endpoint:
        dynamodb = ministack.client("dynamodb", endpoint)
        for table in _TABLES:
            ministack.create_table(
                dynamodb, table, indexes=CLAIM_INDEXES if table == "claims" else LISTING
            )
        return _measure(dynamodb) if case == "discovery-steady-hour" else _wobble(dynamodb)


class SameTypes:
    """Implements ``InstanceTypeReader``: what was read once, since only prices move here."""

    def __init__(self, reader: Ec2InstanceTypeReader) -> None:
        self._types, self._zones = reader.list_types(), reader.list_zones()

    def list_types(self) -> tuple[DiscoveredType, ...]:
        """Return the types."""
        return self._types

    def list_zones(self) -> ZoneOfferings:
        """Return the zones."""
        return self._zones


class WobblingPrices:
    """Implements ``PriceReader``: on-demand prices as they are, spot prices that move with every read."""

    def __init__(self, reader: AwsPriceReader) -> None:
        self._on_demand = reader.on_demand()
        self._spot: dict[tuple[str, str], float] = dict(reader.spot())
        self._random = random.Random(20260115)

    def on_demand(self) -> Mapping[str, int]:
        """Return the prices."""
        return self._on_demand

    def spot(self) -> Mapping[tuple[str, str], int]:
        """Return the prices twelve hours later."""
        names = {name for name, _ in self._spot}
        jumping = {name for name in sorted(names) if self._random.random() < 1 / 30}
        for name, zone in sorted(self._spot):
            self._spot[name, zone] *= 1 + self._random.gauss(0, 0.005)
            if name in jumping:
                self._spot[name, zone] *= self._random.choice((0.9, 0.95, 1.05, 1.1))
                jumping.remove(name)
        return {key: round(price) for key, price in self._spot.items()}


def _wobble(dynamodb: Any) -> dict[str, object]:
    clock = SimulatedClock()
    emulation = install(
        clock=clock, emit=lambda _: None, account_id="123456789012", region=REGION
    )
    ec2 = emulation.client()
    prices = WobblingPrices(
        AwsPriceReader(emulation.client("pricing"), ec2, region=REGION, clock=clock)
    )
    offerings = DiscoverOfferings(
        SameTypes(
            Ec2InstanceTypeReader(ec2, region=REGION, vm_memory_overhead=Fraction("0.075"))
        ),
        prices,
        DynamoDbOfferingStore(dynamodb, "offerings", clock, InTurn()),
        MemoryQueue(),
    )
    types = offerings.run().type_count
    meter = Meter()
    meter.watch(dynamodb)
    written = []
    for _ in range(_CATALOGUES):
        clock.advance(OFFERINGS_EVERY_H * 3600)
        written.append(offerings.run().written_count)
    return {
        "instance_types": types,
        "rows_written_per_catalogue": round(sum(written) / _CATALOGUES, 1),
        "rows_written_at_most": max(written),
        "dynamodb_write_units_per_hour": round(
            meter.write_units / _CATALOGUES / OFFERINGS_EVERY_H, 1
        ),
    }


def _measure(dynamodb: Any) -> dict[str, object]:
    clock = SimulatedClock()
    emulation = install(
        clock=clock, emit=lambda _: None, account_id="123456789012", region=REGION
    )
    ec2 = emulation.client()
    _reserve(ec2)
    policy = DynamoDbPolicyStore(dynamodb, "policy", clock)
    policy.commit([PutPolicy(PolicyKind.NODE_CLASS, "default", _CLASS, 1, None)])
    reservations = _discover_reservations(dynamodb, ec2, policy, clock)
    offerings = DiscoverOfferings(
        Ec2InstanceTypeReader(ec2, region=REGION, vm_memory_overhead=Fraction("0.075")),
        AwsPriceReader(emulation.client("pricing"), ec2, region=REGION, clock=clock),
        DynamoDbOfferingStore(dynamodb, "offerings", clock, InTurn()),
        MemoryQueue(),
    )
    types = offerings.run().type_count
    reservations.run()
    # Nobody uses these reservations. That this was told is noted in each once a day: no part of a steady hour.
    clock.advance(IDLE_AFTER.total_seconds())
    reservations.run()
    hourly, halfdaily = Meter(), Meter()
    for client in (dynamodb, ec2):
        hourly.watch(client)
    written = 0
    for _ in range(60):
        clock.advance(60)
        written += reservations.run().written_count
    for client in (dynamodb, ec2):
        halfdaily.watch(client)
    # seen by both meters: taken off the hour's below
    written += offerings.run().written_count
    return {
        "reservations": RESERVATIONS,
        "instance_types": types,
        "rows_written_per_hour": written,
        "ec2_calls_per_hour": _calls(hourly, "ec2", minus=halfdaily),
        "ec2_calls_per_catalogue": _calls(halfdaily, "ec2"),
        "dynamodb_read_units_per_hour": round(
            float(hourly.read_units - halfdaily.read_units), 1
        ),
        "dynamodb_write_units_per_hour": hourly.write_units - halfdaily.write_units,
        "dynamodb_read_units_per_catalogue": round(float(halfdaily.read_units), 1),
        "dynamodb_write_units_per_catalogue": halfdaily.write_units,
        "catalogues_per_hour": round(1 / OFFERINGS_EVERY_H, 3),
    }


def _reserve(ec2: Any) -> None:
    tags = [
        {
            "ResourceType": "capacity-reservation",
            "Tags": [{"Key": "team", "Value": "research"}],
        }
    ]
    for index in range(RESERVATIONS):
        ec2.create_capacity_reservation(
            InstanceType="m5.large",
            InstancePlatform="Linux/UNIX",
            AvailabilityZone=f"us-east-1{'abcdf'[index % 5]}",
            InstanceCount=4,
            InstanceMatchCriteria="targeted",
            TagSpecifications=tags,
        )


def _discover_reservations(
    dynamodb: Any, ec2: Any, policy: DynamoDbPolicyStore, clock: SimulatedClock
) -> DiscoverReservations:
    stored = DynamoDbReservationStore(dynamodb, "reservations", "claims", clock)
    claims = DynamoDbNodeClaimStore(
        dynamodb,
        node_claims_table="claims",
        reservations_table="reservations",
        workloads_table="none",
        clock=clock,
    )
    offerings = DynamoDbOfferingStore(dynamodb, "offerings", clock, InTurn())
    environment = Ec2LaunchEnvironment(ec2, None, None, clock)  # type: ignore[arg-type] # no alias, no role
    return DiscoverReservations(
        reader=Ec2ReservationReader(ec2, None),
        network=Ec2NetworkReader(ec2),
        resolver=NodeClassResolver(
            environment,
            policy,
            offerings,
            MemoryBus(),
        ),
        policy=policy,
        reservations=stored,
        observer=ReservationObserver(stored, claims, MemoryBus()),
        node_claims=claims,
        timers=MemoryTimers(),
        queue=MemoryQueue(),
        publisher=MemoryBus(),
        clock=clock,
        readiness=PublishReadiness(policy, offerings, stored, MemoryBus()),
        history=MemoryHistory(),
        account_id="111122223333",
    )


def _calls(meter: Meter, service: str, minus: Meter | None = None) -> dict[str, int]:
    counted = meter.calls - minus.calls if minus is not None else meter.calls
    return {
        name.partition(".")[2]: count
        for name, count in sorted(counted.items())
        if name.startswith(service)
    }
