"""Launch templates: what every launch of one NodeClass on one market, or into one reservation, has in common.

A template is named by the hash of its content, so it is never changed: a class that changes gets new templates, equal
needs share one, and a template that was deleted under us is simply made again. Versions are not needed.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir import names
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_class import FleetTargetingMode, NodeClass
from reservoir.core.scheduling_terms.efa import EfaCard, network_interfaces

NODE_CLASS_HASH_TAG: Final = "reservoir:nodeclass-hash"
RESERVATION_TAG: Final = "reservoir:reservation"

USER_DATA_BYTES_MAX: Final = 16 * 1024  # EC2's limit, before base64
_TAGS_MAX: Final = 50  # EC2's limit for one resource
_TAG_KEY: Final = re.compile(r"[\w .:/=+@-]{1,128}")
_TAG_VALUE: Final = re.compile(r"[\w .:/=+@-]{0,256}")

# Karpenter's defaults: instance metadata by token only, and not from inside containers with their own network. Tags
# are kept out of it whatever the account's default says: EC2 refuses a launch with keys such as karpenter.sh/nodepool
# where instance metadata show tags (EC2 user guide, "Work with instance tags in instance metadata").
_METADATA_DEFAULTS: Final[Mapping[str, object]] = {
    "HttpEndpoint": "enabled",
    "HttpProtocolIpv6": "disabled",
    "HttpPutResponseHopLimit": 1,
    "HttpTokens": "required",
    "InstanceMetadataTags": "disabled",
}


class NodeClassUnlaunchableError(Exception):
    """The NodeClass asks for something that EC2 cannot accept; no launch of it can succeed until it changes."""


@dataclass(frozen=True, slots=True)
class ReservationTarget:
    """The one reservation that a launch goes into, and how CreateFleet gets it."""

    reservation_id: str
    kind: ReservationKind
    mode: FleetTargetingMode = FleetTargetingMode.LAUNCH_TEMPLATE
    # by name: only instances in it can use the reservation
    placement_group: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """A template by content. ``data`` is in EC2's own shape (RequestLaunchTemplateData)."""

    name: str
    data: Mapping[str, object]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """A template that exists in EC2 and carries our owner tag."""

    name: str
    created_at: datetime
    tags: Mapping[str, str]
    id: str = ""


def launch_template(
    node_class: NodeClass,
    image_id: str,
    deployment: str,
    target: ReservationTarget | None,
    efa_cards: tuple[EfaCard, ...] = (),
    group_arn: str | None = None,
) -> LaunchTemplate:
    """Build the template of a class for one image, on the plain market (``target`` None) or into one reservation.

    ``efa_cards``: network cards of the type that get an EFA each. ``group_arn``: a resource group of reservations at
    which on-demand instances are launched without a ``target``, so that EC2 can move them into one later.

    Raises
    ------
    NodeClassUnlaunchableError
        The user data or a tag breaks one of EC2's limits.
    """
    data: dict[str, object] = {
        "ImageId": image_id,
        "MetadataOptions": {**_METADATA_DEFAULTS, **node_class.metadata_options},
        "Monitoring": {"Enabled": node_class.detailed_monitoring},
        **_network(node_class, efa_cards),
        **_identity(node_class),
        **_market(node_class, target, group_arn),
    }
    if node_class.user_data is not None:
        data["UserData"] = _encoded_user_data(node_class.user_data)
    if node_class.block_device_mappings:
        data["BlockDeviceMappings"] = [
            dict(mapping) for mapping in node_class.block_device_mappings
        ]
    placement = _placement(node_class, target)
    if placement:
        data["Placement"] = placement
    tags = {
        **checked_tags(node_class),
        names.OWNER_TAG: deployment,
        names.NODE_CLASS_TAG: node_class.name,
        NODE_CLASS_HASH_TAG: node_class.static_hash,
    }
    if target is not None:
        tags[RESERVATION_TAG] = target.reservation_id
    # Fleet tags interfaces as well, since a release that EC2's older models do not know. In either case an interface
    # carries the owner tag, without which the launch role may not make it.
    data["TagSpecifications"] = [
        {
            "ResourceType": "network-interface",
            "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())],
        }
    ]
    content = json.dumps(
        {"data": data, "tags": tags}, sort_keys=True, separators=(",", ":")
    )
    digest = hashlib.sha256(content.encode()).hexdigest()[:24]
    return LaunchTemplate(f"reservoir-{deployment}-{digest}", data, tags)


def checked_tags(node_class: NodeClass) -> dict[str, str]:
    """Return the class's own tags, without those that only Reservoir may set.

    Raises
    ------
    NodeClassUnlaunchableError
        EC2 would refuse a tag, or there would be too many.
    """
    reserved = (
        names.OWNER_TAG,
        names.NODE_CLAIM_TAG,
        names.BATCH_TAG,
        names.TEAM_TAG,
        names.NODE_POOL_TAG,
        names.NODE_CLASS_TAG,
    )
    tags = {
        key: value for key, value in sorted(node_class.tags.items()) if key not in reserved
    }
    for key, value in tags.items():
        if (
            key.lower().startswith("aws:")
            or not _TAG_KEY.fullmatch(key)
            or not _TAG_VALUE.fullmatch(value)
        ):
            raise NodeClassUnlaunchableError(
                f"tag {key[:40]!r} is not one that EC2 accepts"
            )
    if len(tags) + len(reserved) + 2 > _TAGS_MAX:
        raise NodeClassUnlaunchableError(
            f"{len(tags)} tags; EC2 allows {_TAGS_MAX} with those that Reservoir sets"
        )
    return tags


def _network(node_class: NodeClass, efa_cards: tuple[EfaCard, ...]) -> dict[str, object]:
    groups = list(node_class.status.security_group_ids)
    tracked = node_class.connection_tracking
    tracking = {"ConnectionTrackingSpecification": dict(tracked)} if tracked else {}
    public = node_class.associate_public_ip_address
    if efa_cards:
        primary, *others = network_interfaces(efa_cards, groups, public)
        # the others carry no IP traffic
        return {"NetworkInterfaces": [{**primary, **tracking}, *others]}
    if public is None and not tracking:
        return {"SecurityGroupIds": groups} if groups else {}
    interface: dict[str, object] = {"DeviceIndex": 0, **tracking}
    if public is not None:
        interface["AssociatePublicIpAddress"] = public
    # EC2 refuses security groups beside a network interface; they belong inside it.
    return {"NetworkInterfaces": [{**interface, "Groups": groups} if groups else interface]}


def _identity(node_class: NodeClass) -> dict[str, object]:
    profile = node_class.instance_profile or node_class.status.instance_profile
    if profile is None:
        return {}
    return {
        "IamInstanceProfile": {"Arn" if profile.startswith("arn:") else "Name": profile}
    }


def _market(
    node_class: NodeClass, target: ReservationTarget | None, group_arn: str | None
) -> dict[str, object]:
    """Say where capacity comes from.

    Plain templates must opt out of open reservations explicitly: EC2's default preference is open, and a plain launch
    would use up a matching open reservation whose units the ledger has promised to other claims. One that targets a
    group has no preference, which would exclude it: without a match in the group, the instance runs on demand.
    """
    if target is None and group_arn is not None:
        at_group = {"CapacityReservationResourceGroupArn": group_arn}
        return {"CapacityReservationSpecification": {"CapacityReservationTarget": at_group}}
    if target is None:
        return {
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": node_class.open_reservation_preference.value
            }
        }
    if target.mode is FleetTargetingMode.RESERVED_CAPACITY:
        # the request names the reservation, and Fleet sets the market type itself
        return {}
    by_id = {"CapacityReservationTarget": {"CapacityReservationId": target.reservation_id}}
    if target.kind is ReservationKind.DEFAULT:
        preference = {"CapacityReservationPreference": "capacity-reservations-only"}
        return {"CapacityReservationSpecification": {**preference, **by_id}}
    if target.kind is ReservationKind.CAPACITY_BLOCK:
        market_type = "capacity-block"
    else:
        market_type = "interruptible-capacity-reservation"
    return {
        "CapacityReservationSpecification": by_id,
        "InstanceMarketOptions": {"MarketType": market_type},
    }


def _placement(
    node_class: NodeClass, target: ReservationTarget | None
) -> dict[str, object]:
    placement: dict[str, object] = {}
    # EC2 refuses a placement group together with a Capacity Block (user guide, "Capacity Block concepts").
    is_block = target is not None and target.kind is ReservationKind.CAPACITY_BLOCK
    group = (
        target.placement_group if target is not None else None
    ) or node_class.placement_group
    if group is not None and not is_block:
        placement["GroupId" if group.startswith("pg-") else "GroupName"] = group
    if node_class.tenancy != "default":
        placement["Tenancy"] = node_class.tenancy
    return placement


def _encoded_user_data(user_data: str) -> str:
    raw = user_data.encode()
    if len(raw) > USER_DATA_BYTES_MAX:
        raise NodeClassUnlaunchableError(
            f"user data has {len(raw)} bytes; EC2 allows {USER_DATA_BYTES_MAX}"
        )
    return base64.b64encode(raw).decode()


# A template this young may belong to a launch in progress.
TEMPLATE_GRACE: Final = timedelta(hours=1)
# Content hashes say nothing about use; a template that is needed again is made again at its next launch.
TEMPLATE_AGE_MAX: Final = timedelta(days=7)
# EC2 allows 5,000 templates in a region, and they are not ours alone.
TEMPLATES_MAX: Final = 2_000


def superfluous_templates(
    stored: tuple[StoredTemplate, ...],
    class_hashes: Mapping[str, str],
    reservation_ids: frozenset[str],
    now: datetime,
) -> tuple[str, ...]:
    """Return the names of templates that nothing should launch from any more, oldest first.

    ``class_hashes`` has the static hash of every NodeClass by name, ``reservation_ids`` every reservation that is
    still known. Too many that are still wanted lose their oldest.
    """
    settled = sorted(
        (t for t in stored if now - t.created_at > TEMPLATE_GRACE),
        key=lambda t: (t.created_at, t.name),
    )
    stale = [t.name for t in settled if _is_stale(t, class_hashes, reservation_ids, now)]
    surplus = len(stored) - len(stale) - TEMPLATES_MAX
    if surplus > 0:
        stale += [t.name for t in settled if t.name not in set(stale)][:surplus]
    return tuple(stale)


def _is_stale(
    template: StoredTemplate,
    class_hashes: Mapping[str, str],
    reservation_ids: frozenset[str],
    now: datetime,
) -> bool:
    if now - template.created_at > TEMPLATE_AGE_MAX:
        return True
    if class_hashes.get(template.tags.get(names.NODE_CLASS_TAG, "")) != template.tags.get(
        NODE_CLASS_HASH_TAG
    ):
        return True
    reservation_id = template.tags.get(RESERVATION_TAG)
    return reservation_id is not None and reservation_id not in reservation_ids
