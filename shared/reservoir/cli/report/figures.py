"""What a report says, computed from samples and events. Money in micro-USD, times in whole seconds.

A sample holds until the next one. Where the next is missing for longer than ``LONGEST_GAP``, nothing is known of the
time between and nothing is added up: an hour without samples is not an hour without costs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from reservoir.core.history.past_event import PastEvent, workload_name
from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.history.summary import subject, summary
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.sharing.accounts import AccountLine, Amount

LONGEST_GAP: Final = timedelta(minutes=30)
NOTABLE: Final = frozenset(
    {
        "Capacity Suspected",
        "Endings Held",
        "Envelope Lifted",
        "Launches Blocked",
        "Node Capacity Type Changed",
        "Policy Changed",
        "Reservation Idle",
        "Tables Adopted",
    }
)
NOTABLE_DRAINS: Final = frozenset({"Consolidation", "Interruption", "ScheduledChange", "Unhealthy"})
NOTABLE_MAX: Final = 100
STORIES_MAX: Final = 20
STORY_EVENTS_MAX: Final = 12
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Point:
    """Units of a reservation from an instant on; ``known`` is false where nothing is known until the next point."""

    at: datetime
    ours_count: int
    others_count: int
    free_count: int
    known: bool = True


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
    """One market over the whole time."""

    capacity_type: str
    node_s: int
    paid_micro_usd: int
    avoided_micro_usd: int | None


@dataclass(frozen=True, slots=True)
class TeamUse:
    """What instances ran and cost for a namespace of a team; the empty names are of no team, and of nobody."""

    team: str
    namespace: str
    capacity_type: str
    unit_s: int
    spent_micro_usd: int


@dataclass(frozen=True, slots=True)
class NodePoint:
    """Nodes by market from an instant on."""

    at: datetime
    counts: Mapping[str, int]
    known: bool = True


@dataclass(frozen=True, slots=True)
class Waits:
    """How long workloads waited for one reason, from being told so to having a place; ``open_count`` still do."""

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
    """What was done with a Capacity Block up to its end. ``late_count``: nodes gone only after their deadline."""

    use: ReservationUse
    drained_count: int
    in_time_count: int
    late_count: int


@dataclass(frozen=True, slots=True)
class Notable:
    """Something to look at again, and the command that explains it."""

    event: PastEvent
    what: str
    about: str
    explained_by: str


@dataclass(frozen=True, slots=True)
class Story:
    """What happened to one object, oldest first, each with what it was."""

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
    teams: tuple[TeamUse, ...] = ()  # over whole days


def make_report(
    deployment: str,
    since: datetime,
    until: datetime,
    samples: Sequence[Sample],
    events: Sequence[PastEvent],
    accounts: Mapping[AccountLine, Amount] | None = None,
) -> Report:
    """Compute everything from what is kept; both lists oldest first."""
    held = list(_held(samples, until))
    uses = tuple(_uses(held))
    notable = list(_notable(events))
    shown = notable[-NOTABLE_MAX:][::-1]
    return Report(
        deployment=deployment,
        since=since,
        until=until,
        known_s=sum(seconds for _, seconds in held),
        sample_count=len(samples),
        reservations=uses,
        markets=tuple(_markets(held)),
        nodes=tuple(
            NodePoint(sample.taken_at, {it.capacity_type.value: it.node_count for it in sample.markets}, seconds > 0)
            for sample, seconds in held
        ),
        waits=tuple(_waits(events, until)),
        ran=tuple(_ran(events)),
        blocks=tuple(_blocks(uses, events)),
        notable=tuple(shown),
        notable_count=len(notable),
        stories=tuple(_stories([it.about for it in shown if it.about], events)),
        teams=tuple(_teams(accounts or {})),
    )


def _teams(accounts: Mapping[AccountLine, Amount]) -> Iterator[TeamUse]:
    totals: dict[tuple[str, str, str], Amount] = {}
    for account, amount in accounts.items():
        key = (account.team, account.namespace, account.capacity_type.value)
        totals[key] = totals.get(key, Amount()) + amount
    for key in sorted(totals):
        yield TeamUse(*key, totals[key].seconds, totals[key].micro_usd)


def _held(samples: Sequence[Sample], until: datetime) -> Iterator[tuple[Sample, int]]:
    """Yield each sample with how long it held, 0 where that is not known."""
    ends = [*(sample.taken_at for sample in samples[1:]), until]
    for sample, end in zip(samples, ends, strict=False):
        gap = end - sample.taken_at
        yield sample, int(gap.total_seconds()) if timedelta() < gap <= LONGEST_GAP else 0


def _uses(held: Sequence[tuple[Sample, int]]) -> Iterator[ReservationUse]:
    by_id: dict[str, list[tuple[datetime, ReservationSample, int]]] = {}
    for sample, seconds in held:
        for it in sample.reservations:
            by_id.setdefault(it.id, []).append((sample.taken_at, it, seconds))
    uses = [_use(found) for found in by_id.values()]
    yield from sorted(uses, key=lambda use: (-(use.idle_micro_usd or 0), -use.free_unit_s, use.id))


def _use(found: Sequence[tuple[datetime, ReservationSample, int]]) -> ReservationUse:
    last = found[-1][1]
    prices = [it.micro_usd_per_hour for _, it, seconds in found if seconds]
    has_prices = None not in prices
    return ReservationUse(
        id=last.id,
        instance_type=last.instance_type,
        zone=last.zone,
        kind=last.kind,
        end_at=last.end_at,
        points=tuple(
            Point(at, it.ours_count, it.others_count, it.free_count, known=seconds > 0) for at, it, seconds in found
        ),
        ours_unit_s=sum(it.ours_count * seconds for _, it, seconds in found),
        others_unit_s=sum(it.others_count * seconds for _, it, seconds in found),
        free_unit_s=sum(it.free_count * seconds for _, it, seconds in found),
        avoided_micro_usd=_cost((it.ours_count, it, seconds) for _, it, seconds in found) if has_prices else None,
        idle_micro_usd=_cost((it.free_count, it, seconds) for _, it, seconds in found) if has_prices else None,
    )


def _cost(parts: Iterable[tuple[int, ReservationSample, int]]) -> int:
    return sum(units * (it.micro_usd_per_hour or 0) * seconds for units, it, seconds in parts) // _HOUR_S


def _markets(held: Sequence[tuple[Sample, int]]) -> Iterator[MarketUse]:
    nodes: dict[str, int] = {}
    paid: dict[str, int] = {}
    avoided: dict[str, int | None] = {}
    for sample, seconds in held:
        for it in sample.markets:
            name, more, before = it.capacity_type.value, it.avoided_micro_usd_per_hour, avoided.get(it.capacity_type, 0)
            nodes[name] = nodes.get(name, 0) + it.node_count * seconds
            paid[name] = paid.get(name, 0) + it.micro_usd_per_hour * seconds
            avoided[name] = None if before is None or (more is None and seconds) else before + (more or 0) * seconds
    for name in (it.value for it in CapacityType if it.value in nodes):
        saved = avoided[name]
        yield MarketUse(name, nodes[name], paid[name] // _HOUR_S, None if saved is None else saved // _HOUR_S)


def _waits(events: Sequence[PastEvent], until: datetime) -> Iterator[Waits]:
    waiting: dict[str, tuple[datetime, str]] = {}  # since when, and the reason told last
    waited: dict[str, list[int]] = {}
    for event in events:
        detail = event.detail
        key = _workload(detail)
        if event.detail_type == "Workload Pending" and key is not None:
            since = waiting[key][0] if key in waiting else event.at
            waiting[key] = (since, str(detail.get("reason")))
        elif event.detail_type == "Workload Placed" and key in waiting and key is not None:
            since, reason = waiting.pop(key)
            waited.setdefault(reason, []).append(_seconds(since, event.at))
    open_counts: dict[str, int] = {}
    for since, reason in waiting.values():
        open_counts[reason] = open_counts.get(reason, 0) + 1
        waited.setdefault(reason, []).append(_seconds(since, until))
    for reason, lengths in sorted(waited.items(), key=lambda each: (-len(each[1]), each[0])):
        lengths.sort()
        percentiles = (_percentile(lengths, 50), _percentile(lengths, 90), lengths[-1])
        yield Waits(reason, len(lengths), open_counts.get(reason, 0), *percentiles)


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the nearest rank: a length that somebody did wait."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def _ran(events: Sequence[PastEvent]) -> Iterator[Ran]:
    counts: dict[tuple[str, str, str], int] = {}
    for event in events:
        node = event.detail.get("node")
        if event.detail_type == "Node Launched" and isinstance(node, dict):
            place = (str(node.get("instanceType")), str(node.get("capacityType")), str(node.get("zone")))
            counts[place] = counts.get(place, 0) + 1
    for place, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        yield Ran(*place, count)


def _blocks(uses: Sequence[ReservationUse], events: Sequence[PastEvent]) -> Iterator[BlockEnd]:
    deadlines: dict[str, tuple[str, datetime]] = {}  # by claim: its block, and until when it had time
    gone: dict[str, datetime] = {}
    for event in events:
        node = event.detail.get("node")
        if not isinstance(node, dict):
            continue
        claim = str(node.get("nodeClaim"))
        if event.detail_type == "Node Draining" and event.detail.get("reason") == "CapacityBlockEnding":
            deadline = datetime.fromisoformat(str(event.detail["deadline"]))
            deadlines[claim] = (str(node.get("capacityReservationId")), deadline)
        elif event.detail_type == "Node Terminated":
            gone.setdefault(claim, event.at)
    for use in uses:
        if use.kind is ReservationKind.CAPACITY_BLOCK:
            ours = {claim: deadline for claim, (block, deadline) in deadlines.items() if block == use.id}
            # A node is told to end at its deadline, and EC2 takes a while: one minute is not late.
            late = sum(claim in gone and gone[claim] > at + timedelta(minutes=1) for claim, at in ours.items())
            in_time = sum(claim in gone for claim in ours) - late
            yield BlockEnd(use, len(ours), in_time, late)


def _notable(events: Sequence[PastEvent]) -> Iterator[Notable]:
    for event in events:
        is_notable = event.detail_type in NOTABLE or (
            event.detail_type == "Node Draining" and event.detail.get("reason") in NOTABLE_DRAINS
        )
        if is_notable:
            about = subject(event)
            yield Notable(event, summary(event), about, _command(about))


def _stories(names: Iterable[str], events: Sequence[PastEvent]) -> Iterator[Story]:
    told: dict[str, list[PastEvent]] = {name: [] for name in names}
    for event in events:
        for name in told.keys() & set(event.objects()):
            told[name].append(event)
    for name, found in list(told.items())[:STORIES_MAX]:
        yield Story(name, tuple((event, summary(event.about(name))) for event in found[-STORY_EVENTS_MAX:]))


def _command(about: str) -> str:
    kind, _, name = about.partition("/")
    if kind in ("node", "workload"):
        return f"reservoir explain {kind} {name}"
    return f"reservoir events --for {about}" if about else "reservoir events --since 7d"


def _workload(detail: Mapping[str, Any]) -> str | None:
    ref = detail.get("workload")
    return workload_name(f"{ref.get('namespace')}/{ref.get('name')}") if isinstance(ref, dict) else None


def _seconds(since: datetime, until: datetime) -> int:
    return max(0, int((until - since).total_seconds()))
