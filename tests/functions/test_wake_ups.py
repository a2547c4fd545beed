"""What a batch of wake-ups asks of the planner."""

import json
from typing import Any

from reservoir.runtime.wake_ups import woken_by
from reservoir.usecases.provisioning.share_demand import Woken

MINUTE = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
X = {"reason": "demand changed", "workloads": ["a/x"]}


def batch(*bodies: dict[str, Any]) -> dict[str, Any]:
    return {"Records": [{"body": json.dumps(body)} for body in bodies]}


def test_all_that_a_batch_names_is_read() -> None:
    event = batch(X, {"reason": "node draining", "workloads": ["a/y"]})
    assert woken_by(event) == Woken(frozenset({"a/x", "a/y"}), names_all=True)


def test_what_names_nobody_may_be_in_no_listing_yet() -> None:
    event = batch(X, {"reason": "policy changed", "workloads": []})
    assert woken_by(event) == Woken(frozenset({"a/x"}), indexes_lag=True)


def test_the_minute_says_that_nothing_was_written_and_asks_for_everybody() -> None:
    assert woken_by(batch(MINUTE)) == Woken()
    assert woken_by(batch(X, MINUTE)) == Woken(frozenset({"a/x"}))


def test_groups_of_a_batch_are_planned_by_one_pass() -> None:
    event = batch({**X, "group": ["cpu"]}, {"reason": "demand", "workloads": [], "group": ["gpu", "tpu"]})
    parts = frozenset({"cpu", "gpu", "tpu"})
    assert woken_by(event) == Woken(
        frozenset({"a/x"}), names_all=True, group_keys=frozenset({"cpu", "gpu"}), parts=parts
    )
