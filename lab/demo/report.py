"""What is shown at the end, and the last checks on EC2's state."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.demo.bill import MICRO, Bill
from lab.demo.chart import Mark, Row, draw_chart
from lab.demo.history import Curve, Level
from lab.demo.observer import Observed
from lab.demo.scenario import Story
from lab.embedded.client import EmbeddedAws


def closing_picture(
    seen: Observed, marks: Sequence[Mark], bill: Bill, width: int
) -> RenderableType:
    """Say where each part of the demand ran, how full reservations were over time, and what it cost."""
    since, until = span(seen, marks)
    return Group(
        _heading("Where the demand ran: replicas, by nodes launched for them"),
        _demand(seen),
        _heading("Nodes over time: in reservations, and what was bought beside them"),
        draw_chart(_rows(seen), marks, since, until, width),
        _heading(
            f"What {str(until - since).partition('.')[0]} hours cost, at emulated prices"
        ),
        _cost(bill),
    )


def span(seen: Observed, marks: Sequence[Mark]) -> tuple[datetime, datetime]:
    """Return from when to when the story lasted, in emulated time."""
    assert seen.now is not None  # noqa: S101 - the story was played
    return marks[0].at, seen.now


def _demand(seen: Observed) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("workload", "reserved", "spot", "on-demand"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    counts: dict[str, Counter[str]] = {}
    for detail in seen.launched.values():
        for workload in detail["workloads"]:
            name = f"{workload['namespace']}/{workload['name']}"
            counts.setdefault(name, Counter())[detail["node"]["capacityType"]] += workload[
                "replicas"
            ]
    for name, by_market in sorted(counts.items()):
        table.add_row(
            name, *(str(by_market[market]) for market in ("reserved", "spot", "on-demand"))
        )
    return table


def _rows(seen: Observed) -> list[Row]:
    reserved = [
        Row(
            it.title,
            it.instance_type,
            f"{seen.curves[it.title].peak_count}/{it.total_count}",
            curve,
            "green",
        )
        for it in seen.reservations
        if (curve := seen.curves.get(it.title)) is not None
    ]
    beside = [
        Row(market, "bought", str(curve.peak_count), _against_peak(curve), style)
        for market, style in (("spot", "yellow"), ("on-demand", "red"))
        if (curve := seen.curves.get(market)) is not None and curve.peak_count
    ]
    return [*reserved, *beside]


def _against_peak(curve: Curve) -> Curve:
    """Return a curve whose full height is its own peak: what is bought has no other bound."""
    return Curve(
        [Level(level.at, level.used_count, curve.peak_count) for level in curve.levels]
    )


def _heading(text: str) -> Text:
    return Text(f"\n{text}\n", "bold")


def _cost(bill: Bill) -> Table:
    """Compare; what the reservations themselves cost is left out, since it is paid whether they are used or not."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("the same nodes, all on demand", _usd(bill.all_on_demand_micro_usd))
    for market, micro_usd in bill.paid_micro_usd.items():
        table.add_row(f"paid beside reservations: {market}", _usd(micro_usd))
    table.add_row(
        Text(f"saved: {bill.saved_percent} %", "bold green"),
        Text(_usd(bill.saved_micro_usd), "bold green"),
    )
    table.add_row("used of reservations (paid for anyway)", f"{bill.used_percent} %")
    return table


def _usd(micro_usd: int) -> str:
    return f"{micro_usd / MICRO:,.2f} USD"


def violations(
    story: Story, aws: EmbeddedAws, dead_letter_queue_urls: list[str]
) -> Iterator[str]:
    """Yield everything about the final state that must not be."""
    seen = story.observer.refresh()
    for identity in seen.over_count:
        yield f"reservation {identity} was used beyond its count"
    for instance in seen.live():
        if instance.claim_id is None:
            yield f"instance {instance.id} runs without a claim"
    claims = Counter(instance.claim_id for instance in seen.live())
    for claim_id, count in claims.items():
        if count > 1:
            yield f"claim {claim_id} has {count} instances"
    for name, wanted in story.wanted.items():
        placed = seen.placed[name]
        if placed > wanted or (placed < wanted and name not in seen.pending):
            yield f"{name}: {placed} of {wanted} replicas have a place, and nobody said why"
    sqs = aws.client("sqs")
    for url in dead_letter_queue_urls:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages", []
        ):
            yield f"{url.rsplit('/', 1)[-1]} holds {message['Body'][:200]}"
