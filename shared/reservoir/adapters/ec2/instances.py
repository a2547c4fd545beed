"""Instances in EC2: reading in bulk, terminating, tagging. What does not carry our owner tag does not exist here.

Instances that have terminated are the exception, where they are asked for by id: EC2 takes their tags away "after a
short while" (EC2 user guide, "Terminate instances"), and goes on showing them for about an hour.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from reservoir import names
from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.pacing import Pacer
from reservoir.core.capacity.token_bucket import CREATE_TAGS_CALLS
from reservoir.core.model.instance import Instance
from reservoir.ports.ec2 import InstanceHealth, TerminationReceipt
from reservoir.ports.errors import AwsError, NotFoundError, TransientError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef

# EC2 accepts 200 values of a filter and 1000 results a page.
_FILTER_VALUES_MAX: Final = 200
_PAGE: Final = 1000
# EC2 accepts 1000, but throttles by instances too: 1000 at once, then 20 a second. A call with all of them would need a
# full bucket, which an account that ends instances all the time never has.
_TERMINATE_MAX: Final = 100
_TERMINATED: Final = "terminated"
_LIVE_STATES: Final = ["pending", "running", "shutting-down", "stopping", "stopped"]
# EC2 sets it on instances that are launched from a template; users cannot set tags that begin with "aws:".
_TEMPLATE_TAG: Final = "aws:ec2launchtemplate:id"
_TRANSITION: Final = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
_SCHEDULED_CODES: Final = frozenset(
    {
        "instance-reboot",
        "instance-retirement",
        "instance-stop",
        "system-maintenance",
        "system-reboot",
    }
)


class Ec2Instances:
    """Implements ``InstanceReader``, ``InstanceTerminator``, ``InstanceTagger`` and ``InstanceHealthReader``."""

    def __init__(
        self, client: "EC2Client", deployment: str, tag_pacer: Pacer | None = None
    ) -> None:
        self._client = client
        self._deployment = deployment
        self._tag_pacer = tag_pacer or Pacer(CREATE_TAGS_CALLS)

    def get_many(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        """Return the instances that EC2 shows and that are ours, or have terminated and lost their tags.

        The ids are a filter, not the request's InstanceIds: there, one that EC2 does not show fails the whole call.
        Many are picked out of all of ours first, which takes a fifth of the calls; the rest is asked for by id.
        """
        wanted = frozenset(instance_ids)
        found: dict[str, Instance] = {}
        if len(wanted) > _PAGE:
            for instance in self._describe([]):
                if instance.id in wanted:
                    found[instance.id] = instance
        for chunk in _chunks(sorted(wanted - found.keys()), _FILTER_VALUES_MAX):
            for instance in self._shown([{"Name": "instance-id", "Values": chunk}]):
                if instance.owner == self._deployment or _has_lost_its_tags(instance):
                    found[instance.id] = instance
        return found

    def list_batch(self, batch_id: str) -> tuple[Instance, ...]:
        """Return the instances of a launch batch."""
        return self._sorted([{"Name": f"tag:{names.BATCH_TAG}", "Values": [batch_id]}])

    def list_owned(self) -> tuple[Instance, ...]:
        """Return all instances of ours that have not terminated."""
        return self._sorted([{"Name": "instance-state-name", "Values": _LIVE_STATES}])

    def _sorted(self, filters: "list[FilterTypeDef]") -> tuple[Instance, ...]:
        return tuple(sorted(self._describe(filters), key=lambda instance: instance.id))

    def _describe(self, filters: "list[FilterTypeDef]") -> Iterator[Instance]:
        ours: FilterTypeDef = {
            "Name": f"tag:{names.OWNER_TAG}",
            "Values": [self._deployment],
        }
        for instance in self._shown([ours, *filters]):
            if instance.owner == self._deployment:
                yield instance

    def _shown(self, filters: "list[FilterTypeDef]") -> Iterator[Instance]:
        """Yield the instances that EC2 shows, of all owners."""
        pages = self._client.get_paginator("describe_instances").paginate(
            Filters=filters, PaginationConfig={"PageSize": _PAGE}
        )
        with map_client_errors():
            for page in pages:
                for reservation in page["Reservations"]:
                    for item in reservation["Instances"]:
                        yield instance_of(item)

    def terminate(self, instance_ids: Collection[str]) -> TerminationReceipt:
        """Terminate in bulk. EC2 refuses a whole call for one bad id and terminates none: halves are then tried."""
        refusals: dict[str, AwsError] = {}
        for chunk in _chunks(sorted(set(instance_ids)), _TERMINATE_MAX):
            self._terminate_or_halve(chunk, refusals)
        missing = frozenset(
            i for i, error in refusals.items() if isinstance(error, NotFoundError)
        )
        refused = {i: error.code for i, error in refusals.items() if i not in missing}
        return TerminationReceipt(
            frozenset(instance_ids) - refusals.keys(), missing, refused
        )

    def _terminate_or_halve(
        self, instance_ids: Sequence[str], refusals: dict[str, AwsError]
    ) -> None:
        """One bad id among n costs about 2 log n calls, instead of n one by one."""
        try:
            self._terminate(instance_ids)
        except TransientError:
            raise
        except AwsError as error:
            if len(instance_ids) == 1:
                refusals[instance_ids[0]] = error
                return
            middle = len(instance_ids) // 2
            self._terminate_or_halve(instance_ids[:middle], refusals)
            self._terminate_or_halve(instance_ids[middle:], refusals)

    def _terminate(self, instance_ids: Sequence[str]) -> None:
        with map_client_errors():
            self._client.terminate_instances(InstanceIds=list(instance_ids))

    def tag_claims(self, claim_ids: Mapping[str, str], *, patient: bool) -> None:
        """Tag instances with their claim: one call per claim, because a call has one set of tags."""
        for instance_id, claim_id in sorted(claim_ids.items()):
            if not patient and not self._tag_pacer.is_free():
                return
            self._tag_pacer.wait()
            try:
                with map_client_errors():
                    self._client.create_tags(
                        Resources=[instance_id],
                        Tags=[{"Key": names.NODE_CLAIM_TAG, "Value": claim_id}],
                    )
            except NotFoundError:
                # gone, or not visible yet; the collector tags untagged ones
                continue

    def list_unhealthy(self) -> tuple[InstanceHealth, ...]:
        """Return instances with failed checks or scheduled events, by id."""
        found: dict[str, InstanceHealth] = {}
        for name in ("instance-status.status", "system-status.status"):
            for item in self._statuses([{"Name": name, "Values": ["impaired"]}]):
                found[item["InstanceId"]] = _health(item)
        for item in self._statuses(
            [{"Name": "event.code", "Values": sorted(_SCHEDULED_CODES)}]
        ):
            found[item["InstanceId"]] = _health(item)
        return tuple(found[instance_id] for instance_id in sorted(found))

    def _statuses(self, filters: "list[FilterTypeDef]") -> Iterator[Any]:
        pages = self._client.get_paginator("describe_instance_status").paginate(
            Filters=filters, PaginationConfig={"PageSize": _PAGE}
        )
        with map_client_errors():
            for page in pages:
                yield from page["InstanceStatuses"]


def _has_lost_its_tags(instance: Instance) -> bool:
    """Whether the tags that named its owner are gone; its id, which one of our claims recorded, still names it."""
    return instance.state == _TERMINATED and instance.owner is None


def instance_of(item: Mapping[str, Any]) -> Instance:
    """Read one instance of DescribeInstances."""
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}
    return Instance(
        id=item["InstanceId"],
        state=item["State"]["Name"],
        instance_type=item["InstanceType"],
        zone=item.get("Placement", {}).get("AvailabilityZone", ""),
        zone_id=item.get("Placement", {}).get("AvailabilityZoneId", ""),
        launched_at=item["LaunchTime"],
        owner=tags.get(names.OWNER_TAG),
        batch_id=tags.get(names.BATCH_TAG),
        claim_id=tags.get(names.NODE_CLAIM_TAG),
        lifecycle=item.get("InstanceLifecycle", ""),
        capacity_reservation_id=item.get("CapacityReservationId"),
        image_id=item.get("ImageId"),
        subnet_id=item.get("SubnetId"),
        security_group_ids=tuple(
            sorted(group["GroupId"] for group in item.get("SecurityGroups", []))
        ),
        launch_template_id=tags.get(_TEMPLATE_TAG),
        state_reason=item.get("StateReason", {}).get("Code"),
        ended_at=_transition_at(item.get("StateTransitionReason", "")),
    )


def _transition_at(reason: str) -> datetime | None:
    """Read when an instance changed its state: "User initiated (2026-01-31 12:00:00 GMT)"; other reasons say none."""
    found = _TRANSITION.search(reason)
    return None if found is None else datetime.fromisoformat(f"{found[1]}+00:00")


def _health(item: Mapping[str, Any]) -> InstanceHealth:
    since: list[datetime] = []
    for check in ("InstanceStatus", "SystemStatus"):
        status = item.get(check, {})
        if status.get("Status") == "impaired":
            details = status.get("Details", [])
            since.extend(
                detail["ImpairedSince"] for detail in details if "ImpairedSince" in detail
            )
    events = sorted(
        (event["NotBefore"], event["Code"])
        for event in item.get("Events", [])
        # EC2 keeps finished events in the list and marks them in the text; there is no other field for it.
        if event.get("Code") in _SCHEDULED_CODES
        and "NotBefore" in event
        and not _is_over(event)
    )
    scheduled_at, code = events[0] if events else (None, None)
    return InstanceHealth(item["InstanceId"], min(since, default=None), code, scheduled_at)


def _is_over(event: Mapping[str, Any]) -> bool:
    description: str = event.get("Description", "")
    return description.startswith(("[Completed]", "[Canceled]"))


def _chunks(items: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
