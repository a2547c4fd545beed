"""Answers to "what if" for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from reservoir.cli.output import Column, Line, lines_of, printable, terminal_width
from reservoir.core.scheduling_terms.money import usd
from reservoir.manifests.answers.explanations import WaitingReplicas
from reservoir.manifests.answers.what_if import (
    DisplacedWorkload,
    ReplayAnswer,
    WhatIfAnswer,
    WhatIfOutcome,
    WhatIfPlace,
    WhatIfWorkload,
)
from reservoir.manifests.event_parts import OfferingDetail, WorkloadRef


@dataclass(frozen=True, slots=True)
class _Row:
    """Replicas of a workload at one place, or waiting for one reason; a count for each world."""

    workload: str
    where: str
    price: str
    counts: tuple[int, ...]
    until: str = ""


def answer_lines(answer: WhatIfAnswer) -> Iterator[Line | str]:
    """Yield the lines: a table of places and of what waits, then who loses by it, and what it costs."""
    worlds = [answer.present] if answer.edited is None else [answer.present, answer.edited]
    rows = list(_rows(worlds))
    if rows:
        yield from _table(rows, ("REPLICAS",) if len(worlds) == 1 else ("NOW", "EDITED"))
    else:
        yield "nothing to place: the input asks for no replicas"
    for title, outcome in zip(
        ("", "edited: ") if len(worlds) > 1 else ("",), worlds, strict=True
    ):
        yield from _about(title, outcome)
    for assumption in answer.assumptions:
        yield f"assumed: {printable(assumption)}"


def replay_lines(answer: ReplayAnswer) -> Iterator[Line | str]:
    """Yield the lines: whether the plan is the same, else a table of what differs, and what it comes from."""
    made = f"{answer.plan_id} of {_time(answer.made_at)}"
    if answer.replayed is None:
        asked = sum(item.replicas - item.placed for item in answer.stored.workloads)
        waiting = chain.from_iterable(item.waiting for item in answer.stored.workloads)
        waits = sum(each.replicas for each in waiting)
        yield f"{made}: the same to the byte ({asked} {_replicas(asked)} asked, {waits} wait)"
    else:
        differing = [
            row
            for row in _rows([answer.stored, answer.replayed])
            if len(set(row.counts)) > 1
        ]
        if differing:
            yield from _table(differing, ("STORED", "REPLAYED"))
        else:
            yield f"{made}: every replica has the same place"
        paid = [
            usd(each.added_micro_usd_per_hour) for each in (answer.stored, answer.replayed)
        ]
        yield f"stored buys for {paid[0]} an hour, replayed for {paid[1]} an hour"
        if answer.why is not None:
            yield f"differs: {printable(answer.why)}"
    for assumption in answer.assumptions:
        yield f"assumed: {printable(assumption)}"


def _table(rows: Sequence[_Row], titles: Sequence[str]) -> Iterator[Line]:
    columns = [
        Column[_Row]("WORKLOAD", lambda row: row.workload),
        *(_count(title, index) for index, title in enumerate(titles)),
        Column[_Row]("USD/H EACH", lambda row: row.price, is_number=True),
        *(
            [Column[_Row]("NOT BEFORE", lambda row: row.until)]
            if any(row.until for row in rows)
            else ()
        ),
        Column[_Row]("WHERE", lambda row: row.where, folds=True),
    ]
    yield from lines_of(rows, columns, terminal_width())


def _count(title: str, index: int) -> Column[_Row]:
    return Column[_Row](title, lambda row: str(row.counts[index]), is_number=True)


def _rows(worlds: Sequence[WhatIfOutcome]) -> Iterator[_Row]:
    """Yield a row for each place and each reason, with its counts in all worlds, in the order of first mention."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for index, outcome in enumerate(worlds):
        for workload in outcome.workloads:
            for where, price, until, count in _parts(workload):
                counts = found.setdefault(
                    (_name(workload.workload), where, price, until), [0] * len(worlds)
                )
                counts[index] += count
    # Workload by workload, places before what waits; sorting is stable, so the order of mention stays.
    ordered = sorted(
        found.items(), key=lambda item: (item[0][0], item[0][1].startswith(_WAITS))
    )
    for (name, where, price, until), counts in ordered:
        yield _Row(name, where, price, tuple(counts), until)


_WAITS = "waits: "


def _parts(workload: WhatIfWorkload) -> Iterator[tuple[str, str, str, int]]:
    if workload.placed:
        yield "placed already", "", "", workload.placed
    for place in workload.places:
        yield _where(place), _price(place), "", place.replicas
    for each in workload.waiting:
        until = "not by itself" if each.earliest_at is None else _time(each.earliest_at)
        yield f"{_WAITS}{each.reason.value}: {each.message}", "", until, each.replicas


def _where(place: WhatIfPlace) -> str:
    if place.offering is None:
        return f"room on {place.node_claim}"
    return f"{_offering(place.offering)}, pool {place.node_pool}"


def _offering(offering: OfferingDetail) -> str:
    of = (
        f" of {offering.capacity_reservation_id}"
        if offering.capacity_reservation_id
        else ""
    )
    return f"{offering.instance_type} {offering.capacity_type.value} in {offering.zone}{of}"


def _price(place: WhatIfPlace) -> str:
    if place.offering is None or place.offering.capacity_reservation_id is not None:
        return "paid for"
    return usd(place.price_micro_usd_per_hour).removesuffix(" USD")


def _about(title: str, outcome: WhatIfOutcome) -> Iterator[str]:
    yield f"{title}adds {_signed(outcome.added_micro_usd_per_hour)} an hour to what is bought"
    for workload in outcome.workloads:
        if workload.starts is not None:
            yield (
                f"{title}{_name(workload.workload)} starts about {_time(workload.starts.p50_at)}, nine times in ten by"
                f" {_time(workload.starts.p90_at)}"
            )
    for item in outcome.displaced:
        yield f"{title}displaces {_displaced(item)}"
    for note in outcome.notes:
        if _lacks_a_package(note):
            install = (
                "; pip install 'reservoir-ec2[plan]' has it planned as the planner does"
            )
        else:
            install = ""
        yield f"{title}note: {printable(note)}{install}"


def _signed(micro_usd: int) -> str:
    return f"-{usd(-micro_usd)}" if micro_usd < 0 else usd(micro_usd)


def _displaced(item: DisplacedWorkload) -> str:
    losses = []
    if item.replicas:
        losses.append(
            f"{item.replicas} {_replicas(item.replicas)} would wait{_because(item.waiting)}"
        )
    if item.reserved_replicas > item.replicas:
        count = item.reserved_replicas - item.replicas
        losses.append(
            f"{count} {_replicas(count)} would be bought instead of using reserved units"
        )
    return f"{_name(item.workload)}: {'; '.join(losses)}"


def _because(waiting: WaitingReplicas | None) -> str:
    if waiting is None:
        return ""
    until = (
        "" if waiting.earliest_at is None else f"; not before {_time(waiting.earliest_at)}"
    )
    return f" ({waiting.reason.value}: {printable(waiting.message)}{until})"


def _replicas(count: int) -> str:
    return "replica" if count == 1 else "replicas"


def _name(ref: WorkloadRef) -> str:
    return f"{ref.namespace}/{ref.name}"


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _lacks_a_package(note: str) -> bool:
    """Whether a plan was not improved because of what is not installed beside the command."""
    return note.endswith(" is not installed")
