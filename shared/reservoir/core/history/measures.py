"""The figures of each sample: the names, units and dimensions of metrics and of fields in the log.

Only the first twenty reservations, workloads and teams are reported, so that neither the log nor CloudWatch's bill
grows with their number: a metric costs 0.30 USD a month for each value of its dimension. The history has all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from reservoir.core.history.sample import ReservationSample, Sample
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import ReasonCode

METRIC_USD_CENTS: Final = 30  # a month, for each value of its dimension
MOST: Final = 20  # reservations, workloads, teams
_MICRO: Final = 1_000_000


class Unit(StrEnum):
    """CloudWatch's units; an amount of money has none there."""

    COUNT = "Count"
    SECONDS = "Seconds"
    PERCENT = "Percent"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric, and the field that has it in the log."""

    name: str
    field: str
    unit: Unit
    meaning: str


class Subject(StrEnum):
    """What a figure is about; the value is the message of its lines in the log."""

    RESERVATION = "reservation measured"
    MARKET = "market measured"
    WAITING = "waiting measured"
    BOUGHT = "bought measured"
    TEAM = "team measured"


DIMENSIONS: Final[Mapping[Subject, str]] = {
    Subject.RESERVATION: "reservation",
    Subject.MARKET: "capacity_type",
    Subject.WAITING: "reason",
    Subject.BOUGHT: "workload",
    Subject.TEAM: "team",
}
# How many values of a dimension there are at most.
CARDINALITIES: Final[Mapping[Subject, int]] = {
    Subject.RESERVATION: MOST,
    Subject.MARKET: len(CapacityType),
    Subject.WAITING: len(ReasonCode) + 1,  # and not planned yet
    Subject.BOUGHT: MOST,
    Subject.TEAM: MOST,
}
MEASURES: Final[Mapping[Subject, tuple[Measure, ...]]] = {
    Subject.RESERVATION: (
        Measure("ReservationUnits", "total_count", Unit.COUNT, "units of the reservation"),
        Measure(
            "ReservationUnitsOurs",
            "ours_count",
            Unit.COUNT,
            "units that nodes of Reservoir use or are to use",
        ),
        Measure(
            "ReservationUnitsOthers",
            "others_count",
            Unit.COUNT,
            "units that others use",
        ),
        Measure("ReservationUnitsFree", "free_count", Unit.COUNT, "units that are idle"),
        Measure(
            "ReservationIdleUsdPerHour",
            "idle_usd_per_hour",
            Unit.NONE,
            "what the free units would cost on demand",
        ),
    ),
    Subject.MARKET: (
        Measure("Nodes", "node_count", Unit.COUNT, "instances"),
        Measure(
            "UsdPerHour", "usd_per_hour", Unit.NONE, "what they cost beside reservations"
        ),
        Measure(
            "UsdPerHourAvoided",
            "avoided_usd_per_hour",
            Unit.NONE,
            "what they would cost on demand beyond that",
        ),
    ),
    Subject.WAITING: (
        Measure(
            "ReplicasWaiting",
            "replica_count",
            Unit.COUNT,
            "replicas that wait for this reason",
        ),
        Measure(
            "LongestWait",
            "longest_wait_s",
            Unit.SECONDS,
            "how long the first of them has waited",
        ),
    ),
    Subject.BOUGHT: (
        Measure(
            "NodesBought",
            "node_count",
            Unit.COUNT,
            "nodes beside reservations that hold its replicas",
        ),
        Measure(
            "UsdPerHourBought", "usd_per_hour", Unit.NONE, "its share of what they cost"
        ),
    ),
    Subject.TEAM: (
        Measure(
            "TeamUnitsOwned",
            "owned_count",
            Unit.COUNT,
            "units of reservations that are its by quota",
        ),
        Measure(
            "TeamUnitsUsed",
            "used_count",
            Unit.COUNT,
            "units that it uses, owned or borrowed",
        ),
        Measure(
            "TeamUsdPerHourBought",
            "usd_per_hour",
            Unit.NONE,
            "what was bought beside reservations for it",
        ),
        Measure(
            "TeamReplicasWaiting",
            "replica_count",
            Unit.COUNT,
            "its replicas that wait, for whatever reason",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one subject. ``values`` by field of the log; unknown figures are left out.

    ``more`` is for readers of the log alone.
    """

    subject: Subject
    name: str
    values: Mapping[str, float]
    more: Mapping[str, str | int | tuple[str, ...]]


def lines(sample: Sample) -> Iterator[Line]:
    """Yield the lines of a sample, at most ``MOST`` of each kind that may be numerous."""
    for reservation in sorted(sample.reservations, key=_rank)[:MOST]:
        yield _reservation(reservation)
    for market in sample.markets:
        values = {
            "node_count": market.node_count,
            "usd_per_hour": market.micro_usd_per_hour / _MICRO,
            **_known("avoided_usd_per_hour", market.avoided_micro_usd_per_hour),
        }
        yield Line(Subject.MARKET, market.capacity_type.value, values, {})
    for each in sample.waiting:
        waited = (
            {}
            if each.since is None
            else {"longest_wait_s": _seconds(each.since, sample.taken_at)}
        )
        more = {"workload_count": each.workload_count}
        yield Line(
            Subject.WAITING,
            each.reason,
            {"replica_count": each.replica_count, **waited},
            more,
        )
    for bought in sample.bought[:MOST]:
        paid = {
            "node_count": bought.node_count,
            "usd_per_hour": bought.micro_usd_per_hour / _MICRO,
        }
        about: dict[str, tuple[str, ...]] = {}
        if bought.correlation_id is not None:
            about["correlation_ids"] = (bought.correlation_id,)
        yield Line(Subject.BOUGHT, bought.workload_key, paid, about)

    for team in sorted(
        sample.teams, key=lambda it: (-it.used_count, -it.waiting_replica_count, it.name)
    )[:MOST]:
        values = {
            "owned_count": team.owned_count,
            "used_count": team.used_count,
            "usd_per_hour": team.micro_usd_per_hour / _MICRO,
            "replica_count": team.waiting_replica_count,
        }
        yield Line(Subject.TEAM, team.name, values, {})


def _rank(reservation: ReservationSample) -> tuple[int, int, str]:
    """Return the order of reservations: what lies idle most dearly first, then the largest."""
    return (
        -(reservation.idle_micro_usd_per_hour or 0),
        -reservation.total_count,
        reservation.id,
    )


def _reservation(it: ReservationSample) -> Line:
    values = {
        "total_count": it.total_count,
        "ours_count": it.ours_count,
        "others_count": it.others_count,
        "free_count": it.free_count,
        **_known("idle_usd_per_hour", it.idle_micro_usd_per_hour),
    }
    more: dict[str, str | int] = {
        "instance_type": it.instance_type,
        "zone": it.zone,
        "state": it.state,
    }
    if it.end_at is not None:
        # Numbers compare in CloudWatch's query language, instants do not.
        more |= {"ends_at": it.end_at.isoformat(), "ends_at_s": int(it.end_at.timestamp())}
    return Line(Subject.RESERVATION, it.id, values, more)


def _known(field: str, micro_usd: int | None) -> Mapping[str, float]:
    return {} if micro_usd is None else {field: micro_usd / _MICRO}


def _seconds(since: datetime, until: datetime) -> int:
    return max(0, int((until - since).total_seconds()))
