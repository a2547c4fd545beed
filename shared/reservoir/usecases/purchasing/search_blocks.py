"""Which Capacity Blocks to buy for waiting workloads: asks EC2 for offerings and makes the cheapest choice.

It writes nothing and buys nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    RECLAIM_LEAD,
    RECLAIM_LEAD_ULTRA_SERVER,
    RECLAIM_MARGIN,
    USUAL_NOTICE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType, is_ultra_server
from reservoir.core.model.workload import Workload
from reservoir.core.purchasing import block_rules
from reservoir.core.purchasing.block_search import (
    NEEDS_MAX,
    BlockChoice,
    BlockNeed,
    BlockSearch,
    BlockWindow,
)
from reservoir.core.purchasing.wide_block_search import WIDE_NEEDS_MAX, WideBlockSearch
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import micro_usd_of
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.sharing.reading_turns import ReadingTurns
from reservoir.ports.capacity_blocks import (
    BlockExtensionReader,
    BlockOffering,
    BlockOfferingReader,
)
from reservoir.ports.state import (
    OfferingStore,
    ReservationStore,
    WorkloadRecord,
    WorkloadStore,
)
from reservoir.ports.system import Clock

_DAY_HOURS: Final = 24
_HOUR: Final = timedelta(hours=1)
# EC2 answers ten questions about offerings at once, and then nine a minute.
_ASKED_AT_ONCE: Final = 10
_PAUSE_S: Final = 7.0


class SearchRefusedError(Exception):
    """The search cannot be made; the sentence is for the caller."""


class BlocksOnSale(BlockOfferingReader, BlockExtensionReader, Protocol):
    """Reads the blocks and extensions that are on sale."""


@dataclass(frozen=True, slots=True)
class OfferedBlock:
    """An offering, and the days that it was asked for. ``extends``: the reservation that it makes longer."""

    offering: BlockOffering
    days: int
    extends: str | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The choice, beside the best one that buys nothing. ``on_sale``: the offerings that were considered, by id.

    ``left_out``: waiting workloads that were not considered, with why. ``is_exact``: no choice is better.
    """

    choice: BlockChoice
    without_buying: BlockChoice
    needs: Mapping[str, BlockNeed]
    on_sale: Mapping[str, OfferedBlock]
    on_demand_micro_usd_per_hour: Mapping[str, int]
    left_out: Mapping[str, str]
    is_exact: bool

    def useful_unit_hours(self, window_id: str) -> Decimal:
        """Return how many hours of units the workloads in a window use."""
        hours = Decimal(0)
        for placed in self.choice.placed:
            if placed.window.id == window_id:
                need = self.needs[placed.key]
                hours += (
                    Decimal(need.duration / _HOUR) * need.units[placed.window.instance_type]
                )
        return hours


class _OwnedBlock(NamedTuple):
    """A block of the account, which ends."""

    facts: CapacityReservation
    end_at: datetime


@dataclass
class SearchBlocks:
    """The use case. ``waiting_micro_usd_per_unit_hour``: what it is worth that one unit's work waits an hour less."""

    workloads: WorkloadStore
    reservations: ReservationStore
    offerings: OfferingStore
    blocks: BlocksOnSale
    clock: Clock
    pause: Callable[[float], None]
    waiting_micro_usd_per_unit_hour: int = 0
    _types: Mapping[str, InstanceType] = field(default_factory=dict)

    def search(
        self, instance_types: Sequence[str], keys: Sequence[str] = ()
    ) -> SearchResult:
        """Search for these workloads, or for all that wait, on types that would do.

        Raises SearchRefusedError, UnreadableRowsError, AwsError.
        """
        self._load_types(instance_types)
        waiting, left_out = self._waiting(keys)
        now = self.clock.now()
        needs = {record.key: self._need(record, workload) for record, workload in waiting}
        # A block's window ends early enough for the workload that wants most notice.
        notices_s = [workload.checkpoint_period_s or 0 for _, workload in waiting]
        notice = timedelta(seconds=max(notices_s))

        owned = [block for block in self._owned() if block.end_at > now]
        offers = self._offers(needs.values(), notice)
        slots = [[_window(offer, notice)] for offer in offers]
        on_sale = {offer.offering.id: offer for offer in offers}
        for block in owned:
            extensions = self._extensions(block, needs.values(), now, notice)
            on_sale.update({each.offering.id: each for each in extensions})
            if block.facts.instance_type in self._types:
                window = _owned_window(block, notice)
                longer = [_longer(window, each, notice) for each in extensions]
                slots.append([window, *longer])

        zones = {key: sold.offering.zone for key, sold in on_sale.items()}
        zones |= {block.facts.id: block.facts.zone for block in owned}
        barred_needs = [
            replace(needs[record.key], barred=_barred(workload, zones))
            for record, workload in waiting
        ]
        is_exact = len(needs) <= NEEDS_MAX
        search_class = BlockSearch if is_exact else WideBlockSearch
        search = search_class(
            barred_needs,
            slots,
            now,
            self.waiting_micro_usd_per_unit_hour,
            [_owned_window(block, notice) for block in owned],
        )
        return SearchResult(
            search.best(),
            search.without_buying(),
            needs,
            on_sale,
            self._on_demand_prices(),
            left_out,
            is_exact=is_exact,
        )

    def _load_types(self, instance_types: Sequence[str]) -> None:
        found, _ = self.offerings.load_with_rests(instance_types)
        self._types = {each.name: each for each in found}
        unknown = [name for name in instance_types if name not in self._types]
        if unknown:
            raise SearchRefusedError(
                f"the catalogue has no type {unknown[0]}: reservoir get offerings"
            )

    def _on_demand_prices(self) -> dict[str, int]:
        """Return what each type costs on demand, in micro-USD an hour; without types that have no price."""
        found = {}
        for each in self._types.values():
            if each.on_demand_price_micro_usd_per_hour is not None:
                found[each.name] = each.on_demand_price_micro_usd_per_hour
        return found

    def _waiting(
        self, keys: Sequence[str]
    ) -> tuple[list[tuple[WorkloadRecord, Workload]], Mapping[str, str]]:
        """Return what waits and can be searched for, and why the rest cannot; whatever was named has to."""
        turns = ReadingTurns()
        if keys:
            found = self.workloads.get_many(keys)
            missing = [key for key in keys if key not in found]
            if missing:
                raise SearchRefusedError(f"there is no workload {missing[0]}")
            records = [found[key] for key in dict.fromkeys(keys)]
        else:
            read = self.workloads.read_waiting(
                lambda keys: turns.reading(keys, (), lambda: str)
            )
            records = [each for each in read if each.pending_count > 0]
        refused = {
            record.key: why
            for record in records
            if (why := self._refusal(record)) is not None
        }
        if keys and refused:
            key, why = next(iter(refused.items()))
            raise SearchRefusedError(f"{key} {why}")
        wanted = [
            (each, each.workload)
            for each in records
            if each.key not in refused and each.workload is not None
        ]
        if not wanted:
            raise SearchRefusedError(
                "; ".join(
                    ["no workload waits that a block could serve", *_reasons(refused)]
                )
            )
        waiting_count = len(wanted) + turns.unread_count
        if waiting_count > WIDE_NEEDS_MAX:
            raise SearchRefusedError(
                f"{waiting_count} workloads wait, and the search is about {WIDE_NEEDS_MAX} at most:"
                " name them with --for"
            )
        return wanted, refused

    def _refusal(self, record: WorkloadRecord) -> str | None:
        workload = record.workload
        if workload is None or record.pending_count <= 0:
            return "does not wait"
        if workload.duration_s is None:
            return "has no duration, so it is not known how long a block it needs"
        if not self._units(workload, record.pending_count):
            return f"cannot run on {' or '.join(self._types)}"
        return None

    def _units(self, workload: Workload, replicas: int) -> dict[str, int]:
        """Return how many units of each type hold so many replicas, without types that hold none."""
        found = {}
        for instance_type in self._types.values():
            replicas_per_unit = min(
                instance_type.allocatable[name] // requested
                for name, requested in workload.requests.items()
                if requested
            )
            may_be_reserved = any(
                _allows(term, labels.CAPACITY_TYPE, CapacityType.RESERVED)
                for term in _terms(workload)
                if instance_type.requirements.meets(term)
            )
            if replicas_per_unit > 0 and may_be_reserved:
                found[instance_type.name] = -(-replicas // replicas_per_unit)
        return found

    def _need(self, record: WorkloadRecord, workload: Workload) -> BlockNeed:
        duration_s = workload.duration_s or 0
        units = self._units(workload, record.pending_count)
        ladder = {step.capacity_type for step in workload.fallback}
        may_be_on_demand = (not ladder or CapacityType.ON_DEMAND in ladder) and any(
            _allows(term, labels.CAPACITY_TYPE, CapacityType.ON_DEMAND)
            for term in _terms(workload)
        )
        cost = None
        if may_be_on_demand:
            prices, cap = self._on_demand_prices(), workload.max_price_micro_usd_per_hour
            hourly = [units[name] * prices[name] for name in units if name in prices]
            within_cap = [each for each in hourly if cap is None or each <= cap]
            if within_cap:
                cost = -(-min(within_cap) * duration_s // 3600)
        return BlockNeed(record.key, units, timedelta(seconds=duration_s), cost)

    def _offers(self, needs: Iterable[BlockNeed], notice: timedelta) -> list[OfferedBlock]:
        """Ask for blocks for each workload and for several together, no faster than EC2 answers."""
        found: dict[str, OfferedBlock] = {}
        asked = 0
        for name in self._types:
            runnable = [each for each in needs if name in each.units]
            for count, days in sorted(_sizes(name, runnable, notice)):
                asked += 1
                if asked > _ASKED_AT_ONCE:
                    self.pause(_PAUSE_S)
                hours = _DAY_HOURS * days
                for offering in self.blocks.offerings(name, count=count, hours=hours):
                    found.setdefault(offering.id, OfferedBlock(_in_usd(offering), days))
        return list(found.values())

    def _extensions(
        self,
        owned: _OwnedBlock,
        needs: Iterable[BlockNeed],
        now: datetime,
        notice: timedelta,
    ) -> list[OfferedBlock]:
        """Ask for extensions after which a workload that begins now, or at the start, would fit."""
        block = owned.facts
        begin = max(now, block.start_at or now)
        wanted_days = set[int | None]()
        for need in needs:
            if 0 < need.units.get(block.instance_type, 0) <= _count(block):
                over_at = begin + need.duration + _lead(notice, is_ultra=block.ultra_server)
                missing = over_at - owned.end_at
                if missing > timedelta(0):
                    wanted_days.add(block_rules.sold_days(missing))
        found = []
        for days in sorted(each for each in wanted_days if each is not None):
            if block_rules.extension_refusal(block, days, now) is None:
                offered = self.blocks.extensions(block.id, hours=_DAY_HOURS * days)
                if offered:
                    found.append(OfferedBlock(_in_usd(offered[0]), days, block.id))
        return found

    def _owned(self) -> Iterator[_OwnedBlock]:
        for record in self.reservations.list_current():
            facts = record.reservation
            if facts.kind is ReservationKind.CAPACITY_BLOCK and facts.end_at is not None:
                yield _OwnedBlock(facts, facts.end_at)


def _terms(workload: Workload) -> list[Requirements]:
    return [
        workload.node_selector.merged(term) for term in workload.required_node_terms
    ] or [workload.node_selector]


def _allows(terms: Requirements, key: str, value: str) -> bool:
    wanted = terms.get(key)
    return wanted is None or wanted.has(value)


def _barred(workload: Workload, zones: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of what lies in zones that the workload does not want."""
    terms = _terms(workload)

    def is_wanted(zone: str) -> bool:
        return any(_allows(term, labels.ZONE, zone) for term in terms)

    return frozenset(name for name, zone in zones.items() if not is_wanted(zone))


def _sizes(
    name: str, needs: Sequence[BlockNeed], notice: timedelta
) -> set[tuple[int, int]]:
    """Return the sizes and days of blocks that would do for one of the needs, or for several of them together."""
    lead = _lead(notice, is_ultra=is_ultra_server(name))
    wanted = [(each.units[name], each.duration) for each in needs]
    for together in _together(needs):
        units = [each.units[name] for each in together]
        durations = [each.duration for each in together]
        one_after_the_other = (max(units), sum(durations, timedelta()))
        wanted.append(one_after_the_other)
        unit_times = [each.units[name] * each.duration for each in together]
        unit_time = sum(unit_times, timedelta())
        for size in block_rules.COUNTS:
            if max(units) <= size < 2 * sum(units):
                wanted.append((size, max(*durations, unit_time / size)))
    found = set()
    for least, length in wanted:
        count, days = block_rules.sold_count(least), block_rules.sold_days(length + lead)
        if count is not None and days is not None:
            found.add((count, days))
    return found


def _together(needs: Sequence[BlockNeed]) -> Iterator[Sequence[BlockNeed]]:
    """Yield all of them, and of many the longest half and quarter too: a block for these alone idles less."""
    longest_first = sorted(needs, key=lambda each: -each.duration)
    if needs:
        yield longest_first
    if len(needs) > NEEDS_MAX:
        yield longest_first[: len(needs) // 2]
        yield longest_first[: len(needs) // 4]


def _lead(notice: timedelta, *, is_ultra: bool) -> timedelta:
    """Return how long before a block ends the work in it has to be over: when its nodes begin to drain."""
    reclaim = RECLAIM_LEAD_ULTRA_SERVER if is_ultra else RECLAIM_LEAD
    return reclaim + RECLAIM_MARGIN + max(notice, USUAL_NOTICE)


def _window(sold: OfferedBlock, notice: timedelta) -> BlockWindow:
    offering = sold.offering
    return BlockWindow(
        offering.id,
        offering.instance_type,
        offering.count,
        offering.start_at,
        offering.end_at - _lead(notice, is_ultra=is_ultra_server(offering.instance_type)),
        _fee(offering),
        held_until=offering.end_at,
    )


def _owned_window(owned: _OwnedBlock, notice: timedelta) -> BlockWindow:
    block = owned.facts
    return BlockWindow(
        block.id,
        block.instance_type,
        _count(block),
        block.start_at or datetime.min.replace(tzinfo=UTC),
        owned.end_at - _lead(notice, is_ultra=block.ultra_server),
        size=block.size,
        held_until=owned.end_at,
    )


def _longer(owned: BlockWindow, extension: OfferedBlock, notice: timedelta) -> BlockWindow:
    """Return the window of a block with an extension of it: work runs on from one into the other."""
    sold = _window(extension, notice)
    return replace(
        owned,
        id=sold.id,
        end_at=sold.end_at,
        fee_micro_usd=sold.fee_micro_usd,
        held_until=sold.held_until,
        extends=owned.id,
    )


def _count(block: CapacityReservation) -> int:
    """Return the units that are free: now, or all of one that is to come."""
    return block.free_units if block.state == ACTIVE else block.size


def _fee(offering: BlockOffering) -> int:
    return micro_usd_of(Decimal(offering.fee))


def _in_usd(offering: BlockOffering) -> BlockOffering:
    if offering.currency != "USD":
        raise SearchRefusedError(
            f"{offering.id} is sold in {offering.currency}, and on-demand prices are in USD"
        )
    return offering


def _reasons(refused: Mapping[str, str]) -> list[str]:
    return [f"{key} {why}" for key, why in refused.items()]
