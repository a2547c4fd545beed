"""A fleet at size plays the same pipeline, and what it comes to adds up."""

import pytest

from lab.simulation.aws.lambdas import Run
from lab.simulation.size.__main__ import played, told
from lab.simulation.size.fleet import COARSENESS, Size
from lab.simulation.size.meter import Meter, _weight
from reservoir.names import Function

SIZE = Size(nodes=40, reservations=4, days=1, replicas=5)


@pytest.fixture(scope="module")
def meter() -> Meter:
    return played(1, SIZE)


def test_units_that_are_paid_for_come_first(meter: Meter) -> None:
    assert meter.node_hours["reserved"] > 0.85 * meter.reserved_hours
    bought = sum(meter.node_hours.values()) - meter.node_hours["reserved"]
    over = meter.wanted_hours - meter.reserved_hours
    assert bought == pytest.approx(over, abs=0.15 * meter.wanted_hours)


def test_everybody_got_what_was_wanted(meter: Meter) -> None:
    live = [each for each in meter.fleet.users.wanted.values() if not each.withdrawn]
    assert len(meter.waits_s) >= len(live) > 0
    assert sum(meter.node_hours.values()) == pytest.approx(meter.wanted_hours, rel=0.1)


def test_used_units_are_counted_as_they_are(meter: Meter) -> None:
    for key, reservation in meter.fleet.ec2.reservations.items():
        inside = [
            each for each in meter.fleet.ec2.all() if each.capacity_reservation_id == key
        ]
        used = sum(each.state != "terminated" for each in inside)
        assert meter.fleet.ec2.used_units(key) == used <= reservation.total_count


def test_what_schedules_ask_for_counts_as_often_as_in_a_deployment(meter: Meter) -> None:
    sweeps = 24 * 60
    assert meter.tally.runs[Function.EXPIRE] == pytest.approx(sweeps, abs=2 * COARSENESS)
    scheduled = Run(1, Function.EXPIRE, 0, 0, {"source": "aws.events", "id": "minute-7"})
    asked = Run(2, Function.INTAKE, 0, 0, {"Records": [{"body": "{}"}]})
    waking = Run(
        3,
        Function.PROVISION,
        0,
        0,
        {"Records": [{"body": '{"source": "aws.events", "id": "minute-8"}'}]},
    )
    sampling = Run(
        4,
        Function.RECORD,
        0,
        0,
        {"Records": [{"body": '{"source": "aws.events", "id": "minute-9"}'}]},
    )
    assert [_weight(run) for run in (scheduled, asked, waking, sampling)] == [
        COARSENESS,
        1,
        COARSENESS,
        1,
    ]


def test_the_report_says_use_money_waiting_calls_and_their_price(meter: Meter) -> None:
    text = "\n".join(told(meter))
    for part in (
        "reserved units in use",
        "all on demand",
        "until all its replicas",
        "DynamoDB: ",
        "together ",
    ):
        assert part in text
    assert sum(usd for _, _, usd in meter.bill()) > 0
