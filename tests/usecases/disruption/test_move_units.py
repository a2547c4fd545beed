"""Units on their way between equal reservations: leased from before EC2 is asked until its count has gone down."""

from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.planning_world import node_pool_manifest
from reservoir.core.disruption.unit_move import UnitMove
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import ClaimState, LeaseState, NodeClaim
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.disruption.move_units import Moved, MoveUnits

MOVE = UnitMove("cr-idle", "cr-mine", 2, "because")


def idle(count: int = 4) -> DisruptWorld:
    """Units that lie idle in one reservation, and a full one beside it; the pool wants moves."""
    world = DisruptWorld("reserved", "on-demand", moveReservedUnits=True)
    for reservation_id, total in (("cr-idle", count), ("cr-mine", 1)):
        world.add_reservation(
            reservation_id, total_count=total, tags={MOVABLE_TAG: MOVABLE_VALUE}
        )
    world.select("cr-mine")
    return world


def run(world: DisruptWorld, *moves: UnitMove) -> Moved:
    mover = MoveUnits(world.state.node_claims, world.mover, world.shortages, world.ids)
    return mover.run(moves, known(world), world.clock.now())


def known(world: DisruptWorld) -> dict[str, CapacityReservation]:
    return {key: record.reservation for key, record in world.state.reservation_rows.items()}


def leases(world: DisruptWorld) -> list[NodeClaim]:
    return [claim for claim in world.claims() if claim.moves_to is not None]


def later(world: DisruptWorld) -> None:
    """Let EC2's counts be read after they cannot lag any more."""
    world.clock.advance(minutes=1)
    world.observe("cr-idle")
    world.observe("cr-mine")


def free(world: DisruptWorld) -> tuple[int, int]:
    return world.free_units("cr-idle"), world.free_units("cr-mine")


def test_a_paid_node_gets_a_unit_that_lay_idle_elsewhere() -> None:
    world = idle()
    world.submit("train", replicas=2, gpus=8)
    world.minutes(8)
    assert world.types() == ["p5.48xlarge reserved", "p5.48xlarge reserved"]
    assert {claim.offering.reservation_id for claim in world.live()} == {"cr-mine"}
    assert (
        world.mover.moved_count,
        sum(report.units_moved for report in world.reports),
    ) == (1, 1)
    assert free(world) == (3, 0)
    world.minutes(4)
    assert world.mover.moved_count == 1


def test_demand_that_only_a_full_reservation_can_hold_gets_a_unit_that_lay_idle_elsewhere() -> (
    None
):
    world = idle()
    world.submit("steady", gpus=8)
    world.minutes(2)
    pool = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert pool is not None
    strict = node_pool_manifest(capacity_types=("reserved",))
    strict["spec"]["disruption"] = pool.manifest["spec"]["disruption"]
    world.apply(strict)
    world.submit("train", replicas=2, gpus=8)
    world.plan_and_launch()
    assert world.pending() == 2
    world.minutes(4)
    assert (world.pending(), world.types()) == (0, ["p5.48xlarge reserved"] * 3)
    assert (world.mover.moved_count, free(world)) == (2, (2, 0))


def test_units_are_nobodys_until_ec2_shows_them_where_they_went() -> None:
    world = idle()
    assert run(world, MOVE) == Moved(moved=2)
    assert free(world) == (2, 1)  # the source's are leased, the destination's not seen yet
    world.clock.advance(seconds=10)
    # began too early to contain the move for certain: counted twice, never not at all
    world.observe("cr-idle")
    assert free(world) == (0, 1)
    later(world)
    assert free(world) == (2, 3)
    assert {claim.lease.state for claim in leases(world) if claim.lease} == {
        LeaseState.ABSORBED
    }
    world.check()


def test_what_ec2_refuses_is_given_back_and_said() -> None:
    world = idle()
    world.mover.refuses = True
    assert run(world, MOVE) == Moved(refused={"cr-idle": "InvalidParameterValue"})
    assert free(world) == (4, 1)
    assert [claim.lease.state for claim in leases(world) if claim.lease] == [
        LeaseState.RETURNED
    ]


def test_a_node_that_waits_for_a_unit_that_ec2_does_not_move_says_so() -> None:
    world = idle()
    world.mover.refuses = True
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    (dear,) = [claim for claim in world.live() if claim.offering.reservation_id is None]
    assert (
        world.reason(dear.id)
        == "EC2 refused to move a unit from cr-idle to cr-mine: InvalidParameterValue"
    )
    world.minute()
    assert world.reason(dear.id).startswith(
        "EC2 refused to move a unit from cr-idle to cr-mine: asked again from "
    )
    world.mover.refuses = False
    world.minutes(2)
    world.disruption_pass()
    assert world.reason(dear.id) == "waits for a unit that moves from cr-idle to cr-mine"
    assert [move.count for move in world.decision().moves] == [1]


def test_a_move_that_ec2_goes_on_refusing_is_asked_for_more_and_more_seldom() -> None:
    world = idle()
    world.mover.refuses = True
    world.submit("train", replicas=2, gpus=8)
    world.minutes(60)
    refused = [lease for lease in world.claims() if lease.moves_to is not None]
    assert 4 <= len(refused) <= 6  # after 3, 6, 12, 24 minutes


def test_units_that_are_not_free_any_more_are_not_asked_for() -> None:
    world = idle(count=2)
    world.state.reservations.mark_exhausted(
        "cr-idle", refused_at=world.clock.advance(seconds=1)
    )
    assert run(world, MOVE) == Moved(dropped=1)
    assert (world.mover.moved_count, leases(world)) == (0, [])


def test_an_answer_that_is_not_to_be_had_is_asked_for_again_and_given_up_in_the_end() -> (
    None
):
    world = idle()
    world.mover.throttle_count = 2
    assert run(world, UnitMove("cr-idle", "cr-mine", 1, "because")) == Moved()
    assert len(world.state.node_claims.list_moving()) == 1
    assert run(world) == Moved()
    assert run(world) == Moved(moved=1)
    later(world)
    world.mover.throttle_count = 99
    run(world, UnitMove("cr-idle", "cr-mine", 1, "because"))
    world.clock.advance(minutes=11)
    assert run(world) == Moved(moved=1)  # it may have: EC2's count will tell
    assert world.mover.moved_count == 1
    later(world)
    assert free(world) == (3, 2)
    assert world.state.node_claims.list_moving() == ()


def test_nothing_more_moves_before_ec2_shows_what_has_moved() -> None:
    world = idle()
    one = UnitMove("cr-idle", "cr-mine", 1, "because")
    assert run(world, one) == Moved(moved=1)
    assert run(world, one) == Moved(dropped=1)
    later(world)
    assert run(world, one) == Moved(moved=1)


def test_a_unit_on_its_way_is_no_node() -> None:
    world = idle()
    run(world, MOVE)
    assert {claim.state for claim in leases(world)} == {ClaimState.FAILED}
    assert world.gatherer().gather(world.clock.now()).snapshot.nodes == ()
    world.minutes(3)
    assert world.bus.events == []


def test_a_pass_moves_at_most_twenty() -> None:
    world = idle(count=40)
    assert run(world, UnitMove("cr-idle", "cr-mine", 30, "because")) == Moved(moved=20)
