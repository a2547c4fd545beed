"""DescribeCapacityReservationTopology and DescribeInstanceTopology: where capacity is in the network.

EC2's user guide says what each shows and in which states
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-topology.html).
"""

from datetime import timedelta
from typing import Any, Final

from lab.embedded.ec2.account.state import CapacityReservation, Instance
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.instances.operations import chosen_instances
from lab.embedded.ec2.market.catalogue import is_ultraserver
from lab.embedded.ec2.market.network import layers_of, shown_of_reservation
from lab.embedded.ec2.resource_operations import refuse_unknown_groups

Parameters = dict[str, Any]
_MOST_RESERVATIONS: Final = 10
_MOST_INSTANCES: Final = 100
_REGIONS_WITHOUT_RESERVATIONS: Final = ("il-central-1", "us-gov-west-1")


def describe_capacity_reservation_topology(
    world: World, parameters: Parameters
) -> dict[str, Any]:
    """Answer DescribeCapacityReservationTopology: reservations of types that have a topology.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``,
        ``UnsupportedOperation``.
    """
    if world.region in _REGIONS_WITHOUT_RESERVATIONS:
        raise Ec2Error(
            "UnsupportedOperation",
            "The functionality you requested is not available in this region.",
        )
    ids = parameters.get("CapacityReservationIds", [])
    _refuse_more(ids, _MOST_RESERVATIONS)
    wanted = list(map(world.reservation, ids)) if ids else world.visible_reservations()
    readers: Readers[CapacityReservation] = {
        "availability-zone": lambda r: r.zone.name,
        "instance-type": lambda r: r.instance_type,
    }
    found = select(
        [r for r in wanted if layers_of(r.instance_type)],
        parameters.get("Filters"),
        readers,
        lambda r: world.tags.of(r.reservation_id),
    )
    reservations, token = page(
        found,
        parameters,
        default=_MOST_RESERVATIONS,
        maximum=_MOST_RESERVATIONS,
        with_ids=bool(ids),
    )
    return without_empty(
        {
            "CapacityReservations": [_reservation(world, r) for r in reservations],
            "NextToken": token,
        }
    )


def describe_instance_topology(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeInstanceTopology: instances of types that have a topology.

    Raises
    ------
    Ec2Error
        ``InvalidInstanceID.Malformed``, ``InvalidInstanceID.NotFound``, ``InvalidParameterCombination``,
        ``InvalidParameterValue``, ``InvalidPlacementGroup.Unknown``.
    """
    ids, groups = parameters.get("InstanceIds", []), parameters.get("GroupNames", [])
    _refuse_more(ids, _MOST_INSTANCES)
    _refuse_more(groups, _MOST_INSTANCES)
    refuse_unknown_groups(world, "GroupName", groups)
    readers: Readers[Instance] = {
        "availability-zone": lambda i: i.spec.zone.name,
        "instance-type": lambda i: i.spec.instance_type,
        "zone-id": lambda i: i.spec.zone.zone_id,
    }
    found = select(
        [
            i
            for i in chosen_instances(world, ids)
            if layers_of(i.spec.instance_type)
            and (not groups or i.spec.placement_group in groups)
        ],
        parameters.get("Filters"),
        readers,
        lambda i: world.tags.of(i.instance_id),
    )
    instances, token = page(
        found, parameters, default=20, maximum=_MOST_INSTANCES, with_ids=bool(ids)
    )
    return without_empty(
        {"Instances": [_instance(world, i) for i in instances], "NextToken": token}
    )


def _refuse_more(named: list[str], most: int) -> None:
    if len(named) > most:
        raise invalid_value(f"At most {most} can be named in one request.")


def _reservation(world: World, reservation: CapacityReservation) -> dict[str, Any]:
    is_ultra = is_ultraserver(reservation.instance_type)
    return without_empty(
        {
            "CapacityReservationId": reservation.reservation_id,
            "CapacityBlockId": reservation.block_id if is_ultra else None,
            "State": reservation.state,
            "InstanceType": reservation.instance_type,
            "GroupName": (reservation.placement_group_arn or "").rpartition("/")[2] or None,
            "NetworkNodes": list(shown_of_reservation(world, reservation)) or None,
            "AvailabilityZoneId": reservation.zone.zone_id,
            "AvailabilityZone": reservation.zone.name,
        }
    )


def _instance(world: World, instance: Instance) -> dict[str, Any]:
    is_ultra = is_ultraserver(instance.spec.instance_type)
    known_at = instance.launched_at + timedelta(seconds=world.settings.block_id_lag_s)
    is_running = instance.state == "running"
    return without_empty(
        {
            "InstanceId": instance.instance_id,
            "InstanceType": instance.spec.instance_type,
            "GroupName": instance.spec.placement_group,
            "NetworkNodes": list(instance.network_nodes) if is_running else None,
            "CapacityBlockId": instance.block_id
            if is_ultra and known_at <= world.now()
            else None,
            "AvailabilityZone": instance.spec.zone.name,
            "ZoneId": instance.spec.zone.zone_id,
        }
    )
