"""The catalogue without what EC2 is known to be short of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from shared.core.instance_type import InstanceType, Offering
from shared.core.plan import OfferingKey


def with_shortages(
    instance_types: Sequence[InstanceType], shortages: Mapping[OfferingKey, datetime]
) -> tuple[InstanceType, ...]:
    """Return the types with ``unavailable_until`` set on the offerings that ``shortages`` name.

    Shortages of reservations are left out: a reservation that EC2 refused counts as exhausted instead.
    """
    by_type: dict[str, dict[tuple[str, str], datetime]] = {}
    for key, until in shortages.items():
        if key.reservation_id is None:
            by_type.setdefault(key.instance_type, {})[(key.zone_id, key.capacity_type)] = until
    return tuple(
        _marked(instance_type, by_type[instance_type.name]) if instance_type.name in by_type else instance_type
        for instance_type in instance_types
    )


def _marked(instance_type: InstanceType, until: Mapping[tuple[str, str], datetime]) -> InstanceType:
    def marked(offering: Offering) -> Offering:
        shortage = until.get((offering.zone_id, offering.capacity_type))
        return offering if shortage is None else replace(offering, unavailable_until=shortage)

    return replace(instance_type, offerings=tuple(marked(offering) for offering in instance_type.offerings))
