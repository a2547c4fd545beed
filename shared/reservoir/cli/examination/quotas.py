"""Whether EC2's quotas let the pools launch what they may.

EC2 counts vCPUs, by group of families and market. An On-Demand Capacity Reservation counts with all of its units from
its start, used or not; a Capacity Block does not count.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.stack.connection import Connection
from reservoir.core.capacity.unavailable_offerings import Market, quota_group
from reservoir.core.model.capacity_reservation import ACTIVE, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE

# Service Quotas' codes. Spot counts P5 apart from older P in some accounts: the larger quota counts here.
CODES: Final[Mapping[CapacityType, Mapping[str, Sequence[str]]]] = {
    CapacityType.ON_DEMAND: {
        "Standard": ["L-1216C47A"],
        "G and VT": ["L-DB2E81BA"],
        "P": ["L-417A185B"],
        "INF": ["L-1945791B"],
        "TRN": ["L-2C3B7624"],
        "DL": ["L-6E869C2A"],
        "F": ["L-74FC7D96"],
        "X": ["L-7295265B"],
        "U": ["L-43DA4232"],
        "HPC": ["L-F7808C92"],
    },
    CapacityType.SPOT: {
        "Standard": ["L-34B43A08"],
        "G and VT": ["L-3819A6DF"],
        "P": ["L-7212CCBC", "L-C4BD4855"],
        "INF": ["L-B5D1601B"],
        "TRN": ["L-6B0D517C"],
        "DL": ["L-85EED4F7"],
        "F": ["L-88CF9481"],
        "X": ["L-E3A00192"],
    },
}
_NEARLY_PERCENT: Final = 80
_MILLI: Final = 1_000


def quotas(stack: Connection) -> Iterator[Finding]:
    """Yield quotas that let a pool launch nothing of a group, or that are nearly used up."""
    snapshot = stack.snapshots.gather(stack.outside.clock.now()).snapshot
    used = _used_vcpus(snapshot)
    client = stack.client("service-quotas")
    for market, smallest in sorted(
        _smallest(snapshot).items(), key=lambda item: str(item[0])
    ):
        limit = limit_of(client, CODES[market.capacity_type].get(market.quota_group, ()))
        if limit is not None:
            yield from _judged(market, smallest, limit[0], used.get(market, 0), limit[1])


def limit_of(client: Any, codes: Sequence[str]) -> tuple[int, str] | None:
    """Return the largest of some quotas, with its code; None where the account has none of them."""
    limits = {}
    for code in codes:
        try:
            found = client.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
        except client.exceptions.NoSuchResourceException:
            continue  # this region, or this account, counts otherwise
        limits[code] = int(found["Value"])
    if not limits:
        return None
    largest = max(limits, key=lambda each: limits[each])
    return limits[largest], largest


def _judged(
    market: Market, smallest: InstanceType, limit: int, used: int, code: str
) -> Iterator[Finding]:
    what = f"the quota of {market.quota_group} instances on {market.capacity_type.value} is {limit} vCPUs"
    advice = f"ask for more: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code}"
    if limit < _vcpus(smallest):
        message = f"{what}: not even one {smallest.name} ({_vcpus(smallest)}) can be launched, as pools allow"
        yield Finding(Severity.WARNING, "quotas", message, advice)
    elif used * 100 >= limit * _NEARLY_PERCENT:
        message = f"{what}, of which known nodes use {used}"
        yield Finding(Severity.WARNING, "quotas", message, advice)


def _smallest(snapshot: Snapshot) -> dict[Market, InstanceType]:
    """Return the smallest type that some pool may launch, of each group that is counted on a market."""
    found: dict[Market, InstanceType] = {}
    for pool in snapshot.node_pools:
        for each in snapshot.instance_types:
            if pool.requirements.intersects(each.requirements) is not None:
                continue
            for capacity_type in {offering.capacity_type for offering in each.offerings}:
                market = Market(capacity_type, quota_group(each.name))
                if pool.requirements[CAPACITY_TYPE].has(capacity_type.value):
                    found[market] = min(
                        found.get(market, each), each, key=lambda it: (_vcpus(it), it.name)
                    )
    return found


def _used_vcpus(snapshot: Snapshot) -> dict[Market, int]:
    types = {each.name: each for each in snapshot.instance_types}
    counted = [(node.capacity_type, node.instance_type, 1) for node in snapshot.nodes]
    counted += [
        (CapacityType.ON_DEMAND, each.instance_type, each.total_count)
        for each in snapshot.reservations
        if each.state == ACTIVE and each.kind is not ReservationKind.CAPACITY_BLOCK
    ]
    used: dict[Market, int] = {}
    for capacity_type, name, count in counted:
        if name in types and capacity_type is not CapacityType.RESERVED:
            market = Market(capacity_type, quota_group(name))
            used[market] = used.get(market, 0) + count * _vcpus(types[name])
    return used


def _vcpus(instance_type: InstanceType) -> int:
    return instance_type.capacity["cpu"] // _MILLI
