"""What holds for every test: no network, and how hard hypothesis tries."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import settings

LOOPBACK = ["127.0.0.1", "::1", "localhost"]
# Folders whose files take a minute each: begun last, one of them would keep one core busy while the others are idle.
LONGEST: Final = {"deployed", "deployment", "integrations", "tutorials"}
POINTS_COVERED: Final = "points covered"
Cover = Callable[[str], None]

# `dev` keeps the whole run short enough to be run often, and looks elsewhere each time; the verdict of `ci` depends on
# the commit alone; `thorough` looks longer, with the same examples on every machine.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=500, deadline=None, derandomize=True)
# the contexts of whoever runs the tests are none of theirs
os.environ["RESERVOIR_CONFIG"] = os.devnull
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Open loopback, and nothing else, to the tests that talk to the embedded AWS; begin with the longest files."""
    items.sort(key=lambda item: LONGEST.isdisjoint(item.path.parts))
    for item in items:
        if item.get_closest_marker("embedded"):
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))


@pytest.fixture
def cover(record_property: Callable[[str, object], None]) -> Iterator[Cover]:
    """Return what a test calls after each point between two effects at which it killed or repeated something."""
    points: dict[str, int] = {}
    record_property(POINTS_COVERED, points)

    def count(what: str) -> None:
        points[what] = points.get(what, 0) + 1

    yield count
    assert points, "no point was covered"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many points the tests covered, over all workers of a parallel run."""
    covered: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, points in report.user_properties:
            if name == POINTS_COVERED:
                covered.update(points)
    for what, count in sorted(covered.items()):
        terminalreporter.write_line(f"exactly once: {count:5d} points covered in {what}")
