"""EC2's rate, kept by waiting."""

from shared.adapters.pacing import Pacer
from shared.core.capacity.token_bucket import MUTATING_CALLS, BucketSize, TokenBucket


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
