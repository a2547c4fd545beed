"""How an order that costs money is agreed to, carried out, settled and reported."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reservoir.cli.console import can_ask, fail, messages, output
from reservoir.cli.policy import attempt
from reservoir.cli.stack.connection import Connection
from reservoir.core.scheduling_terms.money import micro_usd_of, usd
from reservoir.names import PURCHASE_TAG

if TYPE_CHECKING:
    from reservoir.core.purchasing.purchase import BlockOrder
    from reservoir.usecases.purchasing.buy_block import (
        BuyBlock,
        Preview,
        PurchaseOutcome,
    )

Amount = Annotated[
    str | None,
    typer.Option(
        metavar="USD",
        help="The amount that you agree to, to the cent; with --yes, instead of typing it.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the cost, and whether EC2 would allow it."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A tag of the new reservation, by which classes select it.",
    ),
]


@dataclass(frozen=True, slots=True)
class Words:
    """The words for a kind of order: ``done`` is a participle, and the amount is typed to ``do`` it."""

    done: str
    do: str
    group: str  # of the commands that it belongs to

    @property
    def nothing(self) -> str:
        """The sentence that it was not done."""
        return f"nothing was {self.done}"


BUYING: Final = Words("bought", "buy it", "blocks")
CHANGING: Final = Words("changed", "do it", "reservations")


def agree(
    fee_micro_usd: int, amount: str | None, *, yes: bool, words: Words = BUYING
) -> None:
    """Compare the amount that the caller types, or gives beside ``--yes``, and end the command if it is another one."""
    if yes:
        if amount is None:
            fail(f"{words.nothing}: --yes agrees only together with --amount")
        typed = amount
    elif not can_ask():
        fail(
            f"{words.nothing}: there is no terminal on which to type the amount; say --amount and --yes"
        )
    else:
        typed = typer.prompt(f"Type the amount in USD to {words.do}", err=True)
    if _micro_usd(typed) != fee_micro_usd:
        fail(f"{words.nothing}: it costs {usd(fee_micro_usd)}, not {typed}")


def report(outcome: "PurchaseOutcome", words: Words = BUYING) -> None:
    """Print the outcome of an order; end the command unless it was carried out."""
    from reservoir.usecases.purchasing.buy_block import Result

    purchase = outcome.purchase
    settle_it = f"reservoir {words.group} settle {purchase.id}"
    if outcome.result is Result.BOUGHT:
        ids = ", ".join(purchase.reservation_ids)
        output().print(
            f"{words.done} {ids} for {usd(purchase.order.fee_micro_usd)}, by {purchase.by}"
        )
        if not outcome.is_written:
            fail(f"it is {words.done} {outcome.why}: {settle_it}")
        if outcome.why:
            messages().print(f"warning: it is {words.done} {outcome.why}")
    elif outcome.result is Result.NOT_BOUGHT:
        fail(f"{words.nothing}: {outcome.why}")
    else:
        fail(
            f"it is not known whether it was {words.done}: {outcome.why}. Buy and change nothing else; look at the"
            f" account's reservations, and find out: {settle_it}"
        )


def own_tag(text: str, words: Words = BUYING) -> tuple[str, str]:
    """Return the tag that an option gives as KEY=VALUE; end the command if it is not one."""
    key, _, value = text.partition("=")
    if not key or not value or key.startswith(("aws:", "reservoir:")):
        fail(
            f"{words.nothing}: {text!a} is not a tag of yours: give KEY=VALUE, with a key that is not AWS's"
            " or Reservoir's"
        )
    return key, value


def refuse(*reasons: str | None, words: Words = BUYING) -> None:
    """End the command if there are reasons."""
    against = [each for each in reasons if each is not None]
    if against:
        fail(
            "\n".join((f"{words.nothing}:", *against))
            if len(against) > 1
            else f"{words.nothing}: {against[0]}"
        )


def buyer(stack: Connection) -> "BuyBlock":
    """Return the use case that buys with the credentials of the command's caller."""
    from reservoir.usecases.purchasing.buy_block import BuyBlock

    outside = stack.outside
    return BuyBlock(
        outside.purchases,
        outside.block_seller,
        outside.publisher,
        outside.clock,
        stack.pause,
        outside.settings.purchase_ceilings,
        stack.caller(),
    )


def carry_out(
    stack: Connection,
    use_case: "BuyBlock",
    preview: "Preview",
    amount: str | None,
    *,
    yes: bool,
    dry_run: bool,
    words: Words = BUYING,
) -> None:
    """Carry out an order that was shown, once the caller agrees; a dry run only asks EC2 whether it would let them."""
    from reservoir.usecases.purchasing.buy_block import PurchaseRefusedError

    refuse(*preview.refusals, words=words)
    order = preview.order
    if dry_run:
        attempt(lambda: stack.outside.block_seller.try_to_buy(order))
        output().print(f"{words.nothing} (dry run): EC2 would allow it")
        return
    agree(order.fee_micro_usd, amount, yes=yes, words=words)
    try:
        outcome = attempt(lambda: use_case.buy(preview))
    except PurchaseRefusedError as error:
        fail(f"{words.nothing}: {error}")
    report(outcome, words)


def settle_purchase(
    stack: Connection, purchase_id: str, not_bought: str | None, words: Words = BUYING
) -> None:
    """Find out whether an order was carried out whose answer was lost, and report it.

    ``not_bought``: how the caller knows that it was not.
    """
    from reservoir.usecases.purchasing.buy_block import PurchaseRefusedError

    try:
        outcome = attempt(lambda: buyer(stack).settle(purchase_id, not_bought=not_bought))
    except PurchaseRefusedError as error:
        fail(str(error))
    report(outcome, words)


def show_tags(order: "BlockOrder") -> None:
    """Print the tags that the reservation will have."""
    tags = [*order.tags, (PURCHASE_TAG, order.offering_id)]
    output().print(f"  tags        {', '.join(f'{key}={value}' for key, value in tags)}")


def show_ceiling(use_case: "BuyBlock", preview: "Preview") -> None:
    """Print what of the month's ceiling is spent, where there is one."""
    ceiling = use_case.ceilings.month_micro_usd
    if ceiling is not None:
        output().print(
            f"  this month  {usd(preview.spent_micro_usd)} of {usd(ceiling)} are spent"
        )


def _micro_usd(text: str) -> int | None:
    try:
        return micro_usd_of(Decimal(text))
    except InvalidOperation:
        return None
