"""Read what some days cost, from the accounts, the samples and the book of purchases."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reservoir.cli.report.focus import (
    Place,
    Row,
    rows_of_fees,
    rows_of_instances,
    rows_of_reservations,
)
from reservoir.cli.report.money import Days
from reservoir.core.history.reserved_use import Fee, HourOfUnits, hours_of_units
from reservoir.core.history.sample import Sample
from reservoir.core.history.seen import LONGEST_GAP, held, seconds_between, seen_by_id
from reservoir.core.model.team import by_namespace
from reservoir.core.purchasing.purchase import Purchase, PurchaseState
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, split
from reservoir.core.sharing.accounts import owners
from reservoir.runtime.outside import Outside
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.policy.team_spending import spent_between


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of whole days, as rows by day, and what is missing from them because it is not known."""

    rows: Mapping[str, Sequence[Row]]  # by 2026-01-31; each day has some, if none
    known_percent: int  # of the time, by samples of reservations
    without_price: tuple[str, ...]  # reservations


def read_costs(outside: Outside, days: Days) -> Costs:
    """Return what days that are over cost."""
    now, teams = outside.clock.now(), policy_of(outside.policy.list_all()).teams
    lines = spent_between(outside.accounts, days.first, days.last, now, owners(teams))
    fees = list(fees_of(outside.purchases.list_all()))
    # what held when the first day began, and until when the last sample of the last day did
    around = (days.since - LONGEST_GAP, min(now, days.until + LONGEST_GAP))
    samples = list(held(list(outside.history.samples(*around)), around[1]))
    hours = [*_hours(samples, around[1], fees, days)]
    settings = outside.settings
    place = Place(settings.deployment, settings.account_id, settings.region)
    namespaces = {name: team.name for name, team in by_namespace(teams).items()}
    rows: dict[str, list[Row]] = {}
    for number in range(days.count):
        rows[(days.first + timedelta(days=number)).isoformat()] = []
    for day, row in (
        *rows_of_instances(place, lines),
        *rows_of_reservations(place, hours, namespaces),
        *rows_of_fees(place, fees),
    ):
        if day.isoformat() in rows:
            rows[day.isoformat()].append(row)
    unknown = {hour.reservation_id for hour in hours if hour.atto_usd is None}
    known_s = sum(_within(days, sample.taken_at, seconds) for sample, seconds in samples)
    return Costs(
        rows,
        100 * known_s // max(1, seconds_between(days.since, days.until)),
        tuple(sorted(unknown)),
    )


def fees_of(purchases: Iterable[Purchase]) -> Iterator[Fee]:
    """Yield the fees that were paid at once for each reservation: for a block, and for each extension of it."""
    for purchase in purchases:
        order, ids = purchase.order, purchase.reservation_ids
        if order.change is not None or purchase.state is not PurchaseState.BOUGHT:
            continue
        whole = order.fee_micro_usd * ATTO_USD_PER_MICRO_USD
        parts = split(whole, [1] * len(ids)) if ids else ()
        for name, part in zip(ids, parts, strict=True):
            yield Fee(name, purchase.intended_at, order.start_at, order.end_at, part)


def _hours(
    samples: Sequence[tuple[Sample, int]],
    until: datetime,
    fees: Sequence[Fee],
    days: Days,
) -> Iterator[HourOfUnits]:
    for name, seen in sorted(seen_by_id(samples, until).items()):
        paid = [fee for fee in fees if fee.reservation_id == name]
        yield from hours_of_units(seen, paid, days.since, days.until)


def _within(days: Days, at: datetime, seconds: int) -> int:
    """Return how much of what began at an instant is in the days."""
    until = at + timedelta(seconds=seconds)
    return seconds_between(max(at, days.since), min(until, days.until))
