"""What a batch of wake-ups asks of the planner."""

import json
from typing import Any

import pytest

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
    event = batch(
        {**X, "group": ["cpu"]},
        {"reason": "demand", "workloads": [], "group": ["gpu", "tpu"]},
    )
    parts = frozenset({"cpu", "gpu", "tpu"})
    assert woken_by(event) == Woken(
        frozenset({"a/x"}),
        names_all=True,
        group_keys=frozenset({"cpu", "gpu"}),
        parts=parts,
    )


STRANGE = [
    "",
    "{nonsense",
    "[" * 100_000,
    "[]",
    "1",
    "{}",
    '{"workloads": 1}',
    '{"workloads": [1]}',
    '{"workloads": {"a/x": 1}}',
    '{"workloads": ["a/x"], "group": []}',
    '{"workloads": ["a/x"], "group": {}}',
    '{"workloads": ["a/x"], "group": "cpu"}',
    '{"workloads": ["a/x"], "group": [["cpu"]]}',
]


@pytest.mark.parametrize("body", STRANGE)
def test_a_wake_up_that_is_not_understood_asks_for_everybody(body: str) -> None:
    assert woken_by({"Records": [{"body": body}]}) == Woken(indexes_lag=True)


@pytest.mark.parametrize("body", STRANGE)
def test_whom_others_of_the_batch_name_is_planned_all_the_same(body: str) -> None:
    event = {"Records": [{"body": body}, *batch(X)["Records"]]}
    assert woken_by(event) == Woken(frozenset({"a/x"}), indexes_lag=True)


def test_what_a_later_release_adds_is_read_over() -> None:
    assert woken_by(batch({**X, "cells": {"a": [1]}})) == woken_by(batch(X))
