"""Real time that tests move."""

import pytest

from lab.embedded.emulated_time.clock import EmulatedClock


class RealTime:
    """A monotonic clock that only the test moves."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.ns

    def passes(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


@pytest.fixture
def real_time() -> RealTime:
    return RealTime()


@pytest.fixture
def clock(real_time: RealTime) -> EmulatedClock:
    return EmulatedClock(real_time.monotonic_ns)
