"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.test_stored_policy import *  # noqa: F403 # its tests and fixtures
