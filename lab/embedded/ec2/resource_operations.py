"""Tags for every kind of resource, and placement groups as far as they can be named."""

from collections.abc import Iterable
from typing import Any

from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api import tags
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, select, without_empty

Parameters = dict[str, Any]
TAGGED_RESOURCES_LIMIT = 1000


def create_tags(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateTags; one unknown resource fails the call and tags nothing.

    Raises
    ------
    Ec2Error
        ``InvalidParameter``, ``InvalidParameterValue``, ``TagLimitExceeded``, and of an unknown resource the code for
        its kind.
    """
    resources = parameters["Resources"]
    if len(resources) > TAGGED_RESOURCES_LIMIT:
        raise invalid_value(
            f"You can tag at most {TAGGED_RESOURCES_LIMIT} resources in one request."
        )
    new = tags.from_specifications(
        [{"ResourceType": "any", "Tags": parameters["Tags"]}], ["any"]
    )["any"]
    for resource_id in resources:
        _refuse_unknown(world, resource_id)
    for resource_id in resources:
        world.tags.put(resource_id, new)
    return {}


def delete_tags(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DeleteTags; without tags it removes all that are not AWS's own."""
    for resource_id in parameters["Resources"]:
        own = [
            {"Key": key} for key in world.tags.of(resource_id) if not key.startswith("aws:")
        ]
        world.tags.remove(resource_id, parameters.get("Tags") or own)
    return {}


def describe_tags(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeTags.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    return tags.describe_tags(world.tags, parameters)


def create_placement_group(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreatePlacementGroup; a group is a name here, nothing is placed by it.

    Raises
    ------
    Ec2Error
        ``InvalidParameter``, ``InvalidParameterValue``, ``InvalidPlacementGroup.Duplicate``, ``MissingParameter``,
        ``TagLimitExceeded``.
    """
    name = parameters.get("GroupName", "")
    if not name:
        raise Ec2Error(
            "MissingParameter", "The request must contain the parameter groupName"
        )
    if name in world.placement_groups:
        raise Ec2Error(
            "InvalidPlacementGroup.Duplicate",
            f"The placement group '{name}' already exists.",
        )
    group_tags = tags.from_specifications(
        parameters.get("TagSpecifications"), ["placement-group"]
    )
    group_id = world.ids.resource("pg")
    world.placement_groups[name] = {
        "GroupName": name,
        "GroupId": group_id,
        "GroupArn": f"arn:aws:ec2:{world.region}:{world.account_id}:placement-group/{name}",
        "State": "available",
        "Strategy": parameters.get("Strategy", "cluster"),
    }
    world.tags.put(group_id, group_tags.get("placement-group", {}))
    return {"PlacementGroup": _rendered_group(world, world.placement_groups[name])}


def describe_placement_groups(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribePlacementGroups.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``, ``InvalidPlacementGroup.Unknown``.
    """
    chosen = list(world.placement_groups.values())
    for parameter, member in (("GroupNames", "GroupName"), ("GroupIds", "GroupId")):
        wanted = parameters.get(parameter)
        refuse_unknown_groups(world, member, wanted or ())
        chosen = [g for g in chosen if wanted is None or g[member] in wanted]
    readers: Readers[dict[str, Any]] = {
        "group-name": lambda g: g["GroupName"],
        "group-arn": lambda g: g["GroupArn"],
        "state": lambda g: g["State"],
        "strategy": lambda g: g["Strategy"],
    }
    found = select(
        chosen, parameters.get("Filters"), readers, lambda g: world.tags.of(g["GroupId"])
    )
    return {"PlacementGroups": [_rendered_group(world, g) for g in found]}


def refuse_unknown_groups(world: World, member: str, wanted: Iterable[str]) -> None:
    """Refuse placement groups that do not exist; ``member`` is what they are named by.

    Raises
    ------
    Ec2Error
        ``InvalidPlacementGroup.Unknown``.
    """
    missing = set(wanted) - {group[member] for group in world.placement_groups.values()}
    if missing:
        raise Ec2Error(
            "InvalidPlacementGroup.Unknown",
            f"The placement group '{min(missing)}' is unknown.",
        )


def delete_placement_group(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DeletePlacementGroup.

    Raises
    ------
    Ec2Error
        ``InvalidPlacementGroup.Unknown``.
    """
    if world.placement_groups.pop(parameters["GroupName"], None) is None:
        raise Ec2Error(
            "InvalidPlacementGroup.Unknown",
            f"The placement group '{parameters['GroupName']}' is unknown.",
        )
    return {}


def _rendered_group(world: World, group: dict[str, Any]) -> dict[str, Any]:
    return without_empty(group | {"Tags": world.tags.rendered(group["GroupId"])})


def _refuse_unknown(world: World, resource_id: str) -> None:
    own: dict[str, tuple[Any, str]] = {
        "cr": (world.reservations, "InvalidCapacityReservationId.NotFound"),
        "i": (world.instances, "InvalidInstanceID.NotFound"),
        "lt": (world.templates, "InvalidLaunchTemplateId.NotFound"),
        "fleet": (world.fleets, "InvalidFleetId.NotFound"),
    }
    known, code = own.get(resource_id.partition("-")[0], ({resource_id}, ""))
    if resource_id not in known:
        raise Ec2Error(code, f"The ID '{resource_id}' does not exist")
