"""``reservoir metrics``: its sums are those of ``status``, and its form is OpenMetrics'."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from typer.testing import CliRunner

from lab.fakes.system import ManualClock
from reservoir.cli.app import app
from reservoir.cli.commands.see.metrics import Lately, serving
from reservoir.cli.openmetrics import CONTENT_TYPE, lines_of
from reservoir.core.history.gauges import OTHER, Gauge
from tests.cli.see.test_status import Broken, Stack, stack

__all__ = ["stack"]

FOLDER = Path(__file__).parents[3] / "integrations" / "prometheus"
SERIES = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (-?[0-9.e+-]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
Series = dict[tuple[tuple[str, str], ...], float]


def printed(stack: Any) -> str:
    result = CliRunner().invoke(app, ["metrics"], obj=stack)
    assert result.exit_code == 0, result.output
    return result.stdout


def read(text: str) -> dict[str, Series]:
    """Read the form strictly: each gauge has its type and help before its values, and the end is marked."""
    lines = text.splitlines()
    assert lines[-1] == "# EOF"
    found: dict[str, Series] = defaultdict(dict)
    name = ""
    for line in lines[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert (kind, name in found) == ("gauge", False)
            found[name] = {}
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == name
        else:
            match = SERIES.fullmatch(line)
            assert match is not None, line
            assert match[1] == name
            labels = tuple(LABEL.findall(match[2] or ""))
            assert labels not in found[name]
            found[name][labels] = float(match[3])
    return found


def total(series: Series, **labels: str) -> float:
    return sum(
        value for key, value in series.items() if labels.items() <= dict(key).items()
    )


def test_the_sums_are_those_of_status(stack: Stack) -> None:
    found = read(printed(stack))
    seen = json.loads(CliRunner().invoke(app, ["status", "-o", "json"], obj=stack).stdout)
    there = seen["there"]
    for use in ("ours", "others", "free"):
        assert total(found["reservoir_reservation_units"], use=use) == sum(
            it[use] for it in there["reservations"]
        )
    assert (
        total(found["reservoir_nodes"]) == sum(it["nodes"] for it in there["markets"]) > 0
    )
    assert (
        total(found["reservoir_waiting_replicas"])
        == sum(it["replicas"] for it in there["waiting"])
        > 0
    )
    paid = sum(it["microUsdPerHour"] for it in there["markets"]) / 1_000_000
    assert total(found["reservoir_paid_usd_per_hour"]) == pytest.approx(paid)
    idle = sum(it.get("idleMicroUsdPerHour", 0) for it in there["reservations"]) / 1_000_000
    assert total(found["reservoir_reservation_idle_usd_per_hour"]) == pytest.approx(idle)
    assert total(found["reservoir_queue_messages"]) == sum(
        it["messages"] for it in seen["queues"].values()
    )
    assert total(found["reservoir_refusals"]) == len(seen["refused"])
    assert found["reservoir_alarm"] == {(("alarm", "Reservoir-DemandAge"),): 1}
    assert total(found["reservoir_discovery_age_seconds"]) == 120


def test_what_a_source_does_not_say_is_absent_and_never_nought(stack: Stack) -> None:
    stack.queues = Broken()
    found = read(printed(stack))
    assert "reservoir_queue_messages" not in found
    up = {dict(key)["source"]: value for key, value in found["reservoir_source_up"].items()}
    assert up == {
        "tables": 1,
        "history": 1,
        "discovery": 1,
        "queues": 0,
        "alarms": 1,
        "policy": 1,
    }
    stack.policy = Broken()
    without = read(printed(stack))
    assert total(without["reservoir_source_up"], source="policy") == 0
    assert "reservoir_nodes" in without, "who may not read policy sees the rest"


def test_a_thousand_series_are_the_most_and_the_sum_stays() -> None:
    values: dict[Any, float] = {
        (f"cr-{number:04}", "free"): float(number) for number in range(2500)
    }
    gauge = Gauge("reservoir_reservation_units", "x", ("reservation", "use"), values)
    bounded = gauge.bounded(1000)
    assert (len(bounded.values), sum(bounded.values.values())) == (
        1000,
        sum(values.values()),
    )
    assert (OTHER, "") in bounded.values
    assert gauge.bounded(2500) is gauge


def test_names_that_somebody_made_up_stay_in_their_quotes() -> None:
    evil = Gauge("g", "h", ("team",), {('a"b\\c\nd',): 1.0})
    assert list(lines_of(evil))[-1] == r'g{team="a\"b\\c\nd"} 1'


@pytest.fixture
def asked() -> Iterator[tuple[str, list[float]]]:
    """A server, and when it read."""
    clock, reads = ManualClock(), list[float]()

    def text() -> str:
        reads.append(clock.now().timestamp())
        return f"read {len(reads)}\n"

    server = serving(Lately(text, clock.now, timedelta(seconds=15)), "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", reads
    server.shutdown()
    server.server_close()


@pytest.mark.embedded
def test_those_who_ask_soon_after_each_other_get_the_same(
    asked: tuple[str, list[float]],
) -> None:
    url, reads = asked
    for _ in range(3):
        with urlopen(f"{url}/metrics") as answer:  # noqa: S310 - our own server
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert answer.read() == b"read 1\n"
    assert len(reads) == 1
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{url}/")  # noqa: S310 - our own server


@pytest.mark.parametrize("where", ["9090x", "localhost", ":99999"])
def test_where_nobody_can_listen_is_refused(stack: Stack, where: str) -> None:
    result = CliRunner().invoke(app, ["metrics", "--listen", where], obj=stack)
    assert (result.exit_code, "is not [ADDRESS]:PORT" in result.stderr) == (2, True)


def test_the_dashboard_and_the_rules_ask_for_what_there_is(stack: Stack) -> None:
    there = set(read(printed(stack)))
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    asked += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    named = {
        name
        for expression in asked
        for name in re.findall(r"reservoir_[a-z_]+", expression)
    }
    assert named - there == set()
    assert len(named) > 10
