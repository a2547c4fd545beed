"""The figures of a report, computed from samples and events. Money in micro-USD, times in whole seconds.

``reservoir.core.history.seen`` defines for how long a sample holds. Other times are not added up: an hour without
samples is not an hour without costs. Payments are not counted from samples but come from the accounts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from reservoir.cli.report.money import Metered
from reservoir.core.history.past_event import PastEvent, workload_name
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.history.seen import Seen, held, seconds_between, seen_by_id
from reservoir.core.history.summary import subject, summary
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType

NOTABLE: Final = frozenset(
    {
        "Capacity Purchased",
        "Capacity Suspected",
        "Endings Held",
        "Envelope Lifted",
        "Launches Blocked",
        "Node Capacity Type Changed",
        "Node Moved Into Reservation",
        "Policy Changed",
        "Reservation Changed",
        "Reservation Ending",
        "Reservation Idle",
        "Reservation Lending Changed",
        "Reservation Readiness",
        "Tables Adopted",
        "Workload Left Spot",
    }
)
NOTABLE_DRAINS: Final = frozenset(
    {"Consolidation", "Interruption", "ScheduledChange", "Unhealthy"}
)
NOTABLE_MAX: Final = 100
STORIES_MAX: Final = 20
STORY_EVENTS_MAX: Final = 12
_HOUR_S: Final = 3600
_EVENTS_FROM_WITHIN: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Point:
    """Units of a reservation from an instant on; ``known`` is false where nothing is known until the next point.

    ``there`` is false from when the reservation had ended, or had gone.
    """

    at: datetime
    ours_count: int
    others_count: int
    free_count: int
    known: bool = True
    there: bool = True


@dataclass(frozen=True, slots=True)
class ReservationUse:
    """One reservation over the whole time. Shares are of the unit-time that is known."""

    id: str
    instance_type: str
    zone: str
    kind: ReservationKind
    end_at: datetime | None
    points: tuple[Point, ...]
    ours_unit_s: int
    others_unit_s: int
    free_unit_s: int
    avoided_micro_usd: int | None
    idle_micro_usd: int | None

    @property
    def ours_percent(self) -> int:
        """How much of it was used by nodes of Reservoir, rounded down."""
        total = self.ours_unit_s + self.others_unit_s + self.free_unit_s
        return 100 * self.ours_unit_s // total if total else 0


@dataclass(frozen=True, slots=True)
class MarketUse:
    """One market over the time that samples cover."""

    capacity_type: str
    node_s: int
    avoided_micro_usd: int | None


@dataclass(frozen=True, slots=True)
class NodePoint:
    """Nodes by market from an instant on."""

    at: datetime
    counts: Mapping[str, int]
    known: bool = True


@dataclass(frozen=True, slots=True)
class Waits:
    """How long workloads waited for one reason, from its first report to a place; ``open_count`` still do."""

    reason: str
    count: int
    open_count: int
    median_s: int
    p90_s: int
    longest_s: int


@dataclass(frozen=True, slots=True)
class Ran:
    """Nodes that were launched somewhere."""

    instance_type: str
    capacity_type: str
    zone: str
    node_count: int


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """How a Capacity Block was left before its end. ``late_count``: nodes gone only after their deadline."""

    use: ReservationUse
    drained_count: int
    in_time_count: int
    late_count: int


@dataclass(frozen=True, slots=True)
class Notable:
    """Something to look at again, and the command that explains it. Repeated reports about one object are one."""

    event: PastEvent  # the last of them
    what: str
    about: str
    explained_by: str
    count: int = 1
    first_at: datetime | None = None  # of those that are reported once


@dataclass(frozen=True, slots=True)
class Story:
    """What happened to one object, oldest first."""

    about: str
    events: tuple[tuple[PastEvent, str], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All of it."""

    deployment: str
    since: datetime
    until: datetime
    known_s: int
    sample_count: int
    reservations: tuple[ReservationUse, ...]
    markets: tuple[MarketUse, ...]
    nodes: tuple[NodePoint, ...]
    waits: tuple[Waits, ...]
    ran: tuple[Ran, ...]
    blocks: tuple[BlockEnd, ...]
    notable: tuple[Notable, ...]
    notable_count: int
    stories: tuple[Story, ...]  # of the objects that the notable events are about
    money: Metered | None = None  # of whole days; None: the accounts have nothing of them
    beside: Metered | None = None  # the days that it is compared with
    first_event_at: datetime | None = None

    @property
    def lacks_events(self) -> bool:
        """Whether there are no events of the first day: they may be kept for less time than the report covers."""
        until = self.since + _EVENTS_FROM_WITHIN
        return self.until > until and (
            self.first_event_at is None or self.first_event_at > until
        )

    @property
    def known_percent(self) -> int:
        """How much of the time samples cover, in percent, rounded down."""
        return 100 * self.known_s // max(1, seconds_between(self.since, self.until))


def make_report(
    deployment: str,
    since: datetime,
    until: datetime,
    samples: Sequence[Sample],
    events: Sequence[PastEvent],
    money: Metered | None = None,
    beside: Metered | None = None,
) -> Report:
    """Compute everything from samples and events; both lists oldest first.

    Parameters
    ----------
    money, beside
        The accounts of its days, and of the days that they are compared with.
    """
    with_length = list(held(samples, until))
    uses = tuple(_uses(with_length, until))
    notable = list(_notable(events))
    shown = notable[-NOTABLE_MAX:][::-1]
    return Report(
        deployment=deployment,
        since=since,
        until=until,
        known_s=sum(seconds for _, seconds in with_length),
        sample_count=len(samples),
        reservations=uses,
        markets=tuple(_markets(with_length)),
        nodes=tuple(
            _node_point(sample, is_known=seconds > 0) for sample, seconds in with_length
        ),
        waits=tuple(_waits(events, until)),
        ran=tuple(_ran(events)),
        blocks=tuple(_blocks(uses, events)),
        notable=tuple(shown),
        notable_count=len(notable),
        stories=tuple(_stories([it.about for it in shown if it.about], events)),
        money=money,
        beside=beside,
        first_event_at=events[0].at if events else None,
    )


def _uses(
    samples: Sequence[tuple[Sample, int]], until: datetime
) -> Iterator[ReservationUse]:
    uses = [_use(found, until) for found in seen_by_id(samples, until).values()]
    yield from sorted(
        uses, key=lambda use: (-(use.idle_micro_usd or 0), -use.free_unit_s, use.id)
    )


def _use(found: Sequence[Seen], until: datetime) -> ReservationUse:
    last = found[-1].what
    prices = [seen.what.micro_usd_per_hour for seen in found if seen.seconds]
    has_prices = None not in prices
    return ReservationUse(
        id=last.id,
        instance_type=last.instance_type,
        zone=last.zone,
        kind=last.kind,
        end_at=last.end_at,
        points=tuple(_points(found, until)),
        ours_unit_s=sum(seen.what.ours_count * seen.seconds for seen in found),
        others_unit_s=sum(seen.what.others_count * seen.seconds for seen in found),
        free_unit_s=sum(seen.what.free_count * seen.seconds for seen in found),
        avoided_micro_usd=_cost((it.what.ours_count, it.what, it.seconds) for it in found)
        if has_prices
        else None,
        idle_micro_usd=_cost((it.what.free_count, it.what, it.seconds) for it in found)
        if has_prices
        else None,
    )


def _points(found: Sequence[Seen], until: datetime) -> Iterator[Point]:
    """Yield a point for each time that it was seen, and one where it was there no longer."""
    following = [*(seen.at for seen in found[1:]), None]
    for seen, again_at in zip(found, following, strict=True):
        it = seen.what
        yield Point(
            seen.at, it.ours_count, it.others_count, it.free_count, known=seen.known
        )
        has_ended = seen.ends_at < seen.until
        is_missed = again_at is None and seen.until < until  # by the next sample
        is_back_later = again_at is not None and seen.until < again_at
        if has_ended or is_missed or is_back_later:
            yield Point(seen.ends_at, 0, 0, 0, there=False)


def _cost(parts: Iterable[tuple[int, ReservationSample, int]]) -> int:
    return (
        sum(units * (it.micro_usd_per_hour or 0) * seconds for units, it, seconds in parts)
        // _HOUR_S
    )


def _node_point(sample: Sample, *, is_known: bool) -> NodePoint:
    counts = {market.capacity_type.value: market.node_count for market in sample.markets}
    return NodePoint(sample.taken_at, counts, is_known)


def _markets(samples: Sequence[tuple[Sample, int]]) -> Iterator[MarketUse]:
    nodes: dict[str, int] = {}
    avoided: dict[str, int | None] = {}
    for sample, seconds in samples:
        for it in sample.markets:
            name = it.capacity_type.value
            more = it.avoided_micro_usd_per_hour
            before = avoided.get(it.capacity_type, 0)
            nodes[name] = nodes.get(name, 0) + it.node_count * seconds
            avoided[name] = (
                None
                if before is None or (more is None and seconds)
                else before + (more or 0) * seconds
            )
    for name in (it.value for it in CapacityType if it.value in nodes):
        saved = avoided[name]
        yield MarketUse(name, nodes[name], None if saved is None else saved // _HOUR_S)


def _waits(events: Sequence[PastEvent], until: datetime) -> Iterator[Waits]:
    # since when, and the last reported reason
    waiting: dict[str, tuple[datetime, str]] = {}
    waited: dict[str, list[int]] = {}
    for event in events:
        detail = event.detail
        key = _workload(detail)
        if event.detail_type == "Workload Pending" and key is not None:
            since = waiting[key][0] if key in waiting else event.at
            waiting[key] = (since, str(detail.get("reason")))
        elif event.detail_type == "Workload Placed" and key in waiting and key is not None:
            since, reason = waiting.pop(key)
            waited.setdefault(reason, []).append(seconds_between(since, event.at))
    open_counts: dict[str, int] = {}
    for since, reason in waiting.values():
        open_counts[reason] = open_counts.get(reason, 0) + 1
        waited.setdefault(reason, []).append(seconds_between(since, until))
    for reason, lengths in sorted(
        waited.items(), key=lambda each: (-len(each[1]), each[0])
    ):
        lengths.sort()
        percentiles = (_percentile(lengths, 50), _percentile(lengths, 90), lengths[-1])
        yield Waits(reason, len(lengths), open_counts.get(reason, 0), *percentiles)


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the nearest rank: a wait that did occur."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def _ran(events: Sequence[PastEvent]) -> Iterator[Ran]:
    counts: dict[tuple[str, str, str], int] = {}
    for event in events:
        node = event.detail.get("node")
        if event.detail_type == "Node Launched" and isinstance(node, dict):
            place = (
                str(node.get("instanceType")),
                str(node.get("capacityType")),
                str(node.get("zone")),
            )
            counts[place] = counts.get(place, 0) + 1
    for place, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        yield Ran(*place, count)


def _blocks(
    uses: Sequence[ReservationUse], events: Sequence[PastEvent]
) -> Iterator[BlockEnd]:
    # by claim: its block, and until when it had time
    deadlines: dict[str, tuple[str, datetime]] = {}
    gone: dict[str, datetime] = {}
    for event in events:
        node = event.detail.get("node")
        if not isinstance(node, dict):
            continue
        claim = str(node.get("nodeClaim"))
        if (
            event.detail_type == "Node Draining"
            and event.detail.get("reason") == "CapacityBlockEnding"
        ):
            deadline = datetime.fromisoformat(str(event.detail["deadline"]))
            deadlines[claim] = (str(node.get("capacityReservationId")), deadline)
        elif event.detail_type == "Node Terminated":
            gone.setdefault(claim, event.at)
    for use in uses:
        if use.kind is ReservationKind.CAPACITY_BLOCK:
            ours = {
                claim: deadline
                for claim, (block, deadline) in deadlines.items()
                if block == use.id
            }
            # A node is ended at its deadline, and EC2 takes a while: one minute is not late.
            late = sum(
                claim in gone and gone[claim] > at + timedelta(minutes=1)
                for claim, at in ours.items()
            )
            in_time = sum(claim in gone for claim in ours) - late
            yield BlockEnd(use, len(ours), in_time, late)


def _notable(events: Sequence[PastEvent]) -> Iterator[Notable]:
    """Yield notable things, by when they were reported last: repeated reports about one object hide nothing else."""
    found: dict[tuple[str, str, str], Notable] = {}
    for event in events:
        is_notable = event.detail_type in NOTABLE or (
            event.detail_type == "Node Draining"
            and event.detail.get("reason") in NOTABLE_DRAINS
        )
        if is_notable:
            about = subject(event)
            told = Notable(event, summary(event), about, _command(about), first_at=event.at)
            key = (event.detail_type, about, "" if about else event.id)
            before = found.pop(key, None)
            found[key] = (
                told
                if before is None
                else replace(told, count=before.count + 1, first_at=before.first_at)
            )
    yield from found.values()


def _stories(names: Iterable[str], events: Sequence[PastEvent]) -> Iterator[Story]:
    told: dict[str, list[PastEvent]] = {name: [] for name in names}
    for event in events:
        for name in told.keys() & set(event.objects()):
            told[name].append(event)
    for name, found in list(told.items())[:STORIES_MAX]:
        yield Story(
            name,
            tuple(
                (event, summary(event.about(name))) for event in found[-STORY_EVENTS_MAX:]
            ),
        )


def _command(about: str) -> str:
    kind, _, name = about.partition("/")
    if kind in ("node", "workload"):
        return f"reservoir explain {kind} {name}"
    return f"reservoir events --for {about}" if about else "reservoir events --since 7d"


def _workload(detail: Mapping[str, Any]) -> str | None:
    ref = detail.get("workload")
    return (
        workload_name(f"{ref.get('namespace')}/{ref.get('name')}")
        if isinstance(ref, dict)
        else None
    )
