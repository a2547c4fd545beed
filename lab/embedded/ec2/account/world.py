"""The state of one emulated EC2 and the parts that work on it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lab.embedded.ec2.account.agenda import Agenda, Clock
from lab.embedded.ec2.account.events import Event, EventMaker
from lab.embedded.ec2.account.faults import Faults
from lab.embedded.ec2.account.ids import IdMaker
from lab.embedded.ec2.account.outbox import Outbox
from lab.embedded.ec2.account.pools import PoolLimits
from lab.embedded.ec2.account.state import (
    BlockExtension,
    BlockOffering,
    CancellationQuote,
    CapacityReservation,
    DateChangeQuote,
    Fleet,
    Instance,
    LaunchTemplate,
    Settings,
    Zone,
)
from lab.embedded.ec2.account.throttling import Throttle
from lab.embedded.ec2.api.errors import reservation_not_found
from lab.embedded.ec2.api.moto_bridge import MotoEc2
from lab.embedded.ec2.api.tags import TagStore


@dataclass
class World:
    """Everything that one account sees of EC2 in one region; guarded by the emulation's lock."""

    account_id: str
    region: str
    agenda: Agenda
    ids: IdMaker
    moto: MotoEc2
    tags: TagStore
    outbox: Outbox
    events: EventMaker
    zones: dict[str, Zone]
    throttle: Throttle
    settings: Settings = field(default_factory=Settings)
    faults: Faults = field(default_factory=Faults)
    pools: PoolLimits = field(default_factory=PoolLimits)
    reservations: dict[str, CapacityReservation] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    fleets: dict[str, Fleet] = field(default_factory=dict)
    templates: dict[str, LaunchTemplate] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Reservation ids by ARN of a resource group."""
    placement_groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    metadata_defaults: dict[str, Any] = field(default_factory=dict)
    """What instances take of metadata options that their launch leaves open (ModifyInstanceMetadataDefaults)."""
    encrypts_volumes: bool = False
    """Whether every new volume is encrypted (EnableEbsEncryptionByDefault)."""
    default_volume_key: str | None = None
    """The customer managed key of volumes that name none (ModifyEbsDefaultKmsKeyId); None is AWS's own."""
    block_offerings: dict[str, BlockOffering] = field(default_factory=dict)
    """Capacity Blocks and extensions that were ever shown on sale, by offering id."""
    block_extensions: list[BlockExtension] = field(default_factory=list)
    cancellation_quotes: dict[str, CancellationQuote] = field(default_factory=dict)
    date_change_quotes: dict[str, DateChangeQuote] = field(default_factory=dict)
    spot_prices: dict[tuple[str, str], int] = field(default_factory=dict)
    """Spot prices set by a test, in micro-USD per hour by (instance type, zone name)."""

    def now(self) -> datetime:
        """Return the emulated time."""
        return self.agenda.now()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run ``action`` in ``seconds`` of emulated time; at once when there is nothing to wait for."""
        if seconds <= 0:
            action()
        else:
            self.agenda.at(self.now() + timedelta(seconds=seconds), action)

    def announce(self, event: Event | None) -> None:
        """Send an event to the default bus."""
        if event is not None:
            self.outbox.put(event)

    def reservation(self, reservation_id: str) -> CapacityReservation:
        """Return a reservation that this account can see.

        Raises
        ------
        Ec2Error
            ``InvalidCapacityReservationId.NotFound``.
        """
        found = self.reservations.get(reservation_id)
        if found is None or not found.visible:
            raise reservation_not_found(reservation_id)
        return found

    def visible_reservations(self) -> list[CapacityReservation]:
        """Return what DescribeCapacityReservations may show, oldest first."""
        return [r for r in self.reservations.values() if r.visible]

    def own_instances(self) -> Iterable[Instance]:
        """Return this account's instances; those of other accounts take slots but are never shown."""
        return (i for i in self.instances.values() if i.owner_id == self.account_id)

    def own_instances_of(self, ids: Iterable[str]) -> Iterable[Instance]:
        """Return those of this account's instances that have one of the ids, in the order of the ids."""
        found = (self.instances.get(each) for each in ids)
        return (i for i in found if i is not None and i.owner_id == self.account_id)


def create_world(
    clock: Clock, emit: Callable[[Event], None], account_id: str, region: str
) -> World:
    """Return an empty EC2 with a default network, as a new account has."""
    agenda = Agenda(clock)
    ids = IdMaker(f"{account_id}/{region}")
    moto = MotoEc2(account_id, region)
    zones = {
        zone.name: Zone(zone.name, zone.zone_id)
        for zone in moto.backend.describe_availability_zones()
    }
    return World(
        account_id=account_id,
        region=region,
        agenda=agenda,
        ids=ids,
        moto=moto,
        tags=TagStore(moto),
        outbox=Outbox(agenda, emit),
        events=EventMaker(account_id, region, ids),
        zones=zones,
        throttle=Throttle(account_id),
    )
