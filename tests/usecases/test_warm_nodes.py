"""Warm nodes, minute by minute of the whole pipeline: free units are booted ahead, and free to everybody."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from lab.fakes.effects import Killed
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.workload import Gang
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.provisioning.share_demand import Woken

TOLD: Final = Woken(indexes_lag=True)


def warm_world(warm: int | str = "All", units: int = 3, **spec: Any) -> DisruptWorld:
    """One pool that keeps free units warm, and one reservation."""
    world = DisruptWorld("reserved", "on-demand")
    world.change_pool(warmReserved=warm, **spec)
    world.add_reservation("cr-1", total_count=units)
    return world


def add_pool(world: DisruptWorld, name: str, **spec: Any) -> None:
    """Another pool of the same class, which keeps nothing warm."""
    stored = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    kept = {key: it for key, it in stored.manifest["spec"].items() if "warm" not in key}
    world.apply({**stored.manifest, "metadata": {"name": name}, "spec": {**kept, **spec}})


def of(pool_name: str) -> Requirements:
    """Asks for nodes of one pool."""
    return Requirements.from_labels({labels.NODE_POOL: pool_name})


def warm(world: DisruptWorld) -> list[NodeClaim]:
    return [claim for claim in world.live() if claim.is_kept_warm]


def running(world: DisruptWorld) -> list[NodeClaim]:
    return [claim for claim in world.live() if claim.state is ClaimState.RUNNING]


def test_every_free_unit_has_a_node_and_nothing_is_bought() -> None:
    world = warm_world()
    world.minutes(8)
    assert world.types() == ["p5.48xlarge reserved"] * 3
    assert len(warm(world)) == len(world.ec2.all()) == 3
    assert {world.reason(claim.id) for claim in world.live()} == {
        "it keeps a free unit warm: whoever needs the unit gets it"
    }


def test_so_many_are_warm_as_the_pool_says() -> None:
    world = warm_world(2)
    world.minutes(5)
    assert len(warm(world)) == len(world.ec2.all()) == 2


def test_work_goes_onto_a_warm_node_at_once() -> None:
    world = warm_world()
    world.minutes(3)
    before = {claim.id for claim in running(world)}
    world.submit("train", replicas=2, gpus=8)
    world.plan_and_launch()
    assert world.at_work() == 2, "without a launch, and without a minute of waiting"
    world.minutes(5)
    assert {claim.id for claim in world.live()} == before
    assert len(warm(world)) == 1


def test_work_of_another_pool_gets_the_unit_and_buys_nothing() -> None:
    world = warm_world()
    add_pool(world, "other")
    world.minutes(3)
    world.submit("train", gpus=8, node_selector=of("other"))
    world.plan_and_launch()
    assert world.pending() == 0, "the pass gives it a unit"
    assert len(warm(world)) == 2
    world.minutes(4)
    assert world.types() == ["p5.48xlarge reserved"] * 3
    assert world.at_work() == 1
    assert len(warm(world)) == 2
    ended = [claim.drain.reason for claim in world.claims() if claim.drain is not None]
    assert ended == [DrainReason.SCALED_DOWN]


def test_a_gang_of_another_pool_gets_free_and_warm_units() -> None:
    world = warm_world(2)
    add_pool(world, "other")
    world.minutes(3)
    world.submit("train", replicas=3, gpus=8, node_selector=of("other"), gang=Gang())
    world.minutes(5)
    assert world.types() == ["p5.48xlarge reserved"] * 3
    assert world.at_work() == 3
    assert warm(world) == []


def test_small_work_takes_no_warm_node_where_it_would_take_no_free_unit() -> None:
    cold, other = warm_world(0), warm_world()
    for world in (cold, other):
        world.minutes(3)
        world.submit("web", cpus=1)
        world.minutes(3)
    bought = [claim.offering.instance_type for claim in cold.live()]
    placed = [claim.offering.instance_type for claim in other.live() if claim.placements]
    assert placed == bought


def test_limits_do_not_count_warm_nodes_and_are_kept() -> None:
    world = warm_world("All", 3, limits={"nodes": "2"})
    world.minutes(3)
    assert len(world.live()) == 2
    world.submit("train", replicas=3, gpus=8)
    world.minutes(3)
    assert len(world.live()) == 2
    assert (world.at_work(), world.pending()) == (2, 1)


def test_a_pool_that_wants_fewer_or_none_lets_them_go_whatever_its_budget() -> None:
    world = warm_world(3, disruption={"budgets": [{"nodes": "0"}]})
    world.minutes(3)
    world.change_pool(warmReserved=1)
    world.minutes(3)
    assert len(world.live()) == 1
    world.change_pool(warmReserved=None)
    world.minutes(3)
    assert world.live() == []


def test_a_schedule_begins_and_ends() -> None:
    world = DisruptWorld("reserved", "on-demand")
    hour = (world.clock.now() + timedelta(hours=1)).hour
    window = {"schedule": f"0 {hour} * * *", "duration": "1h"}
    world.change_pool(warmReserved="All", warmReservedDuring=window)
    world.add_reservation("cr-1", total_count=2)
    world.minutes(3)
    assert world.live() == []
    start = world.clock.now().replace(hour=hour, minute=0, second=0)
    world.clock.advance(minutes=(start - world.clock.now()).total_seconds() // 60 + 1)
    world.minutes(3)
    assert len(warm(world)) == 2
    world.clock.advance(hours=1)
    world.minutes(3)
    assert world.live() == []


def test_warm_nodes_that_drifted_are_renewed() -> None:
    world = warm_world()
    world.minutes(3)
    world.change_pool(labels={"rolled": "yes"})
    world.minutes(6)
    assert [claim.labels.get("rolled") for claim in warm(world)] == ["yes"] * 3
    assert len(world.ec2.live()) == 3


def test_units_that_would_cost_more_with_a_node_stay_cold() -> None:
    for change in (
        {"owner_id": "999999999999"},
        {"unused_billing_owner_id": "999999999999"},
        {"instance_match_criteria": "open"},
    ):
        world = warm_world()
        world.add_reservation("cr-1", total_count=3, **change)
        world.minutes(3)
        assert world.live() == [], change


def test_a_warm_node_goes_before_its_reservation_ends() -> None:
    world = warm_world()
    end_at = world.clock.now() + timedelta(minutes=20)
    world.add_reservation("cr-1", total_count=3, end_at=end_at)
    world.minutes(4)
    assert len(warm(world)) == 3
    world.minutes(9)
    assert world.live() == []


def test_nodes_of_a_block_are_warm_until_it_drains() -> None:
    world = DisruptWorld("reserved")
    world.change_pool(warmReserved="All")
    world.add_block(world.clock.now() + timedelta(minutes=60), "cr-block", total_count=2)
    world.minutes(10)
    assert len(warm(world)) == 2
    world.minutes(20)
    assert world.live() == []


def test_a_node_that_is_bought_moves_into_a_unit_that_was_warm() -> None:
    world = warm_world("All", 1)
    add_pool(world, "other")
    world.ec2.reservations["cr-1"] = replace(world.ec2.reservations["cr-1"], total_count=0)
    world.observe("cr-1")
    world.submit("train", gpus=8, node_selector=of("other"))
    world.minutes(3)
    assert world.types() == ["p5.48xlarge on-demand"]
    world.resize("cr-1", 1)
    world.minutes(8)
    assert world.types() == ["p5.48xlarge reserved"]
    assert world.at_work() == 1


def test_bought_work_moves_onto_a_warm_node_without_waiting_for_it_to_settle() -> None:
    world = DisruptWorld("reserved", "on-demand", consolidateAfter="10m")
    world.change_pool(warmReserved="All")
    world.submit("train", gpus=8)
    world.minutes(12)
    assert world.types() == ["p5.48xlarge on-demand"]
    world.add_reservation("cr-1", total_count=1)
    world.minutes(5)
    assert world.types() == ["p5.48xlarge reserved"]
    assert world.at_work() == 1


def test_a_static_pool_gets_the_units_too() -> None:
    world = warm_world()
    add_pool(world, "fixed", replicas="allReserved")
    world.minutes(8)
    assert [claim.node_pool_name for claim in running(world)] == ["fixed"] * 3


def test_a_unit_that_is_not_wanted_after_all_is_warm_again() -> None:
    world = warm_world("All", 1)
    add_pool(world, "other")
    world.minutes(3)
    world.submit("train", gpus=8, node_selector=of("other"))
    world.plan_and_launch()
    world.scale("train", 0)
    world.minutes(6)
    assert len(warm(world)) == len(world.ec2.live()) == 1


def test_of_two_passes_at_once_one_boots_a_unit() -> None:
    world = warm_world(2)
    first, second = world.provision(), world.provision()
    list_live = world.state.node_claims.list_live
    interrupted = False

    def overtaken() -> Any:
        nonlocal interrupted
        found = list_live()
        if not interrupted:
            interrupted = True
            second.run(TOLD)
        return found

    world.state.node_claims.list_live = overtaken  # type: ignore[method-assign] # another pass comes in between
    first.run(TOLD)
    assert len(world.claims()) == 2, "of three free units"


def test_no_other_work_waits_for_a_pass_that_died_after_it_gave_a_unit_away() -> None:
    world = warm_world("All", 1)
    add_pool(world, "other")
    world.minutes(3)
    world.submit("train", gpus=8, node_selector=of("other"))
    dying = world.provision()

    def die(_marked: Any) -> None:
        raise Killed

    with suppress(Killed):
        replace(dying, make_way=die).run(TOLD)
    world.minutes(5)
    assert world.types() == ["p5.48xlarge reserved"]
    assert world.at_work() == 1


def test_what_another_process_boots_is_not_booted_again_while_no_index_shows_it() -> None:
    world = warm_world(2)
    world.provision().run(TOLD)
    list_live = world.state.node_claims.list_live
    world.state.node_claims.list_live = lambda: ()  # type: ignore[method-assign] # the index lags
    world.clock.advance(seconds=10)
    world.provision().run(TOLD)
    assert len(world.claims()) == 2, "of three free units"
    world.state.node_claims.list_live = list_live  # type: ignore[method-assign] # it shows them
    world.minutes(3)
    assert len(warm(world)) == 2


def test_a_warm_node_whose_reservation_was_cancelled_goes_and_is_not_paid_for() -> None:
    world = warm_world(2)
    world.minutes(3)
    cancelled = replace(world.ec2.reservations["cr-1"], state="cancelled")
    world.ec2.reservations["cr-1"] = cancelled
    for instance in world.ec2.live():
        world.ec2.change(instance.id, capacity_reservation_id=None)
    world.minutes(3)
    assert world.live() == []
    assert world.ec2.live() == []
