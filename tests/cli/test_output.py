import json
from dataclasses import dataclass
from typing import Any

import pytest
import typer
import yaml
from rich.cells import cell_len
from rich.console import Console

from reservoir.cli.console import fail, messages, output
from reservoir.cli.output import (
    Column,
    Form,
    Listing,
    as_data,
    as_table,
    lines_of,
    printable,
    show,
)


@dataclass(frozen=True)
class Row:
    name: str
    free_count: int
    why: str = ""


def document(row: Row) -> dict[str, Any]:
    return {"kind": "Row", "metadata": {"name": row.name}, "free": row.free_count}


ROWS = Listing[Row](
    (
        Column("NAME", lambda row: row.name),
        Column(
            "FREE",
            lambda row: str(row.free_count),
            is_number=True,
            style=lambda row: "" if row.free_count else "red",
        ),
        Column("WHY", lambda row: row.why, gives_way=True),
        Column("TWICE", lambda row: str(2 * row.free_count), is_wide=True),
    ),
    lambda row: f"row/{row.name}",
    document,
)
TWO = [Row("a", 12, "because it was long ago that somebody asked"), Row("later", 0)]


def table(width: int | None, *, is_wide: bool = False) -> list[str]:
    return [str(line) for line in as_table(TWO, ROWS, width, is_wide=is_wide)]


def test_a_table_is_as_wide_as_its_texts() -> None:
    assert table(None) == [
        "NAME   FREE  WHY",
        "a        12  because it was long ago that somebody asked",
        "later     0",
    ]


def test_wide_has_more_columns() -> None:
    assert table(None, is_wide=True)[0].split() == ["NAME", "FREE", "WHY", "TWICE"]


def test_a_narrow_terminal_cuts_the_column_that_gives_way() -> None:
    assert table(40)[1] == "a        12  because it was long ago th…"
    assert {len(line) <= 40 for line in table(40)} == {True}


def test_a_column_is_never_cut_to_nothing() -> None:
    assert table(8)[1] == "a        12  because it …"


LEAVING = [
    Column[Row]("NAME", lambda row: row.name),
    Column[Row]("NOTHING", lambda row: "-" * bool(row), leaves=3),
    Column[Row]("FREE", lambda row: str(row.free_count), leaves=2),
    Column[Row]("WHY", lambda row: row.why or "-", gives_way=True, leaves=1),
]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (None, ["NAME", "NOTHING", "FREE", "WHY"]),
        (34, ["NAME", "NOTHING", "FREE", "WHY"]),
        (33, ["NAME", "FREE", "WHY"]),
        (24, ["NAME", "FREE"]),
        (5, ["NAME"]),
    ],
)
def test_what_says_nothing_leaves_a_narrow_terminal_first(
    width: int | None, titles: list[str]
) -> None:
    assert lines_of(TWO, LEAVING, width)[0].plain.split() == titles
    listing = Listing(tuple(LEAVING), lambda row: row.name, document)
    assert as_table(TWO, listing, width, is_wide=True)[0].plain.split()[:3] == [
        "NAME",
        "NOTHING",
        "FREE",
    ]


def test_a_column_that_folds_goes_on_below_itself() -> None:
    columns = [
        Column[Row]("NAME", lambda row: row.name),
        Column[Row]("WHY", lambda row: row.why, folds=True),
    ]
    assert [line.plain for line in lines_of(TWO, columns, 31)] == [
        "NAME   WHY",
        "a      because it was long ago",
        "       that somebody asked",
        "later",
    ]
    assert [line.plain for line in lines_of(TWO, columns, None)][1].endswith(
        "that somebody asked"
    )


def test_wide_characters_take_two_cells() -> None:
    (_, line) = as_table([Row("漢字", 1, "x" * 40)], ROWS, 30, is_wide=False)
    assert cell_len(line.plain) == 30


def test_json_is_one_list_and_yaml_one_document_a_row() -> None:
    found = json.loads(as_data(TWO, ROWS, Form.JSON))
    assert (found["apiVersion"], found["kind"]) == ("reservoir/v1", "List")
    assert found["items"] == [document(row) for row in TWO]
    assert list(yaml.safe_load_all(as_data(TWO, ROWS, Form.YAML))) == [
        document(row) for row in TWO
    ]


def test_nothing_is_data_too() -> None:
    assert json.loads(as_data([], ROWS, Form.JSON))["items"] == []
    assert as_data([], ROWS, Form.YAML) == as_data([], ROWS, Form.NAME) == ""


def test_names_are_one_a_line() -> None:
    assert as_data(TWO, ROWS, Form.NAME) == "row/a\nrow/later\n"


def test_an_empty_table_is_a_sentence_on_the_error_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show([], ROWS, Form.TABLE, nothing="no rows in here")
    assert capsys.readouterr() == ("", "no rows in here\n")


def test_a_file_gets_neither_colours_nor_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    show([Row("a", 0, "w" * 300)], ROWS, Form.TABLE, nothing="")
    assert capsys.readouterr().out.splitlines() == [
        "NAME  FREE  WHY",
        f"a        0  {'w' * 300}",
    ]


def printed(console: Console) -> str:
    with console.capture() as captured:
        for line in as_table(TWO, ROWS, console.width, is_wide=False):
            console.print(line)
    return captured.get()


def test_a_terminal_gets_colours_unless_it_says_that_it_wants_none() -> None:
    colours = Console(force_terminal=True, color_system="standard", width=60, _environ={})
    assert "\x1b[31m   0\x1b[0m" in printed(colours)
    plain = Console(
        force_terminal=True, color_system="standard", width=60, _environ={"NO_COLOR": "1"}
    )
    assert "\x1b[31m" not in printed(plain)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("abc\u202edef", r"abc\u202edef"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_is_not_printed_is_escaped(text: str, safe: str) -> None:
    assert printable(text) == safe


def test_untrusted_text_does_nothing_to_a_terminal() -> None:
    evil = Row("a\x1b[31m", 1, "[bold]x[/bold]\u202e")
    (_, line) = as_table([evil], ROWS, None, is_wide=False)
    assert line.plain == r"a\x1b[31m     1  [bold]x[/bold]\u202e"
    for form in (Form.JSON, Form.YAML, Form.NAME):
        assert "\x1b" not in as_data([evil], ROWS, form)
        assert "\u202e" not in as_data([evil], ROWS, form)


def test_whatever_a_command_prints_is_made_printable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output().print("one\x1b[2J\ntwo\u202e", style="bold")
    messages().print("\x9b31m")
    with pytest.raises(typer.Exit):
        fail("AWS refused: \x1b]0;title\x07")
    said = capsys.readouterr()
    assert said.out == "one\\x1b[2J\ntwo\\u202e\n"
    assert said.err == "\\x9b31m\nAWS refused: \\x1b]0;title\\x07\n"
