"""The overview as lines for a terminal: eighty columns, or as many as there are."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from rich.text import Text

from reservoir.cli.output import printable
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.history.summary import subject, summary
from reservoir.usecases.history.see_status import (
    REFUSED_WITHIN,
    LastDiscovery,
    Status,
    Unknown,
)

ENDS_WITHIN: Final = timedelta(hours=48)
_MOST: Final = 12  # lines of one part
_LABEL: Final = 11
_BAR_MIN, _BAR_MAX = 10, 40
_BESIDE_BAR: Final = 69  # what a reservation's line has beside its bar
_MICRO: Final = 1_000_000


def lines(status: Status, width: int) -> Iterator[Text]:
    """Yield the overview, no line wider than ``width`` (80 at least)."""
    width = max(width, 80)
    for line in _lines(status, width):
        line.truncate(width, overflow="ellipsis")
        line.rstrip()
        yield line


def _lines(status: Status, width: int) -> Iterator[Text]:
    there, now = status.there, status.asked_at
    if isinstance(there, Unknown):
        for title in ("reservations", "waiting", "ending", "nodes", "bought"):
            yield _row(title, _unknown(there))
    else:
        yield from _reservations(there, width)
        yield from _waiting(there, now)
        yield from _ending(there, now)
        yield from _nodes(there)
        yield from _bought(there)
    yield from _not_launching(status)
    yield from _unready(status)
    yield from _refused(status)
    yield _row("discovery", _discovery(status.discovery, now))
    yield _row("queues", _queues(status))
    yield _row("alarms", _alarms(status))


def _reservations(there: Sample, width: int) -> Iterator[Text]:
    found = sorted(
        there.reservations,
        key=lambda it: (-(it.idle_micro_usd_per_hour or 0), -it.total_count, it.id),
    )
    total = sum(it.total_count for it in found)
    ours = sum(it.ours_count for it in found)
    others = sum(it.others_count for it in found)
    free = sum(it.free_count for it in found)
    idle = [it.idle_micro_usd_per_hour for it in found if it.free_count]
    cost = _sum(idle)
    counts = (
        f"{total} units: {ours} ours + {others} others', {free} free ({cost} USD/h idle)"
    )
    yield _row("reservations", Text(counts if found else "none"))
    bar = min(_BAR_MAX, max(_BAR_MIN, width - _BESIDE_BAR))
    for it in found[:_MOST]:
        yield _reservation(it, bar)
    yield from _more(len(found))


def _reservation(it: ReservationSample, bar: int) -> Text:
    line = Text(f"  {printable(it.id)[:20]:<20} {it.instance_type[:16]:<16} ")
    line.append_text(_bar(it, bar))
    counts = f" {it.ours_count}+{it.others_count}/{it.total_count}"
    idle = f"{_usd(it.idle_micro_usd_per_hour)} USD/h" if it.free_count else ""
    state = "" if it.state == "active" else f" {it.state}"
    line.append(f"{counts:<11}{idle:>14}{state}{' stale' if it.stale else ''}")
    return line


def _bar(it: ReservationSample, cells: int) -> Text:
    """Return ours, others' and free units as a bar; whatever there is at least one unit of has a cell."""
    parts = (
        (it.ours_count, "█", "green"),
        (it.others_count, "▒", "yellow"),
        (it.free_count, "·", "dim"),
    )
    bar, total = Text(), max(1, it.total_count)
    for count, mark, style in parts:
        bar.append(mark * (max(1, round(cells * count / total)) if count else 0), style)
    bar.truncate(cells)
    bar.pad_right(cells - bar.cell_len)
    return bar


def _waiting(there: Sample, now: datetime) -> Iterator[Text]:
    replicas = sum(it.replica_count for it in there.waiting)
    yield _row("waiting", Text(_number(replicas, "replica") if replicas else "nothing"))
    for it in sorted(there.waiting, key=lambda it: (-it.replica_count, it.reason))[:_MOST]:
        longest = "" if it.since is None else f", the first for {duration(now - it.since)}"
        who = f"{_number(it.replica_count, 'replica')} of {_number(it.workload_count, 'workload')}"
        yield Text(f"  {it.reason:<24} {who}{longest}")
    if there.unread_count:
        unread = _number(there.unread_count, "more workload")
        yield Text(f"  {unread} not read: one replica of each is counted", "yellow")


def _ending(there: Sample, now: datetime) -> Iterator[Text]:
    found = [
        (it.end_at, it)
        for it in there.reservations
        if it.end_at is not None and now < it.end_at < now + ENDS_WITHIN
    ]
    yield _row(
        "ending",
        Text(f"{len(found)} within 48 hours" if found else "nothing within 48 hours"),
    )
    for end_at, it in sorted(found, key=lambda each: (each[0], each[1].id))[:_MOST]:
        drains = "" if it.drain_at is None else f", drains {it.drain_at:%d %H:%M}"
        line = f"  {printable(it.id)[:20]:<20} in {duration(end_at - now)} ({end_at:%d %H:%M}Z{drains})"
        yield Text(f"{line}, {it.ours_count} of {it.total_count} ours")


def _nodes(there: Sample) -> Iterator[Text]:
    count = sum(it.node_count for it in there.markets)
    kinds = ", ".join(
        f"{it.node_count} {it.capacity_type.value}" for it in there.markets if it.node_count
    )
    paid = _usd(sum(it.micro_usd_per_hour for it in there.markets))
    avoided = _sum([it.avoided_micro_usd_per_hour for it in there.markets])
    yield _row("nodes", Text(f"{count} ({kinds})" if count else "none"))
    yield Text(
        f"  {paid} USD/h paid beside reservations, {avoided} USD/h avoided against on-demand"
    )


def _bought(there: Sample) -> Iterator[Text]:
    yield _row(
        "bought",
        Text(
            f"for {_number(len(there.bought), 'workload')}" if there.bought else "nothing"
        ),
    )
    for it in there.bought[:5]:
        nodes = f"{_number(it.node_count, 'node')} for {printable(it.workload_key)}"
        yield Text(f"  {_usd(it.micro_usd_per_hour):>10} USD/h  {nodes}")


def _not_launching(status: Status) -> Iterator[Text]:
    found = status.not_launching
    if isinstance(found, Unknown):
        yield _row("launches", _unknown(found))
        return
    stuck = (
        Text(f"{_number(len(found), 'object')} of policy cannot launch", "bold red")
        if found
        else None
    )
    yield _row("launches", stuck or Text("every class and pool may launch"))
    for it in found[:_MOST]:
        yield Text(f"  {it.kind.lower()}/{printable(it.name)}: {printable(it.why)}")
    yield from _more(len(found))
    refused = (
        () if isinstance(status.refused_dry_runs, Unknown) else status.refused_dry_runs
    )
    for it in refused[:_MOST]:
        yield Text(
            f"  {it.kind.lower()}/{printable(it.name)}: EC2 refuses a dry run: {printable(it.why)}",
            "red",
        )
    yield from _more(len(refused))


def _unready(status: Status) -> Iterator[Text]:
    if isinstance(status.unready, Unknown):
        yield _row("starts", _unknown(status.unready))
        return
    for reservation, problems in status.unready.values():
        begins = f"{reservation.id} begins at {reservation.start_at:%m-%d %H:%M}"
        yield _row(
            "starts", Text(f"{begins}: nothing could be launched into it", "bold red")
        )
        for each in problems[:_MOST]:
            yield Text(f"  {printable(each.message)}: {printable(each.advice)}")
        yield from _more(len(problems))


def _refused(status: Status) -> Iterator[Text]:
    if isinstance(status.refused, Unknown):
        yield _row("refused", _unknown(status.refused))
        return
    within = f"within {duration(REFUSED_WITHIN)}"
    count = len(status.refused)
    yield _row("refused", Text(f"{count} {within}" if count else f"nothing {within}"))
    for event in status.refused[:-4:-1]:
        yield Text(
            f"  {event.at:%H:%M} {event.detail_type}  {printable(subject(event))}: {printable(summary(event))}"
        )


def _discovery(found: LastDiscovery | Unknown, now: datetime) -> Text:
    if isinstance(found, Unknown):
        return _unknown(found)
    changed = (
        "nothing found yet"
        if found.changed_at is None
        else f"last change {duration(now - found.changed_at)} ago"
    )
    if found.read_at is not None:
        changed = f"read {duration(now - found.read_at)} ago, {changed}"
    if found.stale:
        return Text(
            f"{changed}; {len(found.stale)} reservations could not be read again", "red"
        )
    return Text(f"{changed}; every reservation could be read")


def _queues(status: Status) -> Text:
    if isinstance(status.queues, Unknown):
        return _unknown(status.queues)
    parts: list[str] = []
    for queue, depth in status.queues.items():
        age = (
            ""
            if depth.oldest_s is None or not depth.message_count
            else f" ({depth.oldest_s} s)"
        )
        parts.append(f"{queue.name.lower()} {depth.message_count}{age}")
    return Text(", ".join(parts))


def _alarms(status: Status) -> Text:
    if isinstance(status.alarms, Unknown):
        return _unknown(status.alarms)
    if status.alarms:
        return Text(", ".join(map(printable, status.alarms)), "bold red")
    return Text("none")


def _row(title: str, text: Text) -> Text:
    line = Text(f"{title:<{_LABEL}}  ", "bold")
    line.append_text(Text("", "not bold").append_text(text))
    return line


def _more(count: int) -> Iterator[Text]:
    if count > _MOST:
        yield Text(f"  and {count - _MOST} more", "dim")


def _unknown(found: Unknown) -> Text:
    return Text(f"unknown: {printable(found.why)}", "yellow")


def _sum(amounts: list[int | None]) -> str:
    return _usd(None if None in amounts else sum(it for it in amounts if it is not None))


def _usd(micro_usd: int | None) -> str:
    return "unknown" if micro_usd is None else f"{micro_usd / _MICRO:,.2f}"


def duration(length: timedelta) -> str:
    """Return a length of time in its two largest units that are not zero."""
    left = max(0, int(length.total_seconds()))
    parts: list[str] = []
    for unit, size_s in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size_s)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
