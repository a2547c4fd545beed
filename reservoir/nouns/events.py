"""What happened lately; ``reservoir events`` looks further back, and at one object."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from reservoir.nouns.noun import EVERYTHING, Facts, Noun, Selection, Selector
from reservoir.output import Column, Listing
from reservoir.stack.connection import Connection
from shared.core.history.past_event import PastEvent, node_name, outcome_of, reservation_name, workload_name
from shared.core.history.summary import subject, summary
from shared.core.model.workload import LabelSelector
from shared.manifests.events import EVENTS
from shared.usecases.listing.list_nodes import ListNodes
from shared.usecases.listing.list_reservations import ListReservations
from shared.usecases.listing.list_workloads import ListWorkloads

LATE: Final = timedelta(minutes=2)  # an event may carry a time a little ahead of ours
_LATELY: Final = timedelta(hours=1)

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
    now = stack.clock.now()
    told = labelled(stack, selection.labels, stack.history.timeline(now - _LATELY, now + LATE))
    return [event for event in told if not selection.names or event.id in selection.names]


def labelled(stack: Connection, labels: LabelSelector, events: Iterator[PastEvent]) -> Iterator[PastEvent]:
    """Yield the events about a workload, node or reservation that is there and has these labels."""
    if labels == EVERYTHING:
        yield from events
        return
    meant = set(_labelled_objects(stack, labels))
    yield from (event for event in events if not meant.isdisjoint(event.objects()))


def _labelled_objects(stack: Connection, labels: LabelSelector) -> Iterator[str]:
    for workload in ListWorkloads(stack.workloads, stack.node_claims).list():
        if labels.matches(workload.metadata.labels):
            yield workload_name(f"{workload.metadata.namespace}/{workload.metadata.name}")
    for node in ListNodes(stack.node_claims).list():
        if labels.matches(node.metadata.labels):
            yield node_name(node.metadata.name)
    for reservation in ListReservations(stack.reservations, stack.node_claims).list():
        if labels.matches(reservation.metadata.labels):
            yield reservation_name(reservation.metadata.name)


def _facts(row: PastEvent) -> Facts:
    return Facts(frozenset({row.id}), row.namespaces(), pools=row.node_pools(), state=row.outcome)


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
