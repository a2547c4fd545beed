"""Snapshots and plans as canonical JSON, so that any decision can be replayed, and plans as a table for people."""

from shared.core.model.plan import OfferingKey, Plan, UnplacedReplicas
from shared.core.model.snapshot import PlacedReplicas, Snapshot
from shared.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from shared.core.serialisation.json_codec import dumps, loads


def snapshot_to_json(snapshot: Snapshot) -> str:
    """Write a snapshot; equal snapshots give equal text."""
    return dumps(snapshot)


def snapshot_from_json(text: str) -> Snapshot:
    """Read a snapshot back.

    Raises
    ------
    CodecError
        The text does not have the form of a snapshot.
    """
    return loads(Snapshot, text)


def plan_to_json(plan: Plan) -> str:
    """Write a plan; equal plans give equal text."""
    return dumps(plan)


def plan_from_json(text: str) -> Plan:
    """Read a plan back.

    Raises
    ------
    CodecError
        The text does not have the form of a plan.
    """
    return loads(Plan, text)


def plan_table(plan: Plan) -> str:
    """Write a plan for people: one line a kind of node, then what waits and why."""
    rows = [("NODES", "WHAT", "WHERE", "POOL", "USD/h EACH", "REPLICAS")]
    rows += [
        (
            str(launch.count),
            launch.offering.instance_type,
            _where(launch.offering),
            launch.node_pool_name,
            _usd(launch.price_atto_usd_per_hour),
            _who(launch.placements),
        )
        for launch in plan.launches
    ]
    rows += [("-", "existing", item.claim_id, "", "", _who(item.placements)) for item in plan.existing]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]) for row in rows
    ]
    lines += [_waiting(item) for item in plan.unplaced]
    bound = plan.lower_bound_atto_usd_per_hour
    certificate = "no certificate" if bound is None else f"no plan costs less than {_usd(bound)}"
    lines.append(f"{_usd(plan.cost_atto_usd_per_hour)} USD an hour; {certificate}")
    return "\n".join([*lines, *plan.notes])


def _where(key: OfferingKey) -> str:
    return f"{key.reservation_id or key.capacity_type} in {key.zone}"


def _who(placements: tuple[PlacedReplicas, ...], shown: int = 3) -> str:
    told = ", ".join(f"{item.count} x {item.workload_key}" for item in placements[:shown])
    return told if len(placements) <= shown else f"{told} and {len(placements) - shown} more"


def _waiting(item: UnplacedReplicas) -> str:
    until = "" if item.earliest_at is None else f" (not before {item.earliest_at.isoformat()})"
    return f"waiting: {item.count} x {item.workload_key}: {item.code}: {item.message}{until}"


def _usd(atto_usd: int) -> str:
    micro_usd = atto_usd // ATTO_USD_PER_MICRO_USD
    return f"{micro_usd // 10**6}.{micro_usd % 10**6:06d}"
