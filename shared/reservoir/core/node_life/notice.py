"""What AWS's events mean, read by their recorded shapes. Every event is a hint: its facts are read again before acting.

Events differ from their documentation and from each other: ``resources`` is a list or a bare string, a zone id is
``azId`` or ``availability-zone-id``, Capacity Block events have two names, Health entities are ids or ARNs. Ids are
therefore taken from ``detail``, and fields that are not needed are not read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final

_INSTANCE_ID: Final = re.compile(r"i-[0-9a-f]{8,32}")
_RESERVATION_ID: Final = re.compile(r"cr-[0-9a-z]{8,32}")


# Messages that Reservoir itself sends to the reactions queue.
OWN_SOURCE: Final = "reservoir"
DUE_TYPE: Final = "Reservation Due"
RESERVATION: Final = "capacity-reservation-id"
ENDING_TYPE: Final = "Nodes Ending"
INSTANCES: Final = "instance-ids"


class NoticeKind(StrEnum):
    """The kinds of events that are acted upon; also the names under which they are counted."""

    RUNNING = "InstanceRunning"
    STOPPING = "InstanceStopping"
    STOPPED = "InstanceStopped"
    SHUTTING_DOWN = "InstanceShuttingDown"
    TERMINATED = "InstanceTerminated"
    STATE_CHANGED = "InstanceStateChanged"  # to an unknown state
    SPOT_INTERRUPTION = "SpotInterruption"
    REBALANCE = "RebalanceRecommendation"
    RESERVATION_INTERRUPTION = "ReservationInstanceInterruption"
    SCHEDULED_CHANGE = "ScheduledChange"
    RESERVATION_CHANGED = "ReservationChanged"
    RESERVATION_UNDERUTILIZED = "ReservationUnderutilized"
    RESERVATION_DUE = "ReservationDue"  # our own word: it is to begin about now
    # our own word: by their claims they are to be terminated, by a function that may not do so itself
    NODES_ENDING = "NodesEnding"


@dataclass(frozen=True, slots=True)
class Notice:
    """One fact about instances or reservations. ``due_at`` is when EC2 will act, if the event says so."""

    kind: NoticeKind
    at: datetime
    instance_ids: tuple[str, ...] = ()
    reservation_ids: tuple[str, ...] = ()
    due_at: datetime | None = None


# EC2 began in 2006. What lies outside these years stands for no time at all: the epoch, or the year 1 or 9999.
_FIRST_YEAR: Final = 2006
_LAST_YEAR: Final = 2199
# EC2 takes instances of a block back from 30 minutes before its end on, of an UltraServer from 60, and warns before
# that; of interruptible reservations it warns two minutes ahead.
_INTERRUPTION_LEAD_MAX: Final = timedelta(hours=2)


class NoticeError(ValueError):
    """The event is of a known kind and lacks what that kind must have."""


def parse_notice(
    event: Mapping[str, Any], sent_at: datetime | None = None
) -> Notice | None:
    """Return the notice of an EventBridge event, or None for a kind (or a variant of one) that needs no reaction.

    ``sent_at``, when it came to the queue, stands for a time of its own that nobody can read, or that lies after it.

    Raises
    ------
    NoticeError
        The event is of a known kind and cannot be read.
    """
    source = _text(event, "source")
    # AWS's page on Capacity Blocks prints the key with an underscore; on the bus it has a hyphen.
    detail_type = _text(event, "detail-type") or _text(event, "detail_type")
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise NoticeError("the event has no detail")
    reader = _reader(source, detail_type)
    if reader is None:
        return None
    at = _moment_if_readable(event.get("time")) or sent_at
    if at is None:
        at = _moment(event.get("time"))
    return reader(detail, at if sent_at is None else min(at, sent_at))


def event_time(event: Mapping[str, Any]) -> datetime:
    """Return the time of an EventBridge event, which has whole seconds; raises NoticeError if it has none."""
    return _moment(event.get("time"))


_Reader = Callable[[Mapping[str, Any], datetime], Notice | None]


def _reader(source: str, detail_type: str) -> _Reader | None:
    if source == "aws.health" and detail_type == "AWS Health Event":
        return _health
    if source == OWN_SOURCE:
        return _OWN_READERS.get(detail_type)
    if source != "aws.ec2":
        return None
    exact = _EC2_READERS.get(detail_type)
    if exact is not None:
        return exact
    if detail_type.startswith(_RESERVATION_PREFIXES):
        return _reservation
    return _cloud_trail if detail_type in _CLOUD_TRAIL_TYPES else None


def _state_changed(detail: Mapping[str, Any], at: datetime) -> Notice | None:
    state = _text(detail, "state")
    if state == "pending":
        return None  # the launch itself has reported it
    return Notice(
        _KIND_BY_STATE.get(state, NoticeKind.STATE_CHANGED), at, (_instance_id(detail),)
    )


def _spot_interruption(detail: Mapping[str, Any], at: datetime) -> Notice:
    return Notice(NoticeKind.SPOT_INTERRUPTION, at, (_instance_id(detail),))


def _rebalance(detail: Mapping[str, Any], at: datetime) -> Notice:
    return Notice(NoticeKind.REBALANCE, at, (_instance_id(detail),))


def _reservation_interruption(detail: Mapping[str, Any], at: datetime) -> Notice:
    # without one, or with one that no such warning has, the usual notice is assumed
    due_at = _moment_if_readable(detail.get("instance-termination-time"))
    if due_at is not None and due_at - at > _INTERRUPTION_LEAD_MAX:
        due_at = None
    return Notice(
        NoticeKind.RESERVATION_INTERRUPTION, at, (_instance_id(detail),), due_at=due_at
    )


def _reservation(detail: Mapping[str, Any], at: datetime) -> Notice:
    """Read block delivered or expiring, future-dated states, suspension, and reclamation, each with its own key.

    Not all of these have documented fields: an event that names no reservation still means that some changed.
    """
    named = detail.get(RESERVATION) or detail.get("sourceCapacityReservationId")
    return Notice(
        NoticeKind.RESERVATION_CHANGED, at, reservation_ids=_reservation_ids(named)
    )


def _reservation_due(detail: Mapping[str, Any], at: datetime) -> Notice:
    return Notice(
        NoticeKind.RESERVATION_DUE,
        at,
        reservation_ids=_reservation_ids(detail.get(RESERVATION)),
    )


def _nodes_ending(detail: Mapping[str, Any], at: datetime) -> Notice:
    named = [it for it in _sequence(detail.get(INSTANCES)) if isinstance(it, str)]
    found = tuple(it for it in named if _INSTANCE_ID.fullmatch(it))
    return Notice(NoticeKind.NODES_ENDING, at, found)


def _reservation_ids(named: object) -> tuple[str, ...]:
    """Return the one reservation that was named, by id or ARN, if it was."""
    bare = named.rpartition("/")[2] if isinstance(named, str) else ""
    return (bare,) if _RESERVATION_ID.fullmatch(bare) else ()


def _cloud_trail(detail: Mapping[str, Any], at: datetime) -> Notice | None:
    """Any successful call or service event about reservations means that all must be read again."""
    if detail.get("errorCode") is not None:
        return None
    service = detail.get("serviceEventDetails")
    named = service.get("capacityReservationId") if isinstance(service, Mapping) else None
    return Notice(
        NoticeKind.RESERVATION_CHANGED, at, reservation_ids=_reservation_ids(named)
    )


# Branches: one form of the event after the other, each with its own notice.
def _health(detail: Mapping[str, Any], at: datetime) -> Notice | None:
    if detail.get("service") != "EC2" or str(detail.get("backupEvent")).lower() == "true":
        return None
    entities = [_entity_id(entity) for entity in _sequence(detail.get("affectedEntities"))]
    if str(detail.get("eventTypeCode", "")).startswith(
        "AWS_EC2_ODCR_UNDERUTILIZATION_NOTIFICATION"
    ):
        ids = tuple(entity for entity in entities if _RESERVATION_ID.fullmatch(entity))
        return Notice(NoticeKind.RESERVATION_UNDERUTILIZED, at, reservation_ids=ids)
    if (
        detail.get("eventTypeCategory") != "scheduledChange"
        or detail.get("statusCode") == "closed"
    ):
        return None
    instances = tuple(entity for entity in entities if _INSTANCE_ID.fullmatch(entity))
    due_at = _moment_if_readable(detail.get("startTime"))
    return Notice(NoticeKind.SCHEDULED_CHANGE, at, instances, due_at=due_at)


_KIND_BY_STATE: Final = {
    "running": NoticeKind.RUNNING,
    "stopping": NoticeKind.STOPPING,
    "stopped": NoticeKind.STOPPED,
    "shutting-down": NoticeKind.SHUTTING_DOWN,
    "terminated": NoticeKind.TERMINATED,
}
_OWN_READERS: Final[Mapping[str, _Reader]] = {
    DUE_TYPE: _reservation_due,
    ENDING_TYPE: _nodes_ending,
}
_EC2_READERS: Final[Mapping[str, _Reader]] = {
    "EC2 Instance State-change Notification": _state_changed,
    "EC2 Spot Instance Interruption Warning": _spot_interruption,
    "EC2 Instance Rebalance Recommendation": _rebalance,
    # Begins like the events of future-dated reservations and is none of them.
    "EC2 Capacity Reservation Instance Interruption Warning": _reservation_interruption,
}
# "Capacity Block Delivered" was "Capacity Block Reservation Delivered"; both names are documented.
_RESERVATION_PREFIXES: Final = (
    "Capacity Block ",
    "EC2 Capacity Reservation ",
    "EC2 Interruptible Capacity Reservation ",
    "EC2 On-Demand Capacity Reservation ",
)
_CLOUD_TRAIL_TYPES: Final = frozenset(
    {"AWS API Call via CloudTrail", "AWS Service Event via CloudTrail"}
)


def _instance_id(detail: Mapping[str, Any]) -> str:
    named = detail.get("instance-id")
    if not isinstance(named, str) or not _INSTANCE_ID.fullmatch(named):
        raise NoticeError("detail names no instance")
    return named


def _entity_id(entity: object) -> str:
    """Return the id of a Health entity: bare, at the end of an ARN, or the first of fields between bars."""
    value = entity.get("entityValue") if isinstance(entity, Mapping) else None
    return (
        value.partition("|")[0].strip().rpartition("/")[2] if isinstance(value, str) else ""
    )


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _text(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    return value if isinstance(value, str) else ""


def _moment(value: object) -> datetime:
    """Read ISO 8601, or the RFC 1123 form of Health events; a time without a zone is UTC."""
    if not isinstance(value, str):
        raise NoticeError("the event has no time")
    try:
        parsed = _parsed(value)
        moment = (
            parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        )
    except (ValueError, OverflowError) as error:
        # the latter at the ends of the calendar, and for absurd offsets
        raise NoticeError(f"not a time: {value[:40]!r}") from error
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise NoticeError(f"not a time of EC2's: {value[:40]!r}")
    return moment


def _parsed(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return parsedate_to_datetime(value)


def _moment_if_readable(value: object) -> datetime | None:
    """Read a time that a warning can do without, because it is worth more than its time."""
    try:
        return _moment(value)
    except NoticeError:
        return None
