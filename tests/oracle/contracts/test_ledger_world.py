"""The suite of `tests/adapters`, on DynamoDB Local."""

from tests.adapters.test_ledger_world import *  # noqa: F403 # its tests and fixtures
