"""How results are printed: one way for all commands, as a table for people or as data for programs.

A command says once what a row is called, which columns it has and which document it is; ``show`` does the rest. Texts
of users and of AWS (names, tags, messages) reach a terminal through ``printable`` only.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    TypeVar,
)

import typer

from reservoir.cli.console import fail, messages, output

# commands take it from here, beside the tables
from reservoir.cli.console import printable as printable
from reservoir.cli.fields import FieldsError, Path, Template, custom_columns, sort_key

if TYPE_CHECKING:
    from rich.text import Text

T = TypeVar("T")

API_VERSION: Final = "reservoir/v1"

_GAP: Final = 2  # blanks between columns
_ABSENT: Final = "-"  # what columns say where a row has nothing to say
# a template that is about all rows at once, any other about each
_WHOLE_LIST: Final = ".items"
_NARROWEST: Final = 12  # a column that gives way stays at least so wide


def number(count: int, noun: str) -> str:
    """Return a count with its noun: "1 replica", "2 replicas"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True, slots=True)
class Form:
    """How to print: a form, and what it takes, as in ``jsonpath=TEMPLATE``."""

    name: str
    takes: str = ""

    TABLE: ClassVar["Form"]
    WIDE: ClassVar["Form"]
    JSON: ClassVar["Form"]
    YAML: ClassVar["Form"]
    NAME: ClassVar["Form"]
    ICS: ClassVar["Form"]

    @classmethod
    def parse(cls, text: "str | Form") -> "Form":
        """Read the option."""
        if isinstance(text, Form):
            return text
        name, _, takes = text.partition("=")
        if name in _PLAIN and not takes:
            return _PLAIN[name]
        if text == Form.ICS.name:
            return Form.ICS
        try:
            if name == JSONPATH and takes:
                Template.parse(takes)
                return cls(name, takes)
            if name == CUSTOM_COLUMNS and takes:
                custom_columns(takes)
                return cls(name, takes)
        except FieldsError as error:
            raise typer.BadParameter(str(error)) from None
        raise typer.BadParameter(f"{text!a} is none of {_FORMS}")

    @property
    def is_for_people(self) -> bool:
        """Whether it is a table."""
        return self in (Form.TABLE, Form.WIDE)

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"{self.name}={self.takes}" if self.takes else self.name


Form.TABLE, Form.WIDE = Form("table"), Form("wide")
Form.JSON, Form.YAML, Form.NAME = Form("json"), Form("yaml"), Form("name")
Form.ICS = Form("ics")  # of a calendar alone
JSONPATH: Final = "jsonpath"
CUSTOM_COLUMNS: Final = "custom-columns"
_PLAIN: Final = {
    form.name: form for form in (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.NAME)
}
_FORMS: Final = f"{', '.join(_PLAIN)}, {JSONPATH}=TEMPLATE, {CUSTOM_COLUMNS}=TITLE:PATH,..."

Output = Annotated[
    Form,
    typer.Option(
        "--output",
        "-o",
        metavar="FORM",
        parser=Form.parse,
        help=f"table, wide (more columns), json, yaml, name, {JSONPATH}=TEMPLATE, {CUSTOM_COLUMNS}=TITLE:PATH,...",
    ),
]


def _path(text: str) -> Path:
    try:
        return Path.parse(text)
    except FieldsError as error:
        raise typer.BadParameter(str(error)) from None


SortBy = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        parser=_path,
        help="Sort by a field of -o json, such as .status.createdAt.",
    ),
]
NoHeaders = Annotated[
    bool, typer.Option("--no-headers", help="Print tables without their titles.")
]


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column of a table.

    ``style`` is a style of rich for a row (empty: none), shown on terminals that have colours. A column that
    ``gives_way`` is cut, with an ellipsis, where the terminal is too narrow for the row; one that ``folds``, the last
    one only, goes on below itself; rows of a listing, which can be watched, have a line each and no such column. One
    that ``leaves`` is not shown where the terminal is too narrow still: those that say nothing first, then the lowest
    number.
    """

    title: str
    text: Callable[[T], str]
    is_wide: bool = False
    is_number: bool = False
    gives_way: bool = False
    folds: bool = False
    leaves: int | None = None
    style: Callable[[T], str] | None = None


@dataclass(frozen=True)
class Listing(Generic[T]):
    """How rows of one noun are printed.

    ``name`` is what ``-o name`` prints and other commands take; ``document`` what ``-o json`` and ``-o yaml`` print:
    JSON-ready, with ``kind`` first. Fields are added to it, never renamed. ``calendar``: what ``-o ics`` prints of all
    rows; None where rows have no dates.
    """

    columns: tuple[Column[T], ...]
    name: Callable[[T], str]
    document: Callable[[T], Mapping[str, Any]]
    calendar: Callable[[Sequence[T]], str] | None = None


def show(rows: Sequence[T], listing: Listing[T], form: Form, *, nothing: str) -> None:
    """Print rows; where there are none, a table is the sentence ``nothing`` on the error stream."""
    show_all([(rows, listing)], form, nothing=nothing)


def in_order(rows: Sequence[T], listing: Listing[T], by: Path | None) -> list[T]:
    """Return rows by a field of their documents; rows that are equal in it keep their order."""
    if by is None:
        return list(rows)
    return sorted(rows, key=lambda row: sort_key(by.find(listing.document(row))))


def show_all(
    parts: Sequence[tuple[Sequence[Any], Listing[Any]]],
    form: Form,
    *,
    nothing: str,
    headers: bool = True,
) -> None:
    """Print rows of several nouns: a table each, or all of them as one list for a program."""
    if form.name == CUSTOM_COLUMNS:
        print_lines(_custom_table(parts, form, headers=headers))
        return
    if form is Form.ICS:
        # not printed: its lines end in a way that printing would show
        output().file.write(_as_calendar(parts))
        return
    if not form.is_for_people:
        output().print(_as_data(parts, form), end="")
        return
    console = output()
    width = terminal_width()
    tables = [
        as_table(rows, listing, width, is_wide=form is Form.WIDE)
        for rows, listing in parts
        if rows
    ]
    for number, table in enumerate(tables):
        if number:
            console.print()
        print_lines(table if headers else table[1:])
    if not tables:
        messages().print(printable(nothing))


class Line(NamedTuple):
    """One line of a table: its text, and which parts of it have a style. It becomes rich's where colours are seen."""

    plain: str
    styles: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        """Return its text."""
        return self.plain

    def __rich__(self) -> "Text":
        """Return what rich prints."""
        from rich.text import Text

        text = Text(self.plain)
        for style in self.styles:
            text.stylize(*style)
        return text


def print_lines(lines: Sequence[Line]) -> None:
    """Print lines that are printable already; without colours, all at once, which takes far less time."""
    console = output()
    if console.is_terminal:
        for line in lines:
            console.print(line)
    else:
        console.file.write("".join(f"{line.plain}\n" for line in lines))


def terminal_width() -> int | None:
    """Return how wide the terminal of results is; None in a pipe or file, where nothing is cut."""
    console = output()
    return console.width if console.is_terminal else None


def as_data(rows: Sequence[T], listing: Listing[T], form: Form) -> str:
    """Return rows for a program: a ``List`` as JSON, one YAML document a row, or one name a line."""
    if form is Form.ICS:
        return _as_calendar([(rows, listing)])
    return _as_data([(rows, listing)], form)


def _as_calendar(parts: Sequence[tuple[Sequence[Any], Listing[Any]]]) -> str:
    calendars = [listing.calendar(rows) for rows, listing in parts if listing.calendar]
    if len(parts) != 1 or not calendars:
        fail("a calendar alone is printed as ics: reservoir get calendar -o ics")
    return calendars[0]


def _as_data(parts: Sequence[tuple[Sequence[Any], Listing[Any]]], form: Form) -> str:
    if form is Form.NAME:
        names = chain.from_iterable(map(listing.name, rows) for rows, listing in parts)
        return "".join(f"{printable(name)}\n" for name in names)
    documents = _documents(parts)
    if form.name == JSONPATH:
        template = Template.parse(form.takes)
        if _WHOLE_LIST in form.takes:
            return printable_lines(template.render({"items": documents}))
        return printable_lines("\n".join(map(template.render, documents)))
    if form is Form.YAML:
        # loads a YAML writer, which no other form needs
        from reservoir.manifests.answers.render import to_yaml

        return to_yaml(documents)
    return (
        json.dumps(
            {"apiVersion": API_VERSION, "kind": "List", "items": documents}, indent=2
        )
        + "\n"
    )


def _documents(parts: Sequence[tuple[Sequence[Any], Listing[Any]]]) -> list[dict[str, Any]]:
    documents = chain.from_iterable(map(listing.document, rows) for rows, listing in parts)
    return [dict(document) for document in documents]


def _custom_table(
    parts: Sequence[tuple[Sequence[Any], Listing[Any]]], form: Form, *, headers: bool
) -> list[Line]:
    """Return the table of ``-o custom-columns``: one for all nouns, cut nowhere."""
    documents = _documents(parts)
    columns = [
        Column[dict[str, Any]](each.title, each.text) for each in custom_columns(form.takes)
    ]
    return lines_of(documents, columns, None)[0 if headers else 1 :]


def printable_lines(text: str) -> str:
    """Return text whose lines do nothing to a terminal; it ends as it was written."""
    return "\n".join(map(printable, text.split("\n")))


def as_table(
    rows: Sequence[T], listing: Listing[T], width: int | None, *, is_wide: bool
) -> list[Line]:
    """Return the lines of a table, cut to ``width`` where columns give way; None cuts nothing."""
    if is_wide:
        return lines_of(
            rows, [replace(column, leaves=None) for column in listing.columns], width
        )
    return lines_of(
        rows, [column for column in listing.columns if not column.is_wide], width
    )


def lines_of(
    rows: Sequence[T], columns: Sequence[Column[T]], width: int | None
) -> list[Line]:
    """Return the lines of a table with these columns, as :func:`as_table` does.

    Most texts in a table of ten thousand rows occur often: each text of a column is measured once.
    """
    texts = [_texts(column, rows) for column in columns]
    shown = _shown(columns, texts, width)
    columns, texts = [columns[i] for i in shown], [texts[i] for i in shown]
    styles = [_styles(column, rows) for column in columns]
    wanted = [max(map(_width, set(column))) for column in texts]
    widths = _fitted(wanted, [column.gives_way for column in columns], width)
    if width is not None and columns[-1].folds:
        room = max(_NARROWEST, width - sum(widths[:-1]) - _GAP * (len(widths) - 1))
        texts, styles = _folded(texts, styles, room)
    cells = [
        _cells(column, room, is_number=found.is_number)
        for column, room, found in zip(texts, widths, columns, strict=True)
    ]
    return list(map(_line, zip(*cells, strict=True), zip(*styles, strict=True)))


def _shown(
    columns: Sequence[Column[T]], texts: Sequence[Sequence[str]], width: int | None
) -> list[int]:
    """Return which columns a terminal has room for."""
    shown = list(range(len(columns)))
    if width is None:
        return shown
    least: list[int] = []
    leaving: list[tuple[bool, int, int]] = []
    for index, (column, own) in enumerate(zip(columns, texts, strict=True)):
        wanted = max(map(_width, set(own)))
        gives_way = column.gives_way or column.folds
        least.append(min(wanted, _NARROWEST) if gives_way else wanted)
        if column.leaves is not None:
            says_something = set(own[1:]) != {_ABSENT}
            leaving.append((says_something, column.leaves, index))
    for _, _, index in sorted(leaving):
        if sum(least[each] for each in shown) + _GAP * (len(shown) - 1) <= width:
            break
        shown.remove(index)
    return shown


def _texts(column: Column[T], rows: Sequence[T]) -> list[str]:
    """Return the title and the texts of a column, printable."""
    texts = [column.title, *map(column.text, rows)]
    safe = {text: printable(text) for text in set(texts)}
    return [safe[text] for text in texts]


def _cells(texts: Sequence[str], room: int, *, is_number: bool) -> list[str]:
    """Return the texts of a column in exactly that many places of a terminal."""
    fitted = {text: _fit(text, room, is_number=is_number) for text in set(texts)}
    return [fitted[text] for text in texts]


def _fit(text: str, room: int, *, is_number: bool) -> str:
    free = room - _width(text)
    if free >= 0:
        return " " * free + text if is_number else text + " " * free
    from rich.cells import set_cell_size

    return set_cell_size(text, room - 1) + "…"


def _width(text: str) -> int:
    """Return how many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _line(cells: Sequence[str], styles: Sequence[str]) -> Line:
    plain = (" " * _GAP).join(cells).rstrip()
    if not any(styles):
        return Line(plain)
    starts = accumulate((len(cell) + _GAP for cell in cells), initial=0)
    styled = [
        (style, start, start + len(cell))
        for style, start, cell in zip(styles, starts, cells, strict=False)
    ]
    return Line(plain, tuple(span for span in styled if span[0]))


def _styles(column: Column[T], rows: Sequence[T]) -> list[str]:
    """Return the styles of a column's header and cells."""
    if column.style is None:
        return ["bold", *([""] * len(rows))]
    return ["bold", *map(column.style, rows)]


def _folded(
    texts: Sequence[Sequence[str]], styles: Sequence[Sequence[str]], room: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the columns with the last one broken, between words where there are any, into lines that fit."""
    from rich.console import Console
    from rich.text import Text

    *others, last = texts
    longer: list[list[str]] = [[] for _ in texts]
    styled: list[list[str]] = [[] for _ in styles]
    for row, text in enumerate(last):
        parts = [part.plain for part in Text(text).wrap(Console(width=room), room)] or [
            text
        ]
        longer[-1] += parts
        blank = [""] * (len(parts) - 1)
        for column, lines in zip(others, longer[:-1], strict=True):
            lines += [column[row], *blank]
        for column, lines in zip(styles, styled, strict=True):
            lines += [column[row]] * len(parts)
    return longer, styled


def _fitted(
    wanted: Sequence[int], gives_way: Sequence[bool], width: int | None
) -> list[int]:
    """Return the width of each column; ``width`` None has no edge. The widest that gives way gives first."""
    widths = list(wanted)
    excess = 0 if width is None else sum(wanted) + _GAP * (len(wanted) - 1) - width
    for i in sorted(
        (i for i, gives in enumerate(gives_way) if gives), key=lambda i: -wanted[i]
    ):
        given = min(max(excess, 0), max(wanted[i] - _NARROWEST, 0))
        widths[i] -= given
        excess -= given
    return widths
