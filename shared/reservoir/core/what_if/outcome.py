"""What a plan means for one demand: its places, their cost, what waits, and which other work is worse off."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes, UnplacedReplicas
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD


@dataclass(frozen=True, slots=True)
class PlannedPlace:
    """Replicas of one workload on new nodes of one offering, or on a node that is there (``claim_id``).

    ``node_count`` nodes hold them, each at ``price_micro_usd_per_hour`` (0 where it is reserved, and paid for anyway);
    they may hold others' replicas too.
    """

    workload_key: str
    replica_count: int
    node_pool_name: str = ""
    offering: OfferingKey | None = None
    claim_id: str | None = None
    node_count: int = 0
    price_micro_usd_per_hour: int = 0


@dataclass(frozen=True, slots=True)
class Displaced:
    """Replicas of a waiting workload that would have had a place, or a reserved unit, without the demand.

    ``waiting`` is why they wait then, None where they are bought instead.
    """

    workload_key: str
    replica_count: int
    reserved_count: int
    waiting: UnplacedReplicas | None = None


@dataclass(frozen=True, slots=True)
class DemandOutcome:
    """What would happen.

    ``added_micro_usd_per_hour`` is what EC2 would be paid for new nodes beside reservations, less what it would be
    paid without the demand.
    """

    places: tuple[PlannedPlace, ...]
    waiting: tuple[UnplacedReplicas, ...]
    displaced: tuple[Displaced, ...]
    added_micro_usd_per_hour: int
    notes: tuple[str, ...] = ()


def outcome_of(plan: Plan, without: Plan, keys: Collection[str]) -> DemandOutcome:
    """Return what ``plan`` does for the workloads ``keys``; ``without`` is the plan of the same world without them."""
    return DemandOutcome(
        places=_places(plan, keys),
        waiting=tuple(item for item in plan.unplaced if item.workload_key in keys),
        displaced=_displaced(without, plan, keys),
        added_micro_usd_per_hour=_paid(plan) - _paid(without),
        notes=plan.notes,
    )


def _paid(plan: Plan) -> int:
    return sum(_price(nodes) * nodes.count for nodes in plan.launches)


def _price(nodes: PlannedNodes) -> int:
    """Return what one node costs in micro-USD an hour; what orders reserved units inside a solve is no price."""
    is_reserved = nodes.offering.reservation_id is not None
    return 0 if is_reserved else nodes.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD


def _places(plan: Plan, keys: Collection[str]) -> tuple[PlannedPlace, ...]:
    found: dict[tuple[object, ...], PlannedPlace] = {}
    for nodes in plan.launches:
        for placed in nodes.placements:
            if placed.workload_key not in keys:
                continue
            about = (placed.workload_key, nodes.node_pool_name, nodes.offering)
            known = found.get(about)
            replicas, count = placed.count * nodes.count, nodes.count
            if known is not None:
                replicas, count = replicas + known.replica_count, count + known.node_count
            found[about] = PlannedPlace(
                placed.workload_key,
                replicas,
                nodes.node_pool_name,
                nodes.offering,
                None,
                count,
                _price(nodes),
            )
    existing: list[PlannedPlace] = []
    for node in plan.existing:
        for placed in node.placements:
            if placed.workload_key in keys:
                existing.append(
                    PlannedPlace(placed.workload_key, placed.count, claim_id=node.claim_id)
                )
    return tuple(sorted((*existing, *found.values()), key=_order))


def _order(place: PlannedPlace) -> tuple[str, int, str, str, str, str]:
    """Sort by workload, existing nodes first, then the cheapest first."""
    key = place.offering
    where = (
        ("", "", "")
        if key is None
        else (key.instance_type, key.zone, key.reservation_id or key.capacity_type)
    )
    return (
        place.workload_key,
        place.price_micro_usd_per_hour,
        *where,
        f"{place.claim_id} {place.node_pool_name}",
    )


def _displaced(without: Plan, plan: Plan, keys: Collection[str]) -> tuple[Displaced, ...]:
    before, after = _counts(without), _counts(plan)
    reasons = {item.workload_key: item for item in plan.unplaced}
    found = []
    for key in sorted(before.keys() - frozenset(keys)):
        (placed, reserved), (left, left_reserved) = before[key], after.get(key, (0, 0))
        if left < placed or left_reserved < reserved:
            waiting = reasons.get(key) if left < placed else None
            found.append(
                Displaced(
                    key, max(0, placed - left), max(0, reserved - left_reserved), waiting
                )
            )
    return tuple(found)


def _counts(plan: Plan) -> Mapping[str, tuple[int, int]]:
    """Return by workload how many replicas get a place, and how many of those a reserved unit of their own."""
    found: dict[str, tuple[int, int]] = {}
    for nodes in plan.launches:
        for placed in nodes.placements:
            count, reserved = found.get(placed.workload_key, (0, 0))
            more = placed.count * nodes.count
            is_reserved = nodes.offering.reservation_id is not None
            found[placed.workload_key] = (count + more, reserved + more * is_reserved)
    for node in plan.existing:
        for placed in node.placements:
            count, reserved = found.get(placed.workload_key, (0, 0))
            found[placed.workload_key] = (count + placed.count, reserved)
    return found
