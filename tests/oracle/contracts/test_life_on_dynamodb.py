"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.test_life_on_dynamodb import *  # noqa: F403 # its tests and fixtures
