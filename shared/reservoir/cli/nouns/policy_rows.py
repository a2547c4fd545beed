"""What pools and classes share: rows are their manifests with status."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reservoir.cli.nouns.noun import Facts, Selection
from reservoir.cli.stack.connection import Connection
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.policy.show_policy import ShowPolicy

Row = Mapping[str, Any]
READY = "ready"
NOT_READY = "not-ready"


def reader(kind: PolicyKind) -> Callable[[Connection, Selection], Sequence[Row]]:
    """Return how objects of a kind are read."""

    def read(stack: Connection, selection: Selection) -> Sequence[Row]:
        outside = stack.outside
        accounts = outside.accounts if kind is PolicyKind.TEAM else None
        offerings = outside.offerings if kind is PolicyKind.NODE_POOL else None
        stored = (
            outside.policy,
            outside.reservations,
            outside.node_claims,
            outside.workloads,
        )
        decisions = outside.decisions if kind is PolicyKind.NODE_POOL else None
        show = ShowPolicy(*stored, outside.clock, accounts, offerings, decisions)
        names = set(selection.names)
        return [
            row for row in show.show(kind) if not names or row["metadata"]["name"] in names
        ]

    return read


def facts(row: Row) -> Facts:
    """Return what selectors look at."""
    metadata = row["metadata"]
    state = READY if condition(row, "Ready") == "True" else NOT_READY
    return Facts(
        frozenset({metadata["name"]}), labels=metadata.get("labels") or {}, state=state
    )


def ready(row: Row) -> str:
    """Return whether an object is ready, and why not."""
    found = condition(row, "Ready")
    if found != "False":
        return found or "Unknown"
    return f"False ({next(each['message'] for each in row['status']['conditions'] if each['type'] == 'Ready')})"


def ready_style(row: Row) -> str:
    """Return how it is shown."""
    return "red" if condition(row, "Ready") == "False" else ""


def condition(row: Row, kind: str) -> str | None:
    """Return the status of a condition."""
    return next(
        (each["status"] for each in row["status"]["conditions"] if each["type"] == kind),
        None,
    )
