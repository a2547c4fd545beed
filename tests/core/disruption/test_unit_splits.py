"""Free units are split off for nodes that EC2 can move into them, and only for what may have them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from lab.fakes import values
from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.disruption.methods.unit_splits import SPLITS_MAX
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_claim import Lease, NodeClaim
from reservoir.core.model.workload import Demand
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE, SPLIT_FROM_TAG, SPLIT_GROUP_TAG
from tests.core.disruption.world import (
    NOW,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Fleet,
    instance_type,
    node_pool,
    reservation,
    workload,
)

GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/reservoir-default"
LARGE = instance_type("large", 8, on_demand=400_000, spot=300_000)
WORK = {
    it.key: it
    for it in (
        workload("big", 6),
        workload("fixed", 6, do_not_disrupt=True),
        workload("tiny", 1),
    )
}
TAGS = {MOVABLE_TAG: MOVABLE_VALUE}


def free(
    identity: str = "cr-1", total: int = 4, count: int = 4, **changes: object
) -> CapacityReservation:
    return reservation(identity, "large", total, count, **{"tags": TAGS, **changes})


def fleet(*reservations: CapacityReservation, nodes: int = 1, **changes: object) -> Fleet:
    """Nodes that run on demand and were launched at the group."""
    known: dict[str, object] = {
        "types": (LARGE,),
        "pools": (node_pool("default", RESERVED, ON_DEMAND),),
        "workloads": WORK,
    }
    it = Fleet(**{**known, **changes}, reservations=reservations)  # type: ignore[arg-type]  # checked by the dataclass
    for number in range(nodes):
        at_group(it, f"paid-{number}")
    return it


def at_group(
    it: Fleet, claim_id: str, work: str = "default/big", **changes: object
) -> None:
    known: dict[str, Any] = {"reclaim_group_arn": GROUP}
    it.add_node(claim_id, "large", ON_DEMAND, {work: 1}, **{**known, **changes})


def splits(decision: DisruptionDecision) -> list[tuple[str, str]]:
    return [(split.source_id, split.for_node) for split in decision.splits]


def test_a_unit_is_split_off_and_the_node_is_left_alone() -> None:
    decision = fleet(free()).decide()
    assert splits(decision) == [("cr-1", "paid-0")]
    assert decision.commands == ()
    assert "without a restart" in decision.refusals[0].reason


def test_a_node_that_was_launched_at_no_group_is_replaced() -> None:
    it = fleet(free(), nodes=0)
    at_group(it, "plain", reclaim_group_arn=None)
    decision = it.decide()
    assert decision.splits == ()
    assert [command.claim_ids for command in decision.commands] == [("plain",)]


def test_one_unit_stays_and_no_node_gets_two() -> None:
    assert len(fleet(free(total=3, count=3), nodes=5).decide().splits) == 2
    assert len(fleet(free(total=9, count=9), nodes=2).decide().splits) == 2
    assert fleet(free(total=1, count=1)).decide().splits == ()


def test_a_pass_splits_off_so_many_at_most() -> None:
    count = SPLITS_MAX + 5
    many = fleet(free(total=2 * count, count=2 * count), nodes=count)
    assert len(many.decide().splits) == SPLITS_MAX


def test_only_ones_own_tagged_active_odcrs_of_the_same_kind_give_units() -> None:
    others = (
        free(tags={}),
        free(kind=ReservationKind.CAPACITY_BLOCK, end_at=NOW + timedelta(days=1)),
        free(kind=ReservationKind.INTERRUPTIBLE),
        free(zone="zone-2", zone_id="z2"),
        free(placement_group_arn="arn:aws:ec2:us-east-1:1:placement-group/pg"),
        free(stale=True),
        free(state="pending"),
        free(tags={**TAGS, SPLIT_FROM_TAG: "cr-0"}),
    )
    for other in others:
        assert fleet(other).decide().splits == (), other


def test_what_waits_comes_first() -> None:
    it = fleet(free(total=2, count=1))
    it.pools = (node_pool("default", RESERVED, ON_DEMAND),)
    demand = Demand(WORK["default/big"], 1, NOW)
    assert it.decide((demand,)).splits == ()


def test_work_that_must_not_be_disturbed_is_not() -> None:
    it = fleet(free(), nodes=0)
    at_group(it, "fixed", "default/fixed")
    decision = it.decide()
    assert splits(decision) == [("cr-1", "fixed")]
    assert decision.commands == ()


def test_budgets_and_consolidate_after_do_not_matter() -> None:
    it = fleet(free(), budget=0)
    assert splits(it.decide()) == [("cr-1", "paid-0")]


def test_while_a_unit_is_on_its_way_no_more_is_split_off_and_no_node_is_replaced() -> None:
    split_off = free(
        "cr-split", 1, 1, tags={**TAGS, SPLIT_FROM_TAG: "cr-1", SPLIT_GROUP_TAG: GROUP}
    )
    it = fleet(free(), CapacityReservation.of(split_off, free_units=1))
    decision = it.decide()
    assert (decision.splits, decision.commands) == ((), ())
    it.reservations = (free(), replace(it.reservations[1], available_count=0))
    decision = it.decide()
    assert (decision.splits, decision.commands) == ((), ()), "which node has moved in?"
    ended = replace(it.reservations[1], state="cancelled")
    assert splits(replace(it, reservations=(free(), ended)).decide()) == [
        ("cr-1", "paid-0")
    ], "nothing moves into what has ended"
    it.add_node(
        "moved-in", "large", RESERVED, {"default/tiny": 1}, reservation_id="cr-split"
    )
    assert splits(it.decide()) == [("cr-1", "paid-0")], "another node has moved in"


def test_a_lease_that_ec2_has_not_answered_counts_as_on_its_way() -> None:
    it = fleet(free())
    lease: NodeClaim = values.node_claim(
        "sp-1",
        offering=it.claims["paid-0"].offering,
        lease=Lease("cr-1"),
        moves_to=GROUP,
    )
    it.splitting = (lease,)
    decision = it.decide()
    assert (decision.splits, decision.commands) == ((), ())


def test_a_pool_that_may_not_use_reservations_keeps_its_like_out() -> None:
    """EC2 could move in the node of any pool of the class."""
    it = fleet(
        free(),
        pools=(
            node_pool("default", RESERVED, ON_DEMAND),
            node_pool("paying", ON_DEMAND),
        ),
    )
    at_group(it, "paying-0", node_pool_name="paying")
    assert it.decide().splits == ()


def test_spot_nodes_are_replaced_as_ever() -> None:
    it = fleet(free(), nodes=0, pools=(node_pool("default", RESERVED, SPOT),))
    it.add_node("spot", "large", SPOT, {"default/big": 1}, reclaim_group_arn=GROUP)
    assert it.decide().splits == ()
