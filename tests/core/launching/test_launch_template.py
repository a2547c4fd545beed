"""Launch templates: what they say, how they are named, which ones go."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from reservoir.core.launching.launch_template import (
    NODE_CLASS_HASH_TAG,
    RESERVATION_TAG,
    TEMPLATES_MAX,
    NodeClassUnlaunchableError,
    ReservationTarget,
    StoredTemplate,
    launch_template,
    superfluous_templates,
)
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_class import (
    FleetTargetingMode,
    NodeClass,
    NodeClassStatus,
    OpenReservationPreference,
)
from reservoir.core.scheduling_terms.efa import EfaCard
from reservoir.names import NODE_CLASS_TAG, OWNER_TAG

CLASS = NodeClass(
    "default", static_hash="h1", status=NodeClassStatus(security_group_ids=("sg-1",))
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def data(
    node_class: NodeClass = CLASS, target: ReservationTarget | None = None
) -> dict[str, object]:
    return dict(launch_template(node_class, "ami-1", "prod", target).data)


def to(
    kind: ReservationKind, mode: FleetTargetingMode = FleetTargetingMode.LAUNCH_TEMPLATE
) -> ReservationTarget:
    return ReservationTarget("cr-1", kind, mode)


def test_plain_templates_opt_out_of_open_reservations() -> None:
    assert data()["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "none"
    }


def test_a_class_may_opt_in() -> None:
    opened = replace(CLASS, open_reservation_preference=OpenReservationPreference.OPEN)
    assert data(opened)["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "open"
    }


@pytest.mark.parametrize(
    ("kind", "preference", "market"),
    [
        (ReservationKind.DEFAULT, "capacity-reservations-only", None),
        (ReservationKind.CAPACITY_BLOCK, None, "capacity-block"),
        (ReservationKind.INTERRUPTIBLE, None, "interruptible-capacity-reservation"),
    ],
)
def test_a_reservation_is_targeted_by_id(
    kind: ReservationKind, preference: str | None, market: str | None
) -> None:
    made = data(target=to(kind))
    specification = made["CapacityReservationSpecification"]
    assert isinstance(specification, dict)
    assert specification["CapacityReservationTarget"] == {"CapacityReservationId": "cr-1"}
    assert specification.get("CapacityReservationPreference") == preference
    assert made.get("InstanceMarketOptions") == (
        None if market is None else {"MarketType": market}
    )


@pytest.mark.parametrize("kind", list(ReservationKind))
def test_in_reserved_capacity_mode_the_request_names_the_reservation(
    kind: ReservationKind,
) -> None:
    made = data(target=to(kind, FleetTargetingMode.RESERVED_CAPACITY))
    assert "CapacityReservationSpecification" not in made
    assert "InstanceMarketOptions" not in made


def test_metadata_needs_a_token_unless_the_class_says_otherwise() -> None:
    assert data()["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "HttpPutResponseHopLimit": 1,
        "HttpTokens": "required",
        "InstanceMetadataTags": "disabled",
    }
    relaxed = replace(CLASS, metadata_options={"HttpTokens": "optional"})
    options = data(relaxed)["MetadataOptions"]
    assert isinstance(options, dict)
    assert options["HttpTokens"] == "optional"


def test_no_class_can_have_tags_shown_in_metadata_which_ec2_refuses_with_our_keys() -> None:
    for options in ({"HttpTokens": "optional"}, {"HttpEndpoint": "disabled"}):
        shown = data(replace(CLASS, metadata_options=options))["MetadataOptions"]
        assert isinstance(shown, dict)
        assert shown["InstanceMetadataTags"] == "disabled"


def test_interfaces_are_tagged_by_the_template_too() -> None:
    made = launch_template(replace(CLASS, tags={"team": "research"}), "ami-1", "prod", None)
    (specification,) = cast("list[dict[str, Any]]", made.data["TagSpecifications"])
    assert specification["ResourceType"] == "network-interface"
    assert {tag["Key"]: tag["Value"] for tag in specification["Tags"]} == made.tags
    assert made.tags[OWNER_TAG] == "prod"


def test_the_rest_of_the_class_is_carried_over() -> None:
    full = replace(
        CLASS,
        instance_profile="nodes",
        user_data="#!/bin/sh\necho hello\n",
        block_device_mappings=({"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}},),
        detailed_monitoring=True,
        placement_group="cluster-1",
        tenancy="dedicated",
    )
    made = data(full)
    assert made["IamInstanceProfile"] == {"Name": "nodes"}
    assert base64.b64decode(str(made["UserData"])) == b"#!/bin/sh\necho hello\n"
    assert made["BlockDeviceMappings"] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}
    ]
    assert made["Monitoring"] == {"Enabled": True}
    assert made["Placement"] == {"GroupName": "cluster-1", "Tenancy": "dedicated"}
    assert made["SecurityGroupIds"] == ["sg-1"]


def test_a_public_address_moves_the_security_groups_into_the_interface() -> None:
    made = data(replace(CLASS, associate_public_ip_address=True))
    assert "SecurityGroupIds" not in made
    assert made["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "AssociatePublicIpAddress": True, "Groups": ["sg-1"]}
    ]


def test_idle_connections_are_remembered_as_long_as_the_class_says() -> None:
    tracked = replace(CLASS, connection_tracking={"TcpEstablishedTimeout": 350})
    expected = {"ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 350}}
    assert data(tracked)["NetworkInterfaces"] == [
        {"DeviceIndex": 0, **expected, "Groups": ["sg-1"]}
    ]
    cards = (EfaCard(0, 15), EfaCard(1, 15))
    interfaces = launch_template(tracked, "ami-1", "prod", None, cards).data[
        "NetworkInterfaces"
    ]
    assert isinstance(interfaces, list)
    primary, other = interfaces
    assert primary.items() >= expected.items()
    assert "ConnectionTrackingSpecification" not in other


def test_efas_replace_the_security_groups_beside_the_interfaces() -> None:
    cards = (EfaCard(0, 15), EfaCard(1, 15))
    made = launch_template(
        CLASS, "ami-1", "prod", to(ReservationKind.CAPACITY_BLOCK), cards
    )
    assert "SecurityGroupIds" not in made.data
    interfaces = made.data["NetworkInterfaces"]
    assert isinstance(interfaces, list)
    assert [each["InterfaceType"] for each in interfaces] == ["efa", "efa-only"]
    assert (
        made.name
        != launch_template(CLASS, "ami-1", "prod", to(ReservationKind.CAPACITY_BLOCK)).name
    )


def test_blocks_go_without_a_placement_group() -> None:
    grouped = replace(CLASS, placement_group="cluster-1")
    assert "Placement" not in data(grouped, to(ReservationKind.CAPACITY_BLOCK))
    assert data(grouped, to(ReservationKind.DEFAULT))["Placement"] == {
        "GroupName": "cluster-1"
    }


def test_a_reservation_in_a_placement_group_takes_its_launches_there() -> None:
    target = replace(to(ReservationKind.DEFAULT), placement_group="rack-1")
    assert data(CLASS, target)["Placement"] == {"GroupName": "rack-1"}
    assert data(replace(CLASS, placement_group="rack-1"), target)["Placement"] == {
        "GroupName": "rack-1"
    }


def test_the_reservations_placement_group_goes_before_one_that_the_class_was_given_since() -> (
    None
):
    """What a class selects is discovered: its spec may name another group by the time of a launch."""
    target = replace(to(ReservationKind.DEFAULT), placement_group="rack-1")
    assert data(replace(CLASS, placement_group="rack-2"), target)["Placement"] == {
        "GroupName": "rack-1"
    }


def test_equal_content_has_one_name_and_other_content_another() -> None:
    first = launch_template(CLASS, "ami-1", "prod", None)
    assert launch_template(CLASS, "ami-1", "prod", None).name == first.name
    others = [
        launch_template(CLASS, "ami-2", "prod", None),
        launch_template(CLASS, "ami-1", "prod", to(ReservationKind.DEFAULT)),
        launch_template(CLASS, "ami-1", "stage", None),
        launch_template(replace(CLASS, tags={"a": "b"}), "ami-1", "prod", None),
    ]
    assert len({first.name, *(other.name for other in others)}) == 5
    assert first.name.startswith("reservoir-prod-")
    assert len(first.name) <= 128


def test_templates_say_whose_they_are() -> None:
    made = launch_template(
        replace(CLASS, tags={"team": "ml", OWNER_TAG: "forged"}),
        "ami-1",
        "prod",
        to(ReservationKind.DEFAULT),
    )
    assert made.tags == {
        "team": "ml",
        OWNER_TAG: "prod",
        NODE_CLASS_TAG: "default",
        NODE_CLASS_HASH_TAG: "h1",
        RESERVATION_TAG: "cr-1",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"user_data": "x" * (16 * 1024 + 1)},
        {"tags": {"aws:reserved": "x"}},
        {"tags": {"k" * 129: "x"}},
        {"tags": {"key": "v" * 257}},
        {"tags": {"key": "line\nbreak"}},
        {"tags": {f"k{n}": "v" for n in range(50)}},
    ],
)
def test_what_ec2_would_refuse_is_refused_before(changes: dict[str, object]) -> None:
    with pytest.raises(NodeClassUnlaunchableError):
        data(replace(CLASS, **changes))  # type: ignore[arg-type] # field names


OWN = {NODE_CLASS_TAG: "default", NODE_CLASS_HASH_TAG: "h1"}


def stored(
    name: str, hours: float = 2, tags: dict[str, str] | None = None
) -> StoredTemplate:
    return StoredTemplate(name, NOW - timedelta(hours=hours), OWN | (tags or {}))


def test_templates_of_gone_classes_and_reservations_go_after_a_grace_time() -> None:
    templates = (
        stored("used"),
        stored("young", hours=0.5, tags={NODE_CLASS_HASH_TAG: "h0"}),
        stored("changed", tags={NODE_CLASS_HASH_TAG: "h0"}),
        stored("gone", tags={NODE_CLASS_TAG: "gone"}),
        stored("reserved", tags={RESERVATION_TAG: "cr-1"}),
        stored("ended", tags={RESERVATION_TAG: "cr-2"}),
        stored("old", hours=24 * 8),
    )
    found = superfluous_templates(templates, {"default": "h1"}, frozenset({"cr-1"}), NOW)
    assert set(found) == {"changed", "gone", "ended", "old"}
    assert found[0] == "old"  # oldest first


def test_too_many_lose_their_oldest() -> None:
    templates = tuple(
        stored(f"t{n:05d}", hours=2 + (TEMPLATES_MAX + 5 - n) / 3600)
        for n in range(TEMPLATES_MAX + 5)
    )
    found = superfluous_templates(templates, {"default": "h1"}, frozenset(), NOW)
    assert found == tuple(f"t{n:05d}" for n in range(5))
