"""The request of one CreateFleet call, in the core's words and in EC2's."""

from dataclasses import replace

import pytest

from lab.fakes.system import START
from lab.fakes.values import reservation
from lab.worlds.launch_world import (
    CATALOGUE,
    ZONES,
    World,
    node_class,
    on_demand,
    reserved,
    spot,
)
from reservoir.adapters.ec2.fleet import create_fleet_parameters
from reservoir.core.capacity.unavailable_offerings import Market, SubnetKey, quota_group
from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchedInstance,
    LaunchError,
    LaunchErrorKind,
    LaunchOutcome,
    react_to,
)
from reservoir.core.launching.launch_pools import AllRestError, NoLaunchablePoolError
from reservoir.core.launching.launch_request import (
    LaunchFacts,
    LaunchRequest,
    build_launch_request,
    client_token,
    launch_key,
    roomiest_subnets,
)
from reservoir.core.launching.launch_template import NodeClassUnlaunchableError
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import (
    FleetTargetingMode,
    NodeClass,
    NodeClassStatus,
    Subnet,
)
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.efa import EFA, EfaCard
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.serialisation.json_codec import dumps, loads
from reservoir.names import NODE_CLAIM_TAG, TEAM_TAG

ONE_EFA = Resources.of({EFA: 1})
TYPES = {instance_type.name: instance_type for instance_type in CATALOGUE}


def request_of(
    offering: OfferingKey,
    *alternatives: OfferingKey,
    count: int = 2,
    kind: ReservationKind = ReservationKind.DEFAULT,
    gang: bool = False,
    of_class: NodeClass | None = None,
) -> LaunchRequest:
    world = World()
    if offering.reservation_id is not None:
        world.add_reservation(offering.reservation_id, kind=kind)
    world.add_workload(replicas=10)
    world.plan(count, offering, *alternatives, gang_key="research/train" if gang else None)
    facts = LaunchFacts(
        node_class=of_class or node_class(),
        catalogue=TYPES,
        deployment="prod",
        now=START,
        reservation=None
        if offering.reservation_id is None
        else reservation(offering.reservation_id, kind=kind),
    )
    return build_launch_request(world.claims(), facts)


def test_the_emptiest_subnet_of_each_zone_is_used() -> None:
    request = request_of(on_demand("m5.large"), on_demand("m5.large", 1))
    assert [o.subnet_id for c in request.configs for o in c.overrides] == [
        "subnet-a2",
        "subnet-b",
    ]


def test_a_request_asks_for_no_more_than_its_subnets_have_addresses_for() -> None:
    small = node_class(
        status=replace(
            node_class().status,
            subnets=(Subnet("s-1", *ZONES[0], 3), Subnet("s-2", *ZONES[0], 2)),
        )
    )
    request = request_of(on_demand("m5.large"), count=5, of_class=small)
    assert (request.count, subnets_of(request)) == (3, {"s-1"})


def test_addresses_that_this_batch_took_count_before_ec2_shows_them() -> None:
    subnets = (Subnet("s-1", *ZONES[0], 3), Subnet("s-2", *ZONES[0], 2))
    status = replace(node_class().status, subnets=subnets)
    facts = LaunchFacts(
        node_class(status=status), TYPES, "prod", START, taken_addresses={"s-1": 3}
    )
    assert {zone: subnet.id for zone, subnet in roomiest_subnets(facts).items()} == {
        "use1-az1": "s-2"
    }


def test_a_subnet_that_rests_is_left_out_and_when_all_do_nothing_new_is_learnt() -> None:
    status = replace(
        node_class().status,
        subnets=(Subnet("s-1", *ZONES[0], 9), Subnet("s-2", *ZONES[0], 5)),
    )
    world = World()
    world.add_workload(replicas=10)
    world.plan(2, on_demand("m5.large"))
    facts = LaunchFacts(
        node_class(status=status), TYPES, "prod", START, full_subnets={SubnetKey("s-1")}
    )
    assert subnets_of(build_launch_request(world.claims(), facts)) == {"s-2"}
    with pytest.raises(AllRestError, match="out of addresses"):
        build_launch_request(
            world.claims(),
            replace(facts, full_subnets={SubnetKey("s-1"), SubnetKey("s-2")}),
        )


def test_a_full_subnet_rests_alone_and_the_next_attempt_uses_another() -> None:
    request = request_of(on_demand("m5.large"), on_demand("m5.large", 1))
    full = LaunchError(
        LaunchErrorKind.SUBNET_FULL,
        "InsufficientFreeAddressesInSubnet",
        "m5.large",
        "use1-az1",
        "subnet-a2",
    )
    reaction = react_to(request, LaunchOutcome(errors=(full,)))
    assert (reaction.full_subnets, reaction.resting) == ((SubnetKey("subnet-a2"),), ())
    assert (reaction.retry, reaction.pause, reaction.resting_reservation_id) == (
        True,
        False,
        None,
    )
    unnamed = react_to(
        request, LaunchOutcome(errors=(replace(full, zone_id=None, subnet_id=None),))
    )
    assert set(unnamed.full_subnets) == {SubnetKey("subnet-a2"), SubnetKey("subnet-b")}


def subnets_of(request: LaunchRequest) -> set[str]:
    return {
        override.subnet_id for config in request.configs for override in config.overrides
    }


def test_architectures_have_a_template_each_with_the_newest_image() -> None:
    request = request_of(on_demand("m5.large"), on_demand("m6g.large"))
    images = {
        c.template.data["ImageId"]: [o.instance_type for o in c.overrides]
        for c in request.configs
    }
    assert images == {"ami-amd": ["m5.large"], "ami-arm": ["m6g.large"]}


def test_priorities_follow_the_price_over_all_templates() -> None:
    request = request_of(
        on_demand("m5.large"), on_demand("m6g.large"), on_demand("m5.xlarge")
    )
    by_priority = sorted(
        (o.priority, o.instance_type) for c in request.configs for o in c.overrides
    )
    assert by_priority == [(0, "m6g.large"), (1, "m5.large"), (2, "m5.xlarge")]


@pytest.mark.parametrize(
    ("offering", "kind", "mode", "market", "options"),
    [
        (
            on_demand("m5.large"),
            None,
            None,
            "on-demand",
            {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}},
        ),
        (
            spot("m5.large"),
            None,
            None,
            "spot",
            {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}},
        ),
        (
            reserved(),
            "default",
            None,
            "on-demand",
            {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}},
        ),
        (reserved(), "capacity-block", None, "capacity-block", {}),
        (
            reserved(),
            "interruptible",
            None,
            "reserved-capacity",
            "interruptible-capacity-reservation",
        ),
        (
            reserved(),
            "default",
            "reserved-capacity",
            "reserved-capacity",
            "on-demand-capacity-reservation",
        ),
        (
            reserved(),
            "capacity-block",
            "reserved-capacity",
            "reserved-capacity",
            "capacity-block",
        ),
    ],
)
def test_each_market_has_its_own_request(  # S-58, S-67, R-121, R-122
    offering: OfferingKey, kind: str | None, mode: str | None, market: str, options: object
) -> None:
    of_class = replace(
        node_class(),
        fleet_targeting_mode=FleetTargetingMode(mode or "template-per-reservation"),
    )
    request = request_of(
        offering, kind=ReservationKind(kind or "default"), of_class=of_class
    )
    parameters = create_fleet_parameters(request, "token")
    assert parameters["Type"] == "instant"
    assert parameters["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 2,
        "DefaultTargetCapacityType": market,
    }
    if isinstance(options, str):
        options = {
            "ReservedCapacityOptions": {
                "ReservationTypes": [options],
                "AllocationStrategy": "prioritized",
                "CapacityReservationTarget": {"CapacityReservationIds": ["cr-1"]},
            }
        }
    given = {
        k: v
        for k, v in parameters.items()
        if k in ("OnDemandOptions", "SpotOptions", "ReservedCapacityOptions")
    }
    assert given == options
    assert "UsageStrategy" not in str(parameters)


def test_a_gang_asks_for_all_or_nothing_where_ec2_can_promise_it() -> None:
    whole = {"SingleAvailabilityZone": True, "MinTargetCapacity": 3}
    plain = create_fleet_parameters(
        request_of(on_demand("m5.large"), count=3, gang=True), "t"
    )
    assert plain["OnDemandOptions"] == {"AllocationStrategy": "lowest-price", **whole}
    into_odcr = create_fleet_parameters(request_of(reserved(), count=3, gang=True), "t")
    assert into_odcr["OnDemandOptions"] == {"AllocationStrategy": "lowest-price", **whole}
    block = create_fleet_parameters(
        request_of(reserved(), count=3, gang=True, kind=ReservationKind.CAPACITY_BLOCK), "t"
    )
    assert "OnDemandOptions" not in block


def test_a_single_claim_is_tagged_and_several_are_not() -> None:
    assert request_of(on_demand("m5.large"), count=1).tags[NODE_CLAIM_TAG] == "b-1-nc-0000"
    assert NODE_CLAIM_TAG not in request_of(on_demand("m5.large"), count=2).tags
    resources = [
        t["ResourceType"]
        for t in create_fleet_parameters(request_of(on_demand("m5.large")), "t")[
            "TagSpecifications"
        ]
    ]
    assert resources == ["fleet", "instance", "volume", "network-interface"]


def test_a_class_without_images_or_subnets_cannot_launch() -> None:
    bare = replace(node_class(), status=NodeClassStatus())
    with pytest.raises(NodeClassUnlaunchableError):
        request_of(on_demand("m5.large"), of_class=bare)


def test_a_zone_without_a_subnet_is_left_out() -> None:
    status = replace(node_class().status, subnets=node_class().status.subnets[:1])
    of_class = replace(node_class(), status=status)
    request = request_of(on_demand("m5.large"), on_demand("m5.large", 1), of_class=of_class)
    assert [o.zone for c in request.configs for o in c.overrides] == ["us-east-1a"]
    with pytest.raises(NoLaunchablePoolError):
        request_of(on_demand("m5.large", 1), of_class=of_class)


def test_tokens_are_equal_for_equal_requests_only() -> None:
    request = request_of(on_demand("m5.large"))
    token = client_token("b-1", 1, request)
    assert token == client_token("b-1", 1, request_of(on_demand("m5.large")))
    assert len(token) <= 64
    assert token.isascii()
    others = {
        client_token("b-2", 1, request),
        client_token("b-1", 2, request),
        client_token("b-1", 1, replace(request, count=3)),
    }
    assert token not in others
    assert len(others) == 3


def test_a_recorded_attempt_is_read_back_to_the_same_token() -> None:
    request = request_of(reserved(), kind=ReservationKind.CAPACITY_BLOCK)
    attempt = LaunchAttempt(
        "b-1", 1, ("a", "b"), request, client_token("b-1", 1, request), START
    )
    again = loads(LaunchAttempt, dumps(attempt))
    assert again == attempt
    assert client_token("b-1", 1, again.request) == attempt.client_token
    assert create_fleet_parameters(again.request, "t") == create_fleet_parameters(
        request, "t"
    )


def test_claims_share_a_batch_only_when_their_instances_are_interchangeable() -> None:
    world = World()
    world.add_workload(replicas=10)
    world.plan(2, on_demand("m5.large"), batch_id="b-1")
    world.plan(1, on_demand("m5.large"), on_demand("m5.xlarge"), batch_id="b-2")
    world.plan(1, on_demand("m5.large", 1), batch_id="b-3")
    keys = [launch_key(claim) for claim in world.claims()]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_nodes_of_one_team_carry_its_tag_and_share_no_batch_with_others() -> None:
    world = World()
    world.add_workload(replicas=10)
    world.plan(1, on_demand("m5.large"), batch_id="b-1")
    (claim,) = world.claims()
    own = replace(claim, team="audio")
    assert launch_key(own) != launch_key(claim)
    facts = LaunchFacts(node_class(), TYPES, "prod", START)
    tags = build_launch_request([own], facts).tags
    assert tags[TEAM_TAG] == "audio"
    assert TEAM_TAG not in build_launch_request([claim], facts).tags


def test_types_with_efas_have_templates_of_their_own_where_efas_are_asked_for() -> None:
    large, xlarge = TYPES["m5.large"], TYPES["m5.xlarge"]
    with_efa = {
        "m5.large": replace(
            large, capacity=large.capacity + ONE_EFA, efa_cards=(EfaCard(0, 3),)
        ),
        "m5.xlarge": replace(
            xlarge,
            capacity=xlarge.capacity + ONE_EFA,
            efa_cards=(EfaCard(0, 3), EfaCard(1, 3)),
        ),
    }

    def interfaces(allocatable: Resources) -> list[int]:
        world = World()
        world.add_workload(replicas=10)
        world.plan(2, on_demand("m5.large"), on_demand("m5.xlarge"))
        claims = [replace(claim, allocatable=allocatable) for claim in world.claims()]
        facts = LaunchFacts(node_class(), with_efa, "prod", START)
        configs = build_launch_request(claims, facts).configs
        return [
            len(config.template.data.get("NetworkInterfaces", ()))  # type: ignore[arg-type] # a list
            for config in configs
        ]

    assert interfaces(ONE_EFA) == [1, 2]
    assert interfaces(Resources.of({"cpu": 1000})) == [0]


def test_claims_with_and_without_efas_do_not_share_a_batch() -> None:
    world = World()
    world.add_workload(replicas=10)
    world.plan(1, on_demand("m5.large"))
    (claim,) = world.claims()
    assert launch_key(claim) != launch_key(
        replace(claim, allocatable=claim.allocatable + ONE_EFA)
    )


def outcome(
    *kinds: LaunchErrorKind, instances: int = 0, adopted: bool = False
) -> LaunchOutcome:
    found = tuple(
        LaunchedInstance(f"i-{n}", "m5.large", "us-east-1a", "use1-az1")
        for n in range(instances)
    )
    errors = tuple(LaunchError(kind, kind.value, "m5.large", "use1-az1") for kind in kinds)
    return LaunchOutcome(found, errors, START, adopted)


@pytest.mark.parametrize(
    ("kind", "retry", "rests", "blocked"),
    [
        (LaunchErrorKind.INSUFFICIENT_CAPACITY, False, True, False),
        (LaunchErrorKind.SUBNET_FULL, True, False, False),
        (LaunchErrorKind.TYPE_QUOTA, False, True, False),
        (LaunchErrorKind.UNKNOWN, True, False, False),
        (LaunchErrorKind.TRANSIENT, True, False, False),
        (LaunchErrorKind.TEMPLATE_MISSING, True, False, False),
        (LaunchErrorKind.CONFIGURATION, False, False, False),
        (LaunchErrorKind.PERMISSION, False, False, False),
        (LaunchErrorKind.SPOT_NOT_PERMITTED, False, False, False),
    ],
)
def test_each_kind_of_refusal_has_its_reaction(
    kind: LaunchErrorKind, retry: bool, rests: bool, blocked: bool
) -> None:
    reaction = react_to(request_of(on_demand("m5.large")), outcome(kind))
    assert (
        reaction.retry,
        bool(reaction.resting),
        reaction.blocked_reason is not None,
    ) == (retry, rests, blocked)
    assert (reaction.resting_markets, reaction.unsupported) == ({}, ())


def refused_in(kind: LaunchErrorKind, *types: str) -> LaunchOutcome:
    return LaunchOutcome(
        errors=tuple(
            LaunchError(kind, "InvalidParameterValue", each, "use1-az1") for each in types
        )
    )


@pytest.mark.parametrize(
    "kind", [LaunchErrorKind.CONFIGURATION, LaunchErrorKind.PERMISSION]
)
def test_what_ec2_refuses_in_pools_that_it_names_rests_there_and_not_everywhere(
    kind: LaunchErrorKind,
) -> None:
    request = request_of(spot("m5.large"), spot("m5.xlarge"))
    reaction = react_to(request, refused_in(kind, "m5.large"), attempt_number=2)
    assert (reaction.refused, reaction.blocked_reason, reaction.retry) == (
        (spot("m5.large"),),
        None,
        False,
    )


@pytest.mark.parametrize(
    ("types", "rests"),
    [
        (("m5.large", "m5.xlarge"), False),
        (("m5.large", "c5.large"), False),
        (("m5.large", "c5.large", "r5.large"), True),
    ],
)
def test_a_class_rests_on_a_market_where_unlike_pools_are_refused_alike(
    types: tuple[str, ...], *, rests: bool
) -> None:
    request = request_of(spot("m5.large"), spot("m5.xlarge"))
    reaction = react_to(
        request, refused_in(LaunchErrorKind.CONFIGURATION, *types), attempt_number=2
    )
    assert reaction.refused_market == (
        "Configuration: InvalidParameterValue" if rests else None
    )
    assert reaction.blocked_reason is None, "other markets go on"
    assert (reaction.refused == ()) is rests


@pytest.mark.parametrize(
    "code", ["InvalidAMIID.NotFound", "InvalidSecurityGroupID.NotFound"]
)
def test_what_exists_in_no_pool_blocks_the_class_although_ec2_names_one(code: str) -> None:
    request = request_of(spot("m5.large"), spot("m5.xlarge"))
    outcome = LaunchOutcome(
        errors=(LaunchError(LaunchErrorKind.CONFIGURATION, code, "m5.large", "use1-az1"),)
    )
    reaction = react_to(request, outcome, attempt_number=2)
    assert (reaction.blocked_reason, reaction.refused) == (f"Configuration: {code}", ())


def test_a_reservation_that_is_refused_by_name_rests_and_blocks_nothing() -> None:
    request = request_of(reserved())
    reaction = react_to(
        request, refused_in(LaunchErrorKind.CONFIGURATION, "p5.48xlarge"), attempt_number=2
    )
    assert (reaction.refused_reservation_id, reaction.blocked_reason) == ("cr-1", None)


def test_a_refusal_of_the_whole_call_is_tried_once_more_before_it_blocks_the_class() -> (
    None
):
    request = request_of(on_demand("m5.large"))
    denied = LaunchOutcome(
        errors=(LaunchError(LaunchErrorKind.PERMISSION, "UnauthorizedOperation"),)
    )
    first = react_to(request, denied, attempt_number=1)
    assert (first.retry, first.pause, first.blocked_reason) == (True, True, None)
    second = react_to(request, denied, attempt_number=2)
    assert (second.retry, second.blocked_reason) == (
        False,
        "Permission: UnauthorizedOperation",
    )


def test_a_type_that_is_not_sold_in_the_zone_is_left_out_until_the_next_catalogue() -> None:
    reaction = react_to(
        request_of(on_demand("m5.large")), outcome(LaunchErrorKind.UNSUPPORTED)
    )
    assert (reaction.retry, reaction.resting, reaction.unsupported) == (
        False,
        (),
        (on_demand("m5.large"),),
    )


@pytest.mark.parametrize(
    "kind",
    [
        LaunchErrorKind.RESERVATION_EXHAUSTED,
        LaunchErrorKind.RESERVATION_UNUSABLE,
        LaunchErrorKind.INSUFFICIENT_CAPACITY,
        LaunchErrorKind.UNSUPPORTED,
    ],
)
#
def test_refusals_of_a_reservation_touch_that_reservation_only(
    kind: LaunchErrorKind,
) -> None:
    reaction = react_to(request_of(reserved()), outcome(kind))
    is_full = kind is LaunchErrorKind.RESERVATION_EXHAUSTED
    assert reaction.exhausted_reservation_id == ("cr-1" if is_full else None), (
        "only EC2 says that it is full"
    )
    assert reaction.resting_reservation_id == "cr-1"
    assert reaction.resting == reaction.unsupported == ()


def test_quotas_rest_what_they_count_in_the_market() -> None:
    named = LaunchError(
        LaunchErrorKind.QUOTA, "MaxSpotInstanceCountExceeded", "m5.large", "use1-az1"
    )
    for error in (named, replace(named, instance_type=None, zone_id=None)):
        reaction = react_to(
            request_of(spot("m5.large"), spot("m5.xlarge", 1)),
            LaunchOutcome(errors=(error,)),
        )
        assert reaction.resting_markets == {
            Market(CapacityType.SPOT, "Standard"): "MaxSpotInstanceCountExceeded"
        }
        assert (reaction.retry, reaction.resting) == (False, ())
    other = react_to(request_of(on_demand("p5.48xlarge")), LaunchOutcome(errors=(error,)))
    assert other.resting_markets.keys() == {Market(CapacityType.ON_DEMAND, "P")}
    assert (
        react_to(request_of(reserved()), outcome(LaunchErrorKind.QUOTA)).resting_markets
        == {}
    )


@pytest.mark.parametrize(
    ("name", "group"),
    [
        *(
            (name, "Standard")
            for name in (
                "m5.large",
                "c7gn.metal",
                "t3.nano",
                "is4gen.large",
                "im4gn.large",
                "z1d.3xlarge",
            )
        ),
        *((name, "G and VT") for name in ("g5.xlarge", "gr6.4xlarge", "vt1.3xlarge")),
        ("p5.48xlarge", "P"),
        ("trn2u.48xlarge", "TRN"),
        ("inf2.xlarge", "INF"),
        ("hpc7a.96xlarge", "HPC"),
        ("u-6tb1.metal", "U"),
        ("x2idn.32xlarge", "X"),
        ("dl1.24xlarge", "DL"),
        ("mac2.metal", "MAC"),
    ],
)
def test_types_are_counted_by_the_quota_of_their_families(name: str, group: str) -> None:
    assert quota_group(name) == group


@pytest.mark.parametrize("offering", [on_demand("m5.large"), reserved()])
def test_an_unknown_code_rests_what_was_asked_for_at_the_third_attempt(
    offering: OfferingKey,
) -> None:
    request = request_of(offering)
    second, third = (
        react_to(request, outcome(LaunchErrorKind.UNKNOWN), number) for number in (2, 3)
    )
    assert (second.retry, second.pause, second.resting, second.resting_reservation_id) == (
        True,
        True,
        (),
        None,
    )
    assert not third.retry
    assert bool(third.resting) != (third.resting_reservation_id is not None)


def test_a_throttle_exhausts_no_reservation() -> None:
    assert (
        react_to(
            request_of(reserved()), outcome(LaunchErrorKind.TRANSIENT)
        ).resting_reservation_id
        is None
    )


def test_a_refusal_among_throttles_is_not_retried() -> None:
    mixed = outcome(LaunchErrorKind.TRANSIENT, LaunchErrorKind.INSUFFICIENT_CAPACITY)
    assert not react_to(request_of(on_demand("m5.large")), mixed).retry


def test_a_full_answer_still_teaches_what_is_short() -> None:
    reaction = react_to(
        request_of(on_demand("m5.large")),
        outcome(LaunchErrorKind.INSUFFICIENT_CAPACITY, instances=2),
    )
    assert reaction.resting == (
        OfferingKey("m5.large", "us-east-1a", "use1-az1", CapacityType.ON_DEMAND),
    )
    assert not reaction.retry


def test_one_bad_pool_does_not_stop_a_class_that_still_launches() -> None:
    assert (
        react_to(
            request_of(on_demand("m5.large")),
            outcome(LaunchErrorKind.CONFIGURATION, instances=1),
        ).blocked_reason
        is None
    )


def test_what_adoption_did_not_find_is_launched_again() -> None:
    assert react_to(
        request_of(on_demand("m5.large")), outcome(instances=1, adopted=True)
    ).retry
    assert not react_to(
        request_of(on_demand("m5.large")), outcome(instances=2, adopted=True)
    ).retry


def test_an_answer_without_instances_and_reasons_is_repeated_after_a_pause() -> None:
    empty = react_to(request_of(on_demand("m5.large")), outcome())
    assert (empty.retry, empty.pause) == (True, True)
    deleted = react_to(
        request_of(on_demand("m5.large")), outcome(LaunchErrorKind.TEMPLATE_MISSING)
    )
    assert (deleted.retry, deleted.pause) == (True, False)
