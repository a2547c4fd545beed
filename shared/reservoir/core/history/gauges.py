"""What there is, as gauges: levels of one moment, under the names that Prometheus and OpenTelemetry see.

`reservoir metrics` writes them as text, and the pipeline pushes them by OTLP where the deployment says where to.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from reservoir.core.history.sample import ReservationSample, Sample

MOST_SERIES_A_GAUGE: Final = 1000  # further ones are added up under one name
OTHER: Final = "(other)"
_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge: values by tuples of what its labels say."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    values: Mapping[Any, float] = field(default_factory=dict)

    def bounded(self, most: int = MOST_SERIES_A_GAUGE) -> "Gauge":
        """Return it with so many series at most: the largest, and the sum of all others."""
        if len(self.values) <= most:
            return self
        ranked = sorted(self.values.items(), key=lambda item: (-item[1], item[0]))
        kept, others = dict(ranked[: most - 1]), ranked[most - 1 :]
        kept[OTHER, *[""] * (len(self.labels) - 1)] = sum(value for _, value in others)
        return Gauge(self.name, self.help, self.labels, kept)


def gauges(there: Sample, now: datetime) -> Iterator[Gauge]:
    """Yield the gauges of what there is, each with its known values; ages are those at ``now``."""
    yield from _capacity(there)
    yield from _demand(there, now)
    yield _unread(there)
    yield from _money(there)
    yield from _teams(there)


def _capacity(there: Sample) -> Iterator[Gauge]:
    labels = ("reservation", "instance_type", "zone", "kind", "use")

    def named(it: ReservationSample) -> tuple[str, ...]:
        return it.id, it.instance_type, it.zone, it.kind.value

    units: dict[tuple[str, ...], float] = {}
    for it in there.reservations:
        for use, count in (
            ("ours", it.ours_count),
            ("others", it.others_count),
            ("free", it.free_count),
        ):
            units[*named(it), use] = count
    yield Gauge(
        "reservoir_reservation_units",
        "Units of reservations by who uses them.",
        labels,
        units,
    )
    ends = {
        (it.id,): it.end_at.timestamp()
        for it in there.reservations
        if it.end_at is not None
    }
    yield Gauge(
        "reservoir_reservation_end_timestamp_seconds",
        "When a reservation ends.",
        ("reservation",),
        ends,
    )
    stale = {(it.id,): float(it.stale) for it in there.reservations if it.stale}
    yield Gauge(
        "reservoir_reservation_stale",
        "Reservations that could not be read again.",
        ("reservation",),
        stale,
    )
    nodes = {(it.capacity_type.value,): float(it.node_count) for it in there.markets}
    yield Gauge("reservoir_nodes", "Nodes by capacity type.", ("capacity_type",), nodes)


def _demand(there: Sample, now: datetime) -> Iterator[Gauge]:
    by_reason: tuple[tuple[str, str, Callable[..., float | None]], ...] = (
        (
            "reservoir_waiting_replicas",
            "Replicas that wait, by reason.",
            lambda it: it.replica_count,
        ),
        (
            "reservoir_waiting_workloads",
            "Workloads with replicas that wait, by reason.",
            lambda it: it.workload_count,
        ),
        (
            "reservoir_waiting_oldest_seconds",
            "How long the replica that waits longest has waited, by reason.",
            lambda it: (
                None if it.since is None else max(0.0, (now - it.since).total_seconds())
            ),
        ),
    )
    for name, text, value in by_reason:
        found = {(str(it.reason),): value(it) for it in there.waiting}
        yield Gauge(
            name,
            text,
            ("reason",),
            {key: number for key, number in found.items() if number is not None},
        )


def _unread(there: Sample) -> Gauge:
    return Gauge(
        "reservoir_waiting_unread_workloads",
        "Workloads that wait and were not read; one replica of each is counted as waiting.",
        (),
        {(): float(there.unread_count)},
    )


def _money(there: Sample) -> Iterator[Gauge]:
    idle = {(it.id,): it.idle_micro_usd_per_hour for it in there.reservations}
    yield Gauge(
        "reservoir_reservation_idle_usd_per_hour",
        "What the free units of a reservation would cost on demand.",
        ("reservation",),
        _usd(idle),
    )
    paid = {(it.capacity_type.value,): it.micro_usd_per_hour for it in there.markets}
    yield Gauge(
        "reservoir_paid_usd_per_hour",
        "What nodes cost beside reservations.",
        ("capacity_type",),
        _usd(paid),
    )
    avoided = {
        (it.capacity_type.value,): it.avoided_micro_usd_per_hour for it in there.markets
    }
    text = "What nodes would cost on demand beyond what is paid."
    yield Gauge("reservoir_avoided_usd_per_hour", text, ("capacity_type",), _usd(avoided))


def _teams(there: Sample) -> Iterator[Gauge]:
    use: dict[tuple[str, ...], float] = {}
    for team in there.teams:
        use[team.name, "owned"] = float(team.owned_count)
        use[team.name, "used"] = float(team.used_count)
    yield Gauge(
        "reservoir_team_units",
        "Units of reservations that a team owns, and uses.",
        ("team", "units"),
        use,
    )
    paid = {(it.name,): it.micro_usd_per_hour for it in there.teams}
    yield Gauge(
        "reservoir_team_usd_per_hour",
        "What is bought for a team costs an hour.",
        ("team",),
        _usd(paid),
    )
    waiting = {(it.name,): float(it.waiting_replica_count) for it in there.teams}
    yield Gauge(
        "reservoir_team_waiting_replicas",
        "Replicas of a team that wait.",
        ("team",),
        waiting,
    )


def _usd(amounts: Mapping[Any, int | None]) -> dict[Any, float]:
    return {key: amount / _MICRO for key, amount in amounts.items() if amount is not None}
