"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.dynamodb.test_stored_policy import *  # noqa: F403 # its tests and fixtures
