"""Options that change the world which a question is about."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from reservoir.cli import files
from reservoir.cli.console import fail, report
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.workload import Workload
from reservoir.core.what_if.added_capacity import FORM, EditError, parse_added_capacity
from reservoir.core.what_if.edits import WorldEdits
from reservoir.manifests.parsing.fields import Price, micro_usd
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files

_PRICE: TypeAdapter[str] = TypeAdapter(Price)

With = Annotated[
    list[str],
    typer.Option("--with", metavar="CAPACITY", help=f"Capacity to add: {FORM}."),
]
Without = Annotated[
    list[str],
    typer.Option("--without", metavar="cr-…", help="A reservation to leave out."),
]
Policy = Annotated[
    list[str],
    typer.Option(
        "--policy", metavar="FILE|DIR", help="NodePools and EC2NodeClasses as if applied."
    ),
]
Prices = Annotated[
    list[str],
    typer.Option("--price", metavar="TYPE=USD", help="Another on-demand price an hour."),
]


def edits_of(
    added: Sequence[str],
    removed: Sequence[str],
    policy: Sequence[str],
    prices: Sequence[str],
    now: datetime,
) -> WorldEdits:
    """Read the options; ends the command when one is not understood. Times of day are those after ``now``."""
    pools, classes = _policy_of(policy) if policy else ((), ())
    try:
        return WorldEdits(
            added=tuple(parse_added_capacity(text, now) for text in added),
            removed_ids=tuple(dict.fromkeys(removed)),
            on_demand_micro_usd_per_hour=dict(map(_price_of, prices)),
            node_pools=pools,
            node_classes=classes,
        )
    except EditError as error:
        fail(str(error))


def _policy_of(
    filenames: Sequence[str],
) -> tuple[tuple[NodePool, ...], tuple[NodeClass, ...]]:
    reading = read_files(files.read(filenames))
    report(reading.problems)
    if errors_of(reading.problems):
        fail("not valid")
    values = [read.manifest.to_core() for read in reading.manifests]
    if any(isinstance(value, Workload) for value in values):
        fail("the policy holds demand: pass it with -f")
    pools = tuple(value for value in values if isinstance(value, NodePool))
    return pools, tuple(value for value in values if isinstance(value, NodeClass))


def _price_of(text: str) -> tuple[str, int]:
    name, equals, price = text.partition("=")
    try:
        if name and equals:
            return name, micro_usd(_PRICE.validate_python(price))
    except ValidationError:
        pass
    raise EditError(
        f"{text!a} is not of the form TYPE=USD, such as p5.48xlarge=55.04, with at most 6 decimals"
    )
