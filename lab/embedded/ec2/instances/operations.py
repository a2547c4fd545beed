"""RunInstances, StartInstances, StopInstances, TerminateInstances, DescribeInstances, DescribeInstanceStatus."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from lab.embedded.ec2.account.state import Instance, LaunchSpec, Market
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error, invalid_value
from lab.embedded.ec2.api.filters import Readers, named_exactly, page, select, without_empty
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.instances import launch_templates
from lab.embedded.ec2.instances.launch_specs import TAGGABLE_AT_LAUNCH, resolve
from lab.embedded.ec2.instances.life import launch, restart, stop, terminate
from lab.embedded.ec2.instances.placement import Draft, Slot
from lab.embedded.ec2.instances.view import STATE_CODES, reservation_of, state_of, status_of

Parameters = dict[str, Any]
Filters = Sequence[dict[str, Any]]
TERMINATE_LIMIT = 1000
_INSTANCE_ID = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")


def run_instances(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer RunInstances: at least MinCount instances at one place, or none and an error.

    Raises
    ------
    Ec2Error
        What makes a launch specification unusable (:func:`lab.embedded.ec2.instances.launch_specs.resolve`), a template
        that is not known, ``InvalidParameterValue``, and whatever keeps the first MinCount instances from a place.
    """
    spec = check_run(world, parameters)
    minimum, maximum = parameters["MinCount"], parameters["MaxCount"]
    world.throttle.take_instances("RunInstances", maximum, world.now())
    draft = Draft(world)
    placed: list[Slot] = []
    while len(placed) < maximum:
        try:
            placed.append(draft.place(spec))
        except Ec2Error:
            if len(placed) < minimum:
                raise
            break
    run_id, token = world.ids.resource("r"), parameters.get("ClientToken")
    started = [
        launch(world, spec, slot, run_id=run_id, launch_index=n, client_token=token)
        for n, slot in enumerate(placed)
    ]
    return reservation_of(world, started)


def check_run(world: World, parameters: Parameters) -> LaunchSpec:
    """Return what RunInstances asks for; this much of it a dry run does, which needs no place.

    Raises
    ------
    Ec2Error
        As RunInstances, but for a place.
    """
    data = dict(parameters)
    template_tags: dict[str, str] = {}
    if "LaunchTemplate" in parameters:
        wanted = parameters["LaunchTemplate"]
        template = launch_templates.find(
            world, wanted.get("LaunchTemplateId"), wanted.get("LaunchTemplateName")
        )
        version = launch_templates.version_of(template, wanted.get("Version"))
        data = version.data | {
            k: v for k, v in parameters.items() if k != "TagSpecifications"
        }
        template_tags = {
            "aws:ec2launchtemplate:id": template.template_id,
            "aws:ec2launchtemplate:version": str(version.number),
        }
    tags = from_specifications(
        parameters.get("TagSpecifications"), (*TAGGABLE_AT_LAUNCH, "spot-instances-request")
    )
    tags["instance"] = tags.get("instance", {}) | template_tags
    if data.get("SubnetId") and data.get("NetworkInterfaces"):
        raise Ec2Error(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet ID may not be specified on the same request",
        )
    spec = resolve(world, data, extra_tags=tags)
    if not 1 <= parameters["MinCount"] <= parameters["MaxCount"]:
        raise invalid_value("MinCount must be at least 1 and at most MaxCount.")
    return spec


def describe_instances(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeInstances; MaxResults counts instances, as in EC2.

    Raises
    ------
    Ec2Error
        ``InvalidInstanceID.Malformed``, ``InvalidInstanceID.NotFound``, ``InvalidParameterCombination``,
        ``InvalidParameterValue``.
    """
    ids = parameters.get("InstanceIds", [])
    filters = parameters.get("Filters")
    found = select(
        chosen_instances(world, ids, filters),
        filters,
        _readers(),
        lambda i: world.tags.of(i.instance_id),
    )
    instances, token = page(
        found, parameters, default=1000, minimum=5, maximum=1000, with_ids=bool(ids)
    )
    by_run: dict[str, list[Instance]] = {}
    for instance in instances:
        by_run.setdefault(instance.run_id, []).append(instance)
    return without_empty(
        {
            "Reservations": [reservation_of(world, group) for group in by_run.values()],
            "NextToken": token,
        }
    )


def describe_instance_status(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeInstanceStatus; only running instances unless all are asked for.

    Raises
    ------
    Ec2Error
        ``InvalidInstanceID.Malformed``, ``InvalidInstanceID.NotFound``, ``InvalidParameterCombination``,
        ``InvalidParameterValue``.
    """
    ids = parameters.get("InstanceIds", [])
    chosen = [
        i
        for i in chosen_instances(world, ids)
        if parameters.get("IncludeAllInstances") or i.state == "running"
    ]
    readers: Readers[Instance] = {
        "availability-zone": lambda i: i.spec.zone.name,
        "availability-zone-id": lambda i: i.spec.zone.zone_id,
        "instance-state-name": lambda i: i.state,
        "instance-state-code": lambda i: STATE_CODES[i.state],
        "instance-status.status": lambda i: (
            i.instance_status if i.state == "running" else "not-applicable"
        ),
        "system-status.status": lambda i: (
            i.system_status if i.state == "running" else "not-applicable"
        ),
        "event.code": lambda i: [e.code for e in i.scheduled_events],
        "event.instance-event-id": lambda i: [e.event_id for e in i.scheduled_events],
    }
    found = select(
        chosen, parameters.get("Filters"), readers, lambda i: world.tags.of(i.instance_id)
    )
    instances, token = page(
        found, parameters, default=1000, minimum=5, maximum=1000, with_ids=bool(ids)
    )
    return without_empty(
        {"InstanceStatuses": [status_of(i) for i in instances], "NextToken": token}
    )


def terminate_instances(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer TerminateInstances: one bad id fails the call and nothing is terminated; repeating it is harmless.

    Raises
    ------
    Ec2Error
        ``InvalidInstanceID.Malformed``, ``InvalidInstanceID.NotFound``, ``InvalidParameterValue``,
        ``OperationNotPermitted``.
    """
    ids = list(dict.fromkeys(parameters["InstanceIds"]))
    if len(ids) > TERMINATE_LIMIT:
        raise invalid_value(
            f"You can terminate at most {TERMINATE_LIMIT} instances in one request."
        )
    instances = _by_ids(world, ids)
    protected = next((i for i in instances if i.termination_protected), None)
    if protected is not None:
        raise Ec2Error(
            "OperationNotPermitted",
            f"The instance '{protected.instance_id}' may not be terminated. Modify its 'disableApiTermination' "
            "instance attribute and try again.",
        )
    world.throttle.take_instances("TerminateInstances", len(instances), world.now())
    changes = []
    for instance in instances:
        before = instance.state
        terminate(world, instance)
        changes.append(_change(instance, before))
    return {"TerminatingInstances": changes}


def stop_instances(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer StopInstances; a stopped instance leaves its reservation.

    Raises
    ------
    Ec2Error
        ``IncorrectInstanceState``, ``InvalidInstanceID.Malformed``, ``InvalidInstanceID.NotFound``,
        ``UnsupportedOperation``.
    """
    instances = _by_ids(world, parameters["InstanceIds"])
    for instance in instances:
        if instance.market is not Market.ON_DEMAND:
            raise Ec2Error(
                "UnsupportedOperation",
                f"You can't stop the instance '{instance.instance_id}' of its market type.",
            )
        if instance.state not in {"pending", "running", "stopping", "stopped"}:
            raise _wrong_state(instance, "stopped")
    world.throttle.take_instances("StopInstances", len(instances), world.now())
    changes = []
    for instance in instances:
        before = instance.state
        if before in {"pending", "running"}:
            stop(world, instance)
        changes.append(_change(instance, before))
    return {"StoppingInstances": changes}


def start_instances(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer StartInstances; the instance needs a place again, and may find another one than before.

    Raises
    ------
    Ec2Error
        ``IncorrectInstanceState``, ``InvalidInstanceID.Malformed``, ``InvalidInstanceID.NotFound``, and whatever keeps
        an instance from a place (:meth:`Draft.place`).
    """
    instances = _by_ids(world, parameters["InstanceIds"])
    for instance in instances:
        if instance.state not in {"stopped", "pending", "running"}:
            raise _wrong_state(instance, "started")
    world.throttle.take_instances("StartInstances", len(instances), world.now())
    draft = Draft(world)
    placed = [(i, draft.place(i.spec) if i.state == "stopped" else None) for i in instances]
    changes = []
    for instance, slot in placed:
        before = instance.state
        if slot is not None:
            restart(world, instance, slot)
        changes.append(_change(instance, before))
    return {"StartingInstances": changes}


def _change(instance: Instance, before: str) -> dict[str, Any]:
    return {
        "InstanceId": instance.instance_id,
        "PreviousState": state_of(before),
        "CurrentState": state_of(instance.state),
    }


def _wrong_state(instance: Instance, wanted: str) -> Ec2Error:
    text = f"The instance '{instance.instance_id}' is not in a state from which it can be {wanted}."
    return Ec2Error("IncorrectInstanceState", text)


def chosen_instances(
    world: World, ids: list[str], filters: Filters | None = None
) -> list[Instance]:
    """Return the instances that an answer may show: those with the ids, or those that a filter names, or all."""
    shown_until = world.now() - timedelta(seconds=world.settings.describe_lag_s)
    if ids:
        return _by_ids(world, ids, shown_until)
    named = named_exactly(filters, "instance-id")
    chosen = world.own_instances() if named is None else world.own_instances_of(named)
    return [instance for instance in chosen if instance.launched_at <= shown_until]


def _by_ids(
    world: World, ids: list[str], shown_until: datetime | None = None
) -> list[Instance]:
    malformed = [i for i in ids if not _INSTANCE_ID.fullmatch(i)]
    if malformed:
        raise Ec2Error("InvalidInstanceID.Malformed", f'Invalid id: "{malformed[0]}"')
    known = {
        instance.instance_id: instance
        for instance in world.own_instances_of(ids)
        if shown_until is None or instance.launched_at <= shown_until
    }
    missing = [i for i in ids if i not in known]
    if missing:
        plural, are = ("IDs", "do") if len(missing) > 1 else ("ID", "does")
        raise Ec2Error(
            "InvalidInstanceID.NotFound",
            f"The instance {plural} '{', '.join(missing)}' {are} not exist",
        )
    return [known[i] for i in ids]


def _readers() -> Readers[Instance]:
    return {
        "availability-zone": lambda i: i.spec.zone.name,
        "availability-zone-id": lambda i: i.spec.zone.zone_id,
        "capacity-reservation-id": lambda i: i.reservation_id,
        "capacity-reservation-specification.capacity-reservation-preference": lambda i: (
            i.spec.target.preference or "open"
        ),
        "capacity-reservation-specification.capacity-reservation-target.capacity-reservation-id": (
            lambda i: i.spec.target.reservation_id
        ),
        "capacity-reservation-specification.capacity-reservation-target.capacity-reservation-resource-group-arn": (
            lambda i: i.spec.target.group_arn
        ),
        "client-token": lambda i: i.client_token,
        "image-id": lambda i: i.spec.image_id,
        "instance-id": lambda i: i.instance_id,
        "instance-lifecycle": lambda i: (
            None if i.market is Market.ON_DEMAND else i.market.value
        ),
        "instance-state-code": lambda i: STATE_CODES[i.state],
        "instance-state-name": lambda i: i.state,
        "instance-type": lambda i: i.spec.instance_type,
        "key-name": lambda i: i.spec.key_name,
        "launch-time": lambda i: i.launched_at,
        "placement-group-name": lambda i: i.spec.placement_group,
        "private-ip-address": lambda i: i.private_ip,
        "reservation-id": lambda i: i.run_id,
        "subnet-id": lambda i: i.spec.subnet_id,
        "tenancy": lambda i: i.spec.tenancy,
    }
