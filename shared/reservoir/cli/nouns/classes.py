"""EC2NodeClasses."""

from datetime import datetime
from typing import Final

from reservoir.cli.nouns import policy_rows
from reservoir.cli.nouns.noun import Noun, Selector
from reservoir.cli.nouns.policy_rows import Row
from reservoir.cli.output import Column, Listing
from reservoir.ports.policy import PolicyKind


def _sum(row: Row, name: str) -> str:
    return str(sum(each[name] for each in row["status"]["capacityReservations"]))


def _listing(now: datetime) -> Listing[Row]:
    del now
    return Listing(
        (
            Column("NAME", lambda row: row["metadata"]["name"]),
            Column(
                "READY", policy_rows.ready, gives_way=True, style=policy_rows.ready_style
            ),
            Column(
                "RESERVATIONS",
                lambda row: str(len(row["status"]["capacityReservations"])),
                is_number=True,
            ),
            Column("UNITS", lambda row: _sum(row, "totalInstanceCount"), is_number=True),
            Column("FREE", lambda row: _sum(row, "freeUnits"), is_number=True),
            Column(
                "RESERVED CAPACITY",
                lambda row: policy_rows.condition(row, "CapacityReservation") or "-",
            ),
        ),
        lambda row: f"ec2nodeclass/{row['metadata']['name']}",
        lambda row: row,
    )


NOUN: Final = Noun(
    "classes",
    "ec2nodeclass",
    frozenset({Selector.LABEL, Selector.STATE}),
    policy_rows.reader(PolicyKind.NODE_CLASS),
    policy_rows.facts,
    _listing,
    states=(policy_rows.READY, policy_rows.NOT_READY),
)
