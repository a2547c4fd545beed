"""Costs as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification, which AWS exports bills in too.

Amounts have as many digits as they need: the sum of rows is exact to the last digit.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from typing import Final

from reservoir.core.history.reserved_use import Fee, HourOfUnits, UnitState
from reservoir.core.history.sample import MILLI_UNITS
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.sharing.accounts import AccountLine, Amount

Row = Mapping[str, str]

# Savings Plans and Reserved Instances are not known here, and so empty.
_OF_COMMITMENTS: Final = (
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
)
# Columns of ours come last and begin with x_, as the specification asks.
COLUMNS: Final = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    *_OF_COMMITMENTS,
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_CapacityType",
    "x_Deployment",
    "x_Namespace",
    "x_Team",
    "x_UnitState",
)
_ATTO_USD_PER_USD: Final = 10**18
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Place:
    """Where costs arise."""

    deployment: str
    account_id: str
    region: str


def rows_of_instances(
    place: Place, lines: Mapping[AccountLine, Amount]
) -> Iterator[tuple[date, Row]]:
    """Yield a row for each day, namespace and market beside reservations, with what the meter has of it."""
    for line in sorted(
        lines, key=lambda it: (it.day, it.team, it.namespace, it.capacity_type)
    ):
        amount = lines[line]
        if line.capacity_type is CapacityType.RESERVED or amount == Amount():
            continue
        day = date.fromisoformat(line.day)
        is_spot = line.capacity_type is CapacityType.SPOT
        yield (
            day,
            {
                **_common(place, _midnight(day), timedelta(days=1)),
                **_usage(amount.seconds, _HOUR_S, amount.atto_usd),
                "BilledCost": _decimal(amount.atto_usd, _ATTO_USD_PER_USD),
                "SubAccountId": place.account_id,
                "ChargeDescription": f"EC2 instances, {line.capacity_type.value}",
                "PricingCategory": "Dynamic" if is_spot else "Standard",
                "SkuId": "instances",
                "SkuPriceId": f"instances/{line.capacity_type.value}",
                "x_CapacityType": line.capacity_type.value,
                "x_Namespace": line.namespace,
                "x_Team": line.team,
            },
        )


def rows_of_reservations(
    place: Place, hours: Iterable[HourOfUnits], team_of: Mapping[str, str]
) -> Iterator[tuple[date, Row]]:
    """Yield a row for each hour of units whose price is known.

    Parameters
    ----------
    team_of
        The team of each namespace that has one: a team is charged for the units that it uses, borrowed ones too.
    """
    for hour in hours:
        if hour.atto_usd is None:
            continue
        is_free = hour.state is UnitState.FREE
        is_block = hour.kind is ReservationKind.CAPACITY_BLOCK
        yield (
            hour.hour.date(),
            {
                **_common(place, hour.hour, timedelta(hours=1)),
                **_usage(hour.milli_unit_s, MILLI_UNITS * _HOUR_S, hour.atto_usd),
                # a block was billed when it was bought
                "BilledCost": "0"
                if is_block
                else _decimal(hour.atto_usd, _ATTO_USD_PER_USD),
                "AvailabilityZone": hour.zone,
                "CapacityReservationId": hour.reservation_id,
                "CapacityReservationStatus": "Unused" if is_free else "Used",
                "ChargeDescription": f"{hour.instance_type} in {hour.reservation_id}, {hour.state.value}",
                "PricingCategory": "Dynamic" if is_block else "Standard",
                "ResourceId": hour.reservation_id,
                "ResourceType": "Capacity Reservation",
                "SubAccountId": _charged(place, hour),
                "SkuId": hour.instance_type,
                "SkuPriceId": f"{hour.instance_type}/{hour.reservation_id}"
                if is_block
                else f"{hour.instance_type}/on-demand",
                "x_CapacityType": CapacityType.RESERVED.value,
                "x_Namespace": "" if is_free else hour.whose,
                "x_Team": hour.whose if is_free else team_of.get(hour.whose, ""),
                "x_UnitState": hour.state.value,
            },
        )


def _charged(place: Place, hour: HourOfUnits) -> str:
    """Return the account that AWS charges for units; empty where that is not known.

    Who runs instances in a reservation pays for these. What nobody uses is paid by the owner, or by the account to
    which the owner has assigned that bill, and a Capacity Block by its owner
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/assign-billing.html). EC2 does not say which account the
    instances of others belong to.
    """
    if hour.kind is ReservationKind.CAPACITY_BLOCK or hour.state is UnitState.FREE:
        return hour.charged_id
    return place.account_id if hour.state is UnitState.OURS else ""


def rows_of_fees(place: Place, fees: Iterable[Fee]) -> Iterator[tuple[date, Row]]:
    """Yield a row for each purchase of a Capacity Block or its extension, on the day on which it was made."""
    for fee in fees:
        day = fee.paid_at.astimezone(UTC).date()
        cost = _decimal(fee.atto_usd, _ATTO_USD_PER_USD)
        yield (
            day,
            {
                **_common(place, _midnight(day), timedelta(days=1)),
                "BilledCost": cost,
                "SubAccountId": place.account_id,
                "CapacityReservationId": fee.reservation_id,
                "ChargeCategory": "Purchase",
                "ChargeDescription": f"Capacity Block {fee.reservation_id}, paid at once",
                "ChargeFrequency": "One-Time",
                "ContractedCost": cost,
                "ContractedUnitPrice": cost,
                "EffectiveCost": "0",  # it is in the hours of the block
                "ListCost": cost,
                "ListUnitPrice": cost,
                "PricingCategory": "Dynamic",
                "PricingQuantity": "1",
                "PricingUnit": "Purchases",
                "ResourceId": fee.reservation_id,
                "ResourceType": "Capacity Reservation",
                "SkuId": "capacity-block",
                "SkuMeter": "Purchases",
                "SkuPriceId": f"capacity-block/{fee.reservation_id}",
                "x_CapacityType": CapacityType.RESERVED.value,
            },
        )


def as_csv(rows: Iterable[Row]) -> str:
    """Return rows as a file; a value that there is none of is null, which is an empty field."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _common(place: Place, start: datetime, length: timedelta) -> Row:
    month = start.replace(day=1, hour=0)
    next_month = (month + timedelta(days=32)).replace(day=1)
    return {
        "BillingAccountId": place.account_id,
        "BillingCurrency": "USD",
        "BillingPeriodEnd": _instant(next_month),
        "BillingPeriodStart": _instant(month),
        "ChargePeriodEnd": _instant(start + length),
        "ChargePeriodStart": _instant(start),
        "InvoiceIssuerName": "AWS",
        "ProviderName": "AWS",
        "PublisherName": "AWS",
        "RegionId": place.region,
        "RegionName": place.region,
        "ServiceCategory": "Compute",
        "ServiceName": "Amazon Elastic Compute Cloud",
        "ServiceSubcategory": "Virtual Machines",
        "x_Deployment": place.deployment,
    }


def _usage(amount: int, amount_per_hour: int, atto_usd: int) -> Row:
    """Return the columns of something that ran for some time and cost something."""
    cost = _decimal(atto_usd, _ATTO_USD_PER_USD)
    hours = _decimal(amount, amount_per_hour)
    price = _decimal(atto_usd * amount_per_hour, max(1, amount) * _ATTO_USD_PER_USD)
    return {
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": hours,
        "ConsumedUnit": "Hours",
        "ContractedCost": cost,
        "ContractedUnitPrice": price,
        "EffectiveCost": cost,
        "ListCost": cost,
        "ListUnitPrice": price,
        "PricingQuantity": hours,
        "PricingUnit": "Hours",
        "SkuMeter": "Instance hours",
    }


def _decimal(numerator: int, denominator: int) -> str:
    """Return a fraction as a decimal number: exact if it has no more digits than atto-USD, otherwise rounded down."""
    whole = numerator * _ATTO_USD_PER_USD // denominator
    sign = "-" if whole < 0 else ""
    before, after = divmod(abs(whole), _ATTO_USD_PER_USD)
    return f"{sign}{before}.{after:018}".rstrip("0").rstrip(".")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
