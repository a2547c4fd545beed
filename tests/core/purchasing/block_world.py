"""Needs and windows of searches for blocks, in whole hours."""

from datetime import timedelta

from lab.fakes.system import START
from reservoir.core.purchasing.block_search import BlockNeed, BlockWindow

HOUR = timedelta(hours=1)
P5, P6 = "p5.48xlarge", "p6-b200.48xlarge"


def need(
    key: str, units: int, hours: int, on_demand: int | None = None, **types: int
) -> BlockNeed:
    return BlockNeed(key, {P5: units} | types, hours * HOUR, on_demand)


def window(
    id_: str,
    count: int,
    start: int,
    end: int,
    fee: int = 0,
    *,
    type_: str = P5,
    extends: str | None = None,
) -> BlockWindow:
    return BlockWindow(
        id_, type_, count, START + start * HOUR, START + end * HOUR, fee, extends=extends
    )
