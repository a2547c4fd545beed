"""Planning queue -> plans. Every message of a batch asks for the same: one pass."""

from dataclasses import asdict
from typing import Any

from shared.runtime.composition.provision import provision
from shared.runtime.garbage import collection_paused
from shared.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Run one planning pass; an error brings the wake-ups back."""
    with collection_paused():
        report = provision().run()
    logger.info("planned", extra={**asdict(report), "wake_ups": len(event.get("Records", []))})
    count("ReplicasPlaced", report.placed_count)
    count("ReplicasPending", report.unplaced_count)
    count("NodeClaimsPlanned", report.claim_count)
    count("PlansLost", report.conflict_count)
    count("PlanShortcomings", len(report.shortcomings))
    count("ReplicasHeld", report.held_count)
    return {"batchItemFailures": []}
