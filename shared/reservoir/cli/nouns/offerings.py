"""Offerings: what can be had where, for how much, and what rests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from reservoir.cli.console import fail
from reservoir.cli.nouns.noun import Facts, Noun, Selection, Selector, ahead, price
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.manifests.answers.listed import OfferingState
from reservoir.usecases.listing.list_offerings import ForPool, ListedOffering, ListOfferings

_STYLES: Final = {
    OfferingState.RESTING: "yellow",
    OfferingState.FULL: "dim",
    OfferingState.NOT_ACTIVE: "dim",
}


def offered(stack: Connection, selection: Selection) -> Sequence[ListedOffering]:
    """Return the offerings that are meant. Ends the command when there is no such pool."""
    listing = ListOfferings(
        stack.outside.offerings, stack.outside.reservations, stack.outside.clock
    )
    if selection.pool is None:
        return listing.list(selection.names)
    # with the models of manifests, for a pool alone
    from reservoir.usecases.policy.stored_policy import StoredPolicy

    policy = StoredPolicy(stack.outside.policy, stack.outside.clock)
    pool = policy.node_pool(selection.pool)
    if pool is None:
        fail(f"nodepool/{selection.pool} does not exist")
    node_class = policy.node_class(pool.node_class_name)
    selected = (
        frozenset() if node_class is None else frozenset(node_class.status.reservation_ids)
    )
    return listing.list(selection.names, ForPool(pool, selected))


def _facts(row: ListedOffering) -> Facts:
    family = row.instance_type.partition(".")[0]
    return Facts(frozenset({row.instance_type, family}), state=row.state)


def _listing(now: datetime) -> Listing[ListedOffering]:
    return Listing(
        (
            Column("TYPE", lambda row: row.instance_type),
            Column("ZONE", lambda row: row.zone),
            Column("CAPACITY", lambda row: row.capacity_type.value),
            Column(
                "USD/H", lambda row: price(row.price_micro_usd_per_hour), is_number=True
            ),
            Column(
                "FREE",
                lambda row: "-" if row.free is None else str(row.free),
                is_number=True,
            ),
            Column(
                "STATE", lambda row: row.state, style=lambda row: _STYLES.get(row.state, "")
            ),
            Column(
                "RESTS",
                lambda row: ahead(row.rests_until, now).removeprefix("in "),
                leaves=2,
            ),
            Column("RESERVATION", lambda row: row.reservation_id or "-", leaves=1),
            Column("WHY", lambda row: row.reason or "-", gives_way=True, leaves=3),
        ),
        lambda row: f"offering/{row.name}",
        lambda row: row.row().model_dump(mode="json", exclude_none=True),
    )


NOUN: Final = Noun(
    "offerings",
    "offering",
    frozenset({Selector.POOL, Selector.STATE}),
    offered,
    _facts,
    _listing,
    states=tuple(OfferingState),
)
