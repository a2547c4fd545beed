"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.dynamodb.test_purchases import *  # noqa: F403 # its tests and fixtures
