"""Schedule -> the catalogue of instance types and prices."""

from dataclasses import asdict
from typing import Any

from reservoir.runtime.composition.discover_offerings import discover_offerings
from reservoir.runtime.observability import count, logger, observed

_NAMES_LOGGED_MAX = 50


class PricesMissingError(Exception):
    """The catalogue was saved with the last known prices; Lambda's own retry asks for the new ones again."""


@observed
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Discover once; raises when prices could not be read, after everything else was saved."""
    found = discover_offerings().run()
    logger.info(
        "offerings discovered",
        extra={
            **asdict(found),
            "unpriced": found.unpriced[:_NAMES_LOGGED_MAX],
            "priced_from_before": found.priced_from_before[:_NAMES_LOGGED_MAX],
            "spot_lost": found.spot_lost[:_NAMES_LOGGED_MAX],
        },
    )
    count("InstanceTypesUnpriced", len(found.unpriced))
    count("InstanceTypesPricedFromBefore", len(found.priced_from_before))
    count("SpotOfferingsLost", len(found.spot_lost))
    count("DiscoveryFailures", len(found.failures))
    if found.failures:
        raise PricesMissingError("; ".join(found.failures))
    return {"type_count": found.type_count, "written_count": found.written_count}
