"""``-o jsonpath``, ``-o custom-columns``, ``--sort-by`` and ``--no-headers``."""

import json
import os
import subprocess
import sys
from pathlib import Path as File
from typing import Any

import pytest

from reservoir.cli.fields import CustomColumn, FieldsError, Path, Template, custom_columns
from reservoir.cli.output import Column, Form, Listing, as_data, in_order, show_all
from tests.cli.policy.test_policy_commands import POLICY, Stack
from tests.cli.world_stack import invoke

DOCUMENT = {
    "metadata": {"name": "nc-1", "labels": {"a.b/c": "x"}},
    "status": {
        "holders": [{"name": "train", "units": 3}, {"name": "serve", "units": 1}],
        "stale": False,
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["nc-1"]),
        ("{.metadata.name}", ["nc-1"]),
        ("$.metadata.name", ["nc-1"]),
        (".metadata.labels['a.b/c']", ["x"]),
        (".status.holders[*].units", [3, 1]),
        (".status.holders[-1].name", ["serve"]),
        (".status.holders[7].name", []),
        (".status.stale", [False]),
        (".no.such.field", []),
    ],
)
def test_a_path_finds_what_is_there(path: str, found: list[Any]) -> None:
    assert Path.parse(path).find(DOCUMENT) == found


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (".metadata.name", "nc-1"),
        ("name={.metadata.name}\n", "name=nc-1\n"),
        ('{.metadata.name}{"\\t"}{.status.stale}', "nc-1\tfalse"),
        ('{range .status.holders[*]}{.name}={.units}{"\\n"}{end}', "train=3\nserve=1\n"),
        ("{.status.holders[*].name}", "train serve"),
        ("{.status.holders[0]}", '{"name": "train", "units": 3}'),
        ("{'}'}", "}"),
    ],
)
def test_a_template_is_text_with_paths(template: str, text: str) -> None:
    assert Template.parse(template).render(DOCUMENT) == text


@pytest.mark.parametrize(
    "wrong", ["{.a", "a}b", "{range .a}x", "{end}", "{.a[}", "{a b}", "{..a}"]
)
def test_what_is_no_template_is_refused(wrong: str) -> None:
    with pytest.raises(FieldsError):
        Template.parse(wrong)


@pytest.mark.parametrize("wrong", ["", "NAME", ":.a", "NAME:", "NAME:a b"])
def test_what_are_no_columns_is_refused(wrong: str) -> None:
    with pytest.raises(FieldsError):
        custom_columns(wrong)


def test_a_column_says_that_there_is_nothing() -> None:
    assert CustomColumn("X", Path.parse(".x")).text(DOCUMENT) == "<none>"


ROWS = Listing[dict[str, Any]](
    (Column("NAME", lambda row: row["name"]),),
    lambda row: f"row/{row['name']}",
    lambda row: {"kind": "Row", **row},
)
THREE: list[dict[str, Any]] = [
    {"name": "b", "n": 10},
    {"name": "a\x1b[2J", "n": 9},
    {"name": "c"},
]


def test_rows_are_sorted_as_numbers_or_texts_and_those_without_come_first() -> None:
    assert [row["name"][0] for row in in_order(THREE, ROWS, Path.parse(".n"))] == [
        "c",
        "a",
        "b",
    ]
    assert [row["name"][0] for row in in_order(THREE, ROWS, Path.parse(".name"))] == [
        "a",
        "b",
        "c",
    ]
    assert in_order(THREE, ROWS, None) == THREE


def test_a_template_is_of_each_row_or_of_the_whole_list() -> None:
    assert as_data(THREE[:1], ROWS, Form.parse("jsonpath={.name}")) == "b"
    assert as_data(THREE, ROWS, Form.parse("jsonpath={.n}")) == "10\n9\n"
    assert as_data(THREE, ROWS, Form.parse("jsonpath={.items[*].n}")) == "10 9"


def test_fields_of_others_do_nothing_to_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "\x1b" not in as_data(THREE, ROWS, Form.parse("jsonpath={.name}"))
    show_all([(THREE, ROWS)], Form.parse("custom-columns=NAME:.name,N:.n"), nothing="")
    assert capsys.readouterr().out.splitlines() == [
        "NAME      N",
        "b         10",
        r"a\x1b[2J  9",
        "c         <none>",
    ]


def test_get_takes_all_of_it() -> None:
    stack = Stack()
    invoke(stack, "apply", "-f", POLICY)

    def got(*arguments: str) -> str:
        result = invoke(stack, "get", "pools", *arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    assert got("-o", "jsonpath={.items[*].metadata.name}") == "default gpu-training"
    assert (
        invoke(stack, "get", "pool", "default", "-o", "jsonpath={.metadata.name}").stdout
        == "default"
    )
    columns = got(
        "-o", "custom-columns=NAME:.metadata.name,WEIGHT:.spec.weight", "--no-headers"
    )
    assert [line.split()[0] for line in columns.splitlines()] == ["default", "gpu-training"]
    assert got("--no-headers").splitlines() == got().splitlines()[1:]
    by_weight = json.loads(got("--sort-by", ".spec.weight", "-o", "json"))["items"]
    weights = [each["spec"].get("weight") or 0 for each in by_weight]
    assert weights == sorted(weights)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "jsonpath={.a"), "a brace of"),
        (("-o", "xml"), "'xml' is none of table, wide"),
        (("-o", "jsonpath"), "is none of"),
        (("--sort-by", "a b"), "is not a path such as"),
        (("-w", "--sort-by", ".a"), "--watch goes with"),
    ],
)
def test_a_wrong_form_says_what_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    result = invoke(Stack(), "get", "pools", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.skipif(not File("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_and_a_closed_pipe_end_quietly() -> None:
    command = [sys.executable, "-m", "reservoir", "--help"]

    def run(into: Any) -> subprocess.CompletedProcess[str]:
        # S603: it is our own command.
        return subprocess.run(  # noqa: S603 - ours
            command, stdout=into, stderr=subprocess.PIPE, text=True, check=False
        )

    with File("/dev/full").open("w") as full:
        done = run(full)
    assert (done.returncode, done.stderr) == (
        2,
        "cannot write the output: No space left on device\n",
    )
    reader, writer = os.pipe()
    os.close(reader)
    closed = run(writer)
    os.close(writer)
    assert "Traceback" not in closed.stderr
