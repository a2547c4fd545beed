"""Everything that the page shows, read at once. What one source does not say leaves the others whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import Final, TypeVar

from reservoir.cli.commands.see.status import see
from reservoir.cli.report.accounts import read_money
from reservoir.cli.report.figures import Report, make_report
from reservoir.cli.report.money import Days, Metered
from reservoir.cli.stack.connection import Connection
from reservoir.cli.ui.lanes import Lane, Window, lanes
from reservoir.core.history.sample import Sample
from reservoir.core.model.team import by_namespace
from reservoir.core.sharing.accounts import NOBODY, TeamOf
from reservoir.manifests.answers.explanations import WaitingReplicas
from reservoir.manifests.answers.listed import NodeRow, WorkloadRow
from reservoir.ports.errors import AwsError
from reservoir.ports.safety import UnreadableRowError
from reservoir.usecases.history.see_status import Status, Unknown
from reservoir.usecases.listing.list_nodes import ListNodes
from reservoir.usecases.listing.list_reservations import ListReservations
from reservoir.usecases.listing.list_workloads import ListWorkloads
from reservoir.usecases.policy.policy_objects import policy_of

T = TypeVar("T")

TEAM_NOT_KNOWN: Final = "a team that is not known"  # if the user may not read policy
_WEEK: Final = timedelta(days=6)  # before today


@dataclass(frozen=True, slots=True)
class Wait:
    """Replicas of a workload that wait for one reason; ``helps`` is the command that tries what could help."""

    workload: str
    team: str
    since: datetime | None
    what: WaitingReplicas | None  # None: no plan has looked at it yet
    replica_count: int
    explained_by: str
    helps: str | None


@dataclass(frozen=True, slots=True)
class TeamMoney:
    """What a team paid in a week and the week before, and what it holds now. Money in micro-USD.

    Its week is the last seven days, today included. ``avoided``: what its reserved units would cost an hour on demand,
    None without a price. The counts are of units that its quotas own, None where it has none or teams could not be
    read.
    """

    name: str
    week: int | None
    week_before: int | None
    per_hour: int
    avoided_per_hour: int | None
    owned_count: int | None = None
    used_count: int | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it."""

    deployment: str
    window: Window
    status: Status
    lanes: Sequence[Lane] | Unknown
    waits: Sequence[Wait] | Unknown
    teams: Sequence[TeamMoney] | Unknown
    past: Report | Unknown  # of the part of the window that is past

    @property
    def there(self) -> Sample | None:
        """What there is, None where that is not known."""
        return None if isinstance(self.status.there, Unknown) else self.status.there


def take(stack: Connection, since: timedelta, ahead: timedelta) -> Picture:
    """Read everything, and change nothing."""
    outside = stack.outside
    status = see(stack, with_teams=True).see()
    now = status.asked_at
    window = Window(now - since, now, now + ahead)
    there = None if isinstance(status.there, Unknown) else status.there
    owners = _ask(lambda: by_namespace(policy_of(outside.policy.list_all()).teams))

    def team_of(namespace: str) -> str:
        if isinstance(owners, Unknown):
            return TEAM_NOT_KNOWN
        return owners[namespace].name if namespace in owners else NOBODY

    past = _ask(
        lambda: make_report(
            outside.settings.deployment,
            window.since,
            now,
            list(outside.history.samples(window.since, now)),
            list(outside.history.timeline(window.since, now)),
        )
    )
    nodes = _ask(lambda: ListNodes(outside.node_claims).list())
    return Picture(
        deployment=outside.settings.deployment,
        window=window,
        status=status,
        lanes=_ask(lambda: _lanes(stack, window, there, past, nodes, team_of)),
        waits=_ask(
            lambda: waits(
                ListWorkloads(outside.workloads, outside.node_claims).list().rows,
                team_of,
            )
        ),
        teams=_ask(lambda: _teams(stack, now, there, nodes, team_of)),
        past=past,
    )


def _lanes(
    stack: Connection,
    window: Window,
    there: Sample | None,
    past: Report | Unknown,
    nodes: Sequence[NodeRow] | Unknown,
    team_of: TeamOf,
) -> Sequence[Lane]:
    outside = stack.outside
    rows = ListReservations(outside.reservations, outside.node_claims).list()
    uses = () if isinstance(past, Unknown) else past.reservations
    return lanes(
        window,
        rows,
        () if isinstance(nodes, Unknown) else nodes,
        {} if there is None else {it.id: it for it in there.reservations},
        {use.id: use.points for use in uses},
        team_of,
    )


def waits(rows: Sequence[WorkloadRow], team_of: TeamOf) -> list[Wait]:
    """Return what waits, the longest first."""
    found: list[Wait] = []
    for row in rows:
        if not row.status.pending:
            continue
        name = f"{row.metadata.namespace}/{row.metadata.name}"
        team = team_of(str(row.metadata.namespace))
        reasons: Sequence[WaitingReplicas | None] = row.status.waiting or (None,)
        for what in reasons:
            count = row.status.pending if what is None else what.replicas
            explained_by = f"reservoir explain workload {quote(name)}"
            helps = None if what is None else _what_would_help(row.metadata.name, what)
            found.append(
                Wait(name, team, row.status.pending_since, what, count, explained_by, helps)
            )
    return sorted(
        found,
        key=lambda it: ("" if it.since is None else it.since.isoformat(), it.workload),
    )


def _what_would_help(name: str, what: WaitingReplicas) -> str | None:
    """Return the command that plays the plan with units of what was nearest: as many as replicas wait at the most."""
    nearest = what.nearest_offering
    if nearest is None:
        return None
    capacity = f"{what.replicas} {nearest.instance_type} in {nearest.zone}"
    return f"reservoir plan -f {quote(f'{name}.yaml')} --with {quote(capacity)}"


def _teams(
    stack: Connection,
    now: datetime,
    there: Sample | None,
    nodes: Sequence[NodeRow] | Unknown,
    team_of: TeamOf,
) -> Sequence[TeamMoney]:
    days = Days.between(now - _WEEK, now)
    week = _spent(read_money(stack.outside, days))
    before = _spent(read_money(stack.outside, days.before()))
    avoided = _avoided(() if isinstance(nodes, Unknown) else nodes, there, team_of)
    counted = {} if there is None else {it.name: it for it in there.teams}
    names = sorted({*week, *before, *avoided, *counted})
    return [
        TeamMoney(
            name,
            week.get(name),
            before.get(name),
            counted[name].micro_usd_per_hour if name in counted else 0,
            avoided.get(name, 0),
            counted[name].owned_count if name in counted else None,
            counted[name].used_count if name in counted else None,
        )
        for name in names
    ]


def _spent(money: Metered | None) -> Mapping[str, int]:
    return (
        {} if money is None else {team.name: team.spent_micro_usd for team in money.teams}
    )


def _avoided(
    nodes: Sequence[NodeRow], there: Sample | None, team_of: TeamOf
) -> Mapping[str, int | None]:
    """Return what each team's reserved units would cost an hour; a shared node is shared by replicas."""
    prices = (
        {} if there is None else {it.id: it.micro_usd_per_hour for it in there.reservations}
    )
    found: dict[str, int | None] = {}
    for node in nodes:
        reservation_id = node.spec.capacity_reservation_id
        if reservation_id is None:
            continue
        price = prices.get(reservation_id)
        for placed in node.status.workloads:
            team, share = team_of(placed.namespace), placed.replicas
            so_far = found.get(team, 0)
            is_known = price is not None and so_far is not None
            found[team] = (
                (so_far or 0) + (price or 0) * share // max(1, node.status.replicas)
                if is_known
                else None
            )
    return found


def _ask(read: Callable[[], T]) -> T | Unknown:
    try:
        return read()
    except (AwsError, UnreadableRowError) as error:
        return Unknown(str(error))
