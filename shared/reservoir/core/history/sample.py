"""What there was at an instant: units of reservations, nodes, and waiting workloads."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim, parts_of
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, split

# a reason for waiting beside those of plans: no plan has considered the workload yet
UNPLANNED: Final = "NotPlannedYet"
MILLI_UNITS: Final = 1000  # of one unit


@dataclass(frozen=True, slots=True)
class ReservationSample:
    """One reservation: ``total_count`` = ours + others' + free while it is active; before and after, nobody's.

    ``micro_usd_per_hour`` is what one unit would cost on demand, None while no price is known.

    The owners of our units and of free ones are given in thousandths of units, which add up to ``ours_count`` and
    ``free_count``; samples of earlier releases do not have them.
    """

    id: str
    instance_type: str
    zone: str
    kind: ReservationKind
    state: str
    total_count: int
    ours_count: int
    others_count: int
    free_count: int
    micro_usd_per_hour: int | None = None
    end_at: datetime | None = None
    drain_at: datetime | None = None
    stale: bool = False
    # by namespace, as accounts share an instance; the empty one: nothing is on them
    ours_milli_units: Mapping[str, int] = field(default_factory=dict)
    # by the team that owns them by its quotas; the empty name: no team does
    free_milli_units: Mapping[str, int] = field(default_factory=dict)
    owner_id: str = ""  # the account; empty in samples of earlier releases
    # the account that pays for free units, where the owner has assigned their bill to another
    unused_billing_owner_id: str | None = None

    @property
    def unused_payer_id(self) -> str:
        """The account that pays for free units; empty where no sample has it."""
        return self.unused_billing_owner_id or self.owner_id

    @property
    def idle_micro_usd_per_hour(self) -> int | None:
        """What its free units would cost on demand."""
        if self.micro_usd_per_hour is None:
            return None
        return self.free_count * self.micro_usd_per_hour


@dataclass(frozen=True, slots=True)
class MarketSample:
    """The nodes of one market. ``avoided``: what they would cost on demand beyond that, None without a price."""

    capacity_type: CapacityType
    node_count: int
    micro_usd_per_hour: int
    avoided_micro_usd_per_hour: int | None = None


@dataclass(frozen=True, slots=True)
class WaitingSample:
    """Replicas that wait for one reason, or for none that is known yet (``UNPLANNED``)."""

    reason: str
    replica_count: int
    workload_count: int
    since: datetime | None = None  # the one that has waited longest


@dataclass(frozen=True, slots=True)
class BoughtSample:
    """Capacity that was bought beside reservations for a workload; a shared node's price is divided as in accounts."""

    workload_key: str
    node_count: int
    micro_usd_per_hour: int
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True)
class TeamSample:
    """What one team owns of reservations by its quotas, uses of them, has bought, and waits for."""

    name: str
    owned_count: int
    used_count: int
    micro_usd_per_hour: int
    waiting_replica_count: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All of it; ``bought`` is sorted by price, the highest first.

    ``unread_count``: workloads that wait and were not read; of each, one replica is counted as ``UNPLANNED``.
    """

    taken_at: datetime
    reservations: tuple[ReservationSample, ...] = ()
    markets: tuple[MarketSample, ...] = ()
    waiting: tuple[WaitingSample, ...] = ()
    bought: tuple[BoughtSample, ...] = ()
    teams: tuple[TeamSample, ...] = ()
    unread_count: int = 0


@dataclass(frozen=True, slots=True)
class PendingForReason:
    """Replicas of one workload that wait for one reason."""

    workload_key: str
    replica_count: int
    reason: str
    since: datetime | None


def measure(
    taken_at: datetime,
    reservations: Sequence[CapacityReservation],
    claims: Sequence[NodeClaim],
    waiting: Sequence[PendingForReason],
    prices: Mapping[str, int],
) -> Sample:
    """Count what there is.

    Parameters
    ----------
    claims
        The live ones.
    prices
        Micro-USD an hour on demand, by instance type, as far as known.
    """
    launched = [claim for claim in claims if claim.launched_at is not None]
    return Sample(
        taken_at,
        tuple(
            _reservation(it, claims, prices)
            for it in sorted(reservations, key=lambda it: it.id)
        ),
        tuple(_markets(launched, prices)),
        tuple(_waiting(waiting)),
        tuple(_bought(launched)),
    )


def price_of(claim: NodeClaim) -> int:
    """Return what a node costs beside reservations, in micro-USD an hour: 0 in one, which is paid for anyway."""
    if claim.offering.capacity_type is CapacityType.RESERVED:
        return 0
    return claim.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD


def _reservation(
    reservation: CapacityReservation, claims: Sequence[NodeClaim], prices: Mapping[str, int]
) -> ReservationSample:
    in_it = [
        claim
        for claim in claims
        if claim.offering.reservation_id == reservation.id and not claim.waits_for_slot
    ]
    on_it = [claim for claim in in_it if not claim.is_warm]  # a warm node's unit is free
    ours = len(on_it)
    # A unit whose instance has ended counts as others' until EC2 shows it as available.
    others = reservation.units_of_others(len(in_it)) if reservation.state == ACTIVE else 0
    # A reservation that is billed and takes no launches is idle too, and costs the same.
    free = max(0, reservation.total_count - ours - others) if reservation.is_billed else 0
    return ReservationSample(
        id=reservation.id,
        instance_type=reservation.instance_type,
        zone=reservation.zone,
        kind=reservation.kind,
        state=reservation.state,
        total_count=reservation.total_count,
        ours_count=ours,
        others_count=others,
        free_count=free,
        micro_usd_per_hour=prices.get(reservation.instance_type),
        end_at=reservation.end_at,
        drain_at=reservation.drain_at(),
        stale=reservation.stale,
        ours_milli_units=_by_namespace(on_it),
        owner_id=reservation.owner_id,
        unused_billing_owner_id=reservation.unused_billing_owner_id,
    )


def _by_namespace(claims: Sequence[NodeClaim]) -> Mapping[str, int]:
    """Return the units of claims by namespace, in thousandths, divided as accounts divide an instance."""
    found: Counter[str] = Counter()
    for claim in claims:
        parts = parts_of(claim, claim.placements) or [("", 1)]
        namespaces = [key.partition("/")[0] for key, _ in parts]
        shares = split(MILLI_UNITS, [part for _, part in parts])
        for namespace, share in zip(namespaces, shares, strict=True):
            found[namespace] += share
    return dict(sorted(found.items()))


def _markets(
    launched: Sequence[NodeClaim], prices: Mapping[str, int]
) -> Iterator[MarketSample]:
    for capacity_type in CapacityType:
        nodes = [
            claim for claim in launched if claim.offering.capacity_type is capacity_type
        ]
        paid = sum(map(price_of, nodes))
        known = [
            prices[it.offering.instance_type]
            for it in nodes
            if it.offering.instance_type in prices
        ]
        avoided = sum(known) - paid if len(known) == len(nodes) else None
        yield MarketSample(capacity_type, len(nodes), paid, avoided)


def _waiting(waiting: Sequence[PendingForReason]) -> Iterator[WaitingSample]:
    by_reason: dict[str, list[PendingForReason]] = {}
    for each in waiting:
        by_reason.setdefault(each.reason, []).append(each)
    for reason, group in sorted(by_reason.items()):
        since = min((each.since for each in group if each.since is not None), default=None)
        workloads = {each.workload_key for each in group}
        yield WaitingSample(
            reason, sum(each.replica_count for each in group), len(workloads), since
        )


def _bought(launched: Sequence[NodeClaim]) -> Iterator[BoughtSample]:
    nodes: dict[str, int] = {}
    paid: dict[str, int] = {}
    correlation_ids: dict[str, str] = {}
    for claim in launched:
        price, parts = price_of(claim), parts_of(claim, claim.placements)
        if claim.offering.capacity_type is CapacityType.RESERVED or not parts:
            continue
        correlation_ids |= claim.correlation_ids
        everything = sum(part for _, part in parts)
        for placed in claim.placements:
            nodes[placed.workload_key] = nodes.get(placed.workload_key, 0) + 1
        for key, part in parts:
            paid[key] = paid.get(key, 0) + price * part // everything
    for key in sorted(paid, key=lambda key: (-paid[key], key)):
        yield BoughtSample(key, nodes[key], paid[key], correlation_ids.get(key))
