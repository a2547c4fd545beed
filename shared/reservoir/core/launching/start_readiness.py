"""Whether a reservation that is about to begin could be used: what its first launch lacks, known before it begins.

A unit of a block that nothing can launch into is paid for from its first second. What discovery knows of policy,
classes and EC2 is enough to report that a day and an hour before. No launch waits for this report: EC2's answer to it
decides.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.capacity.offerings import has_image, reservation_labels
from reservoir.core.capacity.reservation_selection import matches
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    ObservedReservation,
)
from reservoir.core.model.conditions import (
    NEVER_FOUND,
    Condition,
    ConditionStatus,
    ConditionType,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass, ValidationOutcome
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ZONE,
    ZONE_ID,
)
from reservoir.core.scheduling_terms.resources import counted

# The first notice comes a day before, the last with a quarter of an hour to spare before the last hour.
DAY_BEFORE: Final = timedelta(hours=24)
HOUR_BEFORE: Final = timedelta(minutes=75)
_READY: Final = "ready"


class Shortcoming(StrEnum):
    """Why nothing could be launched into a reservation."""

    NOT_SELECTED = "NotSelected"
    PLATFORM_DIFFERS = "PlatformDiffers"
    TENANCY_DIFFERS = "TenancyDiffers"
    PLACEMENT_GROUP_DIFFERS = "PlacementGroupDiffers"
    NO_SUBNET = "NoSubnet"
    NO_SUBNET_IN_ZONE = "NoSubnetInZone"
    NO_FREE_ADDRESS = "NoFreeAddress"
    NO_SECURITY_GROUP = "NoSecurityGroup"
    NO_IMAGE = "NoImage"
    NO_IMAGE_FOR_TYPE = "NoImageForType"
    NO_INSTANCE_PROFILE = "NoInstanceProfile"
    LAUNCHES_BLOCKED = "LaunchesBlocked"
    NOTHING_STARTS = "NothingStarts"
    DRY_RUN_REFUSED = "DryRunRefused"
    UNKNOWN_TYPE = "UnknownType"
    NO_NODE_POOL = "NoNodePool"
    MARKET_NOT_ADMITTED = "MarketNotAdmitted"
    TYPE_NOT_ADMITTED = "TypeNotAdmitted"
    ZONE_NOT_ADMITTED = "ZoneNotAdmitted"
    LABEL_NOT_ADMITTED = "LabelNotAdmitted"
    POOL_PAUSED = "PoolPaused"
    LIMIT_TOO_LOW = "LimitTooLow"
    POLICY_UNREADABLE = "PolicyUnreadable"


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that is missing, in words, and what mends it."""

    what: Shortcoming
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """The known policy: ``conditions`` of classes by name, and kinds and names that cannot be read."""

    node_pools: Sequence[NodePool]
    node_classes: Sequence[NodeClass]
    conditions: Mapping[str, Sequence[Condition]]
    unreadable: Sequence[str] = ()


def is_near(reservation: ObservedReservation, now: datetime) -> bool:
    """Whether it begins within a day."""
    start_at = reservation.start_at
    return (
        reservation.is_upcoming(now)
        and start_at is not None
        and now < start_at <= now + DAY_BEFORE
    )


def missing(
    reservation: CapacityReservation,
    policy: KnownPolicy,
    types: Mapping[str, InstanceType],
) -> tuple[Missing, ...]:
    """Return what keeps every class and pool from launching into it; nothing, if one of them could.

    Of several classes, the one that lacks the least is described. ``types`` are EC2's types by name; empty: they are
    not known.
    """
    selecting = [
        each
        for each in policy.node_classes
        if reservation.id in each.status.reservation_ids
    ]
    meant = selecting or [
        each for each in policy.node_classes if is_meant(each, reservation)
    ]
    if not meant:
        return tuple(_unselected(reservation, policy))
    found = [tuple(_of_class(reservation, each, policy, types)) for each in meant]
    return min(found, key=len)


def is_meant(node_class: NodeClass, reservation: ObservedReservation) -> bool:
    """Whether a class selects the reservation by its terms, although it may not be able to launch into it."""
    groups = {arn: frozenset({reservation.id}) for arn in reservation.resource_group_arns}
    terms = node_class.capacity_reservation_selector_terms
    return any(matches(term, reservation, groups) for term in terms)


def notice_key(
    reservation: CapacityReservation, found: Iterable[Missing], now: datetime
) -> str:
    """Return the key of a report, so that each is published once; other findings, and another start, have others."""
    start_at = reservation.start_at
    begins = "" if start_at is None else start_at.isoformat()
    parts = sorted(f"{each.what} {each.advice}" for each in found)
    if not parts:
        return f"{begins} {_READY}"
    is_last = start_at is not None and start_at - now <= HOUR_BEFORE
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{begins} {'hour' if is_last else 'day'} {digest}"


def is_news(key: str, said: str | None) -> bool:
    """Whether to publish it: something is newly missing, or something that was reported missing is there."""
    if key.endswith(_READY):
        begins = key.partition(" ")[0]
        return said is not None and said.startswith(f"{begins} ") and said != key
    return key != said


def _unselected(reservation: CapacityReservation, policy: KnownPolicy) -> Iterator[Missing]:
    if policy.unreadable:
        names = ", ".join(policy.unreadable)
        yield Missing(
            Shortcoming.POLICY_UNREADABLE,
            f"no class that can be read selects it, and {names} cannot be read",
            "apply it again, or deploy the newer release",
        )
        return
    yield Missing(
        Shortcoming.NOT_SELECTED,
        f"no EC2NodeClass selects it: {reservation.size} x {reservation.instance_type}",
        "select it by its tags or id in capacityReservationSelectorTerms",
    )


# Branches: one fault after the other.
def _of_class(
    reservation: CapacityReservation,
    node_class: NodeClass,
    policy: KnownPolicy,
    types: Mapping[str, InstanceType],
) -> Iterator[Missing]:
    conditions = {each.type: each for each in policy.conditions.get(node_class.name, ())}
    yield from _alike(reservation, node_class)
    yield from _looked_up(node_class, conditions)
    yield from _addresses(reservation, node_class)
    yield from _permitted(node_class, conditions)
    kind = types.get(reservation.instance_type)
    if types and kind is None:
        yield Missing(
            Shortcoming.UNKNOWN_TYPE,
            f"EC2 describes no instance type {reservation.instance_type} in this region",
            "wait for the next discovery of offerings, or read its log",
        )
    if (
        kind is not None
        and node_class.status.machine_images
        and not has_image(node_class, kind)
    ):
        yield Missing(
            Shortcoming.NO_IMAGE_FOR_TYPE,
            f"EC2NodeClass {node_class.name} has no image of the architecture of {kind.name}",
            f"let amiSelectorTerms of {node_class.name} select one",
        )
    pools = [each for each in policy.node_pools if each.node_class_name == node_class.name]
    if not pools:
        yield Missing(
            Shortcoming.NO_NODE_POOL,
            f"no NodePool uses EC2NodeClass {node_class.name}",
            f"apply a NodePool whose nodeClassRef is {node_class.name}",
        )
        return
    yield from min((tuple(_of_pool(reservation, each, kind)) for each in pools), key=len)


def _alike(reservation: CapacityReservation, node_class: NodeClass) -> Iterator[Missing]:
    name = f"EC2NodeClass {node_class.name}"
    if reservation.platform != node_class.platform:
        yield Missing(
            Shortcoming.PLATFORM_DIFFERS,
            f"it is for {reservation.platform}, and {name} launches {node_class.platform}",
            f"select it by a class whose platform is {reservation.platform}",
        )
    if reservation.tenancy != node_class.tenancy:
        yield Missing(
            Shortcoming.TENANCY_DIFFERS,
            f"its tenancy is {reservation.tenancy}, and {name} launches {node_class.tenancy}",
            f"select it by a class whose tenancy is {reservation.tenancy}",
        )
    group = reservation.placement_group_name
    if group is not None and node_class.placement_group not in (None, group):
        yield Missing(
            Shortcoming.PLACEMENT_GROUP_DIFFERS,
            f"it is in placement group {group}, and {name} launches into {node_class.placement_group}",
            f"let placementGroup of {node_class.name} be {group}, or leave it out",
        )


def _looked_up(
    node_class: NodeClass, conditions: Mapping[ConditionType, Condition]
) -> Iterator[Missing]:
    """Yield what a class selects and discovery does not find; an earlier result stays in use while a lookup fails."""
    for kind, what, noun, terms in (
        (
            ConditionType.SUBNETS_READY,
            Shortcoming.NO_SUBNET,
            "subnet",
            "subnetSelectorTerms",
        ),
        (
            ConditionType.SECURITY_GROUPS_READY,
            Shortcoming.NO_SECURITY_GROUP,
            "security group",
            "securityGroupSelectorTerms",
        ),
        (ConditionType.AMIS_READY, Shortcoming.NO_IMAGE, "image", "amiSelectorTerms"),
        (
            ConditionType.INSTANCE_PROFILE_READY,
            Shortcoming.NO_INSTANCE_PROFILE,
            "instance profile",
            "role or instanceProfile",
        ),
    ):
        said = conditions.get(kind)
        if said is not None and (
            said.status is ConditionStatus.FALSE or said.reason == NEVER_FOUND
        ):
            yield Missing(
                what,
                f"EC2NodeClass {node_class.name} has no {noun}: {said.message}",
                f"correct {terms} of {node_class.name}, or make what they name",
            )


def _addresses(
    reservation: CapacityReservation, node_class: NodeClass
) -> Iterator[Missing]:
    subnets = node_class.status.subnets
    within = [each for each in subnets if each.zone_id == reservation.zone_id]
    if subnets and not within:
        yield Missing(
            Shortcoming.NO_SUBNET_IN_ZONE,
            f"EC2NodeClass {node_class.name} has no subnet in {reservation.zone}",
            f"let subnetSelectorTerms of {node_class.name} select one there",
        )
    if within and not any(each.available_ip_count for each in within):
        ids = ", ".join(sorted(each.id for each in within))
        yield Missing(
            Shortcoming.NO_FREE_ADDRESS,
            f"no address is free in {reservation.zone} ({ids})",
            f"free some, or let {node_class.name} select another subnet there",
        )


def _permitted(
    node_class: NodeClass, conditions: Mapping[ConditionType, Condition]
) -> Iterator[Missing]:
    name, status = f"EC2NodeClass {node_class.name}", node_class.status
    permitted = conditions.get(ConditionType.LAUNCHES_PERMITTED)
    if status.launch_blocked_reason is not None:
        yield Missing(
            Shortcoming.LAUNCHES_BLOCKED,
            f"{name} launches nothing: {status.launch_blocked_reason}",
            f"correct what it names, then apply {node_class.name} again",
        )
    elif permitted is not None and permitted.status is ConditionStatus.FALSE:
        yield Missing(
            Shortcoming.NOTHING_STARTS,
            f"nodes of {name} do not start: {permitted.message}",
            f"see the cause with reservoir get nodeclass {node_class.name} -o yaml",
        )
    validation = status.validation
    if validation is not None and validation.outcome is ValidationOutcome.REFUSED:
        yield Missing(
            Shortcoming.DRY_RUN_REFUSED,
            f"EC2 refuses a dry run of {name}: {validation.message}",
            f"correct the permission or {node_class.name}; the dry run is repeated",
        )


# Branches: one fault after the other.
def _of_pool(
    reservation: CapacityReservation, pool: NodePool, kind: InstanceType | None
) -> Iterator[Missing]:
    name = f"NodePool {pool.name}"
    known = {
        **reservation_labels(reservation),
        INSTANCE_TYPE: reservation.instance_type,
        ZONE: reservation.zone,
        ZONE_ID: reservation.zone_id,
        CAPACITY_TYPE: str(CapacityType.RESERVED),
    }
    for key, requirement in sorted(pool.requirements.items()):
        if key in known and not requirement.has(known[key]):
            yield Missing(
                _NOT_ADMITTED.get(key, Shortcoming.LABEL_NOT_ADMITTED),
                f"{name} asks for {requirement}, and it is {known[key]}",
                f"admit {known[key]} in {key} of {pool.name}",
            )
    admits_type = INSTANCE_TYPE not in pool.requirements or pool.requirements[
        INSTANCE_TYPE
    ].has(reservation.instance_type)
    if kind is not None and admits_type and not pool.requirements.meets(kind.requirements):
        yield Missing(
            Shortcoming.TYPE_NOT_ADMITTED,
            f"{kind.name} does not meet the requirements of {name}",
            f"admit {kind.name} in the requirements of {pool.name}",
        )
    if pool.paused is not None:
        yield Missing(
            Shortcoming.POOL_PAUSED,
            f"{name} is paused {pool.paused}",
            f"reservoir resume pool {pool.name}",
        )
    for resource, limit in sorted((pool.limits or {}).items()):
        one = 1 if kind is None and resource == "nodes" else None
        needed = one if kind is None else counted(kind.capacity, resource)
        if needed is not None and needed > limit:
            yield Missing(
                Shortcoming.LIMIT_TOO_LOW,
                f"the limit of {resource} of {name} is below one {reservation.instance_type}",
                f"raise spec.limits.{resource} of {pool.name}",
            )


_NOT_ADMITTED: Final = {
    CAPACITY_TYPE: Shortcoming.MARKET_NOT_ADMITTED,
    INSTANCE_TYPE: Shortcoming.TYPE_NOT_ADMITTED,
    ZONE: Shortcoming.ZONE_NOT_ADMITTED,
    ZONE_ID: Shortcoming.ZONE_NOT_ADMITTED,
}
