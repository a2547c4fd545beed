"""Schedule and reservation events -> Reservations and class statuses."""

from dataclasses import asdict
from typing import Any

from shared.runtime import bootstrap
from shared.runtime.observability import count, logger, observed


@observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Observe once; whatever the event says, EC2 is asked."""
    found = bootstrap.discover_reservations().run()
    logger.info("reservations discovered", extra=asdict(found))
    count("ReservationsSeen", found.seen_count)
    count("LeasesAbsorbed", found.absorbed_count)
    count("DiscoveryFailures", len(found.failures))
    return asdict(found)
