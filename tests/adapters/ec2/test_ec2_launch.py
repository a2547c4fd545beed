"""The launch adapters against the emulated EC2."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.worlds.ec2_world import DEPLOYMENT, Ec2World
from reservoir.adapters.ec2.dry_runs import Ec2DryRuns
from reservoir.adapters.ec2.instances import Ec2Instances
from reservoir.adapters.pacing import Pacer
from reservoir.core.capacity.token_bucket import BucketSize
from reservoir.core.launching.launch_outcome import LaunchErrorKind
from reservoir.core.launching.launch_request import LaunchRequest, client_token
from reservoir.core.launching.launch_template import TEMPLATE_GRACE
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import (
    FleetTargetingMode,
    MachineImage,
    OpenReservationPreference,
)
from reservoir.names import BATCH_TAG, NODE_CLASS_TAG, NODE_POOL_TAG, OWNER_TAG
from reservoir.ports.errors import (
    AccessDeniedError,
    IdempotencyMismatchError,
    ThrottledError,
    UnknownOutcomeError,
)


@pytest.fixture(scope="module")
def shared_world() -> Ec2World:
    return Ec2World()


@pytest.fixture
def world(shared_world: Ec2World) -> Ec2World:
    shared_world.cloud.control("clear_faults")
    return shared_world


def block(world: Ec2World, count: int = 2) -> str:
    made = world.cloud.control(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        count=count,
        end_in_s=86_400,
    )
    reservation_id: str = made["capacity_reservation_id"]
    return reservation_id


def interruptible(world: Ec2World, count: int = 2) -> str:
    made = world.cloud.control(
        "create_interruptible", instance_type="m5.large", zone="us-east-1a", count=count
    )
    reservation_id: str = made["capacity_reservation_id"]
    return reservation_id


def odcr(world: Ec2World, count: int = 2) -> str:
    return world.cloud.reserve(count)


@pytest.mark.parametrize("mode", list(FleetTargetingMode))
@pytest.mark.parametrize(
    ("make", "lifecycle"),
    [
        (odcr, ""),
        (block, "capacity-block"),
        (interruptible, "interruptible-capacity-reservation"),
    ],
)
def test_every_kind_of_reservation_takes_exactly_its_units(  # S-58
    world: Ec2World,
    make: Callable[[Ec2World, int], str],
    lifecycle: str,
    mode: FleetTargetingMode,
) -> None:
    reservation_id = make(world, 2)
    bystander = make(world, 2)  # same type and zone: must stay untouched
    request = world.request(3, world.reserved(reservation_id), fleet_targeting_mode=mode)
    outcome = world.launch(request)
    assert len(outcome.instances) == 2
    assert {error.kind for error in outcome.errors} <= {
        LaunchErrorKind.RESERVATION_EXHAUSTED,
        LaunchErrorKind.INSUFFICIENT_CAPACITY,
    }
    assert outcome.errors
    found = world.instances.get_many([instance.id for instance in outcome.instances])
    assert {i.capacity_reservation_id for i in found.values()} == {reservation_id}
    assert {i.lifecycle for i in found.values()} == {lifecycle}
    assert world.reservation(bystander).available_count == 2


def test_the_same_token_answers_the_same_and_launches_nothing(world: Ec2World) -> None:
    request = world.request(2, world.offering())
    first = world.launch(request, attempt=7)
    second = world.launch(request, attempt=7)
    assert first.instances == second.instances
    assert len({i.id for i in first.instances}) == 2


def test_a_token_with_another_request_is_a_mismatch(world: Ec2World) -> None:
    request = world.request(1, world.offering())
    world.launch(request, attempt=8)
    token = client_token("b-1", 8, request)
    with pytest.raises(IdempotencyMismatchError):
        world.fleet.launch(replace(request, count=2), token)


def test_a_lost_answer_is_an_unknown_outcome_and_its_repeat_finds_the_instances(
    world: Ec2World,
) -> None:
    request = world.request(2, world.offering())
    for config in request.configs:
        world.templates.ensure(config.template)
    world.cloud.control("lose_response", operation="CreateFleet")
    with pytest.raises(UnknownOutcomeError):
        world.fleet.launch(request, client_token("b-1", 9, request))
    assert len(world.launch(request, attempt=9).instances) == 2


def test_a_throttled_call_raises_and_launches_nothing(world: Ec2World) -> None:
    request = world.request(1, world.offering())
    for config in request.configs:
        world.templates.ensure(config.template)
    world.cloud.control("fail_calls", operation="CreateFleet")
    with pytest.raises(ThrottledError):
        world.fleet.launch(request, client_token("b-1", 10, request))


def test_missing_capacity_names_its_pool(world: Ec2World) -> None:
    world.cloud.control(
        "set_pool_capacity", instance_type="m5.xlarge", zone="us-east-1b", capacity=0
    )
    offering = world.offering("m5.xlarge", "us-east-1b")
    outcome = world.launch(world.request(1, offering))
    (error,) = outcome.errors
    assert (error.kind, error.code) == (
        LaunchErrorKind.INSUFFICIENT_CAPACITY,
        "InsufficientInstanceCapacity",
    )
    assert (error.instance_type, error.zone_id) == ("m5.xlarge", offering.zone_id)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("VcpuLimitExceeded", LaunchErrorKind.QUOTA),
        ("MaxSpotInstanceCountExceeded", LaunchErrorKind.QUOTA),
        ("InsufficientFreeAddressesInSubnet", LaunchErrorKind.SUBNET_FULL),
        ("Unsupported", LaunchErrorKind.UNSUPPORTED),
        ("InvalidAMIID.NotFound", LaunchErrorKind.CONFIGURATION),
        ("UnauthorizedOperation", LaunchErrorKind.PERMISSION),
        ("RequestLimitExceeded", LaunchErrorKind.TRANSIENT),
        ("SomethingBrandNew", LaunchErrorKind.UNKNOWN),
    ],
)
def test_refusals_inside_the_answer_are_sorted(
    world: Ec2World, code: str, kind: LaunchErrorKind
) -> None:
    world.cloud.control("refuse_launches", code=code)
    outcome = world.launch(world.request(1, world.offering()), attempt=sum(map(ord, code)))
    assert [error.kind for error in outcome.errors] == [kind]


def test_a_refusal_of_the_whole_call_is_an_outcome_too(world: Ec2World) -> None:
    request = world.request(1, world.offering())
    for config in request.configs:
        world.templates.ensure(config.template)
    world.cloud.control(
        "fail_calls", operation="CreateFleet", code="UnauthorizedOperation", status=403
    )
    outcome = world.fleet.launch(request, client_token("b-1", 11, request))
    assert [error.kind for error in outcome.errors] == [LaunchErrorKind.PERMISSION]


def test_a_template_that_was_deleted_is_noticed_and_made_again(world: Ec2World) -> None:
    request = world.request(1, world.offering(), tags={"made": "again"})
    (config,) = request.configs
    world.templates.ensure(config.template)
    world.cloud.ec2.delete_launch_template(LaunchTemplateName=config.template.name)
    world.templates.ensure(config.template)  # a warm process believes that it exists
    outcome = world.fleet.launch(request, client_token("b-1", 12, request))
    assert [error.kind for error in outcome.errors] == [LaunchErrorKind.TEMPLATE_MISSING]
    world.templates.forget([config.template.name])
    assert len(world.launch(request, attempt=13).instances) == 1


def test_a_warm_process_asks_ec2_again_before_a_template_of_its_own_can_be_collected(
    world: Ec2World,
) -> None:
    request = world.request(1, world.offering(), tags={"made": "again later"})
    (config,) = request.configs
    world.templates.ensure(config.template)
    world.cloud.ec2.delete_launch_template(LaunchTemplateName=config.template.name)
    world.cloud.advance(seconds=TEMPLATE_GRACE.total_seconds() - 1)
    assert len(world.launch(request, attempt=40).instances) == 1


def test_a_template_that_is_not_visible_yet_is_not_there_for_a_launch(
    world: Ec2World,
) -> None:
    request = world.request(1, world.offering(), tags={"seen": "later"})
    world.cloud.control("configure", template_lag_s=3)
    try:
        outcome = world.launch(request, attempt=41)
        assert [error.kind for error in outcome.errors] == [
            LaunchErrorKind.TEMPLATE_MISSING
        ]
        world.templates.forget([config.template.name for config in request.configs])
        world.cloud.advance(seconds=3)
        assert len(world.launch(request, attempt=42).instances) == 1
    finally:
        world.cloud.control("configure", template_lag_s=0)


def test_everything_is_tagged(world: Ec2World) -> None:
    request = world.request(1, world.offering(), tags={"team": "research"})
    (launched,) = world.launch(request, attempt=14).instances
    described = world.cloud.instance(launched.id)
    tags = {tag["Key"]: tag["Value"] for tag in described["Tags"]}
    expected = {
        OWNER_TAG: DEPLOYMENT,
        BATCH_TAG: "b-1",
        NODE_POOL_TAG: "gpu",
        NODE_CLASS_TAG: "default",
    }
    assert tags.items() >= {**expected, "team": "research"}.items()
    volume_id = described["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    (volume,) = world.cloud.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert {tag["Key"]: tag["Value"] for tag in volume["Tags"]}.items() >= expected.items()


def test_accounts_that_show_tags_in_metadata_launch_too(world: Ec2World) -> None:
    world.cloud.ec2.modify_instance_metadata_defaults(InstanceMetadataTags="enabled")
    try:
        outcome = world.launch(
            world.request(1, world.offering(), tags={"cost centre": "a/b"}), attempt=30
        )
    finally:
        world.cloud.ec2.modify_instance_metadata_defaults(
            InstanceMetadataTags="no-preference"
        )
    assert outcome.errors == ()
    assert len(outcome.instances) == 1


def test_metadata_needs_a_token_and_plain_launches_leave_open_reservations_alone(
    world: Ec2World,
) -> None:
    open_id = world.cloud.reserve(1, InstanceMatchCriteria="open", InstanceType="m5.xlarge")
    plain = world.launch(world.request(1, world.offering("m5.xlarge")), attempt=15)
    assert world.reservation(open_id).available_count == 1
    opened = world.request(
        1,
        world.offering("m5.xlarge"),
        open_reservation_preference=OpenReservationPreference.OPEN,
    )
    world.launch(opened, attempt=16)
    assert world.reservation(open_id).available_count == 0
    data = opened.configs[0].template.data
    assert data["MetadataOptions"]["HttpTokens"] == "required"  # type: ignore[index] # EC2's shape
    assert len(plain.instances) == 1


def test_a_spot_request_offers_all_pools_and_comes_back_with_one(world: Ec2World) -> None:
    spot = CapacityType.SPOT
    request = world.request(
        2,
        world.offering("m5.large", "us-east-1a", spot),
        world.offering("m5.xlarge", "us-east-1a", spot),
        world.offering("m5.large", "us-east-1b", spot),
    )
    outcome = world.launch(request, attempt=17)
    found = world.instances.get_many([instance.id for instance in outcome.instances])
    assert {i.lifecycle for i in found.values()} == {"spot"}
    for launched in outcome.instances:
        assert (launched.instance_type, launched.zone_id) == (
            found[launched.id].instance_type,
            found[launched.id].zone_id,
        )


def test_a_gang_launches_whole_or_not_at_all(world: Ec2World) -> None:
    world.cloud.control(
        "set_pool_capacity", instance_type="m5.xlarge", zone="us-east-1a", capacity=0
    )
    world.cloud.control(
        "set_pool_capacity", instance_type="m5.large", zone="us-east-1b", capacity=0
    )
    running = len(world.instances.list_owned())
    offering = world.offering("m5.xlarge", "us-east-1a")
    outcome = world.launch(world.request(4, offering, gang=True), attempt=18)
    assert outcome.instances == ()
    assert len(world.instances.list_owned()) == running


def test_images_of_two_architectures_are_two_templates(world: Ec2World) -> None:
    images = (*world.node_class.status.machine_images, MachineImage("ami-arm", "arm64"))
    status = replace(world.node_class.status, machine_images=images)
    request: LaunchRequest = world.request(1, world.offering(), status=status)
    assert len(request.configs) == 1  # no arm64 type among the pools


def test_owned_templates_are_listed_and_deleted(world: Ec2World) -> None:
    request = world.request(1, world.offering(), tags={"to": "delete"})
    name = request.configs[0].template.name
    world.templates.ensure(request.configs[0].template)
    listed = {template.name: template for template in world.templates.list_owned()}
    assert listed[name].tags[NODE_CLASS_TAG] == "default"
    world.templates.delete([name, "reservoir-test-never-existed"])
    assert name not in {template.name for template in world.templates.list_owned()}


class TestInstances:
    @pytest.fixture
    def world(self) -> Ec2World:
        return Ec2World()

    def launched(self, world: Ec2World, count: int) -> list[str]:
        return [
            i.id for i in world.launch(world.request(count, world.offering())).instances
        ]

    def test_only_ours_are_ever_read(self, world: Ec2World) -> None:
        ours = self.launched(world, 2)
        (foreign,) = world.cloud.run(1)
        assert set(world.instances.get_many([*ours, foreign])) == set(ours)
        assert {i.id for i in world.instances.list_owned()} == set(ours)
        assert {i.id for i in world.instances.list_batch("b-1")} == set(ours)

    @pytest.mark.parametrize("count", [3, 1_001])
    def test_what_has_terminated_is_found_by_id_when_its_tags_are_gone(
        self, world: Ec2World, count: int
    ) -> None:
        world.cloud.control(
            "limit_calls",
            operation="RunInstances",
            what="instances",
            at_once=2_000,
            per_s=2,
        )
        ours = self.launched(world, count)
        (foreign,) = world.cloud.run(1)
        world.instances.terminate(ours[1:])
        world.cloud.advance(minutes=10)
        (shown,) = world.cloud.ec2.describe_instances(InstanceIds=[ours[1]])[
            "Reservations"
        ][0]["Instances"]
        assert "Tags" not in shown
        found = world.instances.get_many([*ours, foreign])
        assert found.keys() == set(ours)
        assert {
            instance_id for instance_id, instance in found.items() if instance.is_gone
        } == set(ours[1:])
        assert found[ours[1]].ended_at is not None
        assert [instance.id for instance in world.instances.list_owned()] == ours[:1]

    def test_ids_that_ec2_does_not_show_are_left_out(self, world: Ec2World) -> None:
        ours = self.launched(world, 1)
        assert set(world.instances.get_many([*ours, "i-0000000000000dead"])) == set(ours)

    def test_many_are_ended_little_by_little_where_ec2_throttles(
        self, world: Ec2World
    ) -> None:
        """Others in the account leave us 150 at once: what fits is ended, and the next call goes on from there."""
        ours = self.launched(world, 250)
        world.cloud.control(
            "limit_calls",
            operation="TerminateInstances",
            what="instances",
            at_once=150,
            per_s=20,
        )
        with pytest.raises(ThrottledError):
            world.instances.terminate(ours)
        living = [each.id for each in world.instances.list_owned() if not each.is_gone]
        assert living == ours[100:]
        world.cloud.advance(seconds=10)
        assert world.instances.terminate(living).accepted == set(living)

    def test_one_bad_id_does_not_save_the_others(self, world: Ec2World) -> None:
        ours = self.launched(world, 3)
        world.cloud.control("protect_instance", instance_id=ours[0])
        receipt = world.instances.terminate([*ours, "i-0000000000000dead"])
        assert receipt.accepted == set(ours[1:])
        assert receipt.missing == {"i-0000000000000dead"}
        assert set(receipt.refused or {}) == {ours[0]}

    def test_a_bad_id_among_many_costs_a_few_calls(self, world: Ec2World) -> None:
        ours = self.launched(world, 64)
        world.cloud.control("protect_instance", instance_id=ours[20])
        calls: list[int] = []
        world.cloud.ec2.meta.events.register(
            "before-call.ec2.TerminateInstances",
            lambda **_: calls.append(1),
            unique_id="counted",
        )
        assert len(world.instances.terminate(ours).accepted) == 63
        assert len(calls) <= 1 + 2 * 6  # the whole, then two halves for each halving

    def test_terminating_twice_is_harmless(self, world: Ec2World) -> None:
        ours = self.launched(world, 1)
        world.instances.terminate(ours)
        assert world.instances.terminate(ours).accepted == set(ours)

    def test_claims_are_tagged_one_by_one_and_missing_instances_passed_over(
        self, world: Ec2World
    ) -> None:
        ours = self.launched(world, 2)
        world.instances.tag_claims(
            {ours[0]: "nc-1", "i-0000000000000dead": "nc-2", ours[1]: "nc-3"}, patient=True
        )
        found = world.instances.get_many(ours)
        assert {found[ours[0]].claim_id, found[ours[1]].claim_id} == {"nc-1", "nc-3"}

    def test_impatient_tagging_stops_where_it_would_have_to_wait(
        self, world: Ec2World
    ) -> None:
        ours = self.launched(world, 4)
        pacer = Pacer(
            BucketSize(2, 1), clock_s=lambda: 0.0, sleep=lambda _: pytest.fail("it waited")
        )
        Ec2Instances(world.cloud.ec2, DEPLOYMENT, pacer).tag_claims(
            dict.fromkeys(ours, "nc-1"), patient=False
        )
        found = world.instances.get_many(ours)
        assert [found[each].claim_id for each in sorted(ours)] == [
            "nc-1",
            "nc-1",
            None,
            None,
        ]

    def test_failed_checks_and_planned_maintenance_are_found(self, world: Ec2World) -> None:
        ours = self.launched(world, 3)
        world.cloud.advance(minutes=5)
        assert world.instances.list_unhealthy() == ()
        world.cloud.control(
            "set_status_checks", instance_id=ours[0], instance_status="impaired"
        )
        world.cloud.control(
            "schedule_maintenance", instance_ids=[ours[1]], code="instance-retirement"
        )
        by_id = {health.instance_id: health for health in world.instances.list_unhealthy()}
        assert set(by_id) == set(ours[:2])
        assert by_id[ours[0]].impaired_since is not None
        assert by_id[ours[1]].scheduled_event_code == "instance-retirement"
        assert by_id[ours[1]].scheduled_at == world.now() + timedelta(days=7)


@pytest.mark.parametrize(
    "changes", [{}, {"associate_public_ip_address": True}], ids=["groups", "interfaces"]
)
@pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
def test_a_dry_run_asks_for_what_a_launch_asks_for(
    world: Ec2World, capacity_type: CapacityType, changes: dict[str, Any]
) -> None:
    before = len(world.cloud.instances())
    request = world.request(1, world.offering(capacity_type=capacity_type), **changes)
    dry_runs = Ec2DryRuns(world.cloud.ec2)
    for config in request.configs:
        dry_runs.make_template(config.template)
        world.templates.ensure(config.template)
        dry_runs.make_template(config.template)  # it exists, which is no refusal
    dry_runs.ask_for_fleet(request)
    dry_runs.run_instance(request)
    assert len(world.cloud.instances()) == before


def test_a_dry_run_that_is_refused_says_why_for_people(world: Ec2World) -> None:
    said = "You are not authorized, with an explicit deny in a service control policy."
    encoded = f"{said} Encoded authorization failure message: 4a0b"
    world.cloud.control(
        "fail_calls", operation="CreateFleet", code="UnauthorizedOperation", message=encoded
    )
    with pytest.raises(AccessDeniedError) as caught:
        Ec2DryRuns(world.cloud.ec2).ask_for_fleet(world.request(1, world.offering()))
    assert caught.value.detail == said
