"""Whatever is shown fits a terminal of 80 columns, without a line that is broken in two."""

import io
from datetime import timedelta

import pytest
from rich.console import Console, RenderableType

from lab.demo.bill import Prices, make_bill
from lab.demo.chart import Mark
from lab.demo.history import Stay
from lab.demo.observer import Instance, Observed, Reservation
from lab.demo.picture import draw
from lab.demo.report import closing_picture
from lab.demo.scenario import read_workloads
from tests.demo.support import START, at, curve

WIDTH = 80


def lines(shown: RenderableType, width: int = WIDTH) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(shown)
    return out.getvalue().splitlines()


@pytest.fixture
def seen() -> Observed:
    seen = Observed(now=START)
    titles = {
        "Capacity Block": "p5.48xlarge",
        "interruptible": "c7i.8xlarge",
        "inference": "g5.12xlarge",
    }
    seen.reservations = [
        Reservation(
            f"cr-{number:017}", title, kind, "us-east-1b", 6, 2, at(150), is_active=True
        )
        for number, (title, kind) in enumerate(titles.items())
    ]
    seen.instances = [
        Instance("i-1", "c7i.8xlarge", "us-east-1a", "running", "spot", None, "nc-1")
    ]
    for title in titles:
        seen.curves[title] = curve((0, 0, 6), (2, 6, 6), (100, 3, 6))
    seen.curves["spot"] = curve((0, 0, 0), (2, 11, 11))
    seen.curves["on-demand"] = curve((0, 0, 0))
    seen.pending["research/train-llm"] = (
        "4 of 4 replicas wait for the Capacity Block that ends at half past six " * 2
    )
    node = {
        "nodeClaim": "nc-88c5cdf9181144ab8979",
        "instanceType": "p5.48xlarge",
        "capacityType": "reserved",
    }
    told = {"namespace": "research", "name": "train-llm", "replicas": 4}
    for number in range(8):
        seen.events.append(
            {
                "time": f"2026-11-02T08:0{number}:00Z",
                "detail-type": "Reservation Underutilized"
                if number % 2
                else "Node Draining",
                "detail": {
                    "node": node,
                    "workload": told,
                    "reason": "CapacityBlockEnding",
                    "deadline": "2026-11-02",
                },
            }
        )
    seen.launched["nc-1"] = {"node": node, "workloads": [told]}
    return seen


def wanted() -> dict[str, int]:
    return {
        name: workload["spec"]["replicas"] for name, workload in read_workloads().items()
    }


def test_the_moving_picture_fits(seen: Observed) -> None:
    shown = lines(
        draw(
            seen,
            "the block nears its end: notice, `release`, gone; one never answers",
            wanted(),
        )
    )
    assert max(map(len, shown)) <= WIDTH
    facts = [line for line in shown if line.startswith("│ 08:0")]
    assert len(facts) == 6  # one line a fact
    for title in ("Capacity Block", "research/train-llm", "serving/inference", "4/6"):
        assert any(title in line for line in shown), title


@pytest.mark.parametrize("width", [60, 80, 132])
def test_the_closing_picture_fits(seen: Observed, width: int) -> None:
    stays = [
        Stay("p5.48xlarge", "us-east-1b", "reserved", at(0), at(110)),
        Stay("c7i.8xlarge", "us-east-1a", "spot", at(0), at(110)),
    ]
    prices = Prices(
        {"p5.48xlarge": 98_320_000, "c7i.8xlarge": 1_428_000},
        {("c7i.8xlarge", "us-east-1a"): 500_000},
    )
    bill = make_bill(stays, prices, [seen.curves["Capacity Block"]], at(0), at(120))
    marks = [
        Mark(at(minute), "the Capacity Block nears its end: notice, `release`, gone")
        for minute in (0, 20, 110)
    ]
    seen.now = START + timedelta(minutes=120)
    shown = lines(closing_picture(seen, marks, bill, width), width)
    assert max(map(len, shown)) <= width
    assert any("all on demand" in line and "182.87 USD" in line for line in shown)
    assert any("saved: 99 %" in line and "181.95 USD" in line for line in shown)
    for words in ("Capacity Block", "research/train-llm", "spot", "used of reservations"):
        assert any(words in line for line in shown), words
