import pytest

from tests.embedded.ec2.support import Cloud


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()
