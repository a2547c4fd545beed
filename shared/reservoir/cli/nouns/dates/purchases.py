"""Purchases, made or intended: the buyer, the amount and the outcome. None is ever deleted."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from reservoir.cli.nouns.blocks import instant
from reservoir.cli.nouns.noun import Facts, Noun, Selection, Selector, age, span
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.core.purchasing.purchase import Purchase, PurchaseState
from reservoir.core.scheduling_terms.money import usd
from reservoir.manifests.answers.listed import (
    Named,
    PurchaseRow,
    PurchaseSpec,
    PurchaseStatus,
)

_STYLES: Final = {
    PurchaseState.INTENDED.value: "yellow",
    PurchaseState.NOT_BOUGHT.value: "dim",
}


def _read(stack: Connection, selection: Selection) -> Sequence[PurchaseRow]:
    store = stack.outside.purchases
    if not selection.names:
        return [_row(each) for each in store.list_all()]
    found = [store.get(name) for name in dict.fromkeys(selection.names)]
    return [_row(each) for each in found if each is not None]


def _row(purchase: Purchase) -> PurchaseRow:
    order = purchase.order
    return PurchaseRow(
        metadata=Named(name=purchase.id),
        spec=PurchaseSpec(
            instance_type=order.instance_type,
            zone=order.zone,
            count=order.count,
            start_at=order.start_at,
            end_at=order.end_at,
            extends=order.extends,
            change=order.change.kind.value if order.change else None,
            changes=(order.change.reservation_id or None) if order.change else None,
            fee_micro_usd=order.fee_micro_usd,
            by=purchase.by,
            intended_at=purchase.intended_at,
        ),
        status=PurchaseStatus(
            state=purchase.state.value,
            capacity_reservation_ids=list(purchase.reservation_ids),
            settled_at=purchase.settled_at,
            settled_by=purchase.settled_by or None,
            note=purchase.note or None,
        ),
    )


def _listing(now: datetime) -> Listing[PurchaseRow]:
    return Listing(
        (
            Column("NAME", lambda row: row.metadata.name, gives_way=True),
            Column(
                "STATE",
                lambda row: row.status.state,
                style=lambda row: _STYLES.get(row.status.state, ""),
            ),
            Column("UNITS", lambda row: f"{row.spec.count} {row.spec.instance_type}"),
            Column("LASTS", lambda row: span(row.spec.end_at - row.spec.start_at)),
            Column("FEE", lambda row: usd(row.spec.fee_micro_usd), is_number=True),
            Column("AGE", lambda row: age(row.spec.intended_at, now)),
            Column("BY", lambda row: row.spec.by, gives_way=True),
            Column("ZONE", lambda row: row.spec.zone, is_wide=True),
            Column("STARTS", lambda row: instant(row.spec.start_at), is_wide=True),
            Column("CHANGE", lambda row: row.spec.change or "-", is_wide=True),
            Column("CHANGES", lambda row: row.spec.changes or "-", is_wide=True),
            Column("EXTENDS", lambda row: row.spec.extends or "-", is_wide=True),
            Column(
                "RESERVATIONS",
                lambda row: ",".join(row.status.capacity_reservation_ids) or "-",
                is_wide=True,
            ),
            Column(
                "NOTE", lambda row: row.status.note or "-", is_wide=True, gives_way=True
            ),
        ),
        lambda row: f"purchase/{row.metadata.name}",
        lambda row: row.model_dump(mode="json", exclude_none=True),
    )


def _details(stack: Connection, row: PurchaseRow) -> Iterator[str]:
    del stack
    if row.status.state == PurchaseState.INTENDED:
        room = "reservations" if row.spec.change else "blocks"
        yield f"it is not known whether it was bought: reservoir {room} settle {row.metadata.name}"


NOUN: Final = Noun(
    "purchases",
    "purchase",
    frozenset({Selector.STATE}),
    _read,
    lambda row: Facts(frozenset({row.metadata.name}), state=row.status.state),
    _listing,
    states=tuple(PurchaseState),
    details=_details,
)
