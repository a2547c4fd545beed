"""The benches of launches and reactions find what they measure in order."""

from lab.bench.__main__ import benches
from lab.bench.functions import interruption, launch


def test_both_are_found() -> None:
    assert {"interruption", "launch"} <= {name for name, _ in benches()}
    assert launch.cases() == ["launch-1000"]
    assert interruption.cases() == [
        "interruption-100",
        "interruption-1000",
        "interruption-5000",
        "interruption-15000",
    ]


def test_a_batch_of_events_takes_one_reading_and_few_calls() -> None:
    figures = interruption.run("interruption-100")
    assert figures["messages"] == 100
    # a reading, and at most three kinds of terminations
    assert float(str(figures["ec2_calls_per_message"])) <= 0.4
