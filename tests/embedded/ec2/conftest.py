import pytest

from lab.worlds.cloud import Cloud


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()
