"""Makes, changes and cancels on-demand reservations with the caller's credentials: the client repeats no call."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.adapters.ec2.reservations import parse
from reservoir.core.model.capacity_reservation import CANCELLED, CANCELLING
from reservoir.core.purchasing.change import (
    CancellationTerms,
    ChangeKind,
    DateChangeTerms,
    HeldReservation,
    OrderedChange,
)
from reservoir.core.purchasing.purchase import BlockOrder
from reservoir.names import PURCHASE_TAG
from reservoir.ports.errors import RefusedError, UnknownOutcomeError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_NOT_FOUND: Final = "InvalidCapacityReservationId.NotFound"
_CHANGED: Final = "ReservationChangedSince"  # ours, not EC2's
_MADE: Final = (ChangeKind.CREATE, ChangeKind.SPLIT)
_WIND_DOWN: Final = "commitment-wind-down"
_DELIVERY: Final = "incremental"  # the only one that EC2 takes


class Ec2ReservationChanger:
    """Implements ``reservoir.ports.ec2.ReservationChanger``."""

    def __init__(self, changing: "EC2Client", reading: "EC2Client") -> None:
        """Let ``changing`` try once only: EC2 has no client token for half of these calls."""
        self._changing: Any = changing  # the stubs know fewer platforms than EC2 does
        self._reading: Any = reading

    def held(self, reservation_id: str) -> HeldReservation | None:
        """Return a reservation as EC2 shows it now."""
        try:
            with map_client_errors():
                answer = self._reading.describe_capacity_reservations(
                    CapacityReservationIds=[reservation_id]
                )
        except RefusedError as error:
            if error.code == _NOT_FOUND:
                return None
            raise
        shown = answer["CapacityReservations"]
        return _held(shown[0]) if shown else None

    def cancellation_terms(self, reservation_id: str, token: str) -> CancellationTerms:
        """Have EC2 quote a cancellation."""
        with map_client_errors():
            quote = self._changing.create_capacity_reservation_cancellation_quote(
                CapacityReservationId=reservation_id, ClientToken=token
            )["CapacityReservationCancellationQuote"]
        terms = (quote.get("CancellationTerms") or [{}])[0]
        return CancellationTerms(
            quote["CapacityReservationCancellationQuoteId"],
            quote["ExpirationTime"],
            terms.get("ReservationState", CANCELLING),
            terms.get("CommittedInstanceCount", 0),
            terms["ChargeCommitmentDurationHours"],
            terms.get("ChargeEndDate"),
        )

    def is_quoted(self, quote_id: str) -> bool:
        """Whether a cancellation quote can be used by now."""
        with map_client_errors():
            answer = self._reading.describe_capacity_reservation_cancellation_quotes(
                CapacityReservationCancellationQuoteIds=[quote_id]
            )
        quotes = answer["CapacityReservationCancellationQuotes"]
        return any(each.get("QuoteState") == "active" for each in quotes)

    def date_change_terms(
        self, reservation_id: str, new_start_at: datetime, token: str
    ) -> DateChangeTerms:
        """Have EC2 quote a later start."""
        with map_client_errors():
            quote = self._changing.create_capacity_reservation_date_change_quote(
                CapacityReservationId=reservation_id,
                NewStartDate=new_start_at,
                ClientToken=token,
            )["CapacityReservationModificationQuote"]
        update = quote["ModificationTerms"]["ReservationUpdate"]
        return DateChangeTerms(
            quote["CapacityReservationModificationQuoteId"],
            quote["ExpirationTime"],
            update["NewStartDate"],
            update["NewCommitmentDuration"],
            update.get("NewCommitmentEndDate"),
        )

    def carry_out(
        self, order: BlockOrder, change: OrderedChange, **more: bool
    ) -> tuple[str, ...]:
        """Make the change, once; raises what botocore raises, and RefusedError if the reservation has changed since."""
        self._refuse_if_changed(change)
        return _CALLS[change.kind](self._changing, order, change, more)

    def carried_out(self, order: BlockOrder, change: OrderedChange) -> tuple[str, ...]:
        """Return the reservations that show that the change was made; nothing where EC2 does not show it."""
        if change.kind in _MADE:
            return self._tagged(order.offering_id)
        held = self.held(change.reservation_id)
        if held is None:
            return ()
        if change.kind is ChangeKind.MOVE:
            return self._moved(order, change, held)
        return (held.id,) if _is_as_ordered(held, order, change) else ()

    def _refuse_if_changed(self, change: OrderedChange) -> None:
        """EC2 has no conditional change: an order agreed to for other counts would do and cost something else."""
        agreed = [(change.reservation_id, change.count_before)]
        if change.into:
            agreed.append((change.into, change.into_count_before))
        for reservation_id, count in agreed:
            if not reservation_id or change.kind is ChangeKind.PUSH_OUT:
                continue
            try:
                held = self.held(reservation_id)
            except UnknownOutcomeError as error:
                # only the look is lost: nothing was asked to change
                raise RefusedError(error.code, change.kind) from error
            if held is None or held.total_count != count:
                raise RefusedError(_CHANGED, change.kind)

    def _tagged(self, order_id: str) -> tuple[str, ...]:
        with map_client_errors():
            pages = self._reading.get_paginator("describe_capacity_reservations").paginate(
                Filters=[{"Name": f"tag:{PURCHASE_TAG}", "Values": [order_id]}]
            )
            shown = list(pages.search("CapacityReservations[]"))
        return tuple(sorted(each["CapacityReservationId"] for each in shown))

    def _moved(
        self, order: BlockOrder, change: OrderedChange, source: HeldReservation
    ) -> tuple[str, ...]:
        into = self.held(change.into)
        left_count = change.count_before - order.count
        has_left = source.total_count == left_count or (
            left_count == 0 and source.state == CANCELLED
        )
        expected_count = change.into_count_before + order.count
        if into is None or not has_left or into.total_count != expected_count:
            return ()
        return (source.id, into.id)


def _is_as_ordered(held: HeldReservation, order: BlockOrder, change: OrderedChange) -> bool:
    if change.kind is ChangeKind.RESIZE:
        return held.total_count == order.count
    if change.kind is ChangeKind.CANCEL:
        return held.state in (CANCELLED, CANCELLING)
    is_asked_for = held.adjustment_status in ("requested", "applied")
    return change.starts_at == held.start_at or (
        is_asked_for and change.starts_at == held.adjusted_start_at
    )


def _tags(order: BlockOrder) -> list[dict[str, Any]]:
    tags = [*order.tags, (PURCHASE_TAG, order.offering_id)]
    return [
        {
            "ResourceType": "capacity-reservation",
            "Tags": [{"Key": key, "Value": value} for key, value in tags],
        }
    ]


def _create(
    client: Any, order: BlockOrder, change: OrderedChange, more: Mapping[str, bool]
) -> tuple[str, ...]:
    request: dict[str, Any] = {
        "ClientToken": order.offering_id,
        "InstanceType": order.instance_type,
        "InstancePlatform": order.platform,
        "AvailabilityZone": order.zone,
        "InstanceCount": order.count,
        "InstanceMatchCriteria": change.match_criteria,
        "EndDateType": "unlimited",
        "TagSpecifications": _tags(order),
    }
    if change.ends_at is not None:
        request |= {"EndDateType": "limited", "EndDate": change.ends_at}
    if change.starts_at is not None:
        request |= {
            "StartDate": change.starts_at,
            "CommitmentDuration": change.commitment_s,
            "DeliveryPreference": _DELIVERY,
        }
    answer = client.create_capacity_reservation(**request, **more)
    return (str(answer["CapacityReservation"]["CapacityReservationId"]),)


def _resize(
    client: Any, order: BlockOrder, change: OrderedChange, more: Mapping[str, bool]
) -> tuple[str, ...]:
    client.modify_capacity_reservation(
        CapacityReservationId=change.reservation_id, InstanceCount=order.count, **more
    )
    return (change.reservation_id,)


def _split(
    client: Any, order: BlockOrder, change: OrderedChange, more: Mapping[str, bool]
) -> tuple[str, ...]:
    answer = client.create_capacity_reservation_by_splitting(
        ClientToken=order.offering_id,
        SourceCapacityReservationId=change.reservation_id,
        InstanceCount=order.count,
        TagSpecifications=_tags(order),
        **more,
    )
    return (str(answer["DestinationCapacityReservation"]["CapacityReservationId"]),)


def _move(
    client: Any, order: BlockOrder, change: OrderedChange, more: Mapping[str, bool]
) -> tuple[str, ...]:
    client.move_capacity_reservation_instances(
        ClientToken=order.offering_id,
        SourceCapacityReservationId=change.reservation_id,
        DestinationCapacityReservationId=change.into,
        InstanceCount=order.count,
        **more,
    )
    return (change.reservation_id, change.into)


def _cancel(
    client: Any, order: BlockOrder, change: OrderedChange, more: Mapping[str, bool]
) -> tuple[str, ...]:
    del order
    quoted: dict[str, Any] = {}
    if change.quote_id:
        quoted = {
            "QuoteId": change.quote_id,
            "ApplyCancellationCharges": _WIND_DOWN,
        }
    client.cancel_capacity_reservation(
        CapacityReservationId=change.reservation_id, **quoted, **more
    )
    return (change.reservation_id,)


def _push_out(
    client: Any, order: BlockOrder, change: OrderedChange, more: Mapping[str, bool]
) -> tuple[str, ...]:
    del order
    client.modify_capacity_reservation(
        CapacityReservationId=change.reservation_id,
        QuoteId=change.quote_id,
        AcceptModificationTerms=True,
        **more,
    )
    return (change.reservation_id,)


_Call = Callable[[Any, BlockOrder, OrderedChange, Mapping[str, bool]], tuple[str, ...]]
_CALLS: Final[Mapping[ChangeKind, _Call]] = {
    ChangeKind.CREATE: _create,
    ChangeKind.RESIZE: _resize,
    ChangeKind.SPLIT: _split,
    ChangeKind.MOVE: _move,
    ChangeKind.CANCEL: _cancel,
    ChangeKind.PUSH_OUT: _push_out,
}


def _held(described: Mapping[str, Any]) -> HeldReservation:
    observed = parse(described, {})
    commitment = described.get("CommitmentInfo") or {}
    adjusted = described.get("AdjustmentDetails") or {}
    return HeldReservation(
        observed.id,
        observed.owner_id,
        observed.kind.value,
        observed.instance_type,
        observed.zone,
        observed.platform,
        observed.tenancy,
        observed.state,
        observed.total_count,
        _used_count(described, observed.total_count - observed.available_count),
        observed.instance_match_criteria,
        observed.placement_group_arn or "",
        observed.start_at,
        observed.end_at,
        described.get("OriginalStartDate"),
        commitment.get("CommitmentDuration", 0),
        commitment.get("CommitmentEndDate"),
        commitment.get("CommittedInstanceCount", 0),
        described.get("AdjustmentStatus", ""),
        adjusted.get("StartDate"),
    )


def _used_count(described: Mapping[str, Any], otherwise: int) -> int:
    counts = [
        each.get("Count", 0)
        for each in described.get("CapacityAllocations", [])
        if each.get("AllocationType") == "used"
    ]
    return sum(counts) if counts else otherwise
