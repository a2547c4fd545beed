"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.dynamodb.test_discovery_turns import *  # noqa: F403 # its tests and fixtures
