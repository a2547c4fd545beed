"""What a noun is: how its rows are read, which of them are meant, and how they are printed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import Final, Generic, TypeVar

from reservoir.cli.output import Listing
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.workload import LabelSelector

T = TypeVar("T")

EVERYTHING: Final = LabelSelector()


class Selector(Enum):
    """By what rows of a noun can be chosen, besides their names; the value is the option."""

    LABEL = "--selector"
    NAMESPACE = "--namespace"
    POOL = "--pool"
    STATE = "--state"


@dataclass(frozen=True, slots=True)
class Facts:
    """What selectors look at in a row; None: not a thing that rows of its noun have, or looked at when it was read.

    ``through``: the row is chosen by any of these instead, as a decision is by its nodes.
    """

    names: frozenset[str]  # what it answers to
    namespaces: Collection[str] | None = None
    labels: Mapping[str, str] | None = None
    pools: Collection[str] | None = None
    state: str = ""
    through: "tuple[Facts, ...]" = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows are meant; what is left empty selects all.

    ``names`` are for a noun's ``read``; those of workloads without a namespace are in ``namespace``, or in the default
    one. ``all_namespaces``: that was said; else a noun that has a home is looked for there.
    """

    names: tuple[str, ...] = ()
    namespace: str = ""
    all_namespaces: bool = False
    labels: LabelSelector = EVERYTHING
    pool: str | None = None
    state: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all rows are meant."""
        return self == Selection(all_namespaces=self.all_namespaces)

    def has(self, facts: Facts) -> bool:
        """Whether a row that was read is meant."""
        return any(self._has(each) for each in facts.through or (facts,))

    def _has(self, facts: Facts) -> bool:
        is_here = not self.namespace or bool(self.names) or facts.namespaces is None
        return (
            (is_here or self.namespace in (facts.namespaces or ()))
            and (self.pool is None or facts.pools is None or self.pool in facts.pools)
            and (self.state is None or self.state.lower() == facts.state.lower())
            and (facts.labels is None or self.labels.matches(facts.labels))
        )


class Rows(list[T]):
    """Rows of a noun that has more rows than were read."""

    def __init__(self, rows: Iterable[T], left_out: str) -> None:
        """``left_out`` says that there are others, and how to choose them."""
        super().__init__(rows)
        self.left_out = left_out


@dataclass(frozen=True)
class Noun(Generic[T]):
    """One kind of thing.

    ``read`` returns the rows of these names, or all that are worth listing; it reads indexes or keys, and never scans
    a table. Where there are more than it has room for, it returns ``Rows``. ``states`` are the words that ``--state``
    takes; empty: AWS may invent some. ``details`` are lines that ``describe`` prints before a row's document.
    ``home``: the namespace that is meant where none is said. ``more`` adds to rows what takes longer to find out, for
    forms that show it.
    """

    plural: str
    kind: str  # as in KIND/NAME
    selectors: frozenset[Selector]
    read: Callable[[Connection, Selection], Sequence[T]]
    facts: Callable[[T], Facts]
    listing: Callable[[datetime], Listing[T]]
    states: Collection[str] = ()
    details: Callable[[Connection, T], Iterable[str]] = lambda _stack, _row: ()
    home: str = ""
    more: Callable[[Connection, Sequence[T]], Sequence[T]] = lambda _stack, rows: rows


_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "m"),
    (timedelta(seconds=1), "s"),
)


def span(length: timedelta) -> str:
    """Return a length of time for a column, as kubectl does: its two largest units, or one if that is large."""
    for (unit, name), (smaller, smaller_name) in pairwise(_UNITS):
        if length >= unit:
            count, rest = divmod(length, unit)
            more = rest // smaller
            if more and count < 10:
                return f"{count}{name}{more}{smaller_name}"
            return f"{count}{name}"
    return f"{max(0, length // timedelta(seconds=1))}s"


def age(at: datetime | None, now: datetime) -> str:
    """Return how long ago something was."""
    return "-" if at is None else span(now - at)


def ahead(at: datetime | None, now: datetime) -> str:
    """Return when something will be."""
    if at is None:
        return "-"
    return f"in {span(at - now)}" if at > now else "now"


def price(micro_usd: int | None) -> str:
    """Return USD for a column: two digits after the point, and four at most."""
    if micro_usd is None:
        return "?"
    dollars, rest = divmod((micro_usd + 50) // 100, 10_000)
    return f"{dollars}.{f'{rest:04}'.rstrip('0'):0<2}"
