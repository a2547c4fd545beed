"""Decisions of the planner and of disruption."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from reservoir.nouns.noun import Facts, Noun, Selection, age
from reservoir.output import Column, Listing
from reservoir.stack.connection import Connection
from shared.manifests.answers.listed import DecisionRow
from shared.usecases.listing.list_decisions import ListDecisions


def _read(stack: Connection, selection: Selection) -> Sequence[DecisionRow]:
    return ListDecisions(stack.decisions, stack.node_claims).list(selection.names)


def _facts(row: DecisionRow) -> Facts:
    return Facts(frozenset({row.metadata.name}))


def _listing(now: datetime) -> Listing[DecisionRow]:
    return Listing(
        (
            Column("NAME", lambda row: row.metadata.name),
            Column("AGE", lambda row: age(row.status.made_at, now)),
            Column("NODES", lambda row: str(len(row.status.nodes)), is_number=True),
            Column("SUMMARY", _summary, gives_way=True),
        ),
        lambda row: f"decision/{row.metadata.name}",
        lambda row: row.model_dump(mode="json", exclude_none=True),
    )


def _summary(row: DecisionRow) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(row.status.summary.items()) if count) or "-"


NOUN: Final = Noun("decisions", "decision", frozenset(), _read, _facts, _listing)
