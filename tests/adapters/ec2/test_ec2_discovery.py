"""What discovery reads of EC2: parsing, paging, shared zones, every kind."""

from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.fakes.pages import Pages
from lab.fakes.system import ManualClock
from lab.worlds.cloud import Cloud
from reservoir.adapters.ec2.instance_types import Ec2InstanceTypeReader
from reservoir.adapters.ec2.instance_types import parse as parse_type
from reservoir.adapters.ec2.network import (
    Ec2LaunchEnvironment,
    newest_by_architecture,
    pinned_name,
)
from reservoir.adapters.ec2.reservations import Ec2ReservationReader, parse
from reservoir.adapters.pricing import AwsPriceReader, micro_usd, parse_product
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    ENDED_STATES,
    UPCOMING_STATES,
    ReservationKind,
)
from reservoir.core.model.node_class import MachineImage, SelectorTerm
from reservoir.core.scheduling_terms.efa import EfaCard
from reservoir.ports.errors import ThrottledError

NAMES = {"use1-az1": "us-east-1c", "use1-az2": "us-east-1a"}


@pytest.fixture(scope="module")
def cloud() -> Cloud:
    return Cloud()


# Reservations


def described(**changes: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-1",
        "OwnerId": "111122223333",
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-east-1f",
        "AvailabilityZoneId": "use1-az2",
        "State": "active",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 3,
        **changes,
    }


def test_the_zone_is_the_one_that_this_account_calls_by_the_id() -> None:
    reservation = parse(described(), NAMES)

    assert (reservation.zone, reservation.zone_id) == ("us-east-1a", "use1-az2")


def test_kinds_are_told_by_flag_and_type() -> None:
    assert parse(described(), NAMES).kind is ReservationKind.DEFAULT
    assert (
        parse(described(ReservationType="capacity-block"), NAMES).kind
        is ReservationKind.CAPACITY_BLOCK
    )
    assert (
        parse(described(ReservationType="default", Interruptible=True), NAMES).kind
        is ReservationKind.INTERRUPTIBLE
    )
    assert parse(described(Interruptible=False), NAMES).kind is ReservationKind.DEFAULT
    assert (
        parse(described(ReservationType="invented"), NAMES).kind is ReservationKind.DEFAULT
    )


def test_unknown_states_and_end_types_are_kept() -> None:
    end = datetime(2026, 2, 1, tzinfo=UTC)

    assert parse(described(State="invented"), NAMES).state == "invented"
    assert parse(described(EndDate=end, EndDateType="limited"), NAMES).end_at == end
    assert parse(described(EndDate=end, EndDateType="unlimited"), NAMES).end_at is None
    assert (
        parse(described(InstanceMatchCriteria="invented"), NAMES).instance_match_criteria
        == "invented"
    )


def test_a_reservation_that_ec2_describes_in_part_takes_no_launches_and_is_not_gone() -> (
    None
):
    for missing in ("State", "InstanceType", "AvailabilityZoneId"):
        partly = {key: value for key, value in described().items() if key != missing}
        reservation = parse(partly, NAMES)
        assert reservation.id == described()["CapacityReservationId"]
    without_state = parse(
        {key: value for key, value in described().items() if key != "State"}, NAMES
    )
    assert without_state.state not in {ACTIVE, *ENDED_STATES, *UPCOMING_STATES}


def test_ultra_servers_are_known_by_their_type() -> None:
    assert parse(described(InstanceType="p6e-gb200.36xlarge"), NAMES).ultra_server
    assert parse(described(InstanceType="trn2u.48xlarge"), NAMES).ultra_server
    assert not parse(described(InstanceType="trn2.48xlarge"), NAMES).ultra_server


def test_the_block_and_the_placement_group_are_read() -> None:
    arn = "arn:aws:ec2:us-east-1:111122223333:placement-group/rack-1"
    found = parse(
        described(
            CapacityBlockId="cb-1", PlacementGroupArn=arn, ReservationType="capacity-block"
        ),
        NAMES,
    )
    assert (found.capacity_block_id, found.placement_group_name) == ("cb-1", "rack-1")
    plain = parse(described(), NAMES)
    assert (plain.capacity_block_id, plain.placement_group_name) == (None, None)


def test_blocks_and_reservations_of_others_are_listed_with_their_owner_and_block() -> None:
    cloud = Cloud()
    shared = cloud.control(
        "share_reservation", instance_type="m5.large", zone="us-east-1a", count=3
    )
    block = cloud.control(
        "purchase_capacity_block", instance_type="p5.48xlarge", zone="us-east-1a", count=2
    )
    found = {item.id: item for item in Ec2ReservationReader(cloud.ec2, None).list_visible()}
    assert (
        found[shared["capacity_reservation_id"]].owner_id
        != found[block["capacity_reservation_id"]].owner_id
    )
    assert found[shared["capacity_reservation_id"]].unused_billing_owner_id is None
    ours = found[block["capacity_reservation_id"]]
    assert (ours.kind, ours.capacity_block_id) == (
        ReservationKind.CAPACITY_BLOCK,
        block["capacity_block_id"],
    )
    cloud.control(
        "assign_unused_billing",
        capacity_reservation_id=shared["capacity_reservation_id"],
        account_id=ours.owner_id,
    )
    found = {item.id: item for item in Ec2ReservationReader(cloud.ec2, None).list_visible()}
    assert found[shared["capacity_reservation_id"]].unused_billing_owner_id == ours.owner_id
    cloud.control(
        "unshare_reservation", capacity_reservation_id=shared["capacity_reservation_id"]
    )
    left = {item.id for item in Ec2ReservationReader(cloud.ec2, None).list_visible()}
    assert left == {block["capacity_reservation_id"]}


def test_every_page_and_every_kind_is_listed() -> None:
    cloud = Cloud()
    made = {
        cloud.reserve(2, TagSpecifications=[_tags("capacity-reservation", team="research")])
        for _ in range(5)
    }
    ended = cloud.reserve(1)
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=ended)
    reader = Ec2ReservationReader(_paged(cloud.ec2, 2), None)

    found = {reservation.id: reservation for reservation in reader.list_visible()}

    assert found.keys() == made | {ended}
    assert {found[key].tags["team"] for key in made} == {"research"}
    assert found[ended].state == "cancelled"
    assert {(found[key].total_count, found[key].available_count) for key in made} == {
        (2, 2)
    }


def _tags(kind: str, **tags: str) -> dict[str, Any]:
    return {
        "ResourceType": kind,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


class _PagedEc2:
    """The client with small pages, whatever a caller asks for."""

    def __init__(self, client: Any, size: int) -> None:
        self._client = client
        self._size = size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_paginator(self, name: str) -> Any:
        paginator = self._client.get_paginator(name)
        size = self._size

        class Small:
            def paginate(self, **arguments: Any) -> Any:
                return paginator.paginate(
                    **{**arguments, "PaginationConfig": {"PageSize": size}}
                )

        return Small()


def _paged(client: Any, size: int) -> Any:
    return _PagedEc2(client, size)


class _Groups:
    def get_paginator(self, name: str) -> Any:
        assert name == "list_group_resources"
        return self

    def paginate(self, *, Group: str) -> Pages:  # noqa: N803 # AWS's name
        arn = f"arn:aws:ec2:us-east-1:111122223333:capacity-reservation/{Group[-1]}"
        kinds = ("AWS::EC2::CapacityReservation", "AWS::EC2::Host")
        resources = [
            {"Identifier": {"ResourceArn": f"{arn}-{kind}", "ResourceType": kind}}
            for kind in kinds
        ]
        return Pages([{"Resources": resources}])


def test_only_reservations_of_a_group_count() -> None:
    reader = Ec2ReservationReader(Cloud().ec2, _Groups())

    assert reader.list_group("arn:group/x") == {"x-AWS::EC2::CapacityReservation"}


# Network


def environment(
    cloud: Cloud, parameters: Mapping[str, str] | None = None
) -> Ec2LaunchEnvironment:
    return Ec2LaunchEnvironment(
        cloud.ec2,
        _Parameters(parameters or {}),  # type: ignore[arg-type] # a fake of the one call
        _Profiles(),  # type: ignore[arg-type] # a fake of the one call
        ManualClock(),
    )


class _Parameters:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get_parameters(self, *, Names: list[str]) -> dict[str, Any]:  # noqa: N803 # AWS's name
        known = [
            {"Name": name, "Value": self._values[name]}
            for name in Names
            if name in self._values
        ]
        return {
            "Parameters": known,
            "InvalidParameters": [name for name in Names if name not in self._values],
        }


class _Profiles:
    def get_paginator(self, name: str) -> Any:
        assert name == "list_instance_profiles_for_role"
        return self

    def paginate(self, *, RoleName: str) -> Pages:  # noqa: N803 # AWS's name
        names = {"nodes": ["z-profile", "a-profile"]}.get(RoleName, [])
        return Pages(
            [{"InstanceProfiles": [{"InstanceProfileName": name} for name in names]}]
        )


def test_subnets_are_selected_by_id_or_tags(cloud: Cloud) -> None:
    subnets = [subnet["SubnetId"] for subnet in cloud.ec2.describe_subnets()["Subnets"]]
    cloud.ec2.create_tags(
        Resources=subnets[:2], Tags=[{"Key": "network", "Value": "private"}]
    )
    reader = environment(cloud)

    by_tag = reader.subnets([SelectorTerm(tags={"network": "private"})])
    assert {subnet.id for subnet in by_tag} == set(subnets[:2])
    assert {
        subnet.id for subnet in reader.subnets([SelectorTerm(tags={"network": "*"})])
    } == set(subnets[:2])
    either = reader.subnets(
        [SelectorTerm(id=subnets[2]), SelectorTerm(tags={"network": "private"})]
    )
    assert {subnet.id for subnet in either} == set(subnets[:3])
    assert reader.subnets([]) == ()
    assert by_tag[0].zone.startswith("us-east-1")
    assert by_tag[0].zone_id.startswith("use1-az")


def test_security_groups_are_selected_by_name(cloud: Cloud) -> None:
    reader = environment(cloud)

    assert len(reader.security_group_ids([SelectorTerm(name="default")])) == 1
    assert reader.security_group_ids([SelectorTerm(name="other")]) == ()


def test_an_alias_is_its_public_parameter() -> None:
    prefix = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"
    reader = environment(Cloud(), {f"{prefix}x86_64": "ami-1", f"{prefix}arm64": "ami-2"})

    images = reader.machine_images([SelectorTerm(alias="al2023@latest")])

    assert [(image.architecture, image.id) for image in images] == [
        ("amd64", "ami-1"),
        ("arm64", "ami-2"),
    ]


def test_images_are_found_by_parameter_and_id() -> None:
    cloud = Cloud()
    reader = environment(cloud, {"/team/image": cloud.image_id})

    for term in (
        SelectorTerm(ssm_parameter="/team/image"),
        SelectorTerm(id=cloud.image_id),
    ):
        assert [image.id for image in reader.machine_images([term])] == [cloud.image_id]
    assert reader.machine_images([SelectorTerm(ssm_parameter="/team/none")]) == ()


def test_the_newest_image_of_each_architecture_wins() -> None:
    images = [
        MachineImage("ami-1", "amd64", "a", "2026-01-01T00:00:00.000Z"),
        MachineImage("ami-2", "amd64", "a", "2026-02-01T00:00:00.000Z"),
        MachineImage("ami-3", "arm64", "b", "2025-02-01T00:00:00.000Z"),
        MachineImage("ami-0", "amd64", "a", "2026-02-01T00:00:00.000Z"),
    ]
    assert [image.id for image in newest_by_architecture(images)] == ["ami-2", "ami-3"]


def test_a_role_has_the_first_of_its_profiles() -> None:
    assert environment(Cloud()).instance_profile("nodes") == "a-profile"
    assert environment(Cloud()).instance_profile("unknown") is None


def test_what_was_read_is_remembered_for_minutes(cloud: Cloud) -> None:
    clock = ManualClock()
    calls: list[str] = []

    class Counting:
        def get_paginator(self, name: str) -> Any:
            calls.append(name)
            return cloud.ec2.get_paginator(name)

    reader = Ec2LaunchEnvironment(Counting(), _Parameters({}), _Profiles(), clock)  # type: ignore[arg-type] # as above
    terms = [SelectorTerm(tags={"network": "private"})]
    reader.subnets(terms)
    clock.advance(minutes=4)
    reader.subnets(terms)
    assert len(calls) == 1
    clock.advance(minutes=1)
    reader.subnets(terms)
    assert len(calls) == 2


def test_errors_are_typed() -> None:
    class Throttled:
        def get_paginator(self, name: str) -> Any:
            raise ClientError(
                {"Error": {"Code": "RequestLimitExceeded", "Message": name}}, name
            )

    with pytest.raises(ThrottledError):
        Ec2ReservationReader(Throttled(), None).list_visible()  # type: ignore[arg-type] # a fake of the one call


# Instance types


@pytest.fixture(scope="module")
def types(cloud: Cloud) -> Any:
    reader = Ec2InstanceTypeReader(
        cloud.ec2, region="us-east-1", vm_memory_overhead=Fraction("0.075")
    )
    return {found.instance_type.name: found for found in reader.list_types()}


def test_types_have_what_karpenter_gives_them(types: Any) -> None:
    p5 = types["p5.48xlarge"].instance_type
    assert p5.capacity["cpu"] == 192_000
    assert p5.capacity["nvidia.com/gpu"] == 8
    assert p5.capacity["vpc.amazonaws.com/efa"] == 32
    # 2 TiB less 7.5 %, rounded towards too little.
    assert p5.allocatable["memory"] == (2_097_152 - 157_287) << 20
    labels = p5.requirements.labels()
    assert labels["karpenter.k8s.aws/instance-gpu-name"] == "h100"
    assert labels["karpenter.k8s.aws/instance-category"] == "p"
    assert labels["karpenter.k8s.aws/instance-generation"] == "5"
    assert labels["kubernetes.io/arch"] == "amd64"
    assert "karpenter.k8s.aws/instance-accelerator-name" not in labels


def test_an_arm_guest_sees_64_mib_less(types: Any) -> None:
    graviton = types["m7g.large"].instance_type
    assert graviton.requirements.labels()["kubernetes.io/arch"] == "arm64"
    assert graviton.allocatable["memory"] == (8192 - 64 - 610) << 20


def test_neuron_devices_and_cores_are_counted(types: Any) -> None:
    trainium = types["trn1.32xlarge"].instance_type
    assert (
        trainium.capacity["aws.amazon.com/neuron"],
        trainium.capacity["aws.amazon.com/neuroncore"],
    ) == (16, 32)
    assert (
        trainium.requirements.labels()[
            "karpenter.k8s.aws/instance-accelerator-manufacturer"
        ]
        == "aws"
    )


@pytest.mark.parametrize(
    ("name", "cards"),
    [
        ("m5.large", ()),
        ("c5n.18xlarge", (EfaCard(0, 15),)),
        ("p4d.24xlarge", tuple(EfaCard(index, 15) for index in range(4))),
        # the first card carries none
        ("p6-b300.48xlarge", tuple(EfaCard(index, 4) for index in range(1, 17))),
    ],
)
def test_the_cards_that_carry_efas_are_known(
    types: Any, name: str, cards: tuple[EfaCard, ...]
) -> None:
    found = types[name].instance_type
    assert found.efa_cards == cards
    assert found.capacity["vpc.amazonaws.com/efa"] == len(cards)


def test_every_type_of_the_region_can_be_read(types: Any) -> None:
    assert len(types) > 800
    assert all(found.instance_type.allocatable["memory"] > 0 for found in types.values())
    assert all(found.instance_type.capacity["pods"] > 0 for found in types.values())
    assert not any(name.startswith("mac") for name in types)


def test_a_type_that_is_sold_in_blocks_only_has_no_market() -> None:
    info = {
        "InstanceType": "p9.48xlarge",
        "VCpuInfo": {"DefaultVCpus": 8},
        "MemoryInfo": {"SizeInMiB": 1024},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "NetworkInfo": {},
        "SupportedUsageClasses": ["capacity-block"],
    }
    found = parse_type(info, "us-east-1", Fraction(0))

    assert found.markets == frozenset()
    assert found.instance_type.allocatable["memory"] == 1 << 30


# Prices


def test_prices_are_rounded_up_to_whole_micro_usd() -> None:
    assert micro_usd("0.0960000000") == 96_000
    assert micro_usd("0.00000149") == 2
    assert micro_usd("0.0000000000") == 0


def test_a_placeholder_of_zero_is_no_price() -> None:
    def product(usd: str) -> dict[str, Any]:
        term = {"priceDimensions": {"d": {"pricePerUnit": {"USD": usd}}}}
        return {
            "product": {"attributes": {"instanceType": "m5.large"}},
            "terms": {"OnDemand": {"t": term}},
        }

    assert list(parse_product(product("0.0960000000"))) == [("m5.large", 96_000)]
    assert list(parse_product(product("0.0000000000"))) == []
    assert list(parse_product({"product": {"attributes": {}}, "terms": {}})) == []


def test_spot_prices_are_read_by_type_and_zone(cloud: Cloud) -> None:
    prices = AwsPriceReader(
        _NoPricing(),  # type: ignore[arg-type] # not called
        cloud.ec2,
        region="us-east-1",
        clock=cloud.clock,
    ).spot()

    assert prices["m5.large", "us-east-1a"] > 0
    assert all(price > 0 for price in prices.values())


def test_on_demand_prices_are_read_from_the_price_list(cloud: Cloud) -> None:
    pricing = cloud.emulation.client("pricing")
    prices = AwsPriceReader(
        pricing, cloud.ec2, region="us-east-1", clock=cloud.clock
    ).on_demand()

    assert 0 < prices["m5.large"] < prices["p5.48xlarge"]
    assert any(name.endswith(".metal") for name in prices)  # listed under dedicated tenancy


class _NoPricing:
    """No price list."""


@pytest.mark.parametrize(
    ("family", "version", "image"),
    [
        ("al2", "2.0.20240709.1", "amzn2-ami-kernel-5.10-hvm-2.0.20240709.1-x86_64-gp2"),
        ("al2023", "2023.5.20240708.0", "al2023-ami-2023.5.20240708.0-kernel-6.1-x86_64"),
        ("bottlerocket", "v1.20.0", "bottlerocket-aws-ecs-2-x86_64-v1.20.0-fcf71a47"),
        ("bottlerocket", "1.20.0", "bottlerocket-aws-ecs-2-aarch64-v1.20.0-fcf71a47"),
    ],
)
def test_a_pinned_alias_meets_the_name_that_aws_gives_its_image(
    family: str, version: str, image: str
) -> None:
    assert fnmatchcase(image, pinned_name(family, version))
