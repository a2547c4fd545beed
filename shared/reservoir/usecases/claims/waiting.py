"""Why replicas wait, in the form that people and programs read."""

from reservoir.core.model.plan import UnplacedReplicas
from reservoir.manifests.answers.explanations import WaitingReplicas
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
