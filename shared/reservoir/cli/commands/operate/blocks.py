"""``reservoir blocks buy``, ``extend`` and ``settle``: Capacity Blocks, with the caller's own credentials."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reservoir.cli.commands.operate.consent import (
    Amount,
    DryRun,
    Tags,
    buyer,
    carry_out,
    own_tag,
    refuse,
    settle_purchase,
    show_ceiling,
    show_tags,
)
from reservoir.cli.console import Yes, add_group, fail, output
from reservoir.cli.nouns.blocks import asked_for, instant
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.core.purchasing import block_rules
from reservoir.core.purchasing.purchase import BlockOrder
from reservoir.core.scheduling_terms.money import micro_usd_of, usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reservoir.ports.capacity_blocks import BlockOffering
    from reservoir.usecases.purchasing.buy_block import BuyBlock, Preview

_LINUX: Final = "Linux/UNIX"
_DAY_HOURS: Final = 24


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(app, "blocks", "Buy and extend Capacity Blocks.", buy, extend, settle)


def buy(
    context: typer.Context,
    wanted: Annotated[
        str,
        typer.Argument(help='As for `reservoir get blocks`: "4 p5.48xlarge for 2d".'),
    ],
    offering: Annotated[
        str | None,
        typer.Option(help="Which offering; needed if there are several."),
    ] = None,
    tag: Tags = None,
    platform: Annotated[
        str, typer.Option(help="The operating system, as EC2 calls it.")
    ] = _LINUX,
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Buy a Capacity Block: at most once, for the amount that you type."""
    instance_type, count, days = asked_for(wanted)
    refuse(
        block_rules.count_refusal(count),
        block_rules.duration_refusal(days),
        block_rules.platform_refusal(platform),
    )
    tags = tuple(own_tag(each) for each in tag or ())
    stack = connection(context)
    found = attempt(
        lambda: stack.outside.capacity_blocks.offerings(
            instance_type, count=count, hours=_DAY_HOURS * days
        )
    )
    chosen = _chosen(found, offering, wanted)
    order = _order(chosen, platform, tags=tags)
    known = [record.reservation for record in stack.outside.reservations.list_current()]
    refuse(block_rules.quota_refusal(count, order.start_at, order.end_at, known))
    _carry_out(stack, order, amount, yes=yes, dry_run=dry_run)


def extend(
    context: typer.Context,
    reservation: Annotated[
        str, typer.Argument(help="The block's capacity reservation, as cr-….")
    ],
    days: Annotated[int, typer.Option(min=1, help="How many more days.")],
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Extend a Capacity Block: at most once, for the amount that you type."""
    stack = connection(context)
    record = stack.outside.reservations.get(reservation)
    if record is None:
        fail(f"there is no reservation {reservation}")
    block = record.reservation
    refuse(block_rules.extension_refusal(block, days, stack.outside.clock.now()))
    found = attempt(
        lambda: stack.outside.capacity_blocks.extensions(
            reservation, hours=_DAY_HOURS * days
        )
    )
    if not found:
        fail(f"EC2 sells no extension of {reservation} by {days}d now")
    order = _order(found[0], block.platform, extends=reservation)
    _carry_out(stack, order, amount, yes=yes, dry_run=dry_run)


def _order(
    offering: "BlockOffering",
    platform: str,
    *,
    tags: tuple[tuple[str, str], ...] = (),
    extends: str | None = None,
) -> BlockOrder:
    return BlockOrder(
        offering.id,
        offering.instance_type,
        offering.zone,
        offering.count,
        offering.start_at,
        offering.end_at,
        _fee(offering.fee, offering.currency),
        platform,
        tags,
        extends,
    )


def settle(
    context: typer.Context,
    offering: Annotated[
        str, typer.Argument(help="The offering whose purchase is not settled.")
    ],
    not_bought: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="It was not bought: how you know that."),
    ] = None,
) -> None:
    """Find out whether a purchase was made whose answer was lost."""
    settle_purchase(connection(context), offering, not_bought)


def _carry_out(
    stack: Connection, order: BlockOrder, amount: str | None, *, yes: bool, dry_run: bool
) -> None:
    use_case = buyer(stack)
    preview = attempt(lambda: use_case.preview(order))
    _show(use_case, preview)
    carry_out(stack, use_case, preview, amount, yes=yes, dry_run=dry_run)


def _show(use_case: "BuyBlock", preview: "Preview") -> None:
    order, print_ = preview.order, output().print
    whole = order.end_at - order.start_at
    print_(f"{order.count} {order.instance_type} in {order.zone} for {whole.days}d")
    if order.extends is not None:
        print_(f"  extends     {order.extends}")
    print_(f"  from        {instant(order.start_at)} to {instant(order.end_at)}")
    print_(
        f"  costs       {usd(order.fee_micro_usd)}, {usd(order.unit_hour_micro_usd)} a unit and hour"
    )
    print_(f"  offering    {order.offering_id}")
    if order.extends is None:
        show_tags(order)
    show_ceiling(use_case, preview)
    print_(f"  bought by   {use_case.buyer}")
    print_("  AWS does not refund or change it")


def _chosen(
    found: "Sequence[BlockOffering]", offering: str | None, wanted: str
) -> "BlockOffering":
    if not found:
        fail(f"EC2 has no block on sale now: {wanted}")
    if offering is None and len(found) > 1:
        lines = [
            f"  {each.id}  {each.zone}  {instant(each.start_at)}  {each.fee} {each.currency}"
            for each in found
        ]
        fail("\n".join(("several are on sale; choose with --offering:", *lines)))
    chosen = next((each for each in found if offering in (None, each.id)), None)
    if chosen is None:
        fail(f"{offering} is not among what EC2 sells now: reservoir get blocks {wanted!r}")
    return chosen


def _fee(fee: str, currency: str) -> int:
    if currency != "USD":
        fail(f"it is sold in {currency}, and ceilings are in USD")
    return micro_usd_of(Decimal(fee))
