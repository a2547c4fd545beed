"""What the first launches lack into reservations that begin within a day."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from reservoir.core.launching.start_readiness import (
    KnownPolicy,
    Missing,
    is_near,
    missing,
)
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.ports.policy import PolicyKind, PolicyObject
from reservoir.ports.state import OfferingStore
from reservoir.usecases.policy.policy_objects import policy_of


def missing_for_starts(
    reservations: Iterable[CapacityReservation],
    objects: Sequence[PolicyObject],
    offerings: OfferingStore,
    now: datetime,
) -> Mapping[str, tuple[CapacityReservation, tuple[Missing, ...]]]:
    """Return the reservations that begin within a day, by id, each with what its first launch lacks.

    The catalogue is read only if there are any. Raises AwsError and UnreadableRowsError.
    """
    near = [each for each in reservations if is_near(each, now)]
    if not near:
        return {}
    types = {each.name: each for each in offerings.load_catalogue()}
    found = policy_of(objects)
    known = KnownPolicy(
        found.node_pools,
        found.node_classes,
        {
            stored.name: stored.status.conditions
            for stored in objects
            if stored.kind is PolicyKind.NODE_CLASS
        },
        [f"{kind}/{name}" for kind, name in sorted(found.unreadable)],
    )
    return {each.id: (each, missing(each, known, types)) for each in near}
