"""The moving picture: reservations filling, nodes by market, workloads, the last facts."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lab.demo.observer import JsonObject, Observed, Reservation, workload_name

EVENTS_SHOWN = 6
_MARKET_STYLES = {"reserved": "green", "spot": "yellow", "on-demand": "red"}


def draw(seen: Observed, step: str, wanted: Mapping[str, int]) -> RenderableType:
    """Draw everything once."""
    clock = seen.now.strftime("%H:%M:%S UTC") if seen.now else "--:--:--"
    title = f"[bold]Reservoir[/] on an embedded AWS   {clock}"
    heading = Text(f"{step}\n", "bold cyan")
    body = Group(
        heading, _reservations(seen), _nodes(seen), _workloads(seen, wanted), _facts(seen)
    )
    return Panel(body, title=title, border_style="cyan")


def _table(*columns: str) -> Table:
    """Return a table whose last column gets the room that the others leave."""
    table = Table(box=None, expand=True, pad_edge=False, header_style="bold")
    for column in columns:
        ratio = 1 if column == columns[-1] else None
        table.add_column(column, no_wrap=True, overflow="ellipsis", ratio=ratio)
    return table


def _reservations(seen: Observed) -> Table:
    table = _table("reservation", "type", "zone", "units in use", "ends")
    for reservation in seen.reservations:
        ends = reservation.end_at.strftime("%H:%M") if reservation.end_at else "-"
        table.add_row(
            reservation.title,
            reservation.instance_type,
            reservation.zone,
            _bar(reservation),
            ends,
        )
    return table


def _bar(reservation: Reservation) -> Text:
    used, total = reservation.used_count, reservation.total_count
    return (
        Text("■" * used, "green")
        .append("□" * (total - used), "dim")
        .append(f"  {used}/{total}")
    )


def _nodes(seen: Observed) -> Text:
    counts = Counter(instance.market for instance in seen.live())
    text = Text("\nnodes  ", "bold")
    for market, style in _MARKET_STYLES.items():
        text.append(f"{market} {counts[market]}   ", style)
    leaving = len(seen.live("shutting-down"))
    return text.append(f"leaving {leaving}\n" if leaving else "\n", "dim")


def _workloads(seen: Observed, wanted: Mapping[str, int]) -> Table:
    table = _table("workload", "wanted", "placed", "why the rest waits")
    for name, replicas in wanted.items():
        placed = seen.placed[name]
        why = "" if placed >= replicas else seen.pending.get(name, "")
        table.add_row(
            name,
            str(replicas),
            Text(str(placed), "green" if placed >= replicas else "yellow"),
            why,
        )
    return table


def _facts(seen: Observed) -> Text:
    text = Text("\n", no_wrap=True, overflow="ellipsis")
    for event in list(seen.events)[-EVENTS_SHOWN:]:
        text.append(f"{event['time'][11:19]}  ", "dim").append(
            f"{event['detail-type']:<18} ", "cyan"
        )
        text.append(_summary(event["detail"]) + "\n")
    return text


def _summary(detail: JsonObject) -> str:
    """Say in a few words whom a fact is about."""
    words = []
    if "workload" in detail:
        words.append(workload_name(detail["workload"]))
    if "node" in detail:
        node = detail["node"]
        words.append(f"{node['instanceType']} {node['capacityType']}")
    shown = ("code", "reason", "deadline")
    words.extend(str(detail[key]) for key in shown if key in detail)
    return " · ".join(words)
