"""How calls are spaced, and how those that fail are made again."""

from itertools import pairwise
from typing import Any

import pytest

from lab.fakes.system import START
from reservoir.adapters.clients import make_client
from reservoir.adapters.dynamodb.table import DynamoDbTable, pause_with_jitter
from reservoir.adapters.pacing import Pacer
from reservoir.core.capacity.token_bucket import MUTATING_CALLS, BucketSize, TokenBucket
from reservoir.ports.errors import ThrottledError


def test_a_burst_within_the_capacity_does_not_wait() -> None:
    bucket = TokenBucket.full(BucketSize(3, 1), 0.0)
    for _ in range(3):
        bucket, wait_s = bucket.take(0.0)
        assert wait_s == 0


def test_beyond_it_calls_are_spaced_by_the_refill() -> None:
    bucket = TokenBucket.full(BucketSize(1, 2), 0.0)
    waits = []
    for _ in range(4):
        bucket, wait_s = bucket.take(0.0)
        waits.append(wait_s)
    assert waits == [0.0, 0.5, 1.0, 1.5]


def test_time_refills_up_to_the_capacity_and_no_further() -> None:
    bucket = TokenBucket.full(BucketSize(2, 1), 0.0)
    for _ in range(2):
        bucket, _ = bucket.take(0.0)
    bucket, wait_s = bucket.take(100.0)
    assert (wait_s, bucket.tokens) == (0.0, 1.0)


def test_a_clock_that_goes_back_gives_no_tokens() -> None:
    bucket = TokenBucket(BucketSize(2, 1), 0.0, 10.0)
    _, wait_s = bucket.take(5.0)
    assert wait_s == 1.0


def test_shares_never_reach_zero() -> None:
    assert MUTATING_CALLS.shared_by(5) == BucketSize(10, 1)
    assert MUTATING_CALLS.shared_by(1_000) == BucketSize(1, 1)


def test_the_pacer_keeps_the_rate() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pacer = Pacer(BucketSize(10, 5), clock_s=lambda: now[0], sleep=sleep)
    for _ in range(60):
        pacer.wait()
    assert abs(now[0] - 10.0) < 1e-6  # ten at once, fifty more at five a second


def test_the_sdk_backs_off_five_attempts_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    # or it would look for credentials in the network
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    config = make_client("sts", "us-east-1").meta.config
    # exponential, with full jitter
    assert config.retries == {"mode": "standard", "total_max_attempts": 5}


def test_between_attempts_lies_a_random_part_of_twice_as_long_each_time() -> None:
    longest: list[float] = []
    for attempt in range(8):
        pauses: list[float] = []
        for _ in range(200):
            pause_with_jitter(attempt, pauses.append)
        assert len({round(pause, 9) for pause in pauses}) > 100
        assert 0 <= min(pauses) <= max(pauses) <= 0.02 * 2**attempt
        longest.append(max(pauses))
    assert all(later > earlier for earlier, later in pairwise(longest))


class LeavingOut:
    """A table that returns one key a call, and from some point on none."""

    def __init__(self, answering_count: int) -> None:
        self.asked: list[int] = []
        self._answering_count = answering_count

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        keys = request["RequestItems"]["t"]["Keys"]
        self.asked.append(len(keys))
        found = keys[:1] if len(self.asked) <= self._answering_count else []
        left = keys[len(found) :]
        return {
            "Responses": {"t": found},
            "UnprocessedKeys": {"t": {"Keys": left}} if left else {},
        }


def test_keys_that_dynamodb_leaves_out_are_asked_for_again_and_given_up_in_the_end() -> (
    None
):
    patient = LeavingOut(answering_count=3)
    rows = DynamoDbTable(patient, "t", lambda _: None).get_many(["a", "b", "c"], START)  # type: ignore[arg-type] # a fake of the one call
    assert [row["id"]["S"] for row in rows] == ["a", "b", "c"]
    assert patient.asked == [3, 2, 1]
    silent = LeavingOut(answering_count=1)
    with pytest.raises(ThrottledError):
        list(DynamoDbTable(silent, "t", lambda _: None).get_many(["a", "b", "c"], START))  # type: ignore[arg-type] # as above
    assert silent.asked == [3, *[2] * 7]
