"""What clients ask a second time."""

import pytest

from infra.config import FUNCTIONS
from reservoir.adapters.clients import ONE_LONG_WAIT, Patience, make_client
from reservoir.names import Function


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def test_a_fleet_that_is_being_launched_is_not_asked_for_again_within_its_function() -> (
    None
):
    config = make_client("ec2", patience=ONE_LONG_WAIT).meta.config
    assert config.retries["total_max_attempts"] == 1
    assert (
        config.connect_timeout + config.read_timeout < FUNCTIONS[Function.LAUNCH].timeout_s
    )
    assert config.read_timeout > Patience().read_timeout_s
