"""Everything here needs spin."""

import pytest

from lab.formal import spin


@pytest.fixture(autouse=True)
def needs_spin() -> None:
    reason = spin.missing()
    if reason is not None:
        pytest.skip(reason)
