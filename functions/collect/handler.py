"""Schedule -> lost messages, orphans and superfluous templates are found and settled."""

from dataclasses import asdict
from typing import Any

from reservoir.runtime.composition.collect import collect
from reservoir.runtime.observability import count, count_for_all, logger, observed


class BusRefusesError(Exception):
    """The outbound bus takes no events; the next run offers them again."""


@observed
def handler(_event: dict[str, Any], _context: Any) -> None:
    """Collect once; raises, after all else, when the bus does not take what it refused before."""
    report = collect().run()
    logger.info("collected", extra=asdict(report))
    count("BatchesSentAgain", report.resent_count)
    count("OrphansFound", report.orphan_count)
    count("OrphansSpared", len(report.spared))
    count("EndingsHeld", sum(report.held.values()))
    count("TablesUnknown", len(report.unknown_tables))
    count_for_all("TerminationsRefused", len(report.refused))
    count("TagsRefused", int(report.tags_refused is not None))
    if report.unknown_tables:
        logger.error(
            "the tables are not known to be complete: nothing is ended; see the runbook"
        )
    if report.spared or report.held:
        logger.error("the safety envelope holds endings; see the runbook")
    count("PublicationsMadeUpFor", report.published_count)
    if report.bus_refusal is not None:
        raise BusRefusesError(report.bus_refusal)
