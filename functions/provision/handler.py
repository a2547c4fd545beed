"""Planning queue -> plans. Every message of a batch asks for the same: one pass."""

from dataclasses import asdict
from typing import Any, Final

from reservoir.runtime.composition.provision import provision
from reservoir.runtime.garbage import collection_paused
from reservoir.runtime.observability import about, amount, count, logger, observed
from reservoir.runtime.wake_ups import woken_by
from reservoir.usecases.provisioning.share_demand import Woken

_NAMED_MAX: Final = 50  # workloads in a line of the log


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Run one planning pass; an error brings the wake-ups back."""
    woken = woken_by(event)
    with collection_paused():
        report = provision().run(woken)
    about(report.correlation_ids)
    logger.info("planned", extra={**asdict(report), **_told(event, woken)})
    amount("PlanTime", report.solve_s)
    amount("PlanGap", report.gap_percent)
    count("ReplicasPlaced", report.placed_count)
    count("ReplicasPending", report.unplaced_count)
    count("NodeClaimsPlanned", report.claim_count)
    count("PlansLost", report.conflict_count)
    count("PlanShortcomings", len(report.shortcomings))
    count("ReplicasHeld", report.held_count)
    count("WorkloadsUnread", report.unread_count)
    return {"batchItemFailures": []}


def _told(event: dict[str, Any], woken: Woken) -> dict[str, Any]:
    """Return who a pass was made for, as far as a line should be long."""
    named = {
        "workloads": sorted(woken.workload_keys)[:_NAMED_MAX],
        "groups": sorted(woken.group_keys),
    }
    return {"wake_ups": len(event.get("Records", [])), **named}
