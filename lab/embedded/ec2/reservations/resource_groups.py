"""Resource Groups, as far as groups of capacity reservations go: made, filled, emptied, listed, deleted.

Sources: https://docs.aws.amazon.com/ARG/latest/APIReference/Welcome.html and, of which configuration a group needs so
that instances may be launched at it, https://docs.aws.amazon.com/ARG/latest/userguide/about-slg-types.html.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.api.protocol import Reply

POOL: Final = "AWS::EC2::CapacityReservationPool"
GENERIC: Final = "AWS::ResourceGroups::Generic"
RESERVATION: Final = "AWS::EC2::CapacityReservation"

_NAME: Final = re.compile(r"(?!aws)[A-Za-z0-9_.-]{1,300}", re.IGNORECASE)
_MEMBERS_MAX: Final = (
    10  # GroupResources and UngroupResources take as many ARNs in one call
)
_GENERIC_PARAMETERS: Final = [{"Name": "allowed-resource-types", "Values": [RESERVATION]}]
# What an answer refuses one resource for; AWS publishes no list of these codes.
_NOT_ADDED: Final = "InvalidResource"


def arn_of(world: World, name: str) -> str:
    """Return the ARN of the account's group of that name."""
    return f"arn:aws:resource-groups:{world.region}:{world.account_id}:group/{name}"


def answer(world: World, path: str, body: bytes) -> Reply:
    """Answer one request; whatever else Resource Groups has is refused."""
    operation = _OPERATIONS.get(path)
    if operation is None:
        return _refusal(_bad_request(f"{path} is not emulated"))
    try:
        return _reply(200, operation(world, json.loads(body or b"{}")))
    except json.JSONDecodeError:
        return _refusal(_bad_request("The body is no JSON"))
    except Ec2Error as error:
        return _refusal(error)


def _create(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    name = request.get("Name", "")
    if not _NAME.fullmatch(name):
        raise _bad_request(f"{name!r} is not the name of a group")
    configuration = request.get("Configuration", [])
    types = {item["Type"] for item in configuration}
    if POOL not in types or GENERIC not in types:
        raise _bad_request("Only groups of capacity reservations are emulated")
    for item in configuration:
        if item["Type"] == GENERIC and item.get("Parameters") != _GENERIC_PARAMETERS:
            raise _bad_request(f"{GENERIC} must allow {RESERVATION} alone")
    arn = arn_of(world, name)
    if arn in world.groups:
        raise _bad_request(f"A group with the name {name} exists already")
    world.groups[arn] = []
    return {
        "Group": _shown(arn),
        "GroupConfiguration": {
            "Configuration": configuration,
            "Status": "UPDATE_COMPLETE",
        },
        "Tags": request.get("Tags", {}),
    }


def _get(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"Group": _shown(_group(world, request))}


def _delete(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    arn = _group(world, request)
    del world.groups[arn]
    return {"Group": _shown(arn)}


def _add(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    """Add reservations: only active ones may join, and one that is a member already stays one."""
    arn = _group(world, request)
    added, failed = [], []
    for resource_arn in _resources(request):
        reservation = world.reservations.get(resource_arn.rpartition("/")[2])
        if (
            reservation is None
            or not reservation.visible
            or reservation.state != "active"
            or world.events.reservation_arn(reservation) != resource_arn
        ):
            failed.append(
                {
                    "ResourceArn": resource_arn,
                    "ErrorCode": _NOT_ADDED,
                    "ErrorMessage": "It is not an active capacity reservation.",
                }
            )
            continue
        added.append(resource_arn)
        if reservation.reservation_id not in world.groups[arn]:
            world.groups[arn].append(reservation.reservation_id)
            slots.absorb_later(world, reservation, arn)
    return {"Succeeded": added, "Failed": failed, "Pending": []}


def _remove(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove reservations; instances stay where they are: AWS says of nothing that it moves."""
    arn = _group(world, request)
    resource_arns = _resources(request)
    gone = {resource_arn.rpartition("/")[2] for resource_arn in resource_arns}
    world.groups[arn] = [member for member in world.groups[arn] if member not in gone]
    return {"Succeeded": resource_arns, "Failed": [], "Pending": []}


def _list(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    members = [
        world.events.reservation_arn(world.reservations[member])
        for member in world.groups[_group(world, request)]
        if world.reservations[member].state == "active"
    ]
    found = [{"ResourceArn": member, "ResourceType": RESERVATION} for member in members]
    return {
        "Resources": [{"Identifier": each} for each in found],
        "ResourceIdentifiers": found,
    }


def _group(world: World, request: Mapping[str, Any]) -> str:
    named: str = request.get("Group") or request.get("GroupName") or ""
    arn = named if named.startswith("arn:") else arn_of(world, named)
    if arn not in world.groups:
        raise Ec2Error("NotFoundException", f"The group {named} does not exist", 404)
    return arn


def _resources(request: Mapping[str, Any]) -> list[str]:
    resource_arns: list[str] = request.get("ResourceArns", [])
    if not 1 <= len(resource_arns) <= _MEMBERS_MAX:
        raise _bad_request(f"Between 1 and {_MEMBERS_MAX} resources in one call")
    return resource_arns


def _shown(arn: str) -> dict[str, str]:
    return {"GroupArn": arn, "Name": arn.rpartition("/")[2]}


def _bad_request(message: str) -> Ec2Error:
    return Ec2Error("BadRequestException", message)


def _refusal(error: Ec2Error) -> Reply:
    status, headers, body = _reply(error.status, {"Message": error.message})
    return status, {**headers, "x-amzn-errortype": error.code}, body


def _reply(status: int, content: Mapping[str, Any]) -> Reply:
    return status, {"Content-Type": "application/json"}, json.dumps(content).encode()


_OPERATIONS: Final[Mapping[str, Callable[[World, Mapping[str, Any]], dict[str, Any]]]] = {
    "/groups": _create,
    "/get-group": _get,
    "/delete-group": _delete,
    "/group-resources": _add,
    "/ungroup-resources": _remove,
    "/list-group-resources": _list,
}
