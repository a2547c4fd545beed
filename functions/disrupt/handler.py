"""Schedule -> one pass of voluntary disruption: emptiness, drift, consolidation."""

from typing import Any

from reservoir.runtime.composition.disrupt import disrupt
from reservoir.runtime.garbage import collection_paused
from reservoir.runtime.observability import count, logger, observed


@observed
def handler(_event: dict[str, Any], _context: Any) -> None:
    """Run one pass; a pass that fails is repeated by the next minute's."""
    with collection_paused():
        report = disrupt().run()
    logger.info(
        "disrupted",
        extra={**report.counts(), "ec2_refused_to_move_from": dict(report.moves_refused)},
    )
    for name, number in report.counts().items():
        count("".join(word.title() for word in name.split("_")), number)
