"""Quotes for cancelling and for putting off future-dated reservations, and what follows when one is accepted.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-release.html#cr-cancellation-charges and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-modify.html#cr-delay-start-date have the
terms. AWS calls them typical, or the least; here they are what is charged.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from lab.embedded.ec2.account import slots
from lab.embedded.ec2.account.state import (
    CancellationQuote,
    CapacityReservation,
    DateChangeQuote,
    Quote,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import (
    invalid_combination,
    invalid_value,
    not_permitted,
    wrong_reservation_state,
)
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty
from lab.embedded.ec2.api.tags import from_specifications
from lab.embedded.ec2.reservations import future_dated
from lab.embedded.ec2.reservations.life import start_on_time
from lab.embedded.ec2.reservations.ownership import own_plain
from lab.embedded.ec2.reservations.view import adjustment_details

Parameters = dict[str, Any]
SomeQuote = TypeVar("SomeQuote", bound=Quote)

_VALID: Final = timedelta(hours=24)
_BEFORE_START: Final = timedelta(hours=1)
_FREE: Final = timedelta(weeks=8)
_CHEAP: Final = timedelta(weeks=2)
_CHEAP_PERCENT: Final = 25
_FULL_PERCENT: Final = 50
_PUSHED_OUT_AT_MOST: Final = timedelta(days=30)
_ADDS_COMMITMENT: Final = timedelta(weeks=2)
_HOUR_S: Final = 3600
WINDING_DOWN: Final = "cancelling"
WIND_DOWN: Final = "commitment-wind-down"


def create_cancellation_quote(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateCapacityReservationCancellationQuote: for what its owner has committed to, for 24 hours.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidParameter``, ``InvalidParameterValue``,
        ``OperationNotPermitted``, ``TagLimitExceeded``, ``UnauthorizedOperation``.
    """
    reservation = own_plain(world, parameters["CapacityReservationId"])
    if not future_dated.is_committed(world, reservation):
        raise not_permitted(
            f"{reservation.reservation_id} is {reservation.state} without a commitment and needs no quote."
        )
    kind = "capacity-reservation-cancellation-quote"
    tags = from_specifications(parameters.get("TagSpecifications"), [kind])
    hours = _charged_hours(world, reservation)
    now = world.now()
    quote = CancellationQuote(
        quote_id=world.ids.resource("crcq"),
        reservation_id=reservation.reservation_id,
        created_at=now,
        expires_at=now + _VALID,
        instance_count=_size(reservation),
        reservation_state=reservation.state,
        start_at=reservation.start_at,
        active_at=now + timedelta(seconds=world.settings.quote_pending_s),
        charged_hours=hours,
        charge_end_at=now + timedelta(hours=hours),
    )
    world.tags.put(quote.quote_id, tags.get(kind, {}))
    world.cancellation_quotes[quote.quote_id] = quote
    return {"CapacityReservationCancellationQuote": _shown_cancellation(world, quote)}


def describe_cancellation_quotes(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeCapacityReservationCancellationQuotes.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    ids = parameters.get("CapacityReservationCancellationQuoteIds", [])
    quotes, token = _asked(world, world.cancellation_quotes, ids, parameters)
    shown = [_shown_cancellation(world, quote) for quote in quotes]
    return without_empty(
        {"CapacityReservationCancellationQuotes": shown, "NextToken": token}
    )


def create_date_change_quote(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer CreateCapacityReservationDateChangeQuote: for a later start of a scheduled reservation.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationId.NotFound``, ``InvalidCapacityReservationState``, ``InvalidParameter``,
        ``InvalidParameterValue``, ``OperationNotPermitted``, ``TagLimitExceeded``, ``UnauthorizedOperation``.
    """
    reservation = own_plain(world, parameters["CapacityReservationId"])
    original_start_at = reservation.original_start_at
    if reservation.state != "scheduled" or original_start_at is None:
        raise wrong_reservation_state(
            f"The capacity reservation is {reservation.state}; only a scheduled one can be put off."
        )
    kind = "capacity-reservation-modification-quote"
    tags = from_specifications(parameters.get("TagSpecifications"), [kind])
    quote = _date_change(world, reservation, original_start_at, parameters["NewStartDate"])
    world.tags.put(quote.quote_id, tags.get(kind, {}))
    world.date_change_quotes[quote.quote_id] = quote
    return {"CapacityReservationModificationQuote": _shown_date_change(world, quote)}


def describe_date_change_quotes(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeCapacityReservationDateChangeQuotes.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    ids = parameters.get("CapacityReservationModificationQuoteIds", [])
    quotes, token = _asked(world, world.date_change_quotes, ids, parameters)
    shown = [_shown_date_change(world, quote) for quote in quotes]
    return without_empty(
        {"CapacityReservationModificationQuotes": shown, "NextToken": token}
    )


def accepted_cancellation(
    world: World, reservation: CapacityReservation, parameters: Parameters
) -> CancellationQuote | None:
    """Return the quote that a cancellation accepts; None where none is needed and none is named.

    Raises
    ------
    Ec2Error
        ``InvalidParameterCombination``, ``InvalidParameterValue``, ``OperationNotPermitted``.
    """
    quote_id = parameters.get("QuoteId")
    if (quote_id is None) != ("ApplyCancellationCharges" not in parameters):
        raise invalid_combination("QuoteId and ApplyCancellationCharges belong together.")
    is_committed = future_dated.is_committed(world, reservation)
    if is_committed and reservation.occupants:
        raise not_permitted(
            "Stop or terminate the instances in the capacity reservation before you cancel it within its commitment."
        )
    if quote_id is None:
        if is_committed:
            raise not_permitted(
                f"To cancel a capacity reservation that is {reservation.state} within its commitment, accept a "
                "quote of CreateCapacityReservationCancellationQuote."
            )
        return None
    quote = _usable(world, world.cancellation_quotes, quote_id, reservation)
    if world.now() < quote.active_at:
        raise invalid_value(f"The quote '{quote_id}' is pending")
    quote.is_used = True
    return quote


def wind_down(
    world: World, reservation: CapacityReservation, quote: CancellationQuote
) -> None:
    """Take the capacity back and charge until the end that the quote named; only then is it cancelled."""
    reservation.state = WINDING_DOWN
    reservation.commitment_end_at = quote.charge_end_at
    slots.release_all(world, reservation)
    world.agenda.at(quote.charge_end_at, partial(_end_charges, world, reservation))


def accept_date_change(
    world: World, reservation: CapacityReservation, parameters: Parameters
) -> dict[str, Any]:
    """Take an accepted date change up; EC2 then looks whether it can be done.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityReservationState``, ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    if reservation.state != "scheduled":
        raise wrong_reservation_state(
            f"The capacity reservation is {reservation.state}; only a scheduled one can be put off."
        )
    if not parameters.get("AcceptModificationTerms"):
        raise invalid_combination("To apply a quote, set AcceptModificationTerms to true.")
    quote = _usable(world, world.date_change_quotes, parameters["QuoteId"], reservation)
    if parameters.get("StartDate", quote.new_start_at) != quote.new_start_at:
        raise invalid_combination("The quote is for another start date.")
    quote.is_used = True
    reservation.adjustment, reservation.adjustment_status = quote, "requested"
    world.after(world.settings.adjustment_s, partial(_adjust, world, reservation, quote))
    return {
        "Return": True,
        "AdjustmentStatus": "requested",
        "AdjustmentDetails": adjustment_details(reservation, quote),
    }


def _size(reservation: CapacityReservation) -> int:
    return max(reservation.total_count, reservation.committed_count)


def _charged_hours(world: World, reservation: CapacityReservation) -> int:
    """Return for how long of the commitment a cancellation is charged: the less, the earlier it is made."""
    commitment_end_at = reservation.commitment_end_at or world.now()
    if reservation.state == "active":
        left_s = int((commitment_end_at - world.now()).total_seconds())
        return _hours_of(left_s, _FULL_PERCENT)
    notice = (reservation.original_start_at or reservation.start_at) - world.now()
    if notice >= _FREE:
        return 0
    percent = _CHEAP_PERCENT if notice >= _CHEAP else _FULL_PERCENT
    return _hours_of(reservation.commitment_s, percent)


def _hours_of(duration_s: int, percent: int) -> int:
    """Return that share in whole hours, of which one that has begun counts."""
    return -(-duration_s * percent // (100 * _HOUR_S))


def _date_change(
    world: World,
    reservation: CapacityReservation,
    original_start_at: datetime,
    new_start_at: datetime,
) -> DateChangeQuote:
    now, start_at = world.now(), reservation.start_at
    if start_at - now < _BEFORE_START:
        raise not_permitted(
            "A start date that is less than one hour away cannot be put off."
        )
    if new_start_at <= start_at:
        raise invalid_value("The new start date must be later than the current one.")
    if new_start_at - original_start_at > _PUSHED_OUT_AT_MOST:
        raise invalid_value(
            "The start date can be put off by at most 30 days in all from the original one."
        )
    commitment_s = reservation.commitment_s
    if start_at - now <= _ADDS_COMMITMENT:
        commitment_s += _whole_days_s(new_start_at - start_at)
    quote = DateChangeQuote(
        quote_id=world.ids.resource("crmq"),
        reservation_id=reservation.reservation_id,
        created_at=now,
        expires_at=min(now + _VALID, start_at - _BEFORE_START),
        instance_count=_size(reservation),
        reservation_state=reservation.state,
        start_at=start_at,
        original_start_at=original_start_at,
        new_start_at=new_start_at,
        new_commitment_s=commitment_s,
    )
    if reservation.end_at and reservation.end_at < quote.new_commitment_end_at:
        raise invalid_value(
            "The capacity reservation ends before its commitment would: move its end date first."
        )
    return quote


def _whole_days_s(later_by: timedelta) -> int:
    day = timedelta(days=1)
    return -(-later_by // day) * int(day.total_seconds())


def _usable(
    world: World,
    quotes: Mapping[str, SomeQuote],
    quote_id: str,
    reservation: CapacityReservation,
) -> SomeQuote:
    quote = quotes.get(quote_id)
    if quote is None or quote.reservation_id != reservation.reservation_id:
        raise invalid_value(
            f"There is no quote '{quote_id}' for {reservation.reservation_id}"
        )
    if quote.is_used or world.now() >= quote.expires_at:
        raise invalid_value(f"The quote '{quote_id}' can no longer be used")
    was = (quote.reservation_state, quote.instance_count, quote.start_at)
    if was != (reservation.state, _size(reservation), reservation.start_at):
        raise invalid_value(
            f"The quote '{quote_id}' is for the capacity reservation as it was"
        )
    return quote


def _end_charges(world: World, reservation: CapacityReservation) -> None:
    if reservation.state == WINDING_DOWN:
        reservation.state = "cancelled"
        world.announce(world.events.reservation_state(reservation, world.now()))


def _adjust(world: World, reservation: CapacityReservation, quote: DateChangeQuote) -> None:
    if not world.settings.adjustments_succeed or reservation.state != "scheduled":
        reservation.adjustment_status = "rejected"
        return
    reservation.adjustment_status = "applied"
    reservation.start_at = quote.new_start_at
    reservation.commitment_s = quote.new_commitment_s
    reservation.commitment_end_at = quote.new_commitment_end_at
    start_on_time(world, reservation)


def _asked(
    world: World,
    quotes: Mapping[str, SomeQuote],
    ids: list[str],
    parameters: Parameters,
) -> tuple[list[SomeQuote], str | None]:
    unknown = set(ids) - set(quotes)
    if unknown:
        raise invalid_value(f"There is no quote '{min(unknown)}'")
    readers: Readers[SomeQuote] = {
        "capacity-reservation-id": lambda quote: quote.reservation_id,
    }
    chosen = [quote for quote in quotes.values() if not ids or quote.quote_id in ids]
    found = select(
        chosen,
        parameters.get("Filters"),
        readers,
        lambda quote: world.tags.of(quote.quote_id),
    )
    return page(found, parameters, default=1000, maximum=1000, with_ids=bool(ids))


def _state(world: World, quote: Quote) -> str:
    if world.now() >= quote.expires_at:
        return "expired"
    if isinstance(quote, CancellationQuote) and world.now() < quote.active_at:
        return "pending"
    return "active"


def _shown_cancellation(world: World, quote: CancellationQuote) -> dict[str, Any]:
    terms = {
        "CancellationType": WIND_DOWN,
        "ReservationState": WINDING_DOWN if quote.charged_hours else "cancelled",
        "CommittedInstanceCount": quote.instance_count,
        "ChargeCommitmentDurationHours": quote.charged_hours,
        "ChargeEndDate": quote.charge_end_at,
    }
    return without_empty(
        {
            "CapacityReservationCancellationQuoteId": quote.quote_id,
            "CapacityReservationId": quote.reservation_id,
            "CreateTime": quote.created_at,
            "ExpirationTime": quote.expires_at,
            "QuoteState": _state(world, quote),
            "CurrentConfiguration": {
                "InstanceCount": quote.instance_count,
                "ReservationState": quote.reservation_state,
            },
            "CancellationTerms": [terms],
            "Tags": world.tags.rendered(quote.quote_id),
        }
    )


def _shown_date_change(world: World, quote: DateChangeQuote) -> dict[str, Any]:
    update = {
        "NewStartDate": quote.new_start_at,
        "NewCommitmentDuration": quote.new_commitment_s,
        "NewCommitmentEndDate": quote.new_commitment_end_at,
    }
    return without_empty(
        {
            "CapacityReservationModificationQuoteId": quote.quote_id,
            "CapacityReservationId": quote.reservation_id,
            "CreateTime": quote.created_at,
            "ExpirationTime": quote.expires_at,
            "QuoteState": _state(world, quote),
            "CurrentConfiguration": {
                "InstanceCount": quote.instance_count,
                "ReservationState": quote.reservation_state,
                "StartDate": quote.start_at,
                "OriginalStartDate": quote.original_start_at,
            },
            "ModificationTerms": {"ReservationUpdate": update},
            "Tags": world.tags.rendered(quote.quote_id),
        }
    )
