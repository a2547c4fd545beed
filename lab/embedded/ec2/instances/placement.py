"""Where one instance goes: into which reservation, onto loose hardware, or nowhere and why."""

from collections import Counter
from dataclasses import dataclass, field

from lab.embedded.ec2.account.pools import PoolKey
from lab.embedded.ec2.account.slots import fits, open_reservations
from lab.embedded.ec2.account.state import (
    NOT_STARTED_STATES,
    CapacityReservation,
    LaunchSpec,
    Market,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import (
    Ec2Error,
    insufficient_capacity,
    invalid_combination,
    invalid_value,
    reservation_exceeded,
)
from lab.embedded.ec2.market import spot
from lab.embedded.ec2.market.catalogue import architectures, instance_types, offered_zones


@dataclass(frozen=True)
class Slot:
    """Where an instance will run; ``reservation_id`` is None on loose hardware."""

    market: Market
    reservation_id: str | None = None


@dataclass
class Draft:
    """Launches planned within one request, on top of the state of the world.

    A request plans all its launches first and makes them afterwards, so an all-or-nothing request can be given up
    without undoing anything.
    """

    world: World
    slots: Counter[str] = field(default_factory=Counter)
    pools: Counter[PoolKey] = field(default_factory=Counter)
    addresses: Counter[str] = field(default_factory=Counter)
    _pool_free: dict[PoolKey, int | None] = field(default_factory=dict)
    _address_free: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "Draft":
        """Return a draft that can be filled without changing this one."""
        return Draft(
            self.world,
            self.slots.copy(),
            self.pools.copy(),
            self.addresses.copy(),
            self._pool_free,
            self._address_free,
        )

    def adopt(self, other: "Draft") -> None:
        """Take over the launches of a copy."""
        self.slots, self.pools, self.addresses = other.slots, other.pools, other.addresses

    def place(self, spec: LaunchSpec) -> Slot:
        """Plan one launch and return where it goes.

        Raises
        ------
        Ec2Error
            With the code that EC2 reports for this refusal.
        """
        refuse_impossible(self.world, spec)
        self.world.faults.before_launch(spec)
        self._refuse_without_address(spec)
        slot = self._choose(spec)
        self._take(spec, slot)
        return slot

    def place_in(self, spec: LaunchSpec, reservation: CapacityReservation) -> Slot:
        """Plan one launch into exactly ``reservation``, with the market that its kind asks for.

        Raises
        ------
        Ec2Error
            ``InsufficientFreeAddressesInSubnet``, ``ReservationCapacityExceeded``.
        """
        refuse_impossible(self.world, spec)
        self.world.faults.before_launch(spec)
        self._refuse_without_address(spec)
        if not (fits(reservation, spec) and self.free_slots(reservation)):
            raise reservation_exceeded()
        slot = Slot(reservation.kind.market, reservation.reservation_id)
        self._take(spec, slot)
        return slot

    def free_slots(self, reservation: CapacityReservation) -> int:
        """Return the slots of a reservation that neither the world nor this draft has taken."""
        return reservation.launchable_count - self.slots[reservation.reservation_id]

    def free_hardware(self, spec: LaunchSpec) -> int | None:
        """Return how many more instances the pool of ``spec`` can hold outside reservations; None without a limit."""
        key = (spec.instance_type, spec.zone.name, spec.market)
        if key not in self._pool_free:
            own = [
                r
                for r in self.world.reservations.values()
                if r.owner_id == self.world.account_id
            ]
            self._pool_free[key] = self.world.pools.free(
                key, self.world.instances.values(), own
            )
        free = self._pool_free[key]
        return None if free is None else free - self.pools[key]

    def _take(self, spec: LaunchSpec, slot: Slot) -> None:
        self.addresses[spec.subnet_id] += 1
        if slot.reservation_id is not None:
            self.slots[slot.reservation_id] += 1
        else:
            self.pools[(spec.instance_type, spec.zone.name, slot.market)] += 1

    def _choose(self, spec: LaunchSpec) -> Slot:
        refuse_contradiction(spec)
        if spec.market is Market.SPOT:
            spot.refuse_low_bid(self.world, spec)
            return self._on_hardware(spec)
        if spec.market is not Market.ON_DEMAND:
            return self._in_special_reservation(spec)
        return self._on_demand(spec)

    def _on_demand(self, spec: LaunchSpec) -> Slot:
        target = spec.target
        if target.reservation_id is not None:
            reservation = self.world.reservation(target.reservation_id)
            _refuse_kind(reservation, ReservationKind.ON_DEMAND)
            return self._enter(spec, [reservation])
        if target.group_arn is not None:
            members = [
                r
                for r in group_members(self.world, target.group_arn)
                if r.kind is ReservationKind.ON_DEMAND
            ]
            return self._enter_or_fall_back(spec, members)
        if target.preference == "none":
            return self._on_hardware(spec)
        return self._enter_or_fall_back(spec, open_reservations(self.world, spec))

    def _enter_or_fall_back(
        self, spec: LaunchSpec, candidates: list[CapacityReservation]
    ) -> Slot:
        try:
            return self._enter(spec, candidates)
        except Ec2Error:
            if spec.target.preference == "capacity-reservations-only":
                raise
            return self._on_hardware(spec)

    def _in_special_reservation(self, spec: LaunchSpec) -> Slot:
        kind = ReservationKind(spec.market.value)
        if spec.target.reservation_id is not None:
            reservation = self.world.reservation(spec.target.reservation_id)
            _refuse_kind(reservation, kind)
            return self._enter(spec, [reservation])
        if spec.target.group_arn is not None:
            return self._enter(
                spec,
                [
                    r
                    for r in group_members(self.world, spec.target.group_arn)
                    if r.kind is kind
                ],
            )
        raise invalid_combination(
            f"The market type {spec.market} requires a capacity reservation target."
        )

    def _enter(self, spec: LaunchSpec, candidates: list[CapacityReservation]) -> Slot:
        for reservation in candidates:
            if fits(reservation, spec) and self.free_slots(reservation) > 0:
                return Slot(reservation.kind.market, reservation.reservation_id)
        if len(candidates) == 1 and candidates[0].state in NOT_STARTED_STATES:
            raise Ec2Error(
                "InvalidCapacityReservationState.PendingActivation",
                f"The capacity reservation {candidates[0].reservation_id} is not active yet.",
            )
        raise reservation_exceeded()

    def _on_hardware(self, spec: LaunchSpec) -> Slot:
        free = self.free_hardware(spec)
        if free is not None and free <= 0:
            raise insufficient_capacity(spec.instance_type, spec.zone.name)
        return Slot(spec.market)

    def _refuse_without_address(self, spec: LaunchSpec) -> None:
        subnet_id = spec.subnet_id
        if subnet_id not in self._address_free:
            self._address_free[subnet_id] = self.world.moto.backend.get_subnet(
                subnet_id
            ).available_ip_address_count
        if self._address_free[subnet_id] <= self.addresses[subnet_id]:
            raise Ec2Error(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet_id}' for the requested number of instances.",
            )


def group_members(world: World, group_arn: str) -> list[CapacityReservation]:
    """Return the reservations of a resource group that this account can use, in the order in which they were added.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    if group_arn not in world.groups:
        raise invalid_value(f"The resource group {group_arn} does not exist.")
    members = [world.reservations[member_id] for member_id in world.groups[group_arn]]
    return [it for it in members if it.visible and it.state == "active"]


def refuse_impossible(world: World, spec: LaunchSpec) -> None:
    """Refuse a type that does not exist, is not offered in the zone, or does not run the image.

    Raises
    ------
    Ec2Error
        ``InvalidGroup.NotFound``, ``InvalidParameterValue``, ``Unsupported``.
    """
    if spec.instance_type not in instance_types():
        raise invalid_value(f"Invalid value '{spec.instance_type}' for InstanceType.")
    if spec.zone.name not in offered_zones(world.region).get(
        spec.instance_type, frozenset()
    ):
        raise Ec2Error(
            "Unsupported",
            f"Your requested instance type ({spec.instance_type}) is not supported in your requested "
            f"Availability Zone ({spec.zone.name}).",
        )
    for group_id in spec.security_group_ids:
        if world.moto.backend.get_security_group_from_id(group_id) is None:
            raise Ec2Error(
                "InvalidGroup.NotFound", f"The security group '{group_id}' does not exist"
            )
    _refuse_wrong_architecture(world, spec)


def _refuse_wrong_architecture(world: World, spec: LaunchSpec) -> None:
    image = world.moto.backend.amis.get(spec.image_id)
    supported = architectures(spec.instance_type)
    if image is not None and image.architecture not in supported:
        raise invalid_value(
            f"The architecture '{','.join(supported)}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI."
        )


def refuse_contradiction(spec: LaunchSpec) -> None:
    """Refuse capacity reservation settings that exclude each other: a target goes with no preference but 'only'.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``.
    """
    target = spec.target
    if target.is_targeted and target.preference not in (None, "capacity-reservations-only"):
        raise invalid_combination(
            f"A capacity reservation preference of '{target.preference}' cannot be used together with a target."
        )
    if target.reservation_id is not None and target.group_arn is not None:
        raise invalid_combination(
            "Specify a capacity reservation id or a resource group ARN, not both."
        )
    if spec.market is Market.SPOT and target.is_targeted:
        raise invalid_combination("Spot Instances cannot target a capacity reservation.")


def _refuse_kind(reservation: CapacityReservation, kind: ReservationKind) -> None:
    if reservation.kind is not kind:
        raise invalid_combination(
            f"The capacity reservation {reservation.reservation_id} cannot be used with the market type {kind.market}."
        )
