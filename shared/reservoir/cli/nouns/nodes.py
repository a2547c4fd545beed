"""Nodes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from reservoir.cli.nouns.noun import Facts, Noun, Selection, Selector, age, ahead, price
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.node_claim import ClaimState
from reservoir.manifests.answers.listed import NodeRow
from reservoir.usecases.listing.list_nodes import ListNodes

_STYLES: Final = {
    ClaimState.DRAINING: "yellow",
    ClaimState.TERMINATING: "yellow",
    ClaimState.FAILED: "red",
    ClaimState.TERMINATED: "dim",
}


def _read(stack: Connection, selection: Selection) -> Sequence[NodeRow]:
    return ListNodes(stack.outside.node_claims).list(selection.names)


def _facts(row: NodeRow) -> Facts:
    names = {row.metadata.name, row.status.instance_id or row.metadata.name}
    return Facts(
        frozenset(names),
        labels=row.metadata.labels,
        pools=(row.spec.node_pool,),
        state=row.status.state.value,
    )


def _listing(now: datetime) -> Listing[NodeRow]:
    return Listing(
        (
            Column("NAME", lambda row: row.metadata.name),
            Column(
                "STATE",
                _state,
                style=lambda row: _STYLES.get(row.status.state, ""),
            ),
            Column("TYPE", lambda row: row.spec.instance_type),
            Column("ZONE", lambda row: row.spec.zone, leaves=2),
            Column("CAPACITY", lambda row: row.spec.capacity_type.value),
            Column("POOL", lambda row: row.spec.node_pool, leaves=3),
            Column(
                "REPLICAS", lambda row: str(row.status.replicas), is_number=True, leaves=4
            ),
            Column(
                "USD/H",
                lambda row: price(row.spec.price_micro_usd_per_hour),
                is_number=True,
            ),
            Column("AGE", lambda row: age(row.status.created_at, now)),
            Column("INSTANCE", lambda row: row.status.instance_id or "-", leaves=1),
            Column(
                "RESERVATION",
                lambda row: row.spec.capacity_reservation_id or "-",
                is_wide=True,
            ),
            Column(
                "DEADLINE", lambda row: ahead(row.status.drain_deadline, now), is_wide=True
            ),
            Column("DRAINS FOR", lambda row: row.status.drain_reason or "-", is_wide=True),
            Column("HOLDS", _holds, is_wide=True, gives_way=True),
        ),
        lambda row: f"node/{row.metadata.name}",
        lambda row: row.model_dump(mode="json", exclude_none=True),
    )


def _state(row: NodeRow) -> str:
    """Return the state; a node that only keeps a free unit warm says so."""
    return f"{row.status.state} (warm)" if row.status.is_warm else row.status.state


def _holds(row: NodeRow) -> str:
    return (
        ", ".join(
            f"{each.namespace}/{each.name} x{each.replicas}"
            for each in row.status.workloads
        )
        or "-"
    )


def _details(stack: Connection, row: NodeRow) -> Iterable[str]:
    from reservoir.cli.commands.see.explanation_text import node_lines
    from reservoir.usecases.explaining.explain_node import ExplainNode

    found = ExplainNode(stack.outside.node_claims, stack.outside.decisions).explain(
        row.metadata.name
    )
    return () if found is None else node_lines(found)


NOUN: Final = Noun(
    "nodes",
    "node",
    frozenset({Selector.LABEL, Selector.POOL, Selector.STATE}),
    _read,
    _facts,
    _listing,
    states=tuple(ClaimState),
    details=_details,
)
