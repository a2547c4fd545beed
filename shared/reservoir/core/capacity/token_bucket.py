"""EC2's throttling, as it documents it: a bucket of tokens for each kind of call, refilled at a steady rate.

We take tokens before we call, so that a burst of ours waits for a moment instead of being refused and repeated.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BucketSize:
    """``capacity`` calls at once, then ``refill_per_s`` calls a second."""

    capacity: int
    refill_per_s: int

    def shared_by(self, processes: int) -> "BucketSize":
        """Return one of ``processes`` equal shares, at least one call a second."""
        return BucketSize(
            max(1, self.capacity // processes), max(1, self.refill_per_s // processes)
        )


# EC2 developer guide, "Request throttling": one account in one region.
MUTATING_CALLS: Final = BucketSize(50, 5)
CREATE_TAGS_CALLS: Final = BucketSize(100, 10)


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """``tokens`` as of ``at_s``, seconds of any clock; negative when so many calls are waiting already."""

    size: BucketSize
    tokens: float
    at_s: float

    @classmethod
    def full(cls, size: BucketSize, now_s: float) -> "TokenBucket":
        """Return a bucket that has not been used."""
        return cls(size, size.capacity, now_s)

    def take(self, now_s: float) -> tuple["TokenBucket", float]:
        """Take one token; return the bucket and how many seconds to wait before the call."""
        refilled = self.tokens + max(0.0, now_s - self.at_s) * self.size.refill_per_s
        left = min(float(self.size.capacity), refilled) - 1
        return TokenBucket(self.size, left, now_s), max(0.0, -left / self.size.refill_per_s)
