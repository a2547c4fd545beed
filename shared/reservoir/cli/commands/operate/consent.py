"""How somebody agrees to what costs money, and is told what became of it."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reservoir.cli.console import can_ask, fail, messages, output
from reservoir.cli.stack.connection import Connection
from reservoir.core.scheduling_terms.money import micro_usd_of, usd

if TYPE_CHECKING:
    from reservoir.usecases.purchasing.buy_block import BuyBlock, PurchaseOutcome

Amount = Annotated[
    str | None,
    typer.Option(
        metavar="USD",
        help="What it may cost, to the cent; beside --yes, instead of typing it.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Say what it would cost, and whether EC2 would let you."
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE", help="A tag of what is made, by which policy finds it."
    ),
]


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of it: ``done`` is a participle, ``do`` what the amount is typed for."""

    done: str
    do: str
    room: str  # the command's first word

    @property
    def nothing(self) -> str:
        """Say that it was not done."""
        return f"nothing was {self.done}"


BUYING: Final = Words("bought", "buy it", "blocks")
CHANGING: Final = Words("changed", "do it", "reservations")


def agree(
    fee_micro_usd: int, amount: str | None, *, yes: bool, words: Words = BUYING
) -> None:
    """Have the amount typed, or said beside ``--yes``; ends the command for another one."""
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
    """Say what became of it; ends the command unless it was done."""
    from reservoir.usecases.purchasing.buy_block import Result

    purchase = outcome.purchase
    settle_it = f"reservoir {words.room} settle {purchase.id}"
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
            f"nobody knows whether it was {words.done}: {outcome.why}. Buy and change nothing else; look at the"
            f" account's reservations, and find out: {settle_it}"
        )


def own_tag(text: str, words: Words = BUYING) -> tuple[str, str]:
    """Return a tag that somebody gives; ends the command for what is none."""
    key, _, value = text.partition("=")
    if not key or not value or key.startswith(("aws:", "reservoir:")):
        fail(
            f"{words.nothing}: {text!a} is no tag of yours: say KEY=VALUE, with a key that is not AWS's or Reservoir's"
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
    """Return what buys for whoever runs the command."""
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


def _micro_usd(text: str) -> int | None:
    try:
        return micro_usd_of(Decimal(text))
    except InvalidOperation:
        return None
