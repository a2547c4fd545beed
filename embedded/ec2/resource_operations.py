"""Tags, for every kind of resource."""

from typing import Any

from embedded.ec2 import tags
from embedded.ec2.errors import Ec2Error, invalid_value
from embedded.ec2.world import World

Parameters = dict[str, Any]
TAGGED_RESOURCES_LIMIT = 1000


def create_tags(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateTags; one unknown resource fails the call and tags nothing."""
    resources = parameters["Resources"]
    if len(resources) > TAGGED_RESOURCES_LIMIT:
        raise invalid_value(f"You can tag at most {TAGGED_RESOURCES_LIMIT} resources in one request.")
    new = tags.from_specifications([{"ResourceType": "any", "Tags": parameters["Tags"]}], ["any"])["any"]
    for resource_id in resources:
        _refuse_unknown(world, resource_id)
    for resource_id in resources:
        world.tags.put(resource_id, new)
    return {}


def delete_tags(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DeleteTags; without tags it removes all that are not AWS's own."""
    for resource_id in parameters["Resources"]:
        own = [{"Key": key} for key in world.tags.of(resource_id) if not key.startswith("aws:")]
        world.tags.remove(resource_id, parameters.get("Tags") or own)
    return {}


def describe_tags(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeTags."""
    return tags.describe_tags(world.tags, parameters)


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
