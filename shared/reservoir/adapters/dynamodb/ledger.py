"""The ledger's counters in a reservation's row (docs/architecture.md#the-ledger).

``free_units`` is stored beside its parts because a condition cannot subtract; every write that changes a part changes
it in the same update, so that no reader or condition ever sees a sum of two moments.
"""

from typing import Final

from reservoir.adapters.dynamodb.table import DynamoDbTable, Expression, Write

AVAILABLE: Final = "available_count"
OUTSTANDING: Final = "outstanding_count"
FREE: Final = "free_units"


def leased_write(
    table: DynamoDbTable, reservation_id: str, count: int, free_needed: int
) -> Write:
    """Promise ``count`` units if ``free_needed`` are free; further ones wait for units that are in use."""
    expression = Expression()
    # The reservation must be known even when nothing needs to be free.
    condition = (
        expression.at_least(FREE, free_needed)
        if free_needed
        else expression.at_least(OUTSTANDING, 0)
    )
    moved = [expression.change(OUTSTANDING, count), expression.change(FREE, -count)]
    return table.update(reservation_id, expression, condition, assignments=moved)


def closed_write(table: DynamoDbTable, reservation_id: str, count: int) -> Write:
    """Stop counting ``count`` leases: they were returned, or an observation contains them."""
    expression = Expression()
    condition = expression.at_least(OUTSTANDING, count)
    moved = [expression.change(OUTSTANDING, -count), expression.change(FREE, count)]
    return table.update(reservation_id, expression, condition, assignments=moved)
