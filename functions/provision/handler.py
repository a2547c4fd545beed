"""Planning queue -> plans. Every message of a batch asks for the same: one pass."""

from dataclasses import asdict
from typing import Any

from shared.runtime.composition.provision import provision
from shared.runtime.garbage import collection_paused
from shared.runtime.observability import count, logger, observed
from shared.runtime.wake_ups import WakeUps


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Run one planning pass; an error brings the wake-ups back."""
    wake_ups = WakeUps.of(event)
    with collection_paused():
        report = provision().run(wake_ups.workload_keys, indexes_lag=wake_ups.names_no_one)
    logger.info("planned", extra={**asdict(report), "wake_ups": len(event.get("Records", []))})
    count("ReplicasPlaced", report.placed_count)
    count("ReplicasPending", report.unplaced_count)
    count("NodeClaimsPlanned", report.claim_count)
    count("PlansLost", report.conflict_count)
    count("PlanShortcomings", len(report.shortcomings))
    count("ReplicasHeld", report.held_count)
    return {"batchItemFailures": []}
