"""What instances cost each namespace, to the second.

An instance is charged, from its launch to its end, to the namespaces whose replicas are on it, by the dominant share of
it that these take. An empty one is charged to none, and one that is ending to the namespaces that were on it last.
Parts are whole seconds and whole atto-USD, and add up exactly. Reserved units are paid for anyway: they count in time,
and cost nothing here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim, parts_of
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, split

# the namespace of an instance with nothing on it, and the team of a namespace of no team
NOBODY: Final = ""
_HOUR_S: Final = 3600
_DAY: Final = timedelta(days=1)
# One transaction must take what is written at once: so many days, and namespaces of one instance. Beyond that, the
# namespaces with the smallest parts are not charged.
_DAYS_AT_ONCE: Final = 2 * _DAY
_NAMESPACES_MAX: Final = 40
_LEAVING: Final = frozenset(
    {ClaimState.DRAINING, ClaimState.TERMINATING, ClaimState.TERMINATED}
)

TeamOf = Callable[[str], str]  # of a namespace


def owners(teams: Iterable[Team]) -> TeamOf:
    """Return what names the team of a namespace."""
    by_name = by_namespace(teams)
    return lambda namespace: by_name[namespace].name if namespace in by_name else NOBODY


@dataclass(frozen=True, slots=True)
class Meter:
    """A running instance, and the namespaces that it is charged to from ``since`` on, each with its part.

    The parts, of whatever sum, are called ``replicas`` as they were stored when each replica was one.

    The time before ``since`` has been recorded, for an instance that was launched at ``launched_at``.
    """

    claim_id: str
    launched_at: datetime
    since: datetime
    capacity_type: CapacityType
    price_atto_usd_per_hour: int  # 0 for reserved units
    replicas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AccountLine:
    """Whose time and money: of one day (UTC, ``2026-01-31``), team, namespace and capacity type."""

    day: str
    team: str
    namespace: str
    capacity_type: CapacityType


@dataclass(frozen=True, slots=True)
class Amount:
    """Seconds of whole instances, and what they cost."""

    seconds: int = 0
    atto_usd: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        """Add up."""
        return Amount(self.seconds + other.seconds, self.atto_usd + other.atto_usd)

    @property
    def micro_usd(self) -> int:
        """The money, rounded up."""
        return -(-self.atto_usd // ATTO_USD_PER_MICRO_USD)


@dataclass(frozen=True, slots=True)
class MeterReading:
    """What to write down of an instance: ``amounts`` until now, and the meter that runs on; None: it has ended."""

    amounts: Mapping[AccountLine, Amount]
    meter: Meter | None


# Branches: the cases in which something is recorded, one after the other, each with its own reading.
def read(
    meter: Meter | None, claim: NodeClaim, now: datetime, team_of: TeamOf
) -> MeterReading | None:
    """Read a claim's meter; None when there is nothing to record.

    ``meter`` is None for an instance that is read for the first time. Time is recorded at midnight, and when the
    replicas on the instance, the way it is bought, or whether it runs change; until then the meter only runs. There may
    be more to record after it.
    """
    if claim.instance_id is None or claim.launched_at is None:
        return None
    launched_at = _second(claim.launched_at)
    begun = _meter(claim, launched_at, {})
    # EC2's time of the launch comes after the first reading; what was recorded too much or too little is made up for by
    # the next record.
    if meter is None:
        known = begun
    else:
        known = replace(
            meter,
            launched_at=launched_at,
            since=meter.since + (launched_at - meter.launched_at),
        )
    soon = _midnight(known.since) + _DAYS_AT_ONCE
    ended_at = claim.ended_at or claim.terminated_at
    if ended_at is not None:
        end = max(known.since, _second(ended_at))
        if end <= soon:
            return MeterReading(charges(known, end, team_of), None)
        return MeterReading(charges(known, soon, team_of), replace(known, since=soon))
    if soon < now:
        return MeterReading(charges(known, soon, team_of), replace(known, since=soon))
    after = _meter(claim, known.since, known.replicas)
    today = _midnight(now)
    if after == known:
        if known.since >= today:
            return None if known == meter else MeterReading({}, known)
        return MeterReading(charges(known, today, team_of), replace(known, since=today))
    at = max(known.since, min(_second(now), _changed_at(claim, known, now)))
    return MeterReading(charges(known, at, team_of), replace(after, since=at))


def charges(meter: Meter, until: datetime, team_of: TeamOf) -> Mapping[AccountLine, Amount]:
    """Return what a meter shows at ``until``, by day and namespace."""
    found: dict[AccountLine, Amount] = {}
    since = meter.since
    while since < until:
        end = min(until, _midnight(since) + _DAY)
        seconds = int((end - since).total_seconds())
        atto_usd = meter.price_atto_usd_per_hour * seconds // _HOUR_S
        replicas = dict(sorted(meter.replicas.items())) or {NOBODY: 1}
        parts = zip(
            replicas,
            split(seconds, replicas.values()),
            split(atto_usd, replicas.values()),
            strict=True,
        )
        for namespace, own_seconds, own_atto_usd in parts:
            account = AccountLine(
                f"{since:%Y-%m-%d}", team_of(namespace), namespace, meter.capacity_type
            )
            found[account] = found.get(account, Amount()) + Amount(
                own_seconds, own_atto_usd
            )
        since = end
    return found


def added_up(parts: Iterable[Mapping[AccountLine, Amount]]) -> Mapping[AccountLine, Amount]:
    """Return the sums by account."""
    found: dict[AccountLine, Amount] = {}
    for part in parts:
        for account, amount in part.items():
            found[account] = found.get(account, Amount()) + amount
    return found


def rates(meters: Iterable[Meter], team_of: TeamOf) -> Mapping[str, int]:
    """Return what runs costs each team an hour, in atto-USD."""
    hour = timedelta(seconds=_HOUR_S)
    found: Counter[str] = Counter()
    for meter in meters:
        for account, amount in charges(meter, meter.since + hour, team_of).items():
            found[account.team] += amount.atto_usd
    return found


def month_of(at: datetime) -> str:
    """Return the month (UTC) as accounts name it, ``2026-01``."""
    return f"{at.astimezone(UTC):%Y-%m}"


def left_of_month(now: datetime) -> timedelta:
    """Return how long the month (UTC) goes on."""
    first = _midnight(now).replace(day=1)
    return (first + 32 * _DAY).replace(day=1) - now


def _meter(claim: NodeClaim, since: datetime, before: Mapping[str, int]) -> Meter:
    """Return the meter of a claim as it is; while it is ending, the namespaces that were on it last go on paying."""
    reserved = claim.offering.capacity_type is CapacityType.RESERVED
    leaving = claim.state in _LEAVING
    on_it = claim.placements or (() if claim.drain is None else claim.drain.awaiting)
    replicas: Counter[str] = Counter()
    for key, part in parts_of(claim, on_it):
        replicas[key.partition("/")[0]] += part
    for namespace in sorted(replicas, key=lambda name: (-replicas[name], name))[
        _NAMESPACES_MAX:
    ]:
        replicas[NOBODY] += replicas.pop(namespace)
    return Meter(
        claim.id,
        _second(claim.launched_at or claim.created_at),
        since,
        claim.offering.capacity_type,
        0 if reserved else claim.price_atto_usd_per_hour,
        dict(sorted(replicas.items())) if replicas or not leaving else before,
    )


def _changed_at(claim: NodeClaim, known: Meter, now: datetime) -> datetime:
    """Return when the replicas on the claim changed last; a change of how it is bought is seen now."""
    times = [
        claim.placements_changed_at,
        None if claim.drain is None else claim.drain.notified_at,
    ]
    since = [
        _second(at) for at in times if at is not None and known.since <= _second(at) <= now
    ]
    return max(since, default=_second(now))


def _second(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(microsecond=0)


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
