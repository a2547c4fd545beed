"""The figures of ``reservoir status``, as gauges in OpenMetrics' text form.

Written here and not by a library: the form of gauges is a few lines, and every installation of the command line would
carry another package for it (docs/adr/0093-list-and-show-what-is-alive.md).
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from reservoir.core.history.gauges import MOST_SERIES_A_GAUGE, Gauge, gauges
from reservoir.usecases.history.see_status import Status, Unknown

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(status: Status, *, most: int = MOST_SERIES_A_GAUGE) -> str:
    """Return all gauges as text. A figure that a source does not have has no value, and is never zero."""
    bounded = (gauge.bounded(most) for gauge in gauges_of(status))
    lines = chain.from_iterable(map(lines_of, bounded))
    return "".join(f"{line}\n" for line in (*lines, "# EOF"))


def lines_of(gauge: Gauge) -> Iterator[str]:
    """Yield the lines of a gauge, sorted by labels."""
    yield f"# TYPE {gauge.name} gauge"
    yield f"# HELP {gauge.name} {gauge.help.translate(_ESCAPED)}"
    for values, number in sorted(gauge.values.items()):
        pairs = zip(gauge.labels, values, strict=True)
        labels = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs)
        named = f"{gauge.name}{{{labels}}}" if labels else gauge.name
        yield f"{named} {number:.12g}"


def gauges_of(status: Status) -> Iterator[Gauge]:
    """Yield the gauges of a deployment's status, each with its known values."""
    yield _sources(status)
    if not isinstance(status.there, Unknown):
        yield from gauges(status.there, status.asked_at)
    yield from _deployment(status)


def _sources(status: Status) -> Gauge:
    parts = {
        "tables": status.there,
        "history": status.refused,
        "discovery": status.discovery,
        "queues": status.queues,
        "alarms": status.alarms,
        "policy": status.not_launching,
    }
    up = {(name,): float(not isinstance(part, Unknown)) for name, part in parts.items()}
    return Gauge(
        "reservoir_source_up",
        "Whether a source could be read; what it would say is absent if not.",
        ("source",),
        up,
    )


def _deployment(status: Status) -> Iterator[Gauge]:
    if not isinstance(status.not_launching, Unknown):
        stuck = {(it.kind.lower(), it.name): 1.0 for it in status.not_launching}
        yield Gauge(
            "reservoir_not_launching",
            "Classes and pools that cannot launch.",
            ("kind", "name"),
            stuck,
        )
    if not isinstance(status.refused, Unknown):
        kinds = [event.detail_type for event in status.refused]
        text = "Refusals within the last 24 hours, by event."
        yield Gauge(
            "reservoir_refusals",
            text,
            ("event",),
            {(kind,): float(kinds.count(kind)) for kind in kinds},
        )
    if not isinstance(status.queues, Unknown):
        depths = {(queue.name.lower(),): depth for queue, depth in status.queues.items()}
        counts = {key: float(depth.message_count) for key, depth in depths.items()}
        yield Gauge("reservoir_queue_messages", "Messages in a queue.", ("queue",), counts)
        ages = {
            key: float(depth.oldest_s)
            for key, depth in depths.items()
            if depth.oldest_s is not None
        }
        yield Gauge(
            "reservoir_queue_oldest_seconds",
            "Age of the oldest message of a queue.",
            ("queue",),
            ages,
        )
    if not isinstance(status.alarms, Unknown):
        alarms = {(name,): 1.0 for name in status.alarms}
        yield Gauge(
            "reservoir_alarm", "CloudWatch alarms that have gone off.", ("alarm",), alarms
        )
    if not isinstance(status.discovery, Unknown) and status.discovery.read_at is not None:
        age = (status.asked_at - status.discovery.read_at).total_seconds()
        yield Gauge(
            "reservoir_discovery_age_seconds",
            "How long ago EC2's reservations were read.",
            (),
            {(): max(0.0, age)},
        )
