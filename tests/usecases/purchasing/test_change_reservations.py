"""Reservations are made and changed on the emulated EC2: what is agreed to happens once, and is found again."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.messaging import MemoryBus
from lab.fakes.stores.purchases import MemoryPurchases
from lab.worlds.cloud import ACCOUNT_ID, START, ZONE_A, Cloud, code_of
from reservoir.adapters.ec2.block_seller import Ec2BlockSeller
from reservoir.adapters.ec2.reservation_changer import Ec2ReservationChanger
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.purchasing.book import Ceilings
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.errors import UnknownOutcomeError
from reservoir.usecases.purchasing.buy_block import (
    BuyBlock,
    PurchaseOutcome,
    PurchaseRefusedError,
    Result,
)
from reservoir.usecases.purchasing.change_reservations import (
    ChangeRefusedError,
    ChangeReservations,
    NewReservation,
    Proposal,
)

USD = 1_000_000
DAY = timedelta(days=1)
BIG = "m5.8xlarge"
VCPUS = {BIG: 32, "m5.large": 2}


class Prices:
    """The part of the catalogue that changes need: a dollar an hour."""

    def on_demand_prices(self, instance_types: Collection[str]) -> Mapping[str, int]:
        return {name: USD for name in instance_types if name in VCPUS}

    def load_with_rests(
        self, only: Collection[str] | None = None
    ) -> tuple[tuple[InstanceType, ...], None]:
        found = [
            InstanceType(
                name,
                Requirements.of(),
                Resources.of({"cpu": VCPUS[name] * 1000}),
                Resources.of({}),
            )
            for name in only or ()
            if name in VCPUS
        ]
        return tuple(found), None


class Ids:
    """Ids that count."""

    def __init__(self) -> None:
        self.count = 0

    def new_id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"


@dataclass
class Desk:
    """Where one person changes the reservations of an account."""

    cloud: Cloud = field(default_factory=Cloud)
    store: MemoryPurchases = field(default_factory=MemoryPurchases)
    bus: MemoryBus = field(default_factory=MemoryBus)
    ids: Ids = field(default_factory=Ids)
    ceilings: Ceilings = field(default_factory=lambda: Ceilings(20_000 * USD, 20_000 * USD))

    @property
    def changes(self) -> ChangeReservations:
        ec2 = self.cloud.ec2
        offerings: Any = Prices()
        return ChangeReservations(
            Ec2ReservationChanger(ec2, ec2),
            offerings,
            self.cloud.clock,
            self.ids,
            self.pause,
            ACCOUNT_ID,
        )

    @property
    def buyer(self) -> BuyBlock:
        seller = Ec2BlockSeller(self.cloud.ec2, self.cloud.ec2)
        return BuyBlock(
            self.store, seller, self.bus, self.cloud.clock, self.pause, self.ceilings, "ada"
        )

    def pause(self, seconds: float) -> None:
        self.cloud.advance(seconds=seconds)

    def do(self, proposal: Proposal) -> PurchaseOutcome:
        return self.buyer.buy(self.buyer.preview(proposal.order))

    def ahead(self, in_days: int = 20, **change: Any) -> NewReservation:
        wanted: dict[str, Any] = {
            "starts_at": self.cloud.clock.now() + in_days * DAY,
            "commitment": 14 * DAY,
        }
        return NewReservation(BIG, ZONE_A, 4, **(wanted | change))

    def scheduled(self, in_days: int = 20) -> str:
        outcome = self.do(self.changes.create(self.ahead(in_days)))
        self.cloud.advance(minutes=1)
        (made,) = outcome.purchase.reservation_ids
        return made


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_is_made_for_now_counts_for_thirty_days_or_until_its_end(desk: Desk) -> None:
    endless = desk.changes.create(NewReservation("m5.large", ZONE_A, 2))
    assert endless.order.fee_micro_usd == 2 * 720 * USD
    ending = NewReservation("m5.large", ZONE_A, 2, ends_at=START + DAY, tags=(("a", "b"),))
    proposal = desk.changes.create(ending)
    assert proposal.order.fee_micro_usd == 48 * USD
    outcome = desk.do(proposal)
    (made,) = outcome.purchase.reservation_ids
    shown = desk.cloud.reservation(made)
    assert (shown["EndDate"], shown["InstanceMatchCriteria"]) == (START + DAY, "targeted")
    assert {"Key": "a", "Value": "b"} in shown["Tags"]
    assert [name for name, _ in desk.bus.events] == ["Capacity Purchased"]


def test_what_is_made_ahead_counts_with_its_whole_commitment(desk: Desk) -> None:
    proposal = desk.changes.create(desk.ahead())
    assert proposal.order.fee_micro_usd == 4 * 14 * 24 * USD
    assert desk.do(proposal).result is Result.BOUGHT
    assert desk.store.stored.book.spent_micro_usd("2026-11") == 4 * 14 * 24 * USD


def test_growing_costs_and_shrinking_does_not(desk: Desk) -> None:
    reserved = desk.cloud.reserve(3)
    grown = desk.changes.resize(reserved, 5)
    assert grown.order.fee_micro_usd == 2 * 720 * USD
    assert desk.do(grown).result is Result.BOUGHT
    shrunk = desk.changes.resize(reserved, 1)
    assert shrunk.order.fee_micro_usd == 0
    desk.do(shrunk)
    assert desk.cloud.reservation(reserved)["TotalInstanceCount"] == 1
    assert len(desk.bus.events) == 1


def test_units_are_split_off_and_moved_for_nothing(desk: Desk) -> None:
    desk.ceilings = Ceilings()
    reserved = desk.cloud.reserve(5)
    outcome = desk.do(desk.changes.split(reserved, 2, (("team", "ml"),)))
    (part,) = outcome.purchase.reservation_ids
    assert desk.cloud.reservation(part)["TotalInstanceCount"] == 2
    desk.do(desk.changes.move(reserved, part, 3))
    assert desk.cloud.reservation(part)["TotalInstanceCount"] == 5
    assert desk.cloud.reservation(reserved)["State"] == "cancelled"
    desk.do(desk.changes.cancel(part))
    assert desk.cloud.reservation(part)["State"] == "cancelled"
    assert {(each.by, each.order.fee_micro_usd) for each in desk.store.list_all()} == {
        ("ada", 0)
    }


def test_within_a_commitment_a_cancellation_costs_what_aws_quotes(desk: Desk) -> None:
    reserved = desk.scheduled(20)
    spent = desk.store.stored.book.spent_micro_usd("2026-11")
    desk.ceilings = Ceilings(1, 1)
    proposal = desk.changes.cancel(reserved)
    assert proposal.order.fee_micro_usd == 84 * 4 * USD
    assert any("AWS charges 84 hours of 4 units" in note for note in proposal.notes)
    assert desk.do(proposal).result is Result.BOUGHT
    assert desk.cloud.reservation(reserved)["State"] == "cancelling"
    # it is part of what was committed to, which counted when it was made
    assert desk.store.stored.book.spent_micro_usd("2026-11") == spent


def test_a_quote_that_is_not_ready_is_waited_for(desk: Desk) -> None:
    reserved = desk.scheduled()
    desk.cloud.control("configure", quote_pending_s=5)
    assert desk.do(desk.changes.cancel(reserved)).result is Result.BOUGHT


def test_a_quote_that_stays_pending_cancels_nothing(desk: Desk) -> None:
    reserved = desk.scheduled()
    desk.cloud.control("configure", quote_pending_s=3600)
    with pytest.raises(ChangeRefusedError, match="ask again"):
        desk.changes.cancel(reserved)
    assert desk.cloud.reservation(reserved)["State"] == "scheduled"


@pytest.mark.parametrize(("in_days", "more_days"), [(20, 0), (10, 7)])
def test_a_start_is_put_off_for_the_commitment_that_aws_adds(
    desk: Desk, in_days: int, more_days: int
) -> None:
    reserved = desk.scheduled(in_days)
    later = START + (in_days + 7) * DAY
    proposal = desk.changes.push_out(reserved, later)
    assert proposal.order.fee_micro_usd == more_days * 24 * 4 * USD
    assert desk.do(proposal).result is Result.BOUGHT
    desk.cloud.advance(minutes=1)
    assert desk.cloud.reservation(reserved)["StartDate"] == later


def test_what_ec2_would_not_put_off_can_be_asked_for_again(desk: Desk) -> None:
    reserved = desk.scheduled()
    desk.cloud.control("configure", adjustments_succeed=False)
    for _ in range(2):
        proposal = desk.changes.push_out(reserved, START + 25 * DAY)
        assert desk.do(proposal).result is Result.BOUGHT
        desk.cloud.advance(minutes=1)
        assert desk.cloud.reservation(reserved)["AdjustmentStatus"] == "rejected"


Case = Callable[[Desk], tuple[Proposal, str]]


def _create(desk: Desk) -> tuple[Proposal, str]:
    return desk.changes.create(desk.ahead()), "CreateCapacityReservation"


def _resize(desk: Desk) -> tuple[Proposal, str]:
    reserved = desk.cloud.reserve(3)
    return desk.changes.resize(reserved, 4), "ModifyCapacityReservation"


def _split(desk: Desk) -> tuple[Proposal, str]:
    reserved = desk.cloud.reserve(3)
    return (
        desk.changes.split(reserved, 1, ()),
        "CreateCapacityReservationBySplitting",
    )


def _move(desk: Desk) -> tuple[Proposal, str]:
    reserved, into = desk.cloud.reserve(3), desk.cloud.reserve(1)
    return desk.changes.move(reserved, into, 3), "MoveCapacityReservationInstances"


def _cancel(desk: Desk) -> tuple[Proposal, str]:
    return desk.changes.cancel(desk.scheduled()), "CancelCapacityReservation"


def _push_out(desk: Desk) -> tuple[Proposal, str]:
    reserved = desk.scheduled()
    return (
        desk.changes.push_out(reserved, START + 25 * DAY),
        "ModifyCapacityReservation",
    )


CASES: tuple[Case, ...] = (_create, _resize, _split, _move, _cancel, _push_out)
NAMES = [case.__name__ for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_change_whose_answer_is_lost_is_found(desk: Desk, case: Case) -> None:
    proposal, operation = case(desk)
    desk.cloud.control("lose_response", operation=operation)
    before = len(desk.cloud.ec2.describe_capacity_reservations()["CapacityReservations"])
    assert desk.do(proposal).result is Result.BOUGHT
    made = operation.startswith("Create")
    after = len(desk.cloud.ec2.describe_capacity_reservations()["CapacityReservations"])
    assert after - before == int(made)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_call_that_never_arrived_stops_all_until_somebody_has_looked(
    desk: Desk, case: Case
) -> None:
    proposal, _ = case(desk)
    buyer = desk.buyer

    class Silent(Ec2BlockSeller):
        def buy(self, order: Any) -> tuple[str, ...]:
            raise UnknownOutcomeError("ReadTimeoutError", order.offering_id)

    silent = BuyBlock(
        desk.store,
        Silent(desk.cloud.ec2, desk.cloud.ec2),
        desk.bus,
        desk.cloud.clock,
        desk.pause,
        desk.ceilings,
        "ada",
    )
    assert silent.buy(silent.preview(proposal.order)).result is Result.UNCLEAR
    other = desk.changes.create(NewReservation("m5.large", ZONE_A, 1))
    assert "it is not known" in buyer.preview(other.order).refusals[0]
    with pytest.raises(PurchaseRefusedError, match="half an hour"):
        buyer.settle(proposal.order.offering_id, not_bought="not in the console")
    desk.cloud.advance(minutes=31)
    settled = buyer.settle(proposal.order.offering_id, not_bought="not in the console")
    assert settled.result is Result.NOT_BOUGHT
    assert buyer.preview(other.order).refusals == ()


@pytest.mark.parametrize(
    "case", [_resize, _split, _move, _cancel], ids=lambda c: c.__name__
)
def test_what_was_agreed_for_another_size_is_not_done(desk: Desk, case: Case) -> None:
    proposal, _ = case(desk)
    change = proposal.order.change
    assert change is not None
    world = desk.cloud.emulation.world
    world.reservations[change.reservation_id].total_count += 2
    outcome = desk.do(proposal)
    assert (outcome.result, outcome.why) == (Result.NOT_BOUGHT, "ReservationChangedSince")


def test_who_reserves_ahead_is_told_each_rule_that_it_breaks(desk: Desk) -> None:
    wanted = NewReservation(
        "p5.48xlarge",
        ZONE_A,
        1,
        starts_at=START + DAY,
        commitment=DAY,
        match_criteria="open",
    )
    with pytest.raises(ChangeRefusedError) as refused:
        desk.changes.create(wanted)
    assert len(refused.value.reasons) == 4
    assert desk.store.list_all() == []


def test_what_has_no_known_price_is_not_offered(desk: Desk) -> None:
    for wanted in (
        NewReservation("c7i.large", ZONE_A, 1),
        NewReservation("m5.large", ZONE_A, 1, platform="Windows"),
    ):
        with pytest.raises(ChangeRefusedError, match="price"):
            desk.changes.create(wanted)


def test_blocks_and_what_others_share_are_left_alone(desk: Desk) -> None:
    block = desk.cloud.control(
        "purchase_capacity_block", instance_type="p5.48xlarge", zone=ZONE_A, count=2
    )["capacity_reservation_id"]
    shared = desk.cloud.control(
        "share_reservation", instance_type="m5.large", zone=ZONE_A, count=2
    )["capacity_reservation_id"]
    for reservation_id in (block, shared, "cr-0123456789abcdef0"):
        with pytest.raises(ChangeRefusedError):
            desk.changes.cancel(reservation_id)


def ec2_takes(desk: Desk, proposal: Proposal) -> bool:
    return desk.do(proposal).result is Result.BOUGHT


@pytest.mark.parametrize("in_days", [4, 5, 120, 121])
@pytest.mark.parametrize("commitment", [13, 14])
@pytest.mark.parametrize("count", [15, 16])
def test_our_rules_for_what_starts_later_are_the_emulated_ec2s(
    desk: Desk, in_days: int, commitment: int, count: int
) -> None:
    wanted = NewReservation(
        "m5.large",
        ZONE_A,
        count,
        starts_at=START + in_days * DAY,
        commitment=commitment * DAY,
        ends_at=START + (in_days + 14) * DAY,
    )
    request = {
        "InstanceType": "m5.large",
        "StartDate": wanted.starts_at,
        "EndDate": wanted.ends_at,
        "CommitmentDuration": commitment * 86_400,
        "DeliveryPreference": "incremental",
    }
    try:
        proposal = desk.changes.create(wanted)
    except ChangeRefusedError:
        assert (
            code_of(lambda: desk.cloud.reserve(count, **request)) == "InvalidParameterValue"
        )
        return
    assert ec2_takes(desk, proposal)
