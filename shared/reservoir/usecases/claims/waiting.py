"""Why replicas wait, in the form that people and programs read."""

from reservoir.core.model.plan import UnplacedReplicas
from reservoir.manifests.answers.explanations import RolloutStatus, WaitingReplicas
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.claims.announce import offering_detail


def waiting(unplaced: UnplacedReplicas) -> WaitingReplicas:
    """Describe replicas that wait."""
    nearest = unplaced.nearest_offering
    return WaitingReplicas(
        replicas=unplaced.count,
        reason=unplaced.code,
        message=unplaced.message,
        nearest_offering=None if nearest is None else offering_detail(nearest),
        earliest_at=unplaced.earliest_at,
    )


def rollout_status(record: WorkloadRecord) -> RolloutStatus | None:
    """Describe how far an update is that replaces what runs; None where none does."""
    if record.rollout is None or not record.placed_count:
        return None
    return RolloutStatus(surge=record.surge_count, waits_for=record.rollout.waits_for)
