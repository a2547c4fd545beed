"""Decisions of the planner and of disruption. They are chosen by the nodes that they made or ended."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.cli.nouns.noun import Facts, Noun, Selection, Selector, age
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.lately import lately
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.manifests.answers.listed import DecisionRow
from reservoir.usecases.listing.list_decisions import ListDecisions, ListedDecision


def _read(stack: Connection, selection: Selection) -> Sequence[ListedDecision]:
    nodes: set[str] = set()
    if not selection.names:
        nodes.update(chain.from_iterable(event.nodes() for event in lately(stack)))
    return ListDecisions(stack.outside.decisions, stack.outside.node_claims).list(
        selection.names, nodes
    )


def _facts(listed: ListedDecision) -> Facts:
    names = frozenset({listed.row.metadata.name})
    by_node = tuple(_facts_of(names, claim) for claim in listed.nodes)
    return Facts(names, namespaces=(), labels={}, pools=(), through=by_node)


def _facts_of(names: frozenset[str], claim: NodeClaim) -> Facts:
    namespaces = {placed.workload_key.partition("/")[0] for placed in claim.placements}
    return Facts(
        names, namespaces, claim.labels, (claim.node_pool_name,), claim.state.value
    )


def _listing(now: datetime) -> Listing[ListedDecision]:
    return Listing(
        (
            Column("NAME", lambda listed: listed.row.metadata.name),
            Column("AGE", lambda listed: age(listed.row.status.made_at, now)),
            Column(
                "NODES", lambda listed: str(len(listed.row.status.nodes)), is_number=True
            ),
            Column("SUMMARY", lambda listed: _summary(listed.row), gives_way=True),
        ),
        lambda listed: f"decision/{listed.row.metadata.name}",
        lambda listed: listed.row.model_dump(mode="json", exclude_none=True),
    )


def _summary(row: DecisionRow) -> str:
    return (
        ", ".join(
            f"{count} {what}" for what, count in sorted(row.status.summary.items()) if count
        )
        or "-"
    )


NOUN: Final = Noun(
    "decisions",
    "decision",
    frozenset(Selector),
    _read,
    _facts,
    _listing,
    states=tuple(ClaimState),
)
