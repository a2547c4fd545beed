"""Capacity Blocks that EC2 would sell now: from when to when, and for how much."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from reservoir.cli.console import fail
from reservoir.cli.nouns.noun import Facts, Noun, Selection, ahead, span
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.manifests.answers.listed import BlockOfferingRow, BlockOfferingSpec, Named
from reservoir.ports.capacity_blocks import BlockOffering

# EC2 answers for one type, count and duration at a time, and only a few times a minute: so the user has to give them.
_ASKED: Final = re.compile(
    r"(?:(?P<count>[1-9]\d{0,3}) )?(?P<type>[a-z][a-z0-9-]*\.[a-z0-9-]+)(?: for (?P<days>[1-9]\d{0,2})d)?"
)
_HOW_TO_ASK: Final = 'ask for blocks as "4 p5.48xlarge for 2d"; without a count for one unit, without days for one'


@dataclass(frozen=True, slots=True)
class _Sold:
    """A row, and the words that asked for it."""

    asked: str
    row: BlockOfferingRow


def _read(stack: Connection, selection: Selection) -> Sequence[_Sold]:
    if not selection.names:
        fail(_HOW_TO_ASK)
    asked = {name: asked_for(name) for name in selection.names}
    found = []
    for name, (instance_type, count, days) in asked.items():
        offerings = stack.outside.capacity_blocks.offerings(
            instance_type, count=count, hours=24 * days
        )
        if not offerings:
            fail(f"EC2 has no block on sale now: {count} {instance_type} for {days}d")
        found += [_Sold(name, _row(offering)) for offering in offerings]
    return found


def asked_for(text: str) -> tuple[str, int, int]:
    """Return type, count and days. Ends the command for what cannot be asked."""
    found = _ASKED.fullmatch(text)
    if found is None:
        fail(f"{text!a} is not on sale: {_HOW_TO_ASK}")
    return found["type"], int(found["count"] or 1), int(found["days"] or 1)


def _row(offering: BlockOffering) -> BlockOfferingRow:
    return BlockOfferingRow(
        metadata=Named(name=offering.id),
        spec=BlockOfferingSpec(
            instance_type=offering.instance_type,
            zone=offering.zone,
            count=offering.count,
            start_at=offering.start_at,
            end_at=offering.end_at,
            upfront_fee=offering.fee,
            currency=offering.currency,
            ultra_server_type=offering.ultra_server_type,
        ),
    )


def _listing(now: datetime) -> Listing[_Sold]:
    return Listing(
        (
            Column("NAME", lambda sold: sold.row.metadata.name),
            Column("TYPE", lambda sold: sold.row.spec.instance_type),
            Column("ZONE", lambda sold: sold.row.spec.zone),
            Column("COUNT", lambda sold: str(sold.row.spec.count), is_number=True),
            Column("STARTS", lambda sold: ahead(sold.row.spec.start_at, now)),
            Column(
                "LASTS",
                lambda sold: span(sold.row.spec.end_at - sold.row.spec.start_at),
                leaves=2,
            ),
            Column(
                "FEE",
                lambda sold: (
                    f"{Decimal(sold.row.spec.upfront_fee):.2f} {sold.row.spec.currency}"
                ),
                is_number=True,
            ),
            Column(
                "A UNIT AND HOUR",
                lambda sold: _hourly(sold.row.spec),
                is_number=True,
                leaves=1,
            ),
            Column("ENDS", lambda sold: instant(sold.row.spec.end_at), is_wide=True),
            Column(
                "ULTRASERVER",
                lambda sold: sold.row.spec.ultra_server_type or "-",
                is_wide=True,
            ),
        ),
        lambda sold: f"block/{sold.row.metadata.name}",
        lambda sold: sold.row.model_dump(mode="json", exclude_none=True),
    )


def _hourly(spec: BlockOfferingSpec) -> str:
    hours = Decimal((spec.end_at - spec.start_at).total_seconds()) / 3600
    return f"{Decimal(spec.upfront_fee) / spec.count / hours:.2f}"


def instant(at: datetime) -> str:
    """Return an instant to the minute, as blocks begin and end."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _details(stack: Connection, sold: _Sold) -> Iterator[str]:
    del stack
    spec = sold.row.spec
    window = f"from {instant(spec.start_at)} to {instant(spec.end_at)}"
    capacity = f"{spec.count} {spec.instance_type} in {spec.zone} {window}"
    yield f'what it would change: reservoir plan -f DEMAND --with "{capacity}"'
    yield (
        f'to buy it: reservoir blocks buy "{sold.asked}" --offering {sold.row.metadata.name} --tag KEY=VALUE'
    )


NOUN: Final = Noun(
    "blocks",
    "block",
    frozenset(),
    _read,
    lambda sold: Facts(frozenset({sold.asked, sold.row.metadata.name})),
    _listing,
    details=_details,
)
