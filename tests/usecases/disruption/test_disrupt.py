"""Disruption, minute by minute of the whole pipeline: what is replaced before it goes, what goes first, what stays."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.effects import Effects
from lab.fakes.system import START
from lab.fakes.values import node_claim
from lab.worlds.disrupt_world import TYPES, DisruptWorld, priced
from lab.worlds.launch_world import ZONES
from lab.worlds.planning_world import node_pool_manifest
from reservoir.core.disruption.command import DisruptionDecision, WaitingTurn
from reservoir.core.disruption.decide import DisruptionInput
from reservoir.core.disruption.decision_ids import decision_id
from reservoir.core.launching.launch_outcome import LaunchErrorKind
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.workload import Gang
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.core.scheduling_terms.labels import CAPACITY_RESERVATION_ID
from reservoir.ports.state import COMMIT_ITEMS_MAX
from reservoir.usecases.disruption.hand_over import HandOver
from reservoir.usecases.provisioning.commit_plan import in_transactions


def on_the_side(**disruption: Any) -> DisruptWorld:
    """One job in the reservation's only unit, one beside it on demand; then a second unit becomes free."""
    world = DisruptWorld("reserved", "on-demand", **disruption)
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    assert world.types() == ["p5.48xlarge on-demand", "p5.48xlarge reserved"]
    world.resize("cr-1", 2)
    return world


def dear(world: DisruptWorld) -> NodeClaim:
    return next(c for c in world.claims() if c.offering.reservation_id is None)


def test_on_demand_moves_into_a_reservation_whose_unit_becomes_free() -> None:
    world = on_the_side()
    old = dear(world)
    for _ in range(4):
        world.minute()
        assert world.at_work() >= 2
        assert world.pending() == 0
    assert world.types() == ["p5.48xlarge reserved", "p5.48xlarge reserved"]
    assert len(world.ec2.all()) == 3
    (new,) = [c for c in world.live() if old.id in c.replaces]
    order = [
        (kind, detail["node"]["nodeClaim"])
        for kind, detail in world.bus.events
        if "node" in detail
    ]
    assert order[-3:] == [
        ("Node Launched", new.id),
        ("Node Draining", old.id),
        ("Node Terminated", old.id),
    ]
    assert world.bus.of("Node Draining")[-1]["reason"] == "Consolidation"
    placed = world.bus.of("Workload Placed")[-1]
    # the workload is told where to go
    assert [node["nodeClaim"] for node in placed["nodes"]] == [new.id]


def test_the_old_node_drains_only_once_its_replacement_runs() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    (new,) = [c for c in world.claims() if c.replaces]
    assert (new.state, new.placements, new.expected) == (
        ClaimState.LAUNCHED,
        (),
        old.placements,
    )
    world.clock.advance(minutes=1)
    world.disruption_pass()  # EC2 has not brought it up yet
    assert world.state.claim_rows[old.id].state is ClaimState.RUNNING
    assert world.reason(old.id) == f"waits until {new.id} runs"
    world.minute()
    assert world.state.claim_rows[old.id].state is ClaimState.DRAINING
    assert world.state.claim_rows[new.id].placements == old.placements


def test_nothing_is_handed_over_to_a_node_that_was_cordoned_since() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    (new,) = [c for c in world.live() if old.id in c.replaces]
    running = world.state.claim_rows[new.id]
    world.state.node_claims.save(
        replace(running, cordoned=True), expected_revision=running.revision
    )

    for _ in range(4):
        world.minute()
        assert world.state.claim_rows[new.id].placements == ()


def test_a_replacement_that_fails_drains_nothing() -> None:
    world = on_the_side()
    old = dear(world)
    world.settle()
    world.resize("cr-1", 1)  # an outsider takes the unit that discovery has just seen
    world.disruption_pass()
    assert world.state.claim_rows[old.id].disruption is not None
    world.plan_and_launch()
    assert [c.state for c in world.claims() if c.replaces] == [ClaimState.FAILED]
    world.minutes(2)
    assert world.of("Node Draining") == []
    assert world.state.claim_rows[old.id].disruption is None
    assert sum(report.abandoned for report in world.reports) == 1
    assert (world.at_work(), len(world.ec2.all())) == (2, 2)


@pytest.mark.parametrize("state", [ClaimState.DRAINING, ClaimState.TERMINATING])
def test_nothing_is_handed_over_to_a_replacement_that_goes_itself(
    state: ClaimState,
) -> None:
    """It was interrupted while the pass that found it running was under way."""
    world = on_the_side()
    old = dear(world)
    world.minute()
    (new,) = [c for c in world.live() if old.id in c.replaces]
    world.state.claim_rows[new.id] = replace(new, state=state)
    hand_over = HandOver(world.state.node_claims, (new.id,), world.clock.now())
    hand_over(
        world.state.claim_rows[old.id],
        lambda claim: replace(claim, state=ClaimState.DRAINING),
    )
    assert (world.state.claim_rows[new.id].placements, hand_over.placed) == ((), [])
    assert world.pending() == 1


def test_nothing_moves_into_a_block_that_has_begun_to_drain() -> None:
    """Its replacement came up just then, and no sweep has drained it yet: it is none any more."""
    world = DisruptWorld("reserved", "on-demand")
    world.submit("train", gpus=8)
    world.minutes(2)
    (old,) = world.live()
    drain_at = world.clock.now() + timedelta(minutes=2)
    kind = ReservationKind.CAPACITY_BLOCK
    world.add_reservation(
        "cr-block", kind=kind, total_count=1, end_at=drain_at + timedelta(minutes=40)
    )
    world.minute()
    (new,) = [c for c in world.live() if c.replaces == (old.id,)]
    world.clock.set(drain_at)
    world.ec2.start_all()
    world.react().run([Notice(NoticeKind.RUNNING, drain_at, (new.instance_id or "",))])
    assert world.state.claim_rows[new.id].state is ClaimState.RUNNING
    world.disruption_pass()
    assert world.state.claim_rows[old.id].placements == old.placements
    world.minutes(3)
    assert old.id not in world.of("Node Draining")
    assert world.types() == ["p5.48xlarge on-demand"]


def test_the_room_of_a_replacement_is_for_the_replicas_that_it_was_made_for() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    world.submit("urgent", replicas=1, gpus=8, priority=1_000)
    world.minutes(3)
    (new,) = [c for c in world.live() if old.id in c.replaces]
    assert [placed.workload_key for placed in new.placements] == ["research/train"]
    assert len(world.ec2.all()) == 4  # the urgent one got a node of its own


def test_s106_what_has_become_of_a_replacement_is_looked_at_before_the_old_node_goes() -> (
    None
):
    """Karpenter compares the types that it chose; here it is also the reservation, up to the moment of the drain."""
    world = on_the_side()
    old = dear(world)
    world.minute()
    (new,) = [c for c in world.live() if c.replaces]
    # its owner takes a unit back, and the replacement runs on as on-demand
    world.resize("cr-1", 1)
    world.ec2.change(new.instance_id or "", capacity_reservation_id=None)
    world.minute()
    assert world.state.claim_rows[new.id].offering.reservation_id is None
    assert world.reason(old.id) == "its replacements are no cheaper any more: it stays"
    assert "Node Draining" not in [kind for kind, _ in world.bus.events]
    world.minutes(4)  # what nothing moved onto goes
    assert world.types() == ["p5.48xlarge on-demand", "p5.48xlarge reserved"]
    assert world.of("Node Draining") == [new.id]


def test_s106_a_type_that_is_not_to_be_had_at_the_launch_stops_the_move() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("big", cpus=12)
    world.submit("small", cpus=1)
    world.minutes(2)
    world.scale("big", 0)
    world.minutes(2)
    (old,) = world.live()
    assert old.offering.instance_type == "m5.4xlarge"
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    for instance_type in ("m5.large", "m5.xlarge"):
        world.ec2.refusals |= {
            (instance_type, zone_id): LaunchErrorKind.INSUFFICIENT_CAPACITY
            for _, zone_id in ZONES
        }
    world.minutes(3)
    assert [c.state for c in world.claims() if c.replaces] == [ClaimState.FAILED]
    assert (
        world.live()[0].id,
        world.live()[0].disruption,
        world.bus.of("Node Draining"),
    ) == (old.id, None, [])


def test_a_workload_that_must_not_be_disturbed_by_now_stays() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    record = world.state.workload_rows["research/train"]
    assert record.workload is not None
    calm = replace(record.workload, do_not_disrupt=True)
    world.state.workloads.put(
        replace(record, workload=calm), expected_revision=record.revision
    )
    world.minute()
    assert world.state.claim_rows[old.id].disruption is None
    assert world.reason(old.id) == "workload research/train says do-not-disrupt: it stays"
    world.minutes(8)  # the replacement, which nothing moved onto, goes back
    assert world.types() == ["p5.48xlarge on-demand", "p5.48xlarge reserved"]
    assert world.of("Node Draining") == [c.id for c in world.claims() if c.replaces]


def test_nodes_of_a_pool_that_must_not_be_disturbed_by_now_stay() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    world.change_pool(annotations={"karpenter.sh/do-not-disrupt": "true"})
    world.minutes(3)
    assert world.state.claim_rows[old.id].disruption is None
    assert world.of("Node Draining") == []


def half_empty() -> DisruptWorld:
    """Two nodes, each with 5 of 16 cores in use: either can go, and its replica fits on the other."""
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("filler", replicas=2, cpus=11)
    world.submit("small", replicas=2, cpus=5)
    world.minutes(2)
    world.scale("filler", 0)
    world.minutes(2)
    assert world.types() == ["m5.4xlarge on-demand"] * 2
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    return world


def test_a_node_goes_when_its_replicas_fit_elsewhere() -> None:
    world = half_empty()
    world.minutes(3)
    assert world.types() == ["m5.4xlarge on-demand"]


def test_do_not_disrupt_that_arrives_just_before_the_commit_stops_a_command_without_replacements() -> (
    None
):
    world = half_empty()

    def say_so() -> None:
        record = world.state.workload_rows["research/small"]
        assert record.workload is not None
        generation = record.generation + 1
        calm = replace(record.workload, generation=generation, do_not_disrupt=True)
        changed = replace(record, generation=generation, workload=calm)
        world.state.workloads.put(changed, expected_revision=record.revision)

    # after the decision was kept, before it is committed
    world.armed = Effects(before={2: say_so})
    report = world.disruption_pass()

    assert (report.drained, report.dropped) == (0, 1)
    assert world.of("Node Draining") == []
    world.minutes(3)
    assert world.types() == ["m5.4xlarge on-demand"] * 2


def test_an_interruption_in_the_middle_moves_onto_the_replacement() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    world.drain(world.state.claim_rows[old.id], DrainReason.INTERRUPTION)
    world.minutes(3)
    assert (world.at_work(), len(world.ec2.all())) == (2, 3)


def test_a_node_that_dies_in_the_middle_is_replaced_by_its_replacement() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    world.ec2.change(old.instance_id or "", state="terminated")
    world.minutes(3)
    assert (world.at_work(), world.pending(), len(world.ec2.all())) == (2, 0, 3)


def test_an_instance_that_ec2_moved_is_known_where_it_is() -> None:
    """MoveCapacityReservationInstances between open reservations takes running instances along, without an event."""
    world = DisruptWorld("reserved", consolidateAfter="Never")
    world.add_reservation("cr-1", total_count=1)
    world.add_reservation("cr-2", total_count=1)
    world.submit("train", gpus=8)
    world.minutes(2)
    (claim,) = world.live()
    there = "cr-2" if claim.offering.reservation_id == "cr-1" else "cr-1"
    world.ec2.change(claim.instance_id or "", capacity_reservation_id=there)
    world.minutes(2)
    (moved,) = world.live()
    assert (moved.id, moved.offering.reservation_id) == (claim.id, there)
    assert moved.labels[CAPACITY_RESERVATION_ID] == there
    world.select(there)  # what it has left is no concern of it any more
    world.minutes(3)
    assert world.live()[0].id == claim.id
    assert len(world.ec2.all()) == 1


# --- what changes between the decision and the commit (its first effect keeps the decision)


def meanwhile(world: DisruptWorld, what: Callable[[], object]) -> None:
    """Let ``what`` happen when the pass has decided and is about to act."""

    def aside() -> None:
        world.effects = Effects()
        what()
        world.effects = world.armed

    world.armed = Effects(before={1: aside})


def empties(count: int, **disruption: Any) -> DisruptWorld:
    """Empty on-demand nodes of one pool; ``disruption`` applies from now on."""
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=count, gpus=8)
    world.minutes(2)
    for claim in world.claims():  # their replicas ended without a word
        world.state.node_claims.return_replicas(
            claim,
            expected_revision=claim.revision,
            placements={"research/web": 1},
            returned_at=world.clock.now(),
        )
    world.scale("web", 0)
    settings = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption}
    world.change_pool(disruption=settings)
    assert len(world.live()) == count
    return world


def test_an_empty_node_that_gets_work_meanwhile_stays() -> None:
    world = empties(3)

    def work_arrives() -> None:
        world.scale("web", 1)
        world.plan_and_launch()

    meanwhile(world, work_arrives)
    report = world.minute()
    assert (report.drained, report.dropped) == (2, 1)
    (left,) = [c for c in world.live() if c.placements]
    assert left.state is ClaimState.RUNNING
    assert world.reason(left.id) == "it changed just now"
    assert len(world.ec2.all()) == 3


def test_a_reservation_that_fills_up_meanwhile_stops_the_move_into_it() -> None:
    """R-186 compares type names only; here the unit itself is part of the condition."""
    world = on_the_side()
    old = dear(world)

    def unit_goes() -> None:
        world.submit("other", gpus=8)
        world.plan_and_launch()

    world.settle()
    meanwhile(world, unit_goes)
    report = world.disruption_pass()
    assert (report.replaced, report.dropped) == (0, 1)
    assert world.reason(old.id) == "cr-1 changed while this was decided"
    assert world.state.claim_rows[old.id].disruption is None
    assert not [c for c in world.claims() if c.replaces]


def test_a_destination_that_fills_up_meanwhile_stops_the_move_onto_it() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("big", cpus=12)
    world.minute()
    world.submit("small", cpus=3, labels={"app": "small"})
    world.minute()
    world.submit("tiny", cpus=1)
    world.minutes(2)
    assert world.types() == ["m5.4xlarge on-demand"]
    world.submit("apart", cpus=3)
    world.minutes(2)
    world.scale("small", 0)
    world.plan_and_launch()
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    source = next(c for c in world.live() if c.offering.instance_type != "m5.4xlarge")

    def room_goes() -> None:
        world.submit("late", cpus=2.5)
        world.plan_and_launch()

    meanwhile(world, room_goes)
    report = world.disruption_pass()
    assert (report.drained, report.replaced, report.dropped) == (0, 0, 1)
    assert "changed while this was decided" in world.reason(source.id)


@pytest.mark.parametrize(
    ("budget", "expected"), [("30%", 3), ("0", 0), ("100%", 10), ("4", 4)]
)
def test_budgets_bound_a_pass(budget: str, expected: int) -> None:  # S-101
    world = empties(10, budgets=[{"nodes": budget}])
    report = world.disruption_pass()
    assert report.drained == expected
    assert (
        sum(
            "budget of NodePool gpu is used up" in reason
            for reason in report.refusals.values()
        )
        == 10 - expected
    )


def test_a_window_protects_nodes_in_its_own_time_zone_and_for_its_reasons_only() -> None:
    half_past_eleven_utc = {
        "schedule": "30 12 * * *",
        "duration": "1h",
        "timeZone": "Europe/Berlin",
    }
    closed = {"nodes": "0", "reasons": ["Empty"], **half_past_eleven_utc}
    world = empties(
        3, budgets=[closed, {"nodes": "0", "reasons": ["Underutilized"]}, {"nodes": "2"}]
    )
    assert (world.clock.now().hour, world.clock.now().minute) == (12, 2)
    assert world.disruption_pass().drained == 0
    world.clock.advance(minutes=28)  # in UTC it would open now
    assert world.disruption_pass().drained == 2


def test_two_passes_at_once_spend_one_budget() -> None:
    world = empties(10, budgets=[{"nodes": "3"}])
    others = []
    meanwhile(world, lambda: others.append(world.disrupt().run().drained))
    report = world.disruption_pass()
    assert (others, report.drained, report.dropped) == ([3], 0, 3)
    assert len([c for c in world.live() if c.state is ClaimState.RUNNING]) == 7


def test_budgets_count_what_another_pass_sent_away_although_the_listing_lags() -> None:
    world = empties(10, budgets=[{"nodes": "3"}])
    listed = world.state.node_claims.list_live()
    meanwhile(world, lambda: world.disrupt().run())
    world.state.node_claims.list_live = lambda: listed  # type: ignore[method-assign] # as before either pass
    report = world.disruption_pass()
    assert (report.drained, report.dropped) == (0, 3)
    assert set(report.refusals.values()) >= {
        "budget of NodePool gpu was used up while this was decided"
    }
    assert (
        len([c for c in world.state.claim_rows.values() if c.state is ClaimState.RUNNING])
        == 7
    )


def test_a_pass_that_acts_lists_the_fleet_twice_and_reads_none_of_the_rest() -> None:
    world = empties(10, budgets=[{"nodes": "3"}])
    claims: Any = world.state.node_claims
    list_live, get_many, listed, read = (
        claims.list_live,
        claims.get_many,
        list[int](),
        set[str](),
    )

    def listing() -> tuple[NodeClaim, ...]:
        listed.append(1)
        found: tuple[NodeClaim, ...] = list_live()
        return found

    def reading(ids: Collection[str]) -> Mapping[str, NodeClaim]:
        read.update(ids)
        found: Mapping[str, NodeClaim] = get_many(ids)
        return found

    claims.list_live, claims.get_many = listing, reading
    assert world.disruption_pass().drained == 3
    assert (len(listed), read) == (2, set())


def test_a_pass_that_commits_between_the_budgets_and_the_commit_spends_them() -> None:
    """The two decide on different nodes, so only the turn tells them of each other."""
    world = empties(2, budgets=[{"nodes": "1"}])
    world.state.offerings.save_catalogue((*TYPES, priced("p5e.48xlarge", 192, 200_000_000)))
    first, second = sorted(world.live(), key=lambda claim: claim.id)
    others = []

    def another_pass() -> None:
        # so it is that pass's first choice
        dearer = replace(second.offering, instance_type="p5e.48xlarge")
        world.state.claim_rows[second.id] = replace(second, offering=dearer, revision=99)
        world.effects = Effects()
        others.append(world.disrupt().run().drained)
        world.effects = world.armed

    world.armed = Effects(before={3: another_pass})
    report = world.disruption_pass()
    assert world.armed.log[:3] == ["save", "put", "commit"]
    assert (others, report.drained, report.dropped) == ([1], 0, 1)
    assert world.reason(first.id) == "another pass acted while this was decided"
    assert world.state.claim_rows[first.id].state is ClaimState.RUNNING


def test_nodes_on_their_way_out_use_the_budget_up() -> None:
    world = empties(10, budgets=[{"nodes": "3"}])
    world.disruption_pass()
    assert world.disruption_pass().drained == 0
    world.minute()  # EC2 has ended them
    assert len([c for c in world.live() if c.state is ClaimState.RUNNING]) == 4


# --- terminate first


def full(count: int = 2, **disruption: Any) -> DisruptWorld:
    """A strict pool whose reservation is full; its nodes have just drifted, and other demand wants the units too."""
    world = DisruptWorld("reserved", **disruption)
    world.add_reservation("cr-1", total_count=count)
    world.submit("train", replicas=count, gpus=8)
    world.minutes(2)
    world.submit("other", replicas=3, gpus=8, priority=100)
    world.change_pool(labels={"version": "2"})
    return world


def test_a_full_reservation_is_rolled_one_slot_after_the_other() -> None:
    world = full(3)
    old = {c.id for c in world.live()}
    away = []
    for _ in range(15):
        world.minute()
        away.append(3 - world.at_work())
        assert world.state.workload_rows["research/train"].pending_count == 0
        # though it is more urgent
        assert world.state.workload_rows["research/other"].placed_count == 0
    assert max(away) == 1
    assert away[-1] == 0
    assert not old & {c.id for c in world.live()}
    assert world.types() == ["p5.48xlarge reserved"] * 3
    assert (len(world.ec2.all()), world.free_units()) == (6, 0)
    assert {event["reason"] for event in world.bus.of("Node Draining")} == {"Drift"}


def test_a_slot_that_is_being_scrubbed_is_waited_for() -> None:
    world = full(1)
    world.minute()
    world.resize("cr-1", 0)  # the node is ended, and EC2 does not show its slot free yet
    world.minutes(10)
    assert world.live() == [c for c in world.claims() if c.waits_for_slot]
    assert world.reason(world.live()[0].id) == "waits until its unit is free"
    assert world.state.workload_rows["research/train"].pending_count == 0
    world.resize("cr-1", 1)
    world.minutes(2)
    assert (world.types(), world.at_work()) == (["p5.48xlarge reserved"], 1)
    assert len(world.ec2.all()) == 2


def test_no_other_node_goes_while_the_slot_of_the_last_one_is_awaited() -> None:
    """EC2 scrubs it for minutes; each node of the reservation that went meanwhile would be one more that is away."""
    world = full(3)
    world.minute()
    world.resize("cr-1", 2)  # one node is ended, and EC2 does not show its slot free yet
    for _ in range(10):
        world.minute()
        assert world.at_work() >= 2
    assert len(world.bus.of("Node Draining")) == 1
    world.resize("cr-1", 3)
    world.minutes(2)
    assert world.at_work() >= 2


def test_a_slot_that_ec2_shows_free_too_early_is_asked_for_again() -> None:
    world = full(1)
    world.minutes(2)
    told = len(world.bus.of("Reservation Exhausted"))
    for _, zone_id in ZONES:
        world.ec2.refusals[("p5.48xlarge", zone_id)] = LaunchErrorKind.RESERVATION_EXHAUSTED
    world.minutes(4)
    (new,) = world.live()
    assert (new.state, new.replaces != ()) == (ClaimState.LAUNCHING, True)
    assert world.state.workload_rows["research/other"].placed_count == 0
    # it is ours, and is coming back
    assert len(world.bus.of("Reservation Exhausted")) == told
    world.ec2.refusals.clear()
    world.minutes(2)
    assert world.live()[0].state is ClaimState.RUNNING
    assert (world.at_work(), len(world.ec2.all())) == (1, 2)


def test_a_long_drain_does_not_make_the_launch_too_old() -> None:
    world = full(1)
    world.holds_on = True  # until the deadline, 15 minutes
    world.minutes(20)
    assert (world.types(), world.at_work()) == (["p5.48xlarge reserved"], 1)
    (new,) = world.live()
    assert new.replaces
    assert not [c for c in world.claims() if c.state is ClaimState.FAILED]


def test_a_slot_that_does_not_come_back_is_given_up_in_the_end() -> None:
    world = full(1)
    world.minute()
    world.resize("cr-1", 0)
    world.minutes(40)
    assert world.live() == []
    assert world.state.workload_rows["research/train"].pending_count == 1
    assert "unit did not become free" in world.queue.wake_ups
    assert sum(report.abandoned for report in world.reports) == 1
    world.resize("cr-1", 1)
    world.minutes(2)
    assert world.types() == ["p5.48xlarge reserved"]  # to whoever is most urgent now


def test_a_slot_whose_reservation_ends_is_given_up_at_once() -> None:
    world = full(1)
    world.minute()
    world.resize("cr-1", 0)
    world.minutes(3)
    assert world.state.workload_rows["research/train"].pending_count == 0
    world.ec2.reservations["cr-1"] = replace(
        world.ec2.reservations["cr-1"], state="cancelled"
    )
    world.minutes(2)
    assert world.live() == []
    assert world.state.workload_rows["research/train"].pending_count == 1


def test_a_node_that_ec2_will_not_end_does_not_hold_its_replicas_for_ever() -> None:
    world = full(1)
    (old,) = world.live()
    world.ec2.protected.add(old.instance_id or "")
    world.minutes(50)
    assert [c.id for c in world.live()] == [old.id]
    assert world.state.workload_rows["research/train"].pending_count == 1


def test_pools_that_share_a_reservation_do_not_wait_for_each_other() -> None:
    world = full(2)
    first = world.live()[0]
    # The other node is of another pool, which drifts too.
    second = replace(world.live()[1], node_pool_name="second")
    world.state.claim_rows[second.id] = second
    world.copy_pool("second")
    world.minute()
    assert {
        c.state
        for c in (world.state.claim_rows[first.id], world.state.claim_rows[second.id])
    } == {ClaimState.DRAINING}
    world.draining().release("research/train", second.id, None, world.clock.now())
    world.holds_on = True
    world.minutes(4)
    (filled,) = [c for c in world.live() if second.id in c.replaces]
    assert filled.state is ClaimState.RUNNING
    assert world.state.claim_rows[first.id].state is ClaimState.DRAINING


def test_drift_with_a_free_unit_is_made_before_the_break() -> None:
    world = full(2)
    world.scale("other", 0)
    world.resize("cr-1", 3)
    for _ in range(8):
        world.minute()
        assert world.at_work() >= 2
    assert len([c for c in world.live() if c.replaces]) == 2
    assert len(world.ec2.all()) == 4


def test_work_that_drift_moves_finds_the_room_that_it_was_simulated_into() -> None:
    world = DisruptWorld("reserved", consolidateAfter="Never")
    world.add_reservation("cr-1", instance_type="m5.4xlarge", total_count=3)
    for name in ("x", "y"):  # which are left on a half full node each
        world.submit(name, replicas=2, cpus=7)
        world.minutes(2)
    for name in ("x", "y"):
        world.scale(name, 1)
        world.minutes(3)
    world.change_pool(labels={"version": "2"})
    # the second node has its turn when the replicas have come and gone with it
    for _ in range(12):
        world.minute()
        assert world.at_work() >= 2
        assert world.pending() == 0
    (new,) = world.live()
    assert new.replaces
    assert len(world.ec2.all()) == 3


def test_the_node_of_a_gang_is_replaced_also_while_other_members_wait() -> None:
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=2)
    world.submit("train", gpus=8, gang=Gang())
    world.minutes(2)
    (old,) = world.live()
    world.scale("train", 3)  # for two more, of which one would have room
    patient = dict(node_pool_manifest(capacity_types=("reserved",))["spec"]["template"])
    # else drift passes over gangs
    patient["spec"] = {**patient["spec"], "terminationGracePeriod": "10m"}
    world.change_pool(template={**patient, "metadata": {"labels": {"version": "2"}}})
    world.minutes(5)
    (new,) = world.live()
    assert (new.replaces, new.state) == ((old.id,), ClaimState.RUNNING)
    assert [placed.workload_key for placed in new.placements] == ["research/train"]
    assert len(world.ec2.all()) == 2


# --- empty nodes, and what is kept


def test_an_empty_reserved_node_goes_back_to_its_reservation() -> None:
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", gpus=8)
    world.minutes(2)
    empty_out(world, "train")
    world.minutes(3)
    assert world.live() == []
    assert world.free_units() == 1
    assert world.bus.of("Node Terminated")[-1]["reason"] == "Empty"


def empty_out(world: DisruptWorld, name: str) -> None:
    """Let a workload end on its node without the planner taking part."""
    (claim,) = world.live()
    world.state.node_claims.return_replicas(
        claim,
        expected_revision=claim.revision,
        placements={f"research/{name}": 1},
        returned_at=world.clock.now(),
    )
    world.scale(name, 0)


def test_a_pool_can_keep_its_empty_reserved_nodes() -> None:
    world = DisruptWorld("reserved", keepReserved="10m")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", gpus=8)
    world.minutes(2)
    empty_out(world, "train")
    world.minutes(5)
    (kept,) = world.live()
    assert world.reason(kept.id) == "NodePool gpu keeps reserved nodes for 600 s"
    world.minutes(10)
    assert world.live() == []


# L-04
def test_scaling_down_moves_paid_work_onto_units_that_are_empty_and_launches_nothing() -> (
    None
):
    world = DisruptWorld("reserved", "on-demand", consolidateAfter="Never")
    world.add_reservation("cr-1", total_count=6)
    world.submit("train", replicas=8, gpus=8)
    world.minutes(2)
    reserved = [c for c in world.live() if c.offering.reservation_id is not None]
    paid = [c for c in world.live() if c.offering.reservation_id is None]
    assert (len(reserved), len(paid)) == (6, 2)
    for claim in (*reserved[:2], paid[0]):  # three replicas end, wherever they are
        world.state.node_claims.return_replicas(
            claim,
            expected_revision=claim.revision,
            placements={"research/train": 1},
            returned_at=world.clock.now(),
        )
    world.scale("train", 5)
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    world.minutes(6)
    assert world.types() == ["p5.48xlarge reserved"] * 5
    assert len(world.ec2.all()) == 8
    assert (world.free_units(), world.pending()) == (1, 0)


# --- the record


def test_every_node_that_stays_has_its_reason_and_every_action_its_decision() -> None:
    world = on_the_side()
    old = dear(world)
    world.minute()
    marked = world.state.claim_rows[old.id].disruption
    assert marked is not None
    decided = world.decision(decision_id(marked.command_id))
    (command,) = decided.commands
    assert command.claim_ids == (old.id,)
    assert command.explanation == "cheaper capacity can hold its replicas"
    (new,) = [c for c in world.claims() if c.replaces]
    assert new.plan_id == decision_id(marked.command_id)
    world.minutes(6)
    running = {c.id for c in world.live()}
    assert {refusal.claim_id for refusal in world.decision().refusals} == running


def test_a_second_pass_over_an_unchanged_world_does_nothing() -> None:
    world = on_the_side()
    world.minutes(6)
    before, writes = world.decision(), world.state.write_count
    world.disruption_pass()
    assert world.state.write_count == writes
    assert world.decision() == before


def test_nothing_is_read_or_kept_without_a_fleet() -> None:
    world = DisruptWorld()
    world.disruption_pass()
    assert world.armed.log == []


def test_replicas_that_fit_on_nodes_that_stay_go_there_without_a_launch() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    for name in ("one", "two"):
        world.submit(name, replicas=2, cpus=1.5)
        world.minutes(2)
    before = len(world.ec2.all())
    world.scale("one", 1)
    world.scale("two", 1)
    world.plan_and_launch()
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    world.minutes(4)
    assert len(world.live()) == 1
    assert len(world.ec2.all()) - before <= 1
    assert world.pending() == 0


def test_a_command_that_moves_more_workloads_than_a_transaction_holds_checks_them_all() -> (
    None
):
    marked = node_claim("nc-1")
    depends_on = {f"research/w{number:03}": 1 for number in range(250)}

    parts = list(in_transactions([], [(marked, marked)], depends_on))

    assert all(part.item_count() < COMMIT_ITEMS_MAX for part in parts)
    assert {key for part in parts for key in part.depends_on} == depends_on.keys()
    # what changes something comes last
    assert [bool(part.existing) for part in parts] == [False, False, True]


@pytest.mark.parametrize(("waiting", "expected"), [(0, 0), (60, 0), (67, 7)])
def test_what_waits_for_more_than_an_hour_is_counted(waiting: int, expected: int) -> None:
    turns = tuple(WaitingTurn(f"nc-{number}", START) for number in range(waiting))
    decision = DisruptionDecision((), (), waiting=turns)
    assert decision.unjudged_for_an_hour(START) == expected
    assert decision.unjudged_for_an_hour(START + timedelta(hours=1)) == waiting, (
        "they have waited for an hour"
    )


def test_whoever_waits_for_its_turn_is_first_in_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = DisruptWorld("on-demand")
    world.submit("train", replicas=1, cpus=1)
    world.minutes(2)
    (node,) = world.live()
    seen: list[Mapping[str, datetime]] = []

    def decide(given: DisruptionInput, *_: object, now: datetime) -> DisruptionDecision:
        seen.append(given.waiting)
        return DisruptionDecision(
            (), (), waiting=(WaitingTurn(node.id, given.waiting.get(node.id, now)),)
        )

    monkeypatch.setattr("reservoir.usecases.disruption.disrupt.decide_disruption", decide)
    passes, first = world.disrupt(), world.clock.now()
    for _ in range(3):
        passes.run()
        world.clock.advance(minutes=1)
    assert seen == [{}, {node.id: first}, {node.id: first}]
