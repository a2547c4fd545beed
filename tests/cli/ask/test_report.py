"""``reservoir report``: its figures, and its page."""

import json
import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.system import ManualClock
from lab.worlds.policies import applier
from reservoir.cli.app import app
from reservoir.cli.report.figures import Report, make_report
from reservoir.cli.report.page import page
from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading
from tests.cli.ask.report_world import EVIL, PRICE, SINCE, UNTIL, events, samples
from tests.cli.world_stack import OwnOutside
from tests.usecases.test_show_team import team

HOUR_S = 3600


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report("production", SINCE, UNTIL, list(samples()), events())


def test_nothing_is_added_up_for_times_without_samples(report: Report) -> None:
    # of 24: the last sample before the gap of two hours tells of none of it
    assert report.known_s == 22 * HOUR_S
    (use,) = (it for it in report.reservations if it.id == "cr-1")
    assert (use.ours_unit_s, use.others_unit_s, use.free_unit_s) == (
        (2 * 10 + 3 * 12) * HOUR_S,
        22 * HOUR_S,
        10 * HOUR_S,
    )
    assert [point.known for point in use.points].count(False) == 1


def test_money_that_is_not_known_is_not_nought(report: Report) -> None:
    money = {it.id: (it.avoided_micro_usd, it.idle_micro_usd) for it in report.reservations}
    assert money == {"cr-1": (56 * PRICE, 10 * PRICE), "cr-block": (None, None)}
    markets = {it.capacity_type: (it.node_s, it.avoided_micro_usd) for it in report.markets}
    assert markets == {"reserved": (100 * HOUR_S, None), "spot": (22 * HOUR_S, 132_000_000)}


def test_a_wait_lasts_from_the_first_reason_to_the_place_and_counts_for_the_last(
    report: Report,
) -> None:
    (waits,) = report.waits
    assert (waits.reason, waits.count, waits.open_count) == ("ReservationFull", 3, 1)
    assert (waits.median_s, waits.p90_s, waits.longest_s) == (
        2 * HOUR_S,
        10 * HOUR_S,
        10 * HOUR_S,
    )


def test_a_block_is_told_with_who_left_in_time(report: Report) -> None:
    (block,) = report.blocks
    assert (block.use.id, block.drained_count, block.in_time_count, block.late_count) == (
        "cr-block",
        2,
        1,
        1,
    )


def test_what_is_notable_names_the_command_that_explains_it(report: Report) -> None:
    assert [(it.event.detail_type, it.explained_by) for it in report.notable] == [
        ("Node Draining", "reservoir explain node nc-1"),
        ("Launches Blocked", "reservoir events --for ec2nodeclass/gpu"),
    ]


def test_what_is_told_of_one_object_every_day_hides_nothing_else() -> None:
    idle = [
        PastEvent(
            f"i-{number}",
            SINCE + timedelta(hours=number),
            "Reservation Idle",
            {"capacityReservationId": name},
        )
        for number, name in enumerate(("cr-1", "cr-2", "cr-1", "cr-1"))
    ]
    report = make_report("production", SINCE, UNTIL, [], idle)
    assert [(it.about, it.count, it.first_at) for it in report.notable] == [
        ("reservation/cr-1", 3, SINCE),
        ("reservation/cr-2", 1, SINCE + timedelta(hours=1)),
    ]
    assert "(3 times since 2026-01-15 12:00)" in page(report)


def sample_at(hours: float, *ids: str, end_at: datetime | None = None) -> Sample:
    facts = ("m5.large", "us-east-1a", ReservationKind.DEFAULT, "active", 6, 6, 0, 0)
    found = tuple(ReservationSample(name, *facts, PRICE, end_at) for name in ids)
    return Sample(SINCE + timedelta(hours=hours), found)


def chart(report: Report) -> list[tuple[float, int, bool, bool]]:
    (use,) = (it for it in report.reservations if it.id == "cr-1")
    return [
        ((it.at - SINCE) / timedelta(hours=1), it.ours_count, it.known, it.there)
        for it in use.points
    ]


def test_a_reservation_that_is_gone_is_drawn_no_longer() -> None:
    taken = [
        sample_at(0, "cr-1", "cr-2"),
        sample_at(0.25, "cr-1", "cr-2"),
        sample_at(0.5, "cr-2"),
    ]
    report = make_report("production", SINCE, SINCE + timedelta(hours=3), taken, [])
    assert chart(report) == [
        (0, 6, True, True),
        (0.25, 6, True, True),
        (0.5, 0, True, False),
    ]
    assert "ended, or gone" in page(report)


def test_a_reservation_that_comes_back_was_gone_in_between() -> None:
    taken = [sample_at(0, "cr-1"), sample_at(0.25), sample_at(0.5, "cr-1")]
    report = make_report("production", SINCE, SINCE + timedelta(hours=0.75), taken, [])
    assert chart(report) == [
        (0, 6, True, True),
        (0.25, 0, True, False),
        (0.5, 6, True, True),
    ]


def test_a_reservation_with_an_end_is_drawn_and_counted_up_to_it() -> None:
    end_at = SINCE + timedelta(hours=0.25)
    taken = [
        sample_at(0, "cr-1", end_at=end_at),
        sample_at(0.5, "cr-1", end_at=end_at),
        sample_at(0.75),
    ]
    report = make_report("production", SINCE, SINCE + timedelta(hours=1), taken, [])
    assert report.reservations[0].ours_unit_s == 6 * HOUR_S // 4
    assert chart(report)[:2] == [(0, 6, True, True), (0.25, 0, True, False)]


def test_a_reservation_of_which_nobody_told_any_more_is_not_known_rather_than_gone() -> (
    None
):
    report = make_report(
        "production", SINCE, SINCE + timedelta(hours=3), [sample_at(0, "cr-1")], []
    )
    assert chart(report) == [(0, 6, False, True)]


class Reader(HTMLParser):
    """Collects what a page fetches, its scripts, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.scripts = 0
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script"
        self.fetched += [
            value for name, value in named.items() if name in ("src", "href", "xlink:href")
        ]
        self.ids += [value for name, value in named.items() if name == "id"]


def test_the_page_is_whole_by_itself(report: Report) -> None:
    text = page(report)
    read = Reader(text)
    assert read.scripts == 0
    assert [it for it in read.fetched if not it.startswith("#")] == []
    assert re.findall(r"url\((?!#)|@import", text) == []
    assert len(text.encode()) < 1_000_000


def test_what_is_notable_leads_to_what_happened_to_it(report: Report) -> None:
    (story,) = [story for story in report.stories if story.about == "node/nc-1"]
    assert [event.detail_type for event, _ in story.events] == [
        "Node Launched",
        "Node Draining",
    ]
    read = Reader(page(report))
    assert [it for it in read.fetched if it.startswith("#")] != []
    assert {it.removeprefix("#") for it in read.fetched} <= set(read.ids)
    assert "node/nc-1: what happened" in page(report)


def test_what_somebody_made_up_is_text_and_nothing_else(report: Report) -> None:
    text = page(report)
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_every_chart_has_a_name_and_a_table(report: Report) -> None:
    text = page(report)
    charts = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert charts == [
        *(
            "Units of cr-1 over time",
            "Units of cr-block over time",
            "Nodes by market",
            "Waiting by reason",
        )
    ]
    assert text.count("as a table</summary>") >= len(charts)
    # each colour is one of the page's variables
    assert len(re.findall(r"#0[1-6]0[1-6]0[1-6]", text)) == 0


def test_equal_figures_make_equal_pages(report: Report) -> None:
    assert page(report) == page(
        make_report("production", SINCE, UNTIL, list(samples()), events())
    )


def test_of_a_time_of_which_nothing_is_kept_the_page_says_so() -> None:
    text = page(make_report("production", SINCE, UNTIL, [], []))
    assert "No sample of this time has a reservation." in text
    assert "<svg" not in text
    assert text.count("<dd>not known<small>") == 4


def test_of_a_time_whose_events_are_no_longer_kept_the_page_says_so() -> None:
    said = "The first event that is kept of this time is of 2026-01-15 13:00"
    month = SINCE - timedelta(days=29)
    assert said in page(make_report("production", month, UNTIL, [], events()))
    assert said not in page(make_report("production", SINCE, UNTIL, [], events()))
    assert "No event of this time is kept" in page(
        make_report("production", month, UNTIL, [], [])
    )


class Stack(OwnOutside):
    """The part of ``reservoir.cli.stack.connection.Connection`` that a report needs."""

    deployment = "Reservoir"

    def __init__(self) -> None:
        self.clock = ManualClock(UNTIL)
        self.history, self.policy, self.accounts = (
            MemoryHistory(),
            MemoryPolicyStore(),
            MemoryAccounts(),
        )
        self.history.keep(events())
        for sample in samples():
            self.history.keep_sample(sample)


def test_the_command_writes_the_file_and_says_what_it_is_made_of(tmp_path: Path) -> None:
    file = tmp_path / "week.html"
    done = CliRunner().invoke(
        app, ["report", "--since", "1d", "--html", str(file)], obj=Stack()
    )
    assert done.exit_code == 0, done.output
    assert "samples and 13 events" in done.stdout
    expected = make_report(
        "Reservoir", UNTIL - timedelta(days=1), UNTIL, list(samples()), events()
    )
    assert file.read_text() == page(expected)


def test_what_teams_spent_is_read_from_the_accounts(tmp_path: Path) -> None:
    stack = Stack()
    audio = team("audio", 0)
    applier(stack.policy).apply([("audio", json.dumps(audio))])

    def line(day: str, namespace: str, capacity_type: CapacityType) -> AccountLine:
        return AccountLine(
            day, "audio" if namespace == "audio" else "", namespace, capacity_type
        )

    written = {
        # the day before
        line("2026-01-14", "audio", CapacityType.SPOT): Amount(3600, 10**18),
        line("2026-01-15", "audio", CapacityType.SPOT): Amount(7200, 3 * 10**18),
        line("2026-01-15", "audio", CapacityType.RESERVED): Amount(3600, 0),
        line("2026-01-16", "others", CapacityType.ON_DEMAND): Amount(60, 10**17),
    }
    stack.accounts.write("nc-1", None, MeterReading(written, None))
    since = UNTIL - timedelta(hours=1)
    running = Meter("nc-2", since, since, CapacityType.SPOT, 2 * 10**18, {"audio": 1})
    stack.accounts.write("nc-2", None, MeterReading({}, running))
    html, figures = tmp_path / "day.html", tmp_path / "day.json"
    done = CliRunner().invoke(
        app,
        ["report", "--since", "1d", "--html", str(html), "--json", str(figures)],
        obj=stack,
    )
    assert done.exit_code == 0, done.output
    money = json.loads(figures.read_text())["money"]
    found = money["namespaces"]
    assert [
        (
            it["team"],
            it["namespace"],
            it["capacity_type"],
            it["unit_s"],
            it["spent_micro_usd"],
        )
        for it in found
    ] == [
        ("", "others", "on-demand", 60, 100_000),
        ("audio", "audio", "reserved", 3600, 0),
        ("audio", "audio", "spot", 7200 + 3600, 5_000_000),
    ]
    assert [(it["name"], it["spent_micro_usd"]) for it in money["teams"]] == [
        ("audio", 5_000_000),
        ("", 100_000),
    ]
    assert money["total"]["spent_micro_usd"] == 5_100_000
    text = html.read_text()
    assert (
        '<th scope="row">audio</th><td>audio</td><td>spot</td><td class="number">3.0 h</td>'
        in text
    )
    assert (
        "<dd>5.10 USD<small>metered, 2026-01-15 to 2026-01-16, whole days; the last is not over</small></dd>"
        in text
    )


def spent(day: str, atto_usd: int) -> dict[AccountLine, Amount]:
    return {AccountLine(day, "", "jobs", CapacityType.ON_DEMAND): Amount(HOUR_S, atto_usd)}


def written(stack: Stack, *amounts: dict[AccountLine, Amount]) -> Stack:
    for number, each in enumerate(amounts):
        stack.accounts.write(f"nc-{number}", None, MeterReading(each, None))
    return stack


def figures_of(stack: Stack, tmp_path: Path, *arguments: str) -> Any:
    html, figures = tmp_path / "report.html", tmp_path / "report.json"
    command = ["report", *arguments, "--html", str(html), "--json", str(figures)]
    done = CliRunner().invoke(app, command, obj=stack)
    assert done.exit_code == 0, done.output
    return json.loads(figures.read_text())


def test_any_month_of_the_accounts_can_be_told_beside_the_one_before(
    tmp_path: Path,
) -> None:
    stack = written(
        Stack(),
        spent("2024-04-30", 10**18),
        spent("2024-05-01", 2 * 10**18),
        spent("2024-05-31", 4 * 10**18),
        spent("2024-06-01", 8 * 10**18),
    )
    found = figures_of(stack, tmp_path, "--month", "2024-05")
    assert found["money"]["total"]["spent_micro_usd"] == 6_000_000
    assert (found["money"]["first_day"], found["money"]["last_day"]) == (
        "2024-05-01",
        "2024-05-31",
    )
    assert found["beside"]["total"]["spent_micro_usd"] == 1_000_000
    text = (tmp_path / "report.html").read_text()
    assert (
        '<td class="number">6.00 USD</td><td class="number">1.00 USD</td><td class="number">+500 %</td>'
        in text
    )


def test_a_month_can_be_told_beside_any_other(tmp_path: Path) -> None:
    stack = written(
        Stack(), spent("2025-01-10", 3 * 10**18), spent("2026-01-10", 2 * 10**18)
    )
    found = figures_of(stack, tmp_path, "--month", "2026-01", "--beside", "2025-01")
    assert [found[it]["total"]["spent_micro_usd"] for it in ("money", "beside")] == [
        2_000_000,
        3_000_000,
    ]


def test_days_are_told_beside_as_many_days_before(tmp_path: Path) -> None:
    stack = written(
        Stack(),
        spent("2026-01-15", 10**18),
        spent("2026-01-14", 2 * 10**18),
        spent("2026-01-12", 10**19),
    )
    found = figures_of(stack, tmp_path, "--since", "1d")
    assert (found["beside"]["first_day"], found["beside"]["last_day"]) == (
        "2026-01-13",
        "2026-01-14",
    )
    assert found["beside"]["total"]["spent_micro_usd"] == 2_000_000


def test_what_the_accounts_have_nothing_of_is_not_known(tmp_path: Path) -> None:
    found = figures_of(Stack(), tmp_path, "--month", "2025-12")
    assert "money" not in found
    assert (
        "<dd>not known<small>the accounts have nothing of these days</small></dd>"
        in (tmp_path / "report.html").read_text()
    )


def test_what_the_history_does_not_hold_is_said_before_anything_else(
    tmp_path: Path,
) -> None:
    file = tmp_path / "month.html"
    done = CliRunner().invoke(
        app, ["report", "--since", "30d", "--html", str(file)], obj=Stack()
    )
    assert "samples cover 3 % of the time" in done.stderr
    text = file.read_text()
    assert text.index("Samples tell of 22.0 h of 720.0 h (3 %)") < text.index(
        "paid beside reservations"
    )
    full = page(
        make_report(
            "production", SINCE, SINCE + timedelta(hours=6), list(samples())[:36], []
        )
    )
    assert 'class="loud"' not in full


@pytest.mark.parametrize(
    "arguments",
    [
        ("--month", "2026-13"),
        ("--month", "2026-02"),
        ("--month", "2026-01", "--since", "1d"),
    ],
)
def test_a_month_that_is_none_is_refused(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(
        app, ["report", *arguments, "--html", str(tmp_path / "x.html")], obj=Stack()
    )
    assert done.exit_code == 2


def test_a_report_can_end_earlier_than_now(tmp_path: Path) -> None:
    file = tmp_path / "early.html"
    arguments = [
        "report",
        "--since",
        "6h",
        "--until",
        f"{SINCE + timedelta(hours=6):%Y-%m-%dT%H:%M}",
    ]
    done = CliRunner().invoke(app, [*arguments, "--html", str(file)], obj=Stack())
    assert "36 samples and 6 events" in done.stdout
    assert (
        CliRunner()
        .invoke(app, [*arguments[:-1], "noon", "--html", str(file)], obj=Stack())
        .exit_code
        == 2
    )


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["report", "--html", str(tmp_path / "no" / "week.html")], obj=Stack()
    )
    assert done.exit_code == 2
    assert "cannot write" in done.stderr
