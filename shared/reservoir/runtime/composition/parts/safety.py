"""The gate that every ending of our own choice passes."""

from reservoir.runtime.outside import Outside
from reservoir.usecases.safety.envelope import Envelope
from reservoir.usecases.safety.tables import OwnTables


def envelope_from(outside: Outside) -> Envelope:
    """Return the safety envelope."""
    return Envelope(
        tables=OwnTables(outside.table_marks, outside.settings.deployment),
        tallies=outside.tallies,
        claims=outside.node_claims,
        publisher=outside.publisher,
        bounds=outside.settings.ending_bounds,
    )
