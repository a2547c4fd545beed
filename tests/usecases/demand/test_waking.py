"""When the planner looks: at once when it is calm, a little later while more arrives, never at a listing that lags."""

from dataclasses import replace

from lab.fakes.stores.state import MemoryWorkloads
from lab.fakes.values import reservation, workload_record
from lab.worlds.planning_world import PlanningWorld
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.provisioning.share_demand import Woken


def world_with(units: int) -> PlanningWorld:
    return PlanningWorld().ready(
        reservation("cr-1", units, tags={"team": "research"}),
    )


def submit_now(
    world: PlanningWorld, name: str, namespace: str = "research"
) -> WorkloadRecord:
    found = workload_record(name, namespace=namespace, replicas=1)
    record = replace(found, pending_since=world.clock.now())
    return world.state.workloads.put(record, expected_revision=None)


class LaggingListing(MemoryWorkloads):
    """Rows can be read as soon as they are written; the index shows none of them yet."""

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        return ()


def test_one_message_alone_is_planned_at_once() -> None:
    world = world_with(4)
    record = world.submit(replicas=4)

    assert world.provisioner().run(Woken(frozenset([record.key]))).placed_count == 4
    assert world.pauses_s == []


def test_who_is_named_is_planned_before_the_listing_shows_them() -> None:
    world = world_with(4)
    record = world.submit(replicas=4)
    world.state.workloads = LaggingListing(world.state)

    assert world.provisioner().run().placed_count == 0
    assert world.provisioner().run(Woken(frozenset([record.key]))).placed_count == 4


def test_a_burst_is_planned_together() -> None:
    world = world_with(4)
    names = iter(["c", "d"])
    world.submit("a", replicas=1)
    world.submit("b", replicas=1)

    def more(seconds: float) -> None:
        world.pause(seconds)
        name = next(names, None)
        if name is not None:
            submit_now(world, name)

    report = world.provisioner(pause=more).run()

    assert (report.placed_count, len(report.plan_ids)) == (4, 1)
    assert sum(world.pauses_s) < 1


def test_no_team_waits_for_another_ones_burst() -> None:
    world = world_with(40)
    world.apply(
        {
            "apiVersion": "reservoir/v1",
            "kind": "Team",
            "metadata": {"name": "audio"},
            "spec": {"namespaces": ["audio"]},
        }
    )
    world.submit("first", replicas=1)
    world.submit("second", replicas=1)

    def more(seconds: float) -> None:
        world.pause(seconds)
        assert len(world.pauses_s) < 100
        submit_now(world, f"more-{len(world.pauses_s)}")
        if len(world.pauses_s) == 2:
            submit_now(world, "small", namespace="audio")

    report = world.provisioner(pause=more).run()

    assert report.placed_count == 5
    assert len(world.pauses_s) == 2


def test_demand_that_never_stops_arriving_is_planned_all_the_same() -> None:
    world = world_with(40)
    world.submit("first", replicas=1)
    world.submit("second", replicas=1)

    def more(seconds: float) -> None:
        world.pause(seconds)
        assert len(world.pauses_s) < 100
        submit_now(world, f"more-{len(world.pauses_s)}")

    assert world.provisioner(pause=more).run().placed_count > 2
    assert 1.9 < sum(world.pauses_s) < 2.1


def test_what_names_nobody_waits_until_the_listings_show_what_was_written() -> None:
    world = world_with(4)
    world.submit(replicas=4)

    world.provisioner().run(Woken(indexes_lag=True))

    assert world.pauses_s == [1.0]


class LateListing(MemoryWorkloads):
    """A listing that shows rows once somebody has waited for it."""

    def __init__(self, world: PlanningWorld) -> None:
        super().__init__(world.state)
        self._world = world

    def list_needing_planning(self) -> tuple[WorkloadRecord, ...]:
        return super().list_needing_planning() if self._world.pauses_s else ()


def test_a_pass_that_was_woken_for_nobody_waits_for_a_listing_that_shows_nobody_too() -> (
    None
):
    world = world_with(4)
    world.submit(replicas=4)
    world.state.workloads = LateListing(world)

    assert world.provisioner().run(Woken(indexes_lag=True)).placed_count == 4
