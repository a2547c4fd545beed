"""Who used the units of each reservation, hour by hour, and what they cost.

In every hour, the parts of a reservation add up to its units for as long as there are samples of it. Units cost the
on-demand price of their type whether or not they are used, as EC2 bills them. Those of a Capacity Block were paid for
at once: each second has its part of the fee.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.history.sample import MILLI_UNITS, ReservationSample
from reservoir.core.history.seen import Seen, seconds_between
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, split

_HOUR: Final = timedelta(hours=1)
_HOUR_S: Final = 3600


class UnitState(StrEnum):
    """How a unit is used."""

    OURS = "ours"
    OTHERS = "others"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class HourOfUnits:
    """Units of one reservation in one hour that were used in one way, in thousandths of a unit times seconds.

    ``whose`` is the namespace of the work on them, or the team that owns them while they are free; empty: of no team,
    or not known. ``atto_usd`` is None where the price is not known. ``charged_id`` is the account that pays for free
    units and for those of a Capacity Block; empty: of other units, and where no sample has it.
    """

    reservation_id: str
    instance_type: str
    zone: str
    kind: ReservationKind
    hour: datetime
    state: UnitState
    whose: str
    milli_unit_s: int
    atto_usd: int | None
    charged_id: str = ""


@dataclass(frozen=True, slots=True)
class Fee:
    """A fee that was paid at once, at ``paid_at``, for a reservation from one instant to another."""

    reservation_id: str
    paid_at: datetime
    start_at: datetime
    end_at: datetime
    atto_usd: int

    def part(self, since: datetime, until: datetime) -> int:
        """Return the part of some time; the parts of all time add up to the fee."""
        return self._until(until) - self._until(since)

    def seconds(self, since: datetime, until: datetime) -> int:
        """Return for how much of some time it was paid."""
        return seconds_between(max(since, self.start_at), min(until, self.end_at))

    def _until(self, at: datetime) -> int:
        length_s = max(1, seconds_between(self.start_at, self.end_at))
        passed_s = min(length_s, seconds_between(self.start_at, at))
        return self.atto_usd * passed_s // length_s


def hours_of_units(
    seen: Sequence[Seen], fees: Sequence[Fee], since: datetime, until: datetime
) -> Sequence[HourOfUnits]:
    """Return how the units of one reservation were used between two instants, by hour.

    Parameters
    ----------
    seen
        The reservation in samples, from ``seen_by_id``.
    fees
        The fees that were paid for it at once; only a Capacity Block has any.
    """
    totals: Counter[_Key] = Counter()
    costs: dict[_Key, int | None] = {}
    for each in seen:
        for start, end in _pieces(each, since, until):
            hour = start.replace(minute=0, second=0)
            units = _units(each.what)
            spent = _spent(each.what, units, fees, start, end)
            for (state, whose), count in units.items():
                key = (hour, state, whose, _charged(each.what, state))
                totals[key] += count * seconds_between(start, end)
                more, before = spent[state, whose], costs.get(key, 0)
                costs[key] = None if more is None or before is None else before + more
    if not totals:
        return ()
    last = seen[-1].what
    return [
        HourOfUnits(
            reservation_id=last.id,
            instance_type=last.instance_type,
            zone=last.zone,
            kind=last.kind,
            hour=hour,
            state=state,
            whose=whose,
            milli_unit_s=totals[hour, state, whose, charged_id],
            atto_usd=costs[hour, state, whose, charged_id],
            charged_id=charged_id,
        )
        for hour, state, whose, charged_id in sorted(totals)
    ]


_Key = tuple[datetime, UnitState, str, str]
_Units = Mapping[tuple[UnitState, str], int]


def _charged(found: ReservationSample, state: UnitState) -> str:
    """Return the account that pays for units of the reservation itself; who runs an instance in one pays for that."""
    is_block = found.kind is ReservationKind.CAPACITY_BLOCK
    return found.unused_payer_id if is_block or state is UnitState.FREE else ""


def _pieces(
    seen: Seen, since: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the time for which it is known to have been so, cut at full hours."""
    if not seen.known:
        return
    start, end = (_second(at) for at in (max(since, seen.at), min(until, seen.ends_at)))
    while start < end:
        full = start.replace(minute=0, second=0) + _HOUR
        yield start, min(full, end)
        start = full


def _units(found: ReservationSample) -> _Units:
    """Return its units by how they are used, in thousandths."""
    units: dict[tuple[UnitState, str], int] = {}
    whose: tuple[tuple[UnitState, int, Mapping[str, int]], ...] = (
        (UnitState.OURS, found.ours_count, found.ours_milli_units),
        (UnitState.OTHERS, found.others_count, {}),
        (UnitState.FREE, found.free_count, found.free_milli_units),
    )
    for state, count, by_name in whose:
        untold = count * MILLI_UNITS - sum(by_name.values())
        parts = Counter(by_name) + Counter({"": untold})
        units |= {(state, name): part for name, part in parts.items()}
    return units


def _spent(
    found: ReservationSample,
    units: _Units,
    fees: Sequence[Fee],
    start: datetime,
    end: datetime,
) -> Mapping[tuple[UnitState, str], int | None]:
    if not units:
        return {}
    if found.kind is ReservationKind.CAPACITY_BLOCK:
        if sum(fee.seconds(start, end) for fee in fees) < seconds_between(start, end):
            return dict.fromkeys(units)
        whole = sum(fee.part(start, end) for fee in fees)
        return dict(zip(units, split(whole, units.values()), strict=True))
    price = found.micro_usd_per_hour
    if price is None:
        return dict.fromkeys(units)
    atto_usd_per_hour = price * ATTO_USD_PER_MICRO_USD
    seconds = seconds_between(start, end)
    return {
        key: count * seconds * atto_usd_per_hour // (MILLI_UNITS * _HOUR_S)
        for key, count in units.items()
    }


def _second(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(microsecond=0)
