"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.dynamodb.test_state_contract import *  # noqa: F403 # its tests and fixtures
