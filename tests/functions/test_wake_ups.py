"""What a batch of wake-ups asks of the planner."""

import json
from typing import Any

from shared.runtime.wake_ups import WakeUps

MINUTE = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def batch(*bodies: dict[str, Any]) -> dict[str, Any]:
    return {"Records": [{"body": json.dumps(body)} for body in bodies]}


def test_all_that_a_batch_names_is_read() -> None:
    event = batch({"reason": "demand changed", "workloads": ["a/x"]}, {"reason": "node draining", "workloads": ["a/y"]})
    assert WakeUps.of(event) == WakeUps(frozenset({"a/x", "a/y"}), names_no_one=False)


def test_what_names_nobody_may_be_in_no_listing_yet() -> None:
    event = batch({"reason": "demand changed", "workloads": ["a/x"]}, {"reason": "policy changed", "workloads": []})
    assert WakeUps.of(event) == WakeUps(frozenset({"a/x"}), names_no_one=True)


def test_the_minute_says_that_nothing_was_written() -> None:
    assert WakeUps.of(batch(MINUTE)) == WakeUps(frozenset(), names_no_one=False)
