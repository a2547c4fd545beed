"""The life of an instance: launched, running, shutting down, terminated, forgotten."""

from functools import partial
from typing import Any

from moto.ec2.models.elastic_block_store import VolumeAttachment

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import Instance, LaunchSpec
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.instances.placement import Slot
from lab.embedded.ec2.market import network

USER_INITIATED = (
    "Client.UserInitiatedShutdown",
    "Client.UserInitiatedShutdown: User initiated shutdown",
)
SPOT_TERMINATED = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceTermination: Spot instance termination",
)
RESERVATION_ENDED = (
    "Server.CapacityReservationTermination",
    "Server.CapacityReservationTermination: the capacity reservation was reclaimed",
)

DEFAULT_ROOT_DEVICE = "/dev/xvda"
DEFAULT_ROOT_SIZE_GIB = 8


class _AttachedInstance:
    """What moto reads of the instance behind an address or a volume attachment."""

    def __init__(self, instance_id: str) -> None:
        self.id = instance_id


# moto declares methods of its CloudFormation support abstract and instantiates the class nevertheless.
_Attachment: Any = VolumeAttachment


def launch(
    world: World,
    spec: LaunchSpec,
    slot: Slot,
    *,
    run_id: str,
    launch_index: int = 0,
    fleet_id: str | None = None,
    client_token: str | None = None,
) -> Instance:
    """Start one instance in ``slot`` and let the clock bring it to running.

    Raises
    ------
    Ec2Error
        ``TagLimitExceeded``.
    """
    instance = Instance(
        instance_id=world.ids.resource("i"),
        owner_id=world.account_id,
        spec=spec,
        launched_at=world.now(),
        market=slot.market,
        run_id=run_id,
        launch_index=launch_index,
        fleet_id=fleet_id,
        client_token=client_token,
    )
    _give_network(world, instance)
    _give_volumes(world, instance)
    world.tags.put(instance.instance_id, spec.tags.get("instance", {}))
    start(world, instance, slot)
    return instance


def launch_elsewhere(world: World, spec: LaunchSpec, slot: Slot, owner_id: str) -> Instance:
    """Start an instance of another account: it takes its slot or hardware and is otherwise invisible here."""
    instance_id = world.ids.resource("i")
    instance = Instance(
        instance_id,
        owner_id,
        spec,
        world.now(),
        slot.market,
        run_id=world.ids.resource("r"),
    )
    start(world, instance, slot)
    return instance


def start(world: World, instance: Instance, slot: Slot) -> None:
    """Put an instance on its hardware and begin its life."""
    world.instances[instance.instance_id] = instance
    spec = instance.spec
    instance.network_nodes = network.of_instance(
        world,
        instance.instance_id,
        spec.instance_type,
        spec.zone,
        world.reservations.get(slot.reservation_id or ""),
    )
    if slot.reservation_id is not None:
        slots.join(world, instance, world.reservations[slot.reservation_id])
    _enter_state(world, instance, "pending")
    world.after(world.settings.pending_s, partial(_become_running, world, instance))


def terminate(
    world: World, instance: Instance, reason: tuple[str, str] = USER_INITIATED
) -> None:
    """Begin to shut an instance down; nothing happens to one that already is."""
    if instance.state in {"shutting-down", "terminated"}:
        return
    instance.state_reason = reason
    if reason is USER_INITIATED:
        instance.transition_reason = (
            f"User initiated ({world.now().strftime('%Y-%m-%d %H:%M:%S')} GMT)"
        )
    _enter_state(world, instance, "shutting-down")
    world.after(
        world.settings.shutting_down_s, partial(_become_terminated, world, instance)
    )


def stop(world: World, instance: Instance) -> None:
    """Begin to stop an instance; when it is stopped its slot or hardware is free for others."""
    instance.state_reason = USER_INITIATED
    _enter_state(world, instance, "stopping")
    world.after(world.settings.shutting_down_s, partial(_become_stopped, world, instance))


def restart(world: World, instance: Instance, slot: Slot) -> None:
    """Start a stopped instance again, in a slot found for it now."""
    instance.state_reason = None
    start(world, instance, slot)


def _become_stopped(world: World, instance: Instance) -> None:
    if instance.state == "stopping":
        slots.leave(world, instance)
        instance.reservation_id = instance.block_id = None
        _enter_state(world, instance, "stopped")


def _become_running(world: World, instance: Instance) -> None:
    refused = next(
        (device.refused for device in instance.spec.block_devices if device.refused), None
    )
    if instance.state == "pending" and refused is not None:
        instance.state_reason = refused
        _become_terminated(world, instance)
        return
    reservation = world.reservations.get(instance.reservation_id or "")
    is_stuck = reservation is not None and instance.instance_id in reservation.stuck
    if instance.state != "pending" or is_stuck:
        return
    failure = world.faults.at_start(instance.spec)
    if failure is not None:
        terminate(world, instance, failure)
    else:
        _enter_state(world, instance, "running")


def _become_terminated(world: World, instance: Instance) -> None:
    slots.leave(world, instance)
    _take_back(world, instance)
    instance.terminated_at = world.now()
    _enter_state(world, instance, "terminated")
    world.after(
        world.settings.terminated_tags_s, partial(world.tags.drop, instance.instance_id)
    )
    world.after(world.settings.terminated_visible_s, partial(_forget, world, instance))


def _forget(world: World, instance: Instance) -> None:
    world.instances.pop(instance.instance_id, None)


def _enter_state(world: World, instance: Instance, state: str) -> None:
    instance.state = state
    if instance.owner_id == world.account_id:
        world.announce(world.events.instance_state(instance, world.now()))


def _give_network(world: World, instance: Instance) -> None:
    backend = world.moto.backend
    subnet = backend.get_subnet(instance.spec.subnet_id)
    # Left to itself, moto would draw addresses at random and could give one twice.
    address = subnet.get_available_subnet_ip(_AttachedInstance(instance.instance_id))
    interface = backend.create_network_interface(
        subnet, address, group_ids=list(instance.spec.security_group_ids)
    )
    interface.status = "in-use"
    instance.network_interface_id = interface.id
    instance.private_ip = interface.private_ip_address
    world.tags.put(interface.id, instance.spec.tags.get("network-interface", {}))


def _give_volumes(world: World, instance: Instance) -> None:
    ids = []
    for device in instance.spec.block_devices:
        volume = world.moto.backend.create_volume(
            size=device.size_gib,
            zone_name=instance.spec.zone.name,
            encrypted=device.encrypted,
            volume_type=device.volume_type,
            iops=device.iops,
        )
        volume.attachment = _Attachment(
            volume, _AttachedInstance(instance.instance_id), device.device, "attached"
        )
        world.tags.put(volume.id, instance.spec.tags.get("volume", {}))
        ids.append(volume.id)
    instance.volume_ids = tuple(ids)


def _take_back(world: World, instance: Instance) -> None:
    backend: Any = world.moto.backend
    if instance.network_interface_id is not None:
        interface = backend.enis[instance.network_interface_id]
        interface.subnet.del_subnet_ip(interface.private_ip_address)
        backend.delete_network_interface(instance.network_interface_id)
    for volume_id, device in zip(
        instance.volume_ids, instance.spec.block_devices, strict=True
    ):
        volume = backend.volumes[volume_id]
        volume.attachment = None
        if device.delete_on_termination:
            backend.delete_volume(volume_id)
