"""The gate that every ending of our own choice passes."""

from functools import cache

from shared.runtime.composition.outside import adapters
from shared.usecases.safety.envelope import Envelope
from shared.usecases.safety.tables import OwnTables


@cache
def envelope() -> Envelope:
    """Return the safety envelope."""
    outside = adapters()
    return Envelope(
        tables=OwnTables(outside.table_marks, outside.settings.deployment),
        tallies=outside.tallies,
        claims=outside.node_claims,
        publisher=outside.publisher,
        bounds=outside.settings.ending_bounds,
    )
