"""What instances cost whom adds up to the second, however and whenever anybody looks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.values import node_claim
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Team
from reservoir.core.sharing.accounts import (
    AccountLine,
    Amount,
    Meter,
    added_up,
    charges,
    left_of_month,
    month_of,
    owners,
    rates,
    read,
)

START: Final = datetime(2026, 1, 30, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
USD_AN_HOUR: Final = 10**18
BOUGHT, RESERVED = CapacityType.ON_DEMAND, CapacityType.RESERVED


def team_of(namespace: str) -> str:
    return {"audio": "audio", "audio-ci": "audio", "vision": "vision"}.get(namespace, "")


def claim(
    capacity_type: CapacityType = BOUGHT,
    *,
    on_it: dict[str, int] | None = None,
    **changes: Any,
) -> NodeClaim:
    placements = tuple(
        PlacedReplicas(f"{name}/job", count) for name, count in (on_it or {}).items()
    )
    offering = OfferingKey("m5.large", "us-east-1a", "use1-az1", capacity_type, None)
    made = {
        "state": ClaimState.RUNNING,
        "price_atto_usd_per_hour": USD_AN_HOUR,
        "created_at": START,
    }
    runs = {"instance_id": "i-1", "launched_at": START}
    return node_claim(
        "nc-1",
        **{"offering": offering, "placements": placements, **made, **runs, **changes},
    )


def by_namespace(amounts: dict[AccountLine, Amount]) -> dict[str, int]:
    found: dict[str, int] = {}
    for account, amount in amounts.items():
        found[account.namespace] = found.get(account.namespace, 0) + amount.seconds
    return found


class Book:
    """Reads one claim's meter, and keeps what was written down."""

    def __init__(self) -> None:
        self.meter: Meter | None = None
        self.written: list[Any] = []
        self.is_over = False

    def look(self, seen: NodeClaim, now: datetime) -> None:
        while (
            not self.is_over and (found := read(self.meter, seen, now, team_of)) is not None
        ):
            self.written.append(found.amounts)
            self.meter, self.is_over = found.meter, found.meter is None

    def total(self, now: datetime) -> dict[AccountLine, Amount]:
        running = [] if self.meter is None else [charges(self.meter, now, team_of)]
        return dict(added_up([*self.written, *running]))


def test_an_instance_is_charged_by_replicas_from_launch_to_end() -> None:
    book = Book()
    seen = claim(on_it={"audio": 1, "vision": 3})
    book.look(seen, START + HOUR / 2)
    ended = replace(
        seen,
        state=ClaimState.TERMINATED,
        placements=(),
        terminated_at=START + HOUR,
        ended_at=START + HOUR,
    )
    book.look(ended, START + 2 * HOUR)
    assert book.total(START + 3 * HOUR) == {
        AccountLine("2026-01-30", "audio", "audio", BOUGHT): Amount(900, USD_AN_HOUR // 4),
        AccountLine("2026-01-30", "vision", "vision", BOUGHT): Amount(
            2700, 3 * USD_AN_HOUR // 4
        ),
    }


def test_the_end_counts_once() -> None:
    book = Book()
    ended = claim(
        on_it={"audio": 1}, state=ClaimState.TERMINATED, terminated_at=START + HOUR
    )
    for _ in range(3):
        book.look(ended, START + 2 * HOUR)
    assert by_namespace(book.total(START + 5 * HOUR)) == {"audio": 3600}


def test_an_instance_is_charged_until_ec2_ended_it_however_late_that_was_seen() -> None:
    book = Book()
    times: Any = {"ended_at": START + HOUR, "terminated_at": START + 3 * HOUR}
    book.look(
        claim(on_it={"audio": 1}, state=ClaimState.TERMINATED, **times), START + 3 * HOUR
    )
    assert by_namespace(book.total(START + 5 * HOUR)) == {"audio": 3600}


def test_reserved_units_count_in_time_and_cost_nothing() -> None:
    book = Book()
    book.look(claim(RESERVED, on_it={"audio": 1}), START)
    assert book.total(START + HOUR) == {
        AccountLine("2026-01-30", "audio", "audio", RESERVED): Amount(3600, 0)
    }


def test_who_comes_is_charged_from_the_second_at_which_they_came() -> None:
    book = Book()
    book.look(claim(on_it={"audio": 1}), START)
    came = START + timedelta(minutes=20)
    book.look(
        claim(on_it={"audio": 1, "vision": 1}, placements_changed_at=came),
        START + timedelta(minutes=25),
    )
    assert by_namespace(book.total(START + HOUR)) == {"audio": 1200 + 1200, "vision": 1200}


def test_a_node_that_leaves_is_charged_to_those_who_were_on_it_last() -> None:
    book = Book()
    book.look(claim(on_it={"audio": 1}), START)
    drain = Drain("d", DrainReason.RECLAIMED, START + HOUR / 2, START + HOUR)
    going = claim(
        state=ClaimState.DRAINING,
        drain=replace(drain, awaiting=(PlacedReplicas("audio/job", 1),)),
    )
    book.look(going, START + HOUR / 2)
    book.look(replace(going, state=ClaimState.TERMINATING, drain=drain), START + HOUR)
    assert by_namespace(book.total(START + 2 * HOUR)) == {"audio": 7200}


def test_a_node_that_is_first_seen_as_it_leaves_is_charged_to_those_still_on_it() -> None:
    book = Book()
    still_there = (PlacedReplicas("audio/job", 1),)
    drain = Drain("d", DrainReason.RECLAIMED, START, START + HOUR, awaiting=still_there)
    book.look(claim(state=ClaimState.DRAINING, drain=drain), START + HOUR)
    assert by_namespace(book.total(START + HOUR)) == {"audio": 3600}


def test_workloads_of_one_namespace_are_charged_together() -> None:
    book = Book()
    several = tuple(
        PlacedReplicas(key, 1) for key in ("audio/one", "audio/two", "vision/one")
    )
    book.look(claim(placements=several), START)
    assert by_namespace(book.total(START + 3 * HOUR)) == {"audio": 7200, "vision": 3600}


def test_of_many_namespaces_on_a_node_the_smallest_are_charged_to_nobody() -> None:
    """Forty are told apart: the largest, and of equal ones those that come first by name."""
    names = [f"team-{number:02}" for number in range(42)]
    book = Book()
    book.look(claim(on_it={**dict.fromkeys(names, 1), "team-41": 2}), START)
    assert book.meter is not None
    kept = {*names[:39], "team-41"}
    assert set(book.meter.replicas) == {*kept, ""}
    parts = book.meter.replicas
    assert parts[""] == 2 * parts["team-00"] == parts["team-41"]


def test_the_team_of_a_namespace_is_the_one_that_names_it() -> None:
    who = owners([Team("audio", namespaces=("audio", "audio-ci"))])
    assert [who("audio"), who("audio-ci"), who("vision")] == ["audio", "audio", ""]


def test_a_node_with_nothing_on_it_is_nobodys() -> None:
    book = Book()
    book.look(claim(RESERVED), START)
    assert by_namespace(book.total(START + HOUR)) == {"": 3600}


def test_days_and_months_are_kept_apart() -> None:
    book = Book()
    book.look(claim(on_it={"audio": 1}), START)
    book.look(claim(on_it={"audio": 1}), START + timedelta(days=3))
    found = {
        account.day: amount.seconds // 3600
        for account, amount in book.total(START + timedelta(days=3)).items()
    }
    assert found == {"2026-01-30": 12, "2026-01-31": 24, "2026-02-01": 24, "2026-02-02": 12}


def test_what_was_launched_is_corrected_when_ec2_says_when() -> None:
    book = Book()
    book.look(
        claim(
            on_it={"audio": 1},
            state=ClaimState.LAUNCHED,
            launched_at=START + timedelta(seconds=9),
        ),
        START,
    )
    book.look(claim(on_it={"audio": 1}), START + timedelta(minutes=1))
    assert by_namespace(book.total(START + HOUR)) == {"audio": 3600}


def test_what_was_never_launched_costs_nothing() -> None:
    assert (
        read(
            None,
            claim(instance_id=None, launched_at=None, state=ClaimState.FAILED),
            START,
            team_of,
        )
        is None
    )


def test_a_demoted_node_costs_from_then_on() -> None:
    book = Book()
    book.look(claim(RESERVED, on_it={"audio": 1}), START)
    book.look(claim(BOUGHT, on_it={"audio": 1}), START + HOUR)
    found = {
        account.capacity_type: amount
        for account, amount in book.total(START + 3 * HOUR).items()
    }
    assert found == {RESERVED: Amount(3600, 0), BOUGHT: Amount(7200, 2 * USD_AN_HOUR)}


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["audio", "audio-ci", "vision", "x"]), st.integers(1, 7)
        ),
        min_size=1,
    ),
    st.lists(st.integers(0, 200_000), min_size=1, max_size=6),
    st.integers(0, 700_000),
)
def test_parts_add_up_to_the_second_whoever_is_on_it(
    states: list[dict[str, int]], looks: list[int], end: int
) -> None:
    book = Book()
    now = START
    for number, wait in enumerate(looks):
        now += timedelta(seconds=wait)
        book.look(claim(on_it=states[number % len(states)], placements_changed_at=now), now)
    ended_at = now + timedelta(seconds=end)
    book.look(claim(state=ClaimState.TERMINATED, terminated_at=ended_at), ended_at)
    assert sum(amount.seconds for amount in book.total(ended_at).values()) == int(
        (ended_at - START).total_seconds()
    )
    assert all(len(part) <= 90 for part in book.written), (
        "a transaction has a hundred writes"
    )


def test_rates_and_months() -> None:
    meter = Meter(
        "nc-1", START, START, BOUGHT, USD_AN_HOUR, {"audio": 1, "vision": 1, "audio-ci": 2}
    )
    assert rates([meter, meter], team_of) == {
        "audio": 3 * USD_AN_HOUR // 2,
        "vision": USD_AN_HOUR // 2,
    }
    assert (month_of(START), left_of_month(START)) == (
        "2026-01",
        timedelta(days=1, hours=12),
    )
