"""Golden events, one file a shape, read into notices."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reservoir.core.node_life.notice import Notice, NoticeError, NoticeKind, parse_notice

EVENTS = Path(__file__).parents[2] / "events"
INSTANCE = ("i-0123456789abcdef0",)
RESERVATION = ("cr-0123456789abcdef0",)
AT = datetime(2026, 11, 20, 21, 29, 54, tzinfo=UTC)
MAINTENANCE = datetime(2026, 11, 27, 13, 19, 3, tzinfo=UTC)


def golden(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text())


def on_instance(kind: NoticeKind, due_at: datetime | None = None) -> Notice:
    return Notice(kind, AT, INSTANCE, due_at=due_at)


RESERVATION_CHANGED = Notice(
    NoticeKind.RESERVATION_CHANGED, AT, reservation_ids=RESERVATION
)
EXPECTED: dict[str, Notice | None] = {
    "instance_state_pending": None,
    "instance_state_running": on_instance(NoticeKind.RUNNING),
    "instance_state_stopping": on_instance(NoticeKind.STOPPING),
    "instance_state_stopped": on_instance(NoticeKind.STOPPED),
    "instance_state_shutting_down": on_instance(NoticeKind.SHUTTING_DOWN),
    "instance_state_terminated": on_instance(NoticeKind.TERMINATED),
    "spot_interruption": on_instance(NoticeKind.SPOT_INTERRUPTION),
    "spot_rebalance": on_instance(NoticeKind.REBALANCE),
    "reservation_interruption_interruptible": on_instance(
        NoticeKind.RESERVATION_INTERRUPTION, datetime(2026, 11, 20, 21, 31, 54, tzinfo=UTC)
    ),
    "reservation_interruption_block": on_instance(
        NoticeKind.RESERVATION_INTERRUPTION, datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
    ),
    "block_delivered": RESERVATION_CHANGED,
    "block_delivered_older_name": RESERVATION_CHANGED,
    "block_expiring": RESERVATION_CHANGED,
    "block_expiring_older_name": RESERVATION_CHANGED,
    "block_expiring_underscore": RESERVATION_CHANGED,
    "future_dated_scheduled": RESERVATION_CHANGED,
    "future_dated_active": RESERVATION_CHANGED,
    "future_dated_delayed": RESERVATION_CHANGED,
    "future_dated_unsupported": RESERVATION_CHANGED,
    "future_dated_failed": RESERVATION_CHANGED,
    "future_dated_expired": RESERVATION_CHANGED,
    "future_dated_cancelled": RESERVATION_CHANGED,
    "interruptible_reclaimed": RESERVATION_CHANGED,
    "reservation_suspended": Notice(NoticeKind.RESERVATION_CHANGED, AT),
    "health_scheduled_change": on_instance(NoticeKind.SCHEDULED_CHANGE, MAINTENANCE),
    "health_scheduled_change_arn": on_instance(NoticeKind.SCHEDULED_CHANGE, MAINTENANCE),
    "health_scheduled_change_page_2": Notice(
        NoticeKind.SCHEDULED_CHANGE, AT, ("i-0fedcba9876543210",), due_at=MAINTENANCE
    ),
    "health_scheduled_change_backup": None,
    "health_scheduled_change_closed": None,
    "health_issue": None,
    "health_underutilized": Notice(
        NoticeKind.RESERVATION_UNDERUTILIZED, AT, reservation_ids=RESERVATION
    ),
    "health_underutilized_summary": Notice(
        NoticeKind.RESERVATION_UNDERUTILIZED, AT, reservation_ids=RESERVATION
    ),
    "cloudtrail_api_call": Notice(NoticeKind.RESERVATION_CHANGED, AT),
    "cloudtrail_failed_call": None,
    "cloudtrail_block_active": RESERVATION_CHANGED,
    "unknown_kind": None,
    "unknown_ec2_kind": None,
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_golden_event(name: str) -> None:
    assert parse_notice(golden(name)) == EXPECTED[name]


def test_every_golden_event_has_an_expectation() -> None:
    assert {path.stem for path in EVENTS.glob("*.json")} == EXPECTED.keys()


@pytest.mark.parametrize(
    "damage",
    [
        {"detail": None},
        {"detail": {}},
        {"detail": {"instance-id": 7, "state": "running"}},
        {"detail": {"instance-id": "i-0123456789abcdef0; rm -rf /", "state": "running"}},
        {"time": "yesterday"},
        {"time": None},
    ],
)
def test_a_known_kind_that_cannot_be_read_is_an_error(damage: dict[str, Any]) -> None:
    with pytest.raises(NoticeError):
        parse_notice(golden("instance_state_running") | damage)


@pytest.mark.parametrize(
    "time",
    [
        *(
            "",
            "soon",
            17,
            None,
            "0001-01-01T00:00:00+14:00",
            "Thu, 99 Jan 2026 00:00:00 GMT",
        ),
        *("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        "2028-01-01T00:00:00Z",  # no interruption is warned of so long before
    ],
)
def test_a_warning_without_a_readable_time_is_a_warning(time: object) -> None:
    event = golden("reservation_interruption_block")
    event["detail"]["instance-termination-time"] = time
    wanted = EXPECTED["reservation_interruption_block"]
    assert wanted is not None
    assert parse_notice(event) == replace(wanted, due_at=None)


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "99:99"]
)
def test_any_time_that_an_event_has_is_read_or_refused(time: str) -> None:
    with pytest.raises(NoticeError):
        parse_notice(golden("instance_state_running") | {"time": time})


@pytest.mark.parametrize(
    "time",
    [
        *(None, "", "yesterday", 17, "99:99"),
        *("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        "2026-11-20T21:31:00Z",  # after its message
    ],
)
def test_an_event_whose_time_nobody_can_read_has_that_of_its_message(time: object) -> None:
    sent_at = datetime(2026, 11, 20, 21, 29, 59, tzinfo=UTC)
    wanted = EXPECTED["spot_interruption"]
    assert wanted is not None
    event = golden("spot_interruption") | {"time": time}
    assert parse_notice(event, sent_at) == replace(wanted, at=sent_at)
    assert parse_notice(golden("spot_interruption"), sent_at) == wanted


def test_new_fields_do_not_disturb() -> None:
    event = golden("reservation_interruption_block")
    event["detail"]["brand-new"] = {"nested": [1]}
    assert (
        parse_notice(event | {"extra": True}) == EXPECTED["reservation_interruption_block"]
    )


def test_an_unreadable_end_date_is_not_needed() -> None:
    event = golden("block_expiring")
    event["detail"]["end-date"] = "21/11/2026"
    assert parse_notice(event) == RESERVATION_CHANGED


def test_an_event_of_another_source_is_not_believed() -> None:
    assert parse_notice(golden("spot_interruption") | {"source": "my.app"}) is None
