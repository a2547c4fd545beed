"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.dynamodb.test_launch_memory_contract import *  # noqa: F403 # its tests and fixtures
