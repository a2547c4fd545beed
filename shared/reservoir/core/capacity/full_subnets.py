"""Subnets that have run out of addresses: each rests by itself, a zone when all of its subnets do (R-134)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.unavailable_offerings import Place, SubnetKey, Unavailable
from reservoir.core.model.node_class import NodeClassStatus, Subnet

# EC2's count is read every minute; a count of no free addresses is used until the next one.
_COUNT_AGE: Final = timedelta(minutes=1)


def with_full_zones(
    status: NodeClassStatus, rests: Mapping[Place, Unavailable], now: datetime
) -> NodeClassStatus:
    """Return the status with the zones in which no subnet has an address left, as far as is known."""
    full_until: dict[str, datetime] = {}
    with_room: set[str] = set()
    for subnet in status.subnets:
        until = _full_until(subnet, rests, now)
        if until is None:
            with_room.add(subnet.zone_id)
        else:
            # The zone has room again as soon as the first of its subnets has.
            full_until[subnet.zone_id] = min(until, full_until.get(subnet.zone_id, until))
    full = {
        zone_id: until for zone_id, until in full_until.items() if zone_id not in with_room
    }
    return replace(status, zones_full_until=full) if full else status


def _full_until(
    subnet: Subnet, rests: Mapping[Place, Unavailable], now: datetime
) -> datetime | None:
    rest = rests.get(SubnetKey(subnet.id))
    if rest is not None:
        return rest.until
    return now + _COUNT_AGE if subnet.available_ip_count <= 0 else None
