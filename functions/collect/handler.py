"""Schedule -> lost messages, orphans and superfluous templates are found and settled."""

from dataclasses import asdict
from typing import Any

from shared.runtime.composition.collect import collect
from shared.runtime.observability import count, logger, observed


@observed
def handler(_event: dict[str, Any], _context: Any) -> None:
    """Collect once."""
    report = collect().run()
    logger.info("collected", extra=asdict(report))
    count("BatchesSentAgain", report.resent_count)
    count("OrphansFound", report.orphan_count)
    count("OrphansSpared", report.spared_count)
    count("TerminationsRefused", len(report.refused))
    if report.spared_count:
        logger.error("too many instances without a claim: none was terminated; see the runbook")
