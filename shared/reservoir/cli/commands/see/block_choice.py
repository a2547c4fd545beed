"""``reservoir get blocks TYPE... --for WORKLOAD``: which blocks to buy, beside waiting and beside on-demand."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from reservoir.cli.console import fail, output
from reservoir.cli.naming import DEFAULT_NAMESPACE
from reservoir.cli.nouns.blocks import instant
from reservoir.cli.nouns.noun import span
from reservoir.cli.nouns.registry import noun_of
from reservoir.cli.policy import attempt
from reservoir.cli.stack.connection import Connection
from reservoir.core.scheduling_terms.money import micro_usd_of, usd

if TYPE_CHECKING:
    from reservoir.core.purchasing.block_search import BlockChoice, BlockWindow, Placed
    from reservoir.usecases.purchasing.search_blocks import SearchResult

_ALL: Final = "all"


def show_block_choice(
    stack: Connection,
    words: Sequence[str],
    wanted: Sequence[str],
    namespace: str | None,
    waiting_usd: str | None,
) -> None:
    """Print the choice."""
    from reservoir.usecases.purchasing.search_blocks import SearchBlocks, SearchRefusedError

    noun, types = words[:1], list(dict.fromkeys(words[1:]))
    if (
        not noun
        or "/" in noun[0]
        or "," in noun[0]
        or noun_of(noun[0]).plural != "blocks"
        or not wanted
    ):
        fail(
            "--for and --waiting-usd are about blocks: reservoir get blocks p5.48xlarge --for NAMESPACE/NAME"
        )
    if not types or any(" " in each for each in types):
        fail(
            "name the types that would fit, as in: reservoir get blocks p5.48xlarge p5en.48xlarge --for NAMESPACE/NAME"
        )
    if _ALL in wanted and len(wanted) > 1:
        fail("--for all takes all waiting workloads; name no others")
    home = namespace or DEFAULT_NAMESPACE
    keys = (
        []
        if list(wanted) == [_ALL]
        else [each if "/" in each else f"{home}/{each}" for each in wanted]
    )
    outside = stack.outside
    search = SearchBlocks(
        outside.workloads,
        outside.reservations,
        outside.offerings,
        outside.capacity_blocks,
        outside.clock,
        stack.pause,
        _micro_usd(waiting_usd),
    )
    try:
        result = attempt(lambda: search.search(types, keys))
    except SearchRefusedError as error:
        fail(str(error))
    for line in _lines(result, outside.clock.now()):
        output().print(line)


def _micro_usd(text: str | None) -> int:
    if text is None:
        return 0
    try:
        found = micro_usd_of(Decimal(text))
    except (InvalidOperation, ValueError, OverflowError):
        found = -1
    if found < 0:
        fail(f"--waiting-usd {text!a} is not an amount of USD")
    return found


def _lines(result: "SearchResult", now: datetime) -> Iterator[str]:
    choice = result.choice
    if not choice.bought:
        yield "buy nothing: " + _why_nothing(result)
    for window in choice.bought:
        yield from _bought(result, window)
    for placed in choice.placed:
        yield f"{placed.key}  {_begins(placed, now)} on {placed.window.id}{_beside(result, placed)}"
    for key in choice.on_demand:
        yield f"{key}  runs on demand, for {usd(result.needs[key].on_demand_micro_usd or 0)}"
    for key in choice.left_over:
        yield f"{key}  still waits: no block that is owned or on sale fits it, and it may not run on demand"
    for key, why in result.left_out.items():
        yield f"{key}  {why}"
    yield f"altogether      {_total(choice)}"
    yield f"without buying  {_total(result.without_buying)}"
    if not result.is_exact:
        yield "the best that was found: with so many workloads not every combination is tried"


def _why_nothing(result: "SearchResult") -> str:
    if not result.on_sale:
        return "EC2 has no block on sale now that would fit"
    if result.choice.left_over:
        return "no block on sale serves a workload, or it costs more than on-demand"
    return "blocks that are owned and on-demand cost less than what is on sale"


def _bought(result: "SearchResult", window: "BlockWindow") -> Iterator[str]:
    sold = result.on_sale[window.id]
    offering = sold.offering
    when = f"from {instant(offering.start_at)} to {instant(offering.end_at)}"
    hours = result.useful_unit_hours(window.id)
    price = usd(micro_usd_of(Decimal(window.fee_micro_usd) / hours / 10**6))
    on_demand = result.on_demand_micro_usd_per_hour.get(window.instance_type)
    beside = (
        "on-demand has no price" if on_demand is None else f"on-demand {usd(on_demand)}"
    )
    asked = f"{offering.count} {window.instance_type} for {sold.days}d"
    yield f"{asked} in {offering.zone} {when}: {usd(window.fee_micro_usd)}"
    if sold.extends is None:
        yield f"  a useful hour of a unit costs {price}; {beside}"
        yield f'  reservoir blocks buy "{asked}" --offering {window.id} --tag KEY=VALUE'
    else:
        yield f"  reservoir blocks extend {sold.extends} --days {sold.days}"


def _begins(placed: "Placed", now: datetime) -> str:
    if placed.begins_at <= now:
        return "begins now"
    return f"waits {span(placed.begins_at - now)}, begins {instant(placed.begins_at)}"


def _beside(result: "SearchResult", placed: "Placed") -> str:
    price = result.needs[placed.key].on_demand_micro_usd
    if price is None:
        return "; it may not run on demand"
    return f"; on demand it costs {usd(price)} and begins now"


def _total(choice: "BlockChoice") -> str:
    parts = [
        f"{usd(choice.fee_micro_usd)} for blocks",
        f"{usd(choice.on_demand_micro_usd)} on demand",
        f"{usd(choice.waiting_micro_usd)} for waiting",
    ]
    left = len(choice.left_over)
    waits = (
        f"; {left} {'workload waits' if left == 1 else 'workloads wait'} on" if left else ""
    )
    return f"{usd(choice.total_micro_usd)}: {', '.join(parts)}{waits}"
