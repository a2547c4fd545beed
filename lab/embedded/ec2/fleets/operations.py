"""CreateFleet (instant), DescribeFleets, DeleteFleets."""

from fractions import Fraction
from typing import Any

from lab.embedded.ec2.account.state import Fleet, Instance, LaunchSpec
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.fleets import request as fleet_request
from lab.embedded.ec2.fleets.allocation import plan_fleet
from lab.embedded.ec2.fleets.plan import Plan
from lab.embedded.ec2.fleets.request import FleetRequest, Pool
from lab.embedded.ec2.instances.life import launch, terminate

Parameters = dict[str, Any]
INSTANT_DELETE_LIMIT = 25
# Members that CreateFleet's answer has and DescribeFleets' does not.
_ANSWER_ONLY = frozenset({"AvailabilityZone", "AvailabilityZoneId", "SubnetId"})
# Members that an override has in the request and not in the answer, which of a placement repeats the group only.
_REQUEST_ONLY = frozenset({"KeyName", "IamInstanceProfile", "MetadataOptions", "Placement"})


def create_fleet(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateFleet: what was launched and, per pool, why the rest was not; success may mean nothing.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``TagLimitExceeded``, and what makes EC2 refuse the whole request
        (:func:`lab.embedded.ec2.fleets.request.parse`).
    """
    request = fleet_request.parse(world, parameters)
    plan = _within_tokens(world, request, plan_fleet(world, request))
    fleet_id = f"fleet-{world.ids.uuid('fleet')}"
    instances = _launch(world, fleet_id, plan)
    result: dict[str, Any] = {
        "FleetId": fleet_id,
        "Instances": instances,
        "Errors": [
            {
                "LaunchTemplateAndOverrides": _template_and_overrides(pool, pool.spec),
                "Lifecycle": market.value,
                "ErrorCode": error.code,
                "ErrorMessage": error.message,
            }
            for pool, market, error in plan.refusals.values()
        ],
    }
    ids = tuple(i for group in instances for i in group["InstanceIds"])
    world.fleets[fleet_id] = Fleet(fleet_id, world.now(), request.raw, result, ids)
    world.tags.put(fleet_id, request.fleet_tags)
    return result


def describe_fleets(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeFleets; instant fleets are listed only when their ids are given.

    Raises
    ------
    Ec2Error
        ``InvalidFleetId.NotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    ids = parameters.get("FleetIds", [])
    readers: Readers[Fleet] = {
        "fleet-state": lambda f: f.state,
        "type": lambda _: "instant",
    }
    found = select(
        [_find(world, i) for i in ids],
        parameters.get("Filters"),
        readers,
        lambda f: world.tags.of(f.fleet_id),
    )
    fleets, token = page(found, parameters, default=1000, maximum=1000)
    return without_empty(
        {"Fleets": [_rendered(world, f) for f in fleets], "NextToken": token}
    )


def delete_fleets(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DeleteFleets: deleting an instant fleet terminates its instances.

    Raises
    ------
    Ec2Error
        ``InvalidParameterValue``.
    """
    ids = parameters["FleetIds"]
    if len(ids) > INSTANT_DELETE_LIMIT:
        raise invalid_value(
            f"You can delete at most {INSTANT_DELETE_LIMIT} instant fleets in one request."
        )
    if not parameters["TerminateInstances"]:
        raise Ec2Error(
            "InvalidParameterValue",
            "The instances of an instant fleet are always terminated with it.",
        )
    done, failed = [], []
    for fleet_id in ids:
        fleet = world.fleets.get(fleet_id)
        if fleet is None:
            failed.append(
                {
                    "FleetId": fleet_id,
                    "Error": {
                        "Code": "fleetIdDoesNotExist",
                        "Message": "The fleet does not exist.",
                    },
                }
            )
            continue
        before, fleet.state = fleet.state, "deleted_terminating"
        for instance_id in fleet.instance_ids:
            if instance_id in world.instances:
                terminate(world, world.instances[instance_id])
        done.append(
            {
                "FleetId": fleet_id,
                "PreviousFleetState": before,
                "CurrentFleetState": fleet.state,
            }
        )
    return {"SuccessfulFleetDeletions": done, "UnsuccessfulFleetDeletions": failed}


def _within_tokens(world: World, request: FleetRequest, plan: Plan) -> Plan:
    """Return what of the plan the account's tokens allow; what they do not is an error of its pool.

    AWS names no bucket for the instances of fleets. They are taken from that of RunInstances here: throttling as an
    error beside a successful CreateFleet was seen (https://github.com/aws/aws-parallelcluster-node/pull/578).
    """
    wanted = len(plan.launches)
    minima = (
        options.get("MinTargetCapacity", 0)
        for options in (request.on_demand_options, request.spot_options)
    )
    granted = world.throttle.take_launches(wanted, min(wanted, max(minima)), world.now())
    if granted == wanted:
        return plan
    allowed = plan.launches[:granted]
    units = sum((planned.pool.weight for planned in allowed), Fraction(0))
    within = Plan(allowed, dict(plan.refusals), units)
    for planned in plan.launches[granted:]:
        refusal = world.throttle.refusal("instances", "RunInstances")
        within.refuse(planned.pool, planned.slot.market, refusal)
    return within


def _launch(world: World, fleet_id: str, plan: Plan) -> list[dict[str, Any]]:
    """Start the planned instances; one entry for each pool and market, as EC2 groups them."""
    groups: dict[tuple[int, str], dict[str, Any]] = {}
    runs: dict[tuple[int, str], str] = {}
    for number, planned in enumerate(plan.launches):
        key = (planned.pool.index, planned.slot.market.value)
        if key not in runs:
            runs[key] = world.ids.resource("r")
        instance = launch(
            world,
            planned.spec,
            planned.slot,
            run_id=runs[key],
            launch_index=len(groups[key]["InstanceIds"]) if key in groups else 0,
            fleet_id=fleet_id,
            # The fleet launches with tokens of its own; the caller's token belongs to the fleet request.
            client_token=f"{fleet_id}-{number}",
        )
        world.tags.put(instance.instance_id, {"aws:ec2:fleet-id": fleet_id})
        groups.setdefault(key, _entry(planned.pool, instance))["InstanceIds"].append(
            instance.instance_id
        )
    return list(groups.values())


def _entry(pool: Pool, instance: Instance) -> dict[str, Any]:
    spec = instance.spec
    return without_empty(
        {
            "LaunchTemplateAndOverrides": _template_and_overrides(pool, spec),
            "Lifecycle": instance.market.value,
            "InstanceIds": [],
            "InstanceType": spec.instance_type,
            "Platform": "Windows" if spec.platform == "Windows" else None,
            "AvailabilityZone": spec.zone.name,
            "AvailabilityZoneId": spec.zone.zone_id,
            "SubnetId": spec.subnet_id,
        }
    )


def _template_and_overrides(pool: Pool, spec: LaunchSpec | None) -> dict[str, Any]:
    overrides = {
        name: value for name, value in pool.override.items() if name not in _REQUEST_ONLY
    }
    if "GroupName" in pool.override.get("Placement", {}):
        overrides["Placement"] = {"GroupName": pool.override["Placement"]["GroupName"]}
    if spec is not None:
        overrides.setdefault("InstanceType", spec.instance_type)
        overrides.setdefault("AvailabilityZone", spec.zone.name)
    return {
        "LaunchTemplateSpecification": {
            "LaunchTemplateId": pool.template.template_id,
            "Version": str(pool.version.number),
        },
        "Overrides": overrides,
    }


def _find(world: World, fleet_id: str) -> Fleet:
    if fleet_id not in world.fleets:
        raise Ec2Error(
            "InvalidFleetId.NotFound", f"The fleet ID '{fleet_id}' does not exist"
        )
    return world.fleets[fleet_id]


def _rendered(world: World, fleet: Fleet) -> dict[str, Any]:
    instances = []
    for entry in fleet.result["Instances"]:
        instances.append({k: v for k, v in entry.items() if k not in _ANSWER_ONLY})
    return without_empty(
        {
            "FleetId": fleet.fleet_id,
            "FleetState": fleet.state,
            "Type": "instant",
            "CreateTime": fleet.created_at,
            "ClientToken": fleet.request.get("ClientToken"),
            "FulfilledCapacity": float(len(fleet.instance_ids)),
            "Instances": instances,
            "Errors": fleet.result["Errors"],
            "Tags": world.tags.rendered(fleet.fleet_id),
        }
    )
