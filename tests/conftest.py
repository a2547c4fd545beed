"""What holds for every test: no network, and how hard hypothesis tries."""

import os

import pytest
from hypothesis import settings

LOOPBACK = ["127.0.0.1", "::1", "localhost"]

# `dev` keeps the whole run short enough to be run often; `ci` looks longer, with the same examples on every machine.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Open loopback, and nothing else, to the tests that talk to the embedded AWS."""
    for item in items:
        if item.get_closest_marker("embedded"):
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))
