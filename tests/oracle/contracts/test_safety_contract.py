"""The tallies of `tests/adapters`, on DynamoDB Local; it gives tables no id, so the marks of tables stay out."""

from tests.adapters.dynamodb.test_safety_contract import (
    safety,
    test_a_tally_is_read_back_as_it_was_written,
    test_of_two_passes_that_read_the_same_tally_one_writes,
)

__all__ = [
    "safety",
    "test_a_tally_is_read_back_as_it_was_written",
    "test_of_two_passes_that_read_the_same_tally_one_writes",
]
