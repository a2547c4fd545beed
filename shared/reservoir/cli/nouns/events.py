"""What happened lately; ``reservoir events`` looks further back, and at one object."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.cli.nouns.noun import EVERYTHING, Facts, Noun, Selection, Selector
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.lately import lately
from reservoir.core.history.past_event import (
    NODE,
    RESERVATION,
    WORKLOAD,
    PastEvent,
    node_name,
    outcome_of,
    reservation_name,
    workload_name,
)
from reservoir.core.history.summary import subject, summary
from reservoir.core.model.workload import LabelSelector
from reservoir.manifests.events import EVENTS

LISTING: Final = Listing[PastEvent](
    columns=(
        Column("TIME", lambda event: f"{event.at:%Y-%m-%d %H:%M:%S}"),
        Column("EVENT", lambda event: event.detail_type),
        Column("OBJECT", subject, gives_way=True),
        Column("WHAT", summary, gives_way=True),
        Column("ID", lambda event: event.id, is_wide=True),
    ),
    name=lambda event: f"event/{event.id}",
    document=lambda event: {
        "kind": "Event",
        "id": event.id,
        "at": f"{event.at:%Y-%m-%dT%H:%M:%SZ}",
        "type": event.detail_type,
        "objects": list(event.objects()),
        "detail": dict(event.detail),
    },
)


def _read(stack: Connection, selection: Selection) -> Sequence[PastEvent]:
    """Read the last hour; an event has no key of its own to be read by."""
    told = labelled(stack, selection.labels, lately(stack))
    return [event for event in told if not selection.names or event.id in selection.names]


def labelled(
    stack: Connection, labels: LabelSelector, events: Iterator[PastEvent]
) -> Iterator[PastEvent]:
    """Yield the events about a workload, node or reservation that has these labels, or had them when it went."""
    if labels == EVERYTHING:
        yield from events
        return
    all_events = list(events)
    objects = set(chain.from_iterable(event.objects() for event in all_events))
    meant = set(_labelled_objects(stack, labels, objects))
    yield from (event for event in all_events if not meant.isdisjoint(event.objects()))


def _labelled_objects(
    stack: Connection, labels: LabelSelector, names: Iterable[str]
) -> Iterator[str]:
    """Yield which of these objects have the labels; objects that are gone are kept for a while, and read by key."""
    keys: dict[str, list[str]] = {WORKLOAD: [], NODE: [], RESERVATION: []}
    for name in sorted(names):
        kind, _, key = name.partition("/")
        keys.setdefault(kind, []).append(key)
    for key, record in stack.outside.workloads.get_many(keys[WORKLOAD]).items():
        if record.workload is not None and labels.matches(record.workload.labels):
            yield workload_name(key)
    for claim_id, claim in stack.outside.node_claims.get_many(keys[NODE]).items():
        if labels.matches(claim.labels):
            yield node_name(claim_id)
    for reservation_id in keys[RESERVATION]:
        reserved = stack.outside.reservations.get(reservation_id)
        if reserved is not None and labels.matches(reserved.reservation.tags):
            yield reservation_name(reservation_id)


def _facts(row: PastEvent) -> Facts:
    return Facts(
        frozenset({row.id}), row.namespaces(), pools=row.node_pools(), state=row.outcome
    )


def _listing(now: datetime) -> Listing[PastEvent]:
    del now
    return LISTING


NOUN: Final = Noun(
    "events",
    "event",
    frozenset(Selector),
    _read,
    _facts,
    _listing,
    states=tuple(sorted({outcome_of(event.detail_type) for event in EVENTS})),
)
