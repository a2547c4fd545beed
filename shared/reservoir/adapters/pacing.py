"""Waiting for a token of EC2's throttling buckets before a call."""

import time
from collections.abc import Callable

from reservoir.core.capacity.token_bucket import BucketSize, TokenBucket


class Pacer:
    """Spaces the calls of one process. Not for threads: our functions call EC2 from one."""

    def __init__(
        self,
        size: BucketSize,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._bucket = TokenBucket.full(size, clock_s())

    def is_free(self) -> bool:
        """Whether the next call need not wait."""
        return self._bucket.take(self._clock_s())[1] == 0

    def wait(self) -> None:
        """Wait until the next call fits EC2's rate."""
        self._bucket, wait_s = self._bucket.take(self._clock_s())
        if wait_s > 0:
            self._sleep(wait_s)
