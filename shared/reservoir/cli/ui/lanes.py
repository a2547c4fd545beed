"""What the timeline shows: a lane for each reservation, from some hours ago to some days ahead.

Places are thousandths of the lane's width, so that the page draws them at any size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.cli.report.figures import Point
from reservoir.core.history.sample import ReservationSample
from reservoir.core.sharing.accounts import TeamOf
from reservoir.manifests.answers.listed import NodeRow, ReservationRow

WHOLE: Final = 1000
CELLS: Final = 48  # of the strip of units, over all that is past
HOLDERS_MAX: Final = 8  # bars of a lane; the others are counted
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when the timeline goes."""

    since: datetime
    now: datetime
    until: datetime

    def place(self, at: datetime) -> int:
        """Return where an instant is, at an edge if it is beyond."""
        whole = (self.until - self.since) // timedelta(seconds=1)
        passed = (at - self.since) // timedelta(seconds=1)
        return max(0, min(WHOLE, WHOLE * passed // max(1, whole)))


@dataclass(frozen=True, slots=True)
class Cell:
    """The units of a reservation for a while: shares in percent, the rest is free."""

    start: int
    length: int
    ours_percent: int
    others_percent: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A workload on units of a reservation, from when the first of them was wanted until now, or until it must go."""

    start: int
    length: int
    team: str
    workload: str
    units: int
    since: datetime
    # when the last of its nodes must be gone, if all of them drain
    leaves_at: datetime | None


@dataclass(frozen=True, slots=True)
class Lane:
    """One reservation. ``row`` has its dates; ``sample`` its counts and money, None before they were counted."""

    row: ReservationRow
    sample: ReservationSample | None
    start: int  # where it is there
    length: int
    drain: int | None  # where its nodes begin to drain
    cells: tuple[Cell, ...]
    bars: tuple[Bar, ...]
    more_count: int


def lanes(
    window: Window,
    rows: Sequence[ReservationRow],
    nodes: Sequence[NodeRow],
    counted: Mapping[str, ReservationSample],
    past: Mapping[str, Sequence[Point]],
    team_of: TeamOf,
) -> list[Lane]:
    """Return a lane for each reservation: those with the most expensive idle units first, then the largest.

    Parameters
    ----------
    counted, past
        Present and past units of each reservation, by id.
    """
    found = [
        _lane(
            window,
            row,
            nodes,
            counted.get(row.metadata.name),
            past.get(row.metadata.name, ()),
            team_of,
        )
        for row in rows
    ]
    return sorted(found, key=_order)


def _order(lane: Lane) -> tuple[int, int, str]:
    idle = 0 if lane.sample is None else lane.sample.idle_micro_usd_per_hour or 0
    return -idle, -lane.row.status.total, lane.row.metadata.name


def _lane(
    window: Window,
    row: ReservationRow,
    nodes: Sequence[NodeRow],
    sample: ReservationSample | None,
    past: Sequence[Point],
    team_of: TeamOf,
) -> Lane:
    start = 0 if row.spec.start_at is None else window.place(row.spec.start_at)
    end = WHOLE if row.spec.end_at is None else window.place(row.spec.end_at)
    drain_at = row.status.drain_at
    is_seen = drain_at is not None and window.since < drain_at < window.until
    here = [
        node for node in nodes if node.spec.capacity_reservation_id == row.metadata.name
    ]
    bars = sorted(_bars(window, here, team_of), key=lambda bar: (-bar.units, bar.workload))
    return Lane(
        row=row,
        sample=sample,
        start=start,
        length=max(0, end - start),
        drain=window.place(drain_at) if is_seen and drain_at is not None else None,
        cells=tuple(_cells(window, past)),
        bars=tuple(bars[:HOLDERS_MAX]),
        more_count=max(0, len(bars) - HOLDERS_MAX),
    )


def _bars(window: Window, nodes: Sequence[NodeRow], team_of: TeamOf) -> Iterator[Bar]:
    held: dict[tuple[str, str], list[NodeRow]] = {}
    for node in nodes:
        for placed in node.status.workloads:
            held.setdefault((placed.namespace, placed.name), []).append(node)
    for (namespace, name), on in held.items():
        since = min(node.status.created_at for node in on)
        deadlines = [node.status.drain_deadline for node in on]
        known = [at for at in deadlines if at is not None]
        leaves_at = max(known) if len(known) == len(on) else None
        start = window.place(since)
        end = window.place(window.now if leaves_at is None else max(window.now, leaves_at))
        yield Bar(
            start,
            max(1, end - start),
            team_of(namespace),
            f"{namespace}/{name}",
            len(on),
            since,
            leaves_at,
        )


def _cells(window: Window, past: Sequence[Point]) -> Iterator[Cell]:
    """Yield what was known, as of the end of each of equal parts of the time that is past."""
    part = (window.now - window.since) / CELLS
    begun, is_open = 0, None
    for number in range(CELLS):
        point = _known_at(past, window.since + part * (number + 1))
        shares = None if point is None else _shares(point)
        start = window.place(window.since + part * number)
        if shares != is_open:
            if is_open is not None:
                yield Cell(begun, start - begun, *is_open)
            begun, is_open = start, shares
    if is_open is not None:
        yield Cell(begun, window.place(window.now) - begun, *is_open)


def _known_at(past: Sequence[Point], at: datetime) -> Point | None:
    before = [point for point in past if point.at < at]
    last = before[-1] if before else None
    return last if last is not None and last.known and last.there else None


def _shares(point: Point) -> tuple[int, int] | None:
    total = point.ours_count + point.others_count + point.free_count
    if total:
        return (
            _PERCENT * point.ours_count // total,
            _PERCENT * point.others_count // total,
        )
    return None
