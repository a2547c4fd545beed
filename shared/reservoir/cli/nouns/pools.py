"""NodePools."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from reservoir.cli.nouns import policy_rows
from reservoir.cli.nouns.noun import Facts, Noun, Selector
from reservoir.cli.nouns.policy_rows import Row
from reservoir.cli.output import Column, Listing
from reservoir.ports.policy import PolicyKind

PAUSED: Final = "paused"


def _nodes(row: Row, kind: str) -> str:
    return str(row["status"]["nodesByCapacityType"].get(kind, 0))


def _replicas(row: Row, what: str) -> str:
    """Return how many nodes a static pool wants, has or is about to have; empty for any other pool."""
    counted = row["status"].get("replicas")
    return "" if counted is None else str(counted[what])


def _lacking(row: Row) -> str:
    """Return why a static pool has fewer nodes than it wants; empty while it has what it wants, or will have."""
    counted = row["status"].get("replicas", {})
    if "reason" not in counted:
        return ""
    until = f" (until {counted['earliestAt']})" if "earliestAt" in counted else ""
    return f"{counted['reason']}: {counted['message']}{until}"


def _paused(row: Row) -> str:
    """Return who paused the pool, since when and why; empty while it may launch."""
    return str(row["status"].get("paused", ""))


def _facts(row: Row) -> Facts:
    found = policy_rows.facts(row)
    return replace(found, state=PAUSED) if _paused(row) else found


def _listing(now: datetime) -> Listing[Row]:
    del now
    return Listing(
        (
            Column("NAME", lambda row: row["metadata"]["name"]),
            Column(
                "READY", policy_rows.ready, gives_way=True, style=policy_rows.ready_style
            ),
            Column(
                "PAUSED",
                _paused,
                gives_way=True,
                style=lambda row: "yellow" if _paused(row) else "",
            ),
            Column(
                "CLASS",
                lambda row: row["spec"]["template"]["spec"]["nodeClassRef"]["name"],
                leaves=2,
            ),
            Column(
                "WEIGHT",
                lambda row: str(row["spec"].get("weight") or 0),
                is_number=True,
                leaves=1,
            ),
            Column(
                "WANTED", lambda row: _replicas(row, "wanted"), is_number=True, leaves=3
            ),
            Column("THERE", lambda row: _replicas(row, "there"), is_number=True, leaves=3),
            Column(
                "COMING", lambda row: _replicas(row, "coming"), is_number=True, leaves=3
            ),
            Column("NODES", lambda row: str(row["status"]["nodes"]), is_number=True),
            Column("WARM", lambda row: str(row["status"].get("warm", "")), is_number=True),
            Column("RESERVED", lambda row: _nodes(row, "reserved"), is_number=True),
            Column("SPOT", lambda row: _nodes(row, "spot"), is_number=True),
            Column("ON-DEMAND", lambda row: _nodes(row, "on-demand"), is_number=True),
            Column("WAITS FOR", _lacking, gives_way=True),
        ),
        lambda row: f"nodepool/{row['metadata']['name']}",
        lambda row: row,
    )


NOUN: Final = Noun(
    "pools",
    "nodepool",
    frozenset({Selector.LABEL, Selector.STATE}),
    policy_rows.reader(PolicyKind.NODE_POOL),
    _facts,
    _listing,
    states=(policy_rows.READY, policy_rows.NOT_READY, PAUSED),
)
