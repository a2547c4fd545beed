"""What would make the first launch into a reservation fail is told a day and an hour before it begins."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.discovery import IMAGES, SUBNETS
from lab.fakes.system import START
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_class_manifest, node_pool_manifest
from reservoir.core.launching.start_readiness import Shortcoming
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_claim import Operation
from reservoir.core.model.node_class import Validation, ValidationOutcome
from reservoir.ports.errors import ThrottledError
from reservoir.ports.policy import Pause, PolicyKind

BEGINS = START + timedelta(days=2)
Injured = Callable[[PlanningWorld], None]


def block(**changes: Any) -> CapacityReservation:
    """A Capacity Block of two days that begins in two."""
    facts: dict[str, Any] = {
        "kind": ReservationKind.CAPACITY_BLOCK,
        "state": "scheduled",
        "total_count": 2,
        "available_count": 0,
        "free_units": 0,
        "start_at": BEGINS,
        "end_at": BEGINS + timedelta(days=2),
        "tags": {"team": "research"},
    }
    return reservation(**facts | changes)


def world(**changes: Any) -> PlanningWorld:
    return PlanningWorld().ready(block(**changes))


def told(world: PlanningWorld) -> list[dict[str, Any]]:
    return world.bus.of("Reservation Readiness")


def codes(event: dict[str, Any]) -> list[str]:
    return [each["code"] for each in event["problems"]]


def pool_spec(world: PlanningWorld, **spec: Any) -> None:
    manifest = node_pool_manifest()
    manifest["spec"] |= spec
    world.apply(manifest)


def asks(world: PlanningWorld, key: str, *values: str) -> None:
    manifest = node_pool_manifest()
    requirements = manifest["spec"]["template"]["spec"]["requirements"]
    manifest["spec"]["template"]["spec"]["requirements"] = [
        each for each in requirements if each["key"] != key
    ] + [{"key": key, "operator": "In", "values": list(values)}]
    world.apply(manifest)


def status(world: PlanningWorld, **changes: Any) -> None:
    """Let the class's status say this, as whoever finds it out writes it."""
    stored = world.policy.get(PolicyKind.NODE_CLASS, "default")
    assert stored is not None
    found = replace(stored.status.node_class, **changes)
    world.policy.save_status(
        PolicyKind.NODE_CLASS, "default", replace(stored.status, node_class=found)
    )


def environment(**changes: Any) -> Injured:
    def injure(world: PlanningWorld) -> None:
        for name, value in changes.items():
            setattr(world.environment, name, value)

    return injure


def shown(**changes: Any) -> Injured:
    return lambda world: world.reader.put(block(**changes))


def no_profile(world: PlanningWorld) -> None:
    world.environment.found_profiles = False


def deselected(world: PlanningWorld) -> None:
    terms = [{"tags": {"team": "other"}}]
    world.apply(node_class_manifest(capacityReservationSelectorTerms=terms))


def in_another_group(world: PlanningWorld) -> None:
    arn = "arn:aws:ec2:us-east-1:111122223333:placement-group/near"
    world.reader.put(block(placement_group_arn=arn))
    world.apply(node_class_manifest(placementGroupSelector={"name": "far"}))


def refused_by_a_dry_run(world: PlanningWorld) -> None:
    refusal = Validation(
        "this", world.clock.now(), ValidationOutcome.REFUSED, "Refused", "not authorized"
    )
    status(world, validation=refusal)


def blocked(world: PlanningWorld) -> None:
    status(
        world,
        launch_blocked_reason="UnauthorizedOperation",
        launch_blocked_at=world.clock.now(),
        launch_blocked_generation=1,
    )


def paused(world: PlanningWorld) -> None:
    done = Operation("pause", "arn:aws:iam::1:user/ops", "a test", START)
    world.policy.save_pause(
        "gpu", Pause(is_paused=True, operations=(done,)), expected=Pause()
    )


def without_pool(world: PlanningWorld) -> None:
    manifest = node_pool_manifest()
    reference = manifest["spec"]["template"]["spec"]["nodeClassRef"]
    manifest["spec"]["template"]["spec"]["nodeClassRef"] = reference | {"name": "other"}
    world.apply(manifest)


ELSEWHERE = tuple(each for each in SUBNETS if each.zone != "us-east-1a")
FULL = tuple(replace(each, available_ip_count=0) for each in SUBNETS)
FAULTS: dict[Shortcoming, Injured] = {
    Shortcoming.NOT_SELECTED: deselected,
    Shortcoming.PLATFORM_DIFFERS: shown(platform="Windows"),
    Shortcoming.TENANCY_DIFFERS: shown(tenancy="dedicated"),
    Shortcoming.PLACEMENT_GROUP_DIFFERS: in_another_group,
    Shortcoming.NO_SUBNET: environment(found_subnets=()),
    Shortcoming.NO_SUBNET_IN_ZONE: environment(found_subnets=ELSEWHERE),
    Shortcoming.NO_FREE_ADDRESS: environment(found_subnets=FULL),
    Shortcoming.NO_SECURITY_GROUP: environment(found_groups=()),
    Shortcoming.NO_IMAGE: environment(found_images=()),
    Shortcoming.NO_IMAGE_FOR_TYPE: environment(found_images=IMAGES[1:]),
    Shortcoming.NO_INSTANCE_PROFILE: no_profile,
    Shortcoming.LAUNCHES_BLOCKED: blocked,
    Shortcoming.DRY_RUN_REFUSED: refused_by_a_dry_run,
    Shortcoming.UNKNOWN_TYPE: shown(instance_type="p9.48xlarge"),
    Shortcoming.NO_NODE_POOL: without_pool,
    Shortcoming.MARKET_NOT_ADMITTED: lambda it: asks(
        it, "karpenter.sh/capacity-type", "on-demand"
    ),
    Shortcoming.TYPE_NOT_ADMITTED: lambda it: asks(
        it, "node.kubernetes.io/instance-type", "m5.large"
    ),
    Shortcoming.ZONE_NOT_ADMITTED: lambda it: asks(
        it, "topology.kubernetes.io/zone", "us-east-1b"
    ),
    Shortcoming.LABEL_NOT_ADMITTED: lambda it: asks(
        it, "karpenter.k8s.aws/capacity-reservation-type", "default"
    ),
    Shortcoming.POOL_PAUSED: paused,
    Shortcoming.LIMIT_TOO_LOW: lambda it: pool_spec(it, limits={"cpu": "100"}),
}


@pytest.mark.parametrize("before", [timedelta(hours=23), timedelta(minutes=70)])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_told_by_name_with_what_mends_it(
    fault: Shortcoming, before: timedelta
) -> None:
    it = world()
    it.clock.set(BEGINS - before)
    FAULTS[fault](it)
    it.discover()
    it.discover()  # what the first run has found, the second one knows
    event = told(it)[-1]
    assert fault in codes(event)
    assert all(each["message"] and each["advice"] for each in event["problems"])
    assert len(told(it)) == len({str(codes(each)) for each in told(it)}), (
        "each is told once"
    )


def test_what_is_ready_is_not_told_of() -> None:
    it = world()
    for hours in range(48):
        it.clock.set(BEGINS - timedelta(hours=48 - hours, minutes=-1))
        assert it.discover().unready_count == 0
    assert told(it) == []
    assert it.reservation().readiness_said is None


def test_it_is_told_a_day_before_and_an_hour_before_and_not_in_between() -> None:
    it = world()
    asks(it, "topology.kubernetes.io/zone", "us-east-1b")
    counts = []
    for hours in (30, 23, 20, 10, 2, 1, 0.5):
        it.clock.set(BEGINS - timedelta(hours=hours))
        found = it.discover()
        counts.append((len(told(it)), found.unready_count))
    assert counts == [(0, 0), (1, 1), (1, 0), (1, 0), (1, 0), (2, 1), (2, 0)]


def test_that_it_was_mended_is_told_too() -> None:
    it = world()
    asks(it, "topology.kubernetes.io/zone", "us-east-1b")
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    asks(it, "topology.kubernetes.io/zone", "us-east-1a")
    it.clock.advance(minutes=1)
    assert it.discover().unready_count == 0
    assert [codes(each) for each in told(it)] == [["ZoneNotAdmitted"], []]
    it.clock.advance(minutes=1)
    it.discover()
    assert len(told(it)) == 2


def test_what_was_never_selected_and_is_meant_is_told_of_too() -> None:
    it = world(platform="Windows")
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    it.clock.advance(minutes=1)
    it.discover()
    assert [codes(each) for each in told(it)] == [["PlatformDiffers"]]


def test_what_others_bought_in_the_account_is_nobodys_business() -> None:
    it = world(tags={"team": "somebody"}, platform="Windows")
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    assert told(it) == []


def test_one_pool_that_could_is_enough() -> None:
    it = world()
    asks(it, "topology.kubernetes.io/zone", "us-east-1b")
    it.apply(node_pool_manifest("other"))
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    assert told(it) == []


def test_what_could_not_be_looked_up_is_not_called_missing() -> None:
    it = world()
    it.environment.error = ThrottledError("RequestLimitExceeded", "DescribeSubnets")
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    assert told(it) == []


def test_a_bus_that_does_not_answer_stops_no_discovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = world()
    asks(it, "topology.kubernetes.io/zone", "us-east-1b")
    it.clock.set(BEGINS - timedelta(hours=20))

    def refuse(*_: Any) -> None:
        raise ThrottledError("ThrottlingException", "PutEvents")

    monkeypatch.setattr(
        "reservoir.usecases.discovery.publish_readiness.PublishReadiness.publish", refuse
    )
    found = it.discover()
    assert found.seen_count == 1
    assert any("readiness" in failure for failure in found.failures)
    monkeypatch.undo()
    it.discover()
    assert len(told(it)) == 1, "it is told by the next run"


def test_nothing_is_read_for_it_where_nothing_begins_within_a_day() -> None:
    it = world()
    listed = it.policy.list_all
    calls: list[int] = []

    def count() -> Any:
        calls.append(1)
        return listed()

    it.policy.list_all = count  # type: ignore[method-assign] # counts the calls
    it.discover()
    far = len(calls)
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    assert (far, len(calls) - far) == (1, 2)


def test_another_beginning_is_told_anew() -> None:
    it = world()
    asks(it, "topology.kubernetes.io/zone", "us-east-1b")
    it.clock.set(BEGINS - timedelta(hours=20))
    it.discover()
    it.reader.put(block(start_at=BEGINS + timedelta(hours=2)))
    it.clock.advance(minutes=1)
    it.discover()
    assert len(told(it)) == 2
