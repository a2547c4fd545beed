"""``reservoir reservations``: on-demand reservations made and changed with the caller's own credentials."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reservoir.cli.commands.operate.consent import (
    CHANGING,
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
from reservoir.cli.nouns.blocks import instant
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.core.purchasing.change import ChangeKind, OrderedChange
from reservoir.core.scheduling_terms.money import usd

if TYPE_CHECKING:
    from reservoir.usecases.purchasing.buy_block import BuyBlock, Preview
    from reservoir.usecases.purchasing.change_reservations import (
        ChangeReservations,
        Proposal,
    )

_LINUX: Final = "Linux/UNIX"
Reservation = Annotated[str, typer.Argument(help="The capacity reservation, as cr-….")]
Propose = Callable[["ChangeReservations"], "Proposal"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(
        app,
        "reservations",
        "Make, change and cancel on-demand reservations.",
        create,
        resize,
        split,
        move,
        cancel,
        push_out,
        settle,
    )


def create(
    context: typer.Context,
    instance_type: Annotated[str, typer.Argument(help="The instance type.")],
    zone: Annotated[str, typer.Option(help="The availability zone, by its name.")],
    count: Annotated[int, typer.Option(help="How many units.")],
    starts: Annotated[
        str | None,
        typer.Option(help="When it begins, 5 to 120 days ahead (UTC); otherwise now."),
    ] = None,
    commitment_days: Annotated[
        int, typer.Option(help="How long you commit to a reservation that starts later.")
    ] = 0,
    ends: Annotated[
        str | None,
        typer.Option(help="When it ends (UTC); otherwise when it is cancelled."),
    ] = None,
    open_: Annotated[
        bool,
        typer.Option("--open", help="Let matching instances use it without naming it."),
    ] = False,
    tag: Tags = None,
    platform: Annotated[
        str, typer.Option(help="The operating system, as EC2 calls it.")
    ] = _LINUX,
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Make an on-demand reservation, for now or ahead: at most once, for the amount that you type."""
    from reservoir.usecases.purchasing.change_reservations import NewReservation

    wanted = NewReservation(
        instance_type,
        zone,
        count,
        platform,
        "open" if open_ else "targeted",
        _at(starts),
        _at(ends),
        timedelta(days=commitment_days),
        _tags(tag),
    )
    _propose_and_carry_out(
        context, lambda desk: desk.create(wanted), amount, yes=yes, dry_run=dry_run
    )


def resize(
    context: typer.Context,
    reservation: Reservation,
    count: Annotated[int, typer.Option(help="The new number of units.")],
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Change the number of units: at most once, for the amount that you type."""
    _propose_and_carry_out(
        context,
        lambda desk: desk.resize(reservation, count),
        amount,
        yes=yes,
        dry_run=dry_run,
    )


def split(
    context: typer.Context,
    reservation: Reservation,
    count: Annotated[int, typer.Option(help="The number of units of the new reservation.")],
    tag: Tags = None,
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Make another reservation of some of the units."""
    tags = _tags(tag)
    _propose_and_carry_out(
        context,
        lambda desk: desk.split(reservation, count, tags),
        amount,
        yes=yes,
        dry_run=dry_run,
    )


def move(
    context: typer.Context,
    reservation: Reservation,
    into: Annotated[str, typer.Option(help="The reservation that gets them, as cr-….")],
    count: Annotated[int, typer.Option(help="How many units.")],
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Move units into an equal reservation."""
    _propose_and_carry_out(
        context,
        lambda desk: desk.move(reservation, into, count),
        amount,
        yes=yes,
        dry_run=dry_run,
    )


def cancel(
    context: typer.Context,
    reservation: Reservation,
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Cancel a reservation; within a commitment, for the charge that AWS quotes."""
    _propose_and_carry_out(
        context,
        lambda desk: desk.cancel(reservation),
        amount,
        yes=yes,
        dry_run=dry_run,
    )


def push_out(
    context: typer.Context,
    reservation: Reservation,
    to: Annotated[str, typer.Option(help="The new start (UTC).")],
    amount: Amount = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Put off the start of a scheduled reservation, on AWS's terms."""
    start_at = _instant(to)
    _propose_and_carry_out(
        context,
        lambda desk: desk.push_out(reservation, start_at),
        amount,
        yes=yes,
        dry_run=dry_run,
    )


def settle(
    context: typer.Context,
    change: Annotated[
        str, typer.Argument(help="The change that is not settled, as change-….")
    ],
    not_changed: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="It did not happen: how you know that."),
    ] = None,
) -> None:
    """Find out whether a change was made whose answer was lost."""
    settle_purchase(connection(context), change, not_changed, CHANGING)


def _propose_and_carry_out(
    context: typer.Context,
    propose: Propose,
    amount: str | None,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    from reservoir.usecases.purchasing.change_reservations import ChangeRefusedError

    stack = connection(context)
    use_case = buyer(stack)
    try:
        proposal = attempt(lambda: propose(_desk(stack, use_case.buyer)))
    except ChangeRefusedError as error:
        refuse(*error.reasons, words=CHANGING)
        raise
    preview = attempt(lambda: use_case.preview(proposal.order))
    _show(use_case, preview, proposal)
    carry_out(stack, use_case, preview, amount, yes=yes, dry_run=dry_run, words=CHANGING)


def _show(use_case: "BuyBlock", preview: "Preview", proposal: "Proposal") -> None:
    order, print_ = preview.order, output().print
    change = order.change or OrderedChange(ChangeKind.CREATE)
    about = f" {change.reservation_id}" if change.reservation_id else ""
    into = f" into {change.into}" if change.into else ""
    print_(
        f"{change.kind}{about}{into}: {order.count} {order.instance_type} in {order.zone}"
    )
    if order.fee_micro_usd:
        print_(f"  from        {instant(order.start_at)} to {instant(order.end_at)}")
    print_(f"  costs       {usd(order.fee_micro_usd)}")
    for note in proposal.notes:
        print_(f"  note        {note}")
    if order.tags or not change.reservation_id:
        show_tags(order)
    if order.counted_micro_usd:
        show_ceiling(use_case, preview)
    print_(f"  change      {order.offering_id}, by {use_case.buyer}")


def _desk(stack: Connection, caller: str) -> "ChangeReservations":
    from reservoir.usecases.purchasing.change_reservations import ChangeReservations

    outside = stack.outside
    account_id = caller.split(":")[4]
    return ChangeReservations(
        outside.reservation_changer,
        outside.offerings,
        outside.clock,
        outside.ids,
        stack.pause,
        account_id,
    )


def _tags(given: list[str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(own_tag(each, CHANGING) for each in given or ())


def _at(text: str | None) -> datetime | None:
    return None if text is None else _instant(text)


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        fail(f"nothing was changed: {text} is not a time such as 2026-01-31T12:00Z")
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
