"""``reservoir report --focus``: what whole days cost, as rows of FOCUS."""

import csv
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.outside import memory_outside, settings
from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.system import ManualClock
from lab.simulation.kernel import START
from lab.simulation.play import hushed
from lab.simulation.world import World
from lab.worlds.policies import applier
from reservoir.cli.report.costs import fees_of, read_costs
from reservoir.cli.report.focus import COLUMNS
from reservoir.cli.report.money import Days
from reservoir.core.history.reserved_use import Fee, UnitState, hours_of_units
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.history.seen import Seen, held, seen_by_id
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.purchasing.purchase import BlockOrder, Purchase, PurchaseState
from reservoir.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading
from reservoir.usecases.policy.team_spending import spent_between
from tests.cli.world_stack import OwnOutside, invoke
from tests.usecases.test_show_team import team

DAY = datetime(2026, 1, 15, tzinfo=UTC)
NOW = DAY + timedelta(days=1, hours=1)
TEN_MINUTES = timedelta(minutes=10)
PRICE = 60_000_000
BLOCK_FEE = 1_000_000_007
BLOCK = BlockOrder(
    "cb-1",
    "p5e.48xlarge",
    "us-east-1b",
    2,
    DAY - timedelta(hours=12),
    DAY + timedelta(hours=36),
    BLOCK_FEE,
)
HELD = ReservationSample(
    "cr-1",
    "p5.48xlarge",
    "us-east-1a",
    ReservationKind.DEFAULT,
    "active",
    total_count=4,
    ours_count=2,
    others_count=1,
    free_count=1,
    micro_usd_per_hour=PRICE,
    ours_milli_units={"audio": 1500, "others": 500},
    free_milli_units={"audio": 1000},
)
IN_BLOCK = ReservationSample(
    "cr-block",
    "p5e.48xlarge",
    "us-east-1b",
    ReservationKind.CAPACITY_BLOCK,
    "active",
    total_count=2,
    ours_count=1,
    others_count=0,
    free_count=1,
    ours_milli_units={"audio": 1000},
)


class Purchases:
    def __init__(self, *purchases: Purchase) -> None:
        self.found = purchases

    def list_all(self) -> Sequence[Purchase]:
        return self.found


class Stack(OwnOutside):
    def __init__(self, *purchases: Purchase) -> None:
        self.clock = ManualClock(NOW)
        self.history, self.policy, self.accounts = (
            MemoryHistory(),
            MemoryPolicyStore(),
            MemoryAccounts(),
        )
        self.purchases = Purchases(*purchases)
        applier(self.policy).apply([("audio", json.dumps(team("audio", 1)))])

    def sample(
        self,
        *reservations: ReservationSample,
        at: datetime = DAY - timedelta(hours=1),
        hours: float = 26,
    ) -> None:
        """Keep samples from an instant on: from an hour before the day."""
        for number in range(int(hours * 6)):
            self.history.keep_sample(Sample(at + number * TEN_MINUTES, reservations))


def bought() -> Purchase:
    intent = Purchase(BLOCK, DAY + timedelta(hours=3), "somebody")
    return intent.bought(("cr-block",), by="somebody", now=DAY)


def rows(stack: object, folder: Path, *options: str) -> list[dict[str, str]]:
    done = invoke(stack, "report", "--since", "25h", "--focus", str(folder), *options)
    assert done.exit_code == 0, done.output
    with (folder / "focus-2026-01-15.csv").open() as file:
        return list(csv.DictReader(file))


def total(found: Sequence[Mapping[str, str]], column: str) -> Fraction:
    return sum((Fraction(row[column]) for row in found), Fraction())


def test_what_runs_beside_reservations_costs_what_the_meter_says(tmp_path: Path) -> None:
    stack = Stack()

    def line(day: str, namespace: str, capacity_type: CapacityType) -> AccountLine:
        name = "audio" if namespace == "audio" else ""
        return AccountLine(day, name, namespace, capacity_type)

    written = {
        line("2026-01-14", "audio", CapacityType.SPOT): Amount(60, 7),
        line("2026-01-15", "audio", CapacityType.SPOT): Amount(7200, 3 * 10**18 + 1),
        line("2026-01-15", "audio", CapacityType.RESERVED): Amount(3600, 0),
        line("2026-01-15", "others", CapacityType.ON_DEMAND): Amount(60, 10**17),
    }
    stack.accounts.write("nc-1", None, MeterReading(written, None))
    since = DAY + timedelta(hours=23)
    running = Meter("nc-2", since, since, CapacityType.ON_DEMAND, 2 * 10**18, {"audio": 1})
    stack.accounts.write("nc-2", None, MeterReading({}, running))
    found = rows(stack, tmp_path)
    assert [
        (row["x_Team"], row["x_Namespace"], row["x_CapacityType"], row["BilledCost"])
        for row in found
    ] == [
        ("", "others", "on-demand", "0.1"),
        ("audio", "audio", "on-demand", "2"),
        ("audio", "audio", "spot", "3.000000000000000001"),
    ]
    assert total(found, "EffectiveCost") == Fraction(5_100_000_000_000_000_001, 10**18)
    # the day before, which began before the 25 hours, has a file of its own; today is not over
    assert sorted(file.name for file in tmp_path.iterdir()) == ["focus-2026-01-15.csv"]


def test_used_and_unused_units_are_all_units_of_each_hour(tmp_path: Path) -> None:
    stack = Stack()
    stack.sample(HELD)
    found = rows(stack, tmp_path)
    assert len({row["ChargePeriodStart"] for row in found}) == 24
    noon = [row for row in found if row["ChargePeriodStart"] == "2026-01-15T12:00:00Z"]
    assert [
        (
            row["CapacityReservationStatus"],
            row["x_UnitState"],
            row["x_Team"],
            row["x_Namespace"],
            row["ConsumedQuantity"],
            row["BilledCost"],
        )
        for row in noon
    ] == [
        ("Unused", "free", "audio", "", "1", "60"),
        ("Used", "others", "", "", "1", "60"),
        ("Used", "ours", "audio", "audio", "1.5", "90"),
        ("Used", "ours", "", "others", "0.5", "30"),
    ]
    assert total(found, "EffectiveCost") == 24 * 4 * 60


def test_of_units_that_another_account_shares_its_owner_is_charged_for_the_unused(
    tmp_path: Path,
) -> None:
    stack = Stack()
    stack.sample(replace(HELD, owner_id="999999999999"))
    charged = {
        row["x_UnitState"]: row["SubAccountId"]
        for row in rows(stack, tmp_path)
        if row["CapacityReservationId"] == HELD.id
    }
    account = rows(stack, tmp_path)[0]["BillingAccountId"]
    assert charged == {"free": "999999999999", "ours": account, "others": ""}


def test_unused_units_are_charged_to_the_account_that_took_their_bill_from_then_on(
    tmp_path: Path,
) -> None:
    stack = Stack()
    shared = replace(HELD, owner_id="999999999999")
    assigned = replace(shared, unused_billing_owner_id="111122223333")
    stack.sample(shared, hours=13)
    stack.sample(assigned, at=DAY + timedelta(hours=12), hours=13)
    unused = {
        row["ChargePeriodStart"]: row["SubAccountId"]
        for row in rows(stack, tmp_path)
        if row["x_UnitState"] == "free"
    }
    assert unused["2026-01-15T11:00:00Z"] == "999999999999"
    assert unused["2026-01-15T12:00:00Z"] == "111122223333"


def test_where_no_sample_tells_the_owner_nobody_is_charged_for_the_unused(
    tmp_path: Path,
) -> None:
    stack = Stack()
    stack.sample(HELD)
    unused = [row for row in rows(stack, tmp_path) if row["x_UnitState"] == "free"]
    assert {row["SubAccountId"] for row in unused} == {""}


def test_a_block_is_billed_once_and_each_second_has_its_part_of_the_fee(
    tmp_path: Path,
) -> None:
    stack = Stack(bought())
    stack.sample(IN_BLOCK)
    found = rows(stack, tmp_path)
    (paid,) = [row for row in found if row["ChargeCategory"] == "Purchase"]
    assert (paid["BilledCost"], paid["EffectiveCost"]) == ("1000.000007", "0")
    used = [row for row in found if row["ChargeCategory"] == "Usage"]
    assert total(used, "BilledCost") == 0
    # 24 of the 48 hours that the fee is for
    assert total(used, "EffectiveCost") == Fraction(BLOCK_FEE, 2 * 10**6)
    assert {row["CapacityReservationStatus"] for row in used} == {"Used", "Unused"}


def test_what_is_not_known_is_said_and_is_not_nought(tmp_path: Path) -> None:
    stack = Stack()
    stack.sample(IN_BLOCK, hours=13)
    done = invoke(stack, "report", "--since", "25h", "--focus", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "samples cover 49 % of the time" in done.output
    assert "cr-block is not in all rows" in done.output
    (file,) = tmp_path.iterdir()
    assert file.read_text() == ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "say what to write"),
        (("--focus", "costs", "--json", "figures.json"), "say --html FILE too"),
        (("--focus", "costs", "--since", "30m"), "2026-01-16 is not over"),
    ],
)
def test_what_cannot_be_written_is_refused(options: tuple[str, ...], why: str) -> None:
    done = invoke(Stack(), "report", *options)
    assert done.exit_code == 2
    assert why in done.output


def test_only_blocks_that_were_bought_have_a_fee() -> None:
    intent = Purchase(BLOCK, DAY, "somebody")
    refused = replace(intent, state=PurchaseState.NOT_BOUGHT)
    fees = list(fees_of([intent, refused, bought()]))
    assert [(fee.reservation_id, fee.atto_usd) for fee in fees] == [
        ("cr-block", BLOCK_FEE * 10**12)
    ]


COUNTS = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    """Draw samples of one reservation at odd times, some of them far apart, with prices that change."""
    at, found = DAY - timedelta(minutes=draw(st.integers(0, 40))), []
    for counts in draw(st.lists(COUNTS, min_size=1, max_size=40)):
        ours, others, free = counts
        its_own = draw(st.integers(0, 1000 * ours))
        found.append(
            Sample(
                at,
                (
                    replace(
                        HELD,
                        total_count=sum(counts),
                        ours_count=ours,
                        others_count=others,
                        free_count=free,
                        micro_usd_per_hour=draw(st.integers(1, 100_000_000)),
                        ours_milli_units={"audio": its_own},
                        free_milli_units={},
                    ),
                ),
            )
        )
        at += timedelta(seconds=draw(st.integers(1, 3000)))
    return found


@given(histories())
def test_parts_of_units_add_up_to_what_samples_tell(samples: list[Sample]) -> None:
    until = DAY + timedelta(hours=9)
    seen = seen_by_id(list(held(samples, until)), until)["cr-1"]
    hours = hours_of_units(seen, (), DAY, until)
    units_s, cost = expected(seen, until)
    found: Counter[datetime] = Counter()
    for hour in hours:
        found[hour.hour] += hour.milli_unit_s
    assert found == units_s
    spent = sum(hour.atto_usd or 0 for hour in hours)
    # each part of each piece is rounded down to a whole atto-USD
    assert cost - 4 * 60 * len(samples) <= spent <= cost


def expected(seen: Sequence[Seen], until: datetime) -> tuple[Counter[datetime], Fraction]:
    """Count second by second."""
    units: Counter[datetime] = Counter()
    cost = Fraction()
    for each in seen:
        for at in seconds(each, until):
            count = each.what.total_count
            if count:
                units[at.replace(minute=0, second=0)] += 1000 * count
            cost += Fraction(count * (each.what.micro_usd_per_hour or 0) * 10**12, 3600)
    return units, cost


def seconds(seen: Seen, until: datetime) -> Iterator[datetime]:
    if seen.known:
        at = max(seen.at, DAY)
        while at < min(seen.ends_at, until):
            yield at
            at += timedelta(seconds=1)


class KeptWorld(World):
    """A world of the simulation whose history and accounts are kept for whoever asks."""

    def _behind(self) -> dict[str, Any]:
        behind = super()._behind()
        self.accounts = behind["accounts"]
        return behind


@pytest.mark.parametrize("seed", [4, 13])
def test_rows_of_a_simulated_world_are_its_units_and_its_meter(seed: int) -> None:
    world = KeptWorld(seed)
    world.keeps_history = True
    with hushed():
        world.begin()
        while world.kernel.now() < START + timedelta(minutes=45):
            world.kernel.step()
    world.lambdas.stop()
    tomorrow = ManualClock(START + timedelta(days=1))
    outside = memory_outside(
        accounts=world.accounts,
        clock=tomorrow,
        history=world.history,
        policy=world.policy,
        purchases=Purchases(),
        settings=settings(),
    )
    day = Days.between(START, START)
    costs = read_costs(outside, day)
    found = costs.rows[day.first.isoformat()]
    metered = spent_between(world.accounts, day.first, day.last, tomorrow.now(), str)
    beside = [row for row in found if row["x_CapacityType"] != "reserved"]
    assert beside
    assert total(beside, "BilledCost") == Fraction(
        sum(amount.atto_usd for amount in metered.values()), 10**18
    )
    unit_seconds: Counter[str] = Counter()
    cut_off: Counter[str] = Counter()  # at most: seconds between samples are whole
    samples = list(world.history.samples(START, tomorrow.now()))
    for seen in seen_by_id(list(held(samples, tomorrow.now())), tomorrow.now()).values():
        for each in seen:
            assert sum(each.what.ours_milli_units.values()) == 1000 * each.what.ours_count
            unit_seconds[each.what.id] += each.what.total_count * each.seconds
            cut_off[each.what.id] += each.what.total_count
    of_units = [row for row in found if row["x_CapacityType"] == "reserved"]
    for name, unit_s in unit_seconds.items():
        own = [row for row in of_units if row["CapacityReservationId"] == name]
        is_priced = name not in costs.without_price
        beyond = total(own, "ConsumedQuantity") * 3600 - unit_s
        assert 0 <= beyond < cut_off[name] or not is_priced


@given(st.integers(1, 10**13), st.lists(st.integers(0, 200_000), max_size=20))
def test_the_parts_of_a_fee_add_up_to_it(micro_usd: int, cuts: list[int]) -> None:
    end = DAY + timedelta(days=2)
    fee = Fee("cr-block", DAY, DAY, end, micro_usd * 10**12)
    times = [DAY, *(DAY + timedelta(seconds=cut) for cut in sorted(cuts)), end]
    times.sort()
    parts = [fee.part(since, until) for since, until in itertools.pairwise(times)]
    assert sum(parts) == fee.atto_usd


def test_free_units_that_nobody_told_of_are_nobodys() -> None:
    seen = Seen(DAY, DAY + TEN_MINUTES, replace(HELD, free_milli_units={}), known=True)
    hours = hours_of_units([seen], (), DAY, DAY + TEN_MINUTES)
    free = [hour for hour in hours if hour.state is UnitState.FREE]
    assert [(hour.whose, hour.milli_unit_s) for hour in free] == [("", 600_000)]
