"""Whoever else acts on the account's EC2: owners of reservations, other launchers, the spot market, administrators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from lab.simulation.aws.ec2 import SUBNETS, SimulatedEc2
from lab.simulation.catalogue import TEAM, TYPES, ZONES
from lab.simulation.faults import Faults
from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel
from reservoir.core.launching.launch_outcome import LaunchErrorKind
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.names import LENT_FROM_TAG

_KINDS = (
    ReservationKind.DEFAULT,
    ReservationKind.DEFAULT,
    ReservationKind.CAPACITY_BLOCK,
    ReservationKind.CAPACITY_BLOCK,
    ReservationKind.INTERRUPTIBLE,
)


@dataclass
class Outsiders:
    """All of them; they act once a minute."""

    kernel: Kernel
    chance: Chance
    faults: Callable[[], Faults]
    ec2: SimulatedEc2
    change_policy: Callable[[], None]
    # of which reservations are made
    types: Sequence[str] = tuple(each.instance_type.name for each in TYPES)
    # of the reservations, by which classes select them
    tags: Mapping[str, str] = field(default_factory=lambda: TEAM)
    kinds: Sequence[ReservationKind] = _KINDS
    count_min: int = 1
    grows: bool = False  # whether their owner lets some have more units, now and then
    reservation_count: int = 0
    outsider_count: int = 0
    outage_count: int = 0

    def begin(self) -> None:
        """Make the reservations that there are at first, then act each minute."""
        for _ in range(self.chance.between("owner", 1, 3)):
            self._reserve()
        self._each_minute()

    def _each_minute(self) -> None:
        faults = self.faults()
        for kind, probability, act in (
            ("no_capacity", faults.no_capacity, self._run_out),
            ("spot_reclaimed", faults.spot_reclaimed, self._reclaim_spot),
            ("outsider_takes", faults.outsider_takes, self._take_unit),
            ("reservation_changes", faults.reservation_changes, self._change_reservation),
            ("denied", faults.denied, self._deny),
            ("policy_changes", faults.policy_changes, self.change_policy),
            ("launches_throttled", faults.launches_throttled, self._throttle),
            ("outage", faults.outage, self._stop_launches),
            ("subnet_fills", faults.subnet_fills, self._fill_subnet),
            ("key_denied", faults.key_denied, self._deny_key),
        ):
            if self.chance.hits(kind, probability):
                act()
        if self.grows and self.chance.hits("grows", 0.1):
            self._grow()
        self.kernel.after(MINUTE, self._each_minute)

    def _grow(self) -> None:
        """Let a reservation that its owner made have two more units: nothing of ours is taken away."""
        names = sorted(
            key
            for key, each in self.ec2.reservations.items()
            if each.state == ACTIVE and each.split_from is None
        )
        if names:
            chosen = names[self.chance.between("grows", 0, len(names) - 1)]
            total = self.ec2.reservations[chosen].total_count
            self.ec2.alter(chosen, total_count=total + 2)

    # --- reservations

    def _reserve(self) -> None:
        """Make a reservation: on-demand, or a block that runs already or begins soon, and ends within the run."""
        self.reservation_count += 1
        zone, zone_id = ZONES[self.chance.between("owner", 0, 1)]
        count = self.chance.between("owner", self.count_min, 3)
        kind = self.kinds[self.chance.between("owner", 0, len(self.kinds) - 1)]
        is_block = kind is ReservationKind.CAPACITY_BLOCK
        name = self.types[self.chance.between("owner", 0, len(self.types) - 1)]
        reservation = CapacityReservation(
            id=f"cr-{self.reservation_count:017x}",
            owner_id="111122223333",
            instance_type=name,
            zone=zone,
            zone_id=zone_id,
            kind=kind,
            state=ACTIVE,
            total_count=count,
            available_count=count,
            free_units=count,
            tags=self.tags,
        )
        self.ec2.reserve(self._as_block(reservation) if is_block else reservation)

    def _as_block(self, reservation: CapacityReservation) -> CapacityReservation:
        now = self.kernel.now()
        start_at = now + timedelta(minutes=self.chance.between("owner", -10, 10))
        state = ACTIVE if start_at <= now else "scheduled"
        end_at = now + timedelta(minutes=self.chance.between("owner", 45, 75))
        return replace(reservation, start_at=start_at, end_at=end_at, state=state)

    def _change_reservation(self) -> None:
        # of what is lent, and what lends, EC2 has its own account: nobody else changes their number of units
        names = sorted(
            key
            for key, each in self.ec2.reservations.items()
            if each.state == ACTIVE and each.lent is None and LENT_FROM_TAG not in each.tags
        )
        choice = self.chance.between("owner", 0, 4)
        if choice == 0 or not names:
            self._reserve()
            return
        chosen = self.ec2.reservations[
            names[self.chance.between("owner", 0, len(names) - 1)]
        ]
        if chosen.kind is ReservationKind.CAPACITY_BLOCK:
            # an extension comes without an event
            if choice == 1 and chosen.end_at is not None:
                self.ec2.alter(chosen.id, end_at=chosen.end_at + timedelta(minutes=60))
            return
        self.ec2.touched.add(chosen.id)
        if chosen.kind is ReservationKind.INTERRUPTIBLE:
            self._take_back(chosen)
        elif choice == 1:
            self.ec2.alter(chosen.id, total_count=chosen.total_count + 1)
        elif choice == 2:  # EC2 lets nobody shrink it below what runs in it
            used = self.ec2.used_units(chosen.id)
            self.ec2.alter(chosen.id, total_count=max(used, chosen.total_count - 1, 1))
        elif choice == 3:
            self.ec2.alter(chosen.id, state="cancelled")

    def _take_back(self, lent: CapacityReservation) -> None:
        """Let its owner take a lent unit back: a free one at once, or one whose instance is warned."""
        inside = [
            each.id for each in self.ec2.live() if each.capacity_reservation_id == lent.id
        ]
        if self.ec2.free_units(lent.id) <= 0 and inside:
            self.ec2.tell_of_reclamation(
                inside[0], self.kernel.now() + timedelta(minutes=2)
            )
            self.kernel.after(
                2 * MINUTE,
                lambda: self.ec2.end(inside[0], "Server.CapacityReservationInterrupted"),
            )
            self.kernel.after(2 * MINUTE, lambda: self._shrink(lent.id))
        else:
            self._shrink(lent.id)

    def _shrink(self, reservation_id: str) -> None:
        left = self.ec2.reservations[reservation_id].total_count - 1
        self.ec2.alter(reservation_id, total_count=max(0, left))

    # --- others who launch

    def _take_unit(self) -> None:
        """Let somebody else launch into a reservation for a while."""
        names = sorted(key for key in self.ec2.reservations if self.ec2.free_units(key) > 0)
        if not names:
            return
        reservation = self.ec2.reservations[
            names[self.chance.between("outsider", 0, len(names) - 1)]
        ]
        self.outsider_count += 1
        instance = Instance(
            id=f"i-0ff{self.outsider_count:014x}",
            state="running",
            instance_type=reservation.instance_type,
            zone=reservation.zone,
            zone_id=reservation.zone_id,
            launched_at=self.kernel.now(),
            capacity_reservation_id=reservation.id,
        )
        self.ec2.touched.add(reservation.id)
        self.ec2.add(instance)
        self.ec2.note_counts()
        stay = self.chance.between("outsider", 30 * SECOND, 15 * MINUTE)
        self.kernel.after(
            stay, lambda: self.ec2.end(instance.id, "Client.UserInitiatedShutdown")
        )

    # --- EC2's own troubles

    def _run_out(self) -> None:
        """Let a pool be empty for a while, on a market."""
        found = TYPES[self.chance.between("market", 0, len(TYPES) - 1)].instance_type.name
        zone_id = ZONES[self.chance.between("market", 0, 1)][1]
        market = (CapacityType.ON_DEMAND, CapacityType.SPOT)[
            self.chance.between("market", 0, 1)
        ]
        place = (found, zone_id, market)
        self.ec2.pool_sizes[place] = self.ec2.bought(place) + self.chance.between(
            "market", 0, 1
        )
        self.kernel.after(
            self.chance.between("market", MINUTE, 15 * MINUTE), lambda: self._refill(place)
        )

    def _fill_subnet(self) -> None:
        """Let others take nearly all addresses of a subnet for a while."""
        subnet = sorted(SUBNETS)[self.chance.between("market", 0, 1)]
        used = sum(each.subnet_id == subnet for each in self.ec2.live())
        self.ec2.subnet_sizes[subnet] = used + self.chance.between("market", 0, 1)
        self.kernel.after(
            self.chance.between("market", MINUTE, 15 * MINUTE), self.ec2.subnet_sizes.clear
        )

    def _throttle(self) -> None:
        """Let EC2 refuse all launches for a while: the account makes too many calls."""
        self.ec2.throttled_until = self.kernel.now_us + self.chance.between(
            "market", MINUTE, 40 * MINUTE
        )

    def _stop_launches(self) -> None:
        """Let EC2 refuse all launches for long, once."""
        if self.outage_count == 0:
            self.outage_count += 1
            self.ec2.throttled_until = self.kernel.now_us + self.chance.between(
                "outage", 20 * MINUTE, 40 * MINUTE
            )

    def _refill(self, place: tuple[str, str, CapacityType]) -> None:
        self.ec2.pool_sizes.pop(place, None)

    def _reclaim_spot(self) -> None:
        """Warn of an interruption, and end the instance two minutes later."""
        spot = [instance.id for instance in self.ec2.live() if instance.lifecycle == "spot"]
        if spot:
            chosen = spot[self.chance.between("market", 0, len(spot) - 1)]
            self.ec2.tell_of_interruption(chosen)
            self.kernel.after(
                2 * MINUTE, lambda: self.ec2.end(chosen, "Server.SpotInstanceTermination")
            )

    def _deny(self) -> None:
        """Let a change of permissions deny all launches for a while."""
        for instance_type in TYPES:
            for _, zone_id in ZONES:
                self.ec2.refusals[instance_type.instance_type.name, zone_id] = (
                    LaunchErrorKind.PERMISSION
                )
        self.kernel.after(
            self.chance.between("owner", MINUTE, 6 * MINUTE), self.ec2.refusals.clear
        )

    def _deny_key(self) -> None:
        """Let nobody use the key of the volumes for a while: what is launched ends before it runs."""
        self.ec2.key_denied_until = self.kernel.now_us + self.chance.between(
            "owner", MINUTE, 10 * MINUTE
        )

    def rest(self) -> None:
        """Give capacity and permissions back; those who took units keep them for their while."""
        self.ec2.pool_sizes.clear()
        self.ec2.refusals.clear()
        self.ec2.subnet_sizes.clear()
        self.ec2.throttled_until = self.ec2.key_denied_until = 0
