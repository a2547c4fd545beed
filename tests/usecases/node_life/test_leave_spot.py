"""Workloads that lose more by interruptions than spot gains them are placed on demand for a while (rule 8)."""

from datetime import datetime, timedelta

import pytest

from lab.worlds.disrupt_world import TYPES, DisruptWorld
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.plan import OfferingKey
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.manifests.answers.explanations import WorkloadExplanation
from reservoir.usecases.explaining.explain_workload import ExplainWorkload


def test_the_prices_of_the_world_are_what_the_sums_below_say() -> None:
    large = next(each for each in TYPES if each.name == "m5.large")
    prices = {each.capacity_type: each.price_micro_usd_per_hour for each in large.offerings}
    assert prices == {CapacityType.ON_DEMAND: 96_000, CapacityType.SPOT: 32_000}
    assert ATTO_USD_PER_MICRO_USD == 10**12


def market(world: DisruptWorld) -> list[str]:
    """Return the capacity types of the nodes on which replicas are."""
    return [
        claim.offering.capacity_type.value for claim in world.live() if claim.placements
    ]


def interrupt(world: DisruptWorld) -> None:
    """Let EC2 warn of all spot nodes, and take them back."""
    ids = tuple(
        claim.instance_id or ""
        for claim in world.live()
        if claim.offering.capacity_type is CapacityType.SPOT
        and claim.state is ClaimState.RUNNING
    )
    assert ids
    world.react().run([Notice(NoticeKind.SPOT_INTERRUPTION, world.clock.now(), ids)])
    world.minutes(2)


@pytest.fixture
def world() -> DisruptWorld:
    return DisruptWorld("spot", "on-demand")


def test_a_job_that_lost_more_than_it_gained_runs_on_demand_next(
    world: DisruptWorld,
) -> None:
    world.submit("train", cpus=1, duration_s=36_000)
    world.minutes(3)
    assert market(world) == ["spot"]
    interrupt(world)
    assert market(world) == ["on-demand"]
    world.minutes(30)
    assert market(world) == ["on-demand"], "consolidation brings it back too early"


def test_it_has_spot_again_after_its_rest(world: DisruptWorld) -> None:
    world.submit("web", cpus=1)
    world.minutes(2)
    interrupt(world)
    assert market(world) == ["on-demand"]
    world.minutes(75)
    assert market(world) == ["spot"]
    interrupt(world)
    assert market(world) == ["spot"], "it gained more than a start costs"


def test_work_that_is_saved_in_time_stays_on_spot(world: DisruptWorld) -> None:
    world.submit("train", cpus=1, duration_s=36_000, checkpoint_period_s=600)
    world.minutes(60)
    interrupt(world)
    assert market(world) == ["spot"]


def test_other_work_stays_on_spot(world: DisruptWorld) -> None:
    world.submit("train", cpus=1, duration_s=36_000)
    world.minutes(2)
    interrupt(world)
    world.submit("other", cpus=15)
    world.minutes(2)
    assert sorted(market(world)) == ["on-demand", "spot"]


def test_a_notice_that_comes_twice_costs_once(world: DisruptWorld) -> None:
    world.submit("train", cpus=1, duration_s=36_000)
    world.minutes(2)
    (claim,) = world.live()
    notice = Notice(
        NoticeKind.SPOT_INTERRUPTION, world.clock.now(), (claim.instance_id or "",)
    )
    world.react().run([notice, notice])
    world.react().run([notice])
    (rest,) = (
        each
        for key, each in world.shortages.rows.items()
        if type(key).__name__ == "SpotLossKey"
    )
    assert (rest.failure_count, rest.until - world.clock.now()) == (1, timedelta(hours=1))


def test_spot_is_open_where_the_pools_allow_nothing_else() -> None:
    world = DisruptWorld("spot")
    world.submit("train", cpus=1, duration_s=36_000)
    world.minutes(2)
    interrupt(world)
    assert market(world) == ["spot"]


def test_spot_is_open_while_nothing_is_sold_on_demand(world: DisruptWorld) -> None:
    world.submit("train", cpus=1, duration_s=36_000)
    world.minutes(2)
    sold_out = {
        OfferingKey(each.name, offering.zone, offering.zone_id, offering.capacity_type)
        for each in TYPES
        for offering in each.offerings
        if offering.capacity_type is CapacityType.ON_DEMAND
    }
    until = world.clock.now() + timedelta(minutes=30)
    world.state.offerings.mark_unavailable(sold_out, until=until)
    interrupt(world)
    assert market(world) == ["spot"]


def explained(world: DisruptWorld, key: str) -> WorkloadExplanation:
    outside = world.outside()
    found = ExplainWorkload(
        world.state.workloads,
        world.state.node_claims,
        world.state.reservations,
        outside.shortage_history,
        world.clock,
    ).explain(key)
    assert found is not None
    return found


def test_who_leaves_is_told_and_explained_until_it_has_spot_again(
    world: DisruptWorld,
) -> None:
    world.submit("web", cpus=1)
    world.minutes(2)
    assert explained(world, "research/web").off_spot is None
    interrupt(world)
    (told,) = world.bus.of("Workload Left Spot")
    assert (told["workload"]["name"], told["times"]) == ("web", 1)
    rest = explained(world, "research/web").off_spot
    assert rest is not None
    assert rest.until == datetime.fromisoformat(told["until"])
    assert rest.reason == told["reason"]
    world.minutes(75)
    assert explained(world, "research/web").off_spot is None


def test_what_rests_already_is_not_told_again(world: DisruptWorld) -> None:
    world.submit("train", replicas=2, cpus=10, duration_s=36_000)
    world.minutes(2)
    for claim in world.live():
        notice = Notice(
            NoticeKind.SPOT_INTERRUPTION, world.clock.now(), (claim.instance_id or "",)
        )
        world.react().run([notice])
    assert len(world.bus.of("Workload Left Spot")) == 1


def test_who_stays_is_not_told_of(world: DisruptWorld) -> None:
    world.submit("train", cpus=1, duration_s=36_000, checkpoint_period_s=600)
    world.minutes(60)
    interrupt(world)
    assert world.bus.of("Workload Left Spot") == []
