from typing import Any

import pytest

from reservoir.manifests.parsing.load import load_documents
from reservoir.manifests.parsing.problems import ManifestError

TEXT = """\
# a comment
apiVersion: v1
list:
  - one
  - two: 2
    three:

  - [a, b]
quoted: "true"
block: |
  line 1
  line 2
---
---
second: document
"""


def value_of(text: str) -> Any:
    (document,) = load_documents(text)
    return document.value


def refusal(text: str | bytes) -> tuple[str, str, int | None]:
    with pytest.raises(ManifestError) as caught:
        load_documents(text, "file.yaml")
    (problem,) = caught.value.problems
    assert problem.source == "file.yaml"
    return problem.path, problem.rule, problem.line


def test_documents_with_their_lines() -> None:
    first, second = load_documents(TEXT, "file.yaml")
    assert first.value == {
        "apiVersion": "v1",
        "list": ["one", {"two": 2, "three": None}, ["a", "b"]],
        "quoted": "true",
        "block": "line 1\nline 2\n",
    }
    assert first.line_of(("apiVersion",)) == 2
    assert first.line_of(("list", 1, "two")) == 5
    assert first.line_of(("list", 2, 1)) == 8
    assert first.line_of(("block",)) == 10
    assert second.value == {"second": "document"}
    assert second.line_of(("second",)) == 15


def test_what_does_not_exist_has_the_line_of_what_is_around_it() -> None:
    first, _ = load_documents(TEXT)
    assert first.line_of(("list", 1, "absent", "deeper")) == 5
    assert first.line_of(("nowhere",)) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("NO", "NO"),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("-3", -3),
        ("007", 7),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("'12'", "12"),
        ('"~"', "~"),
        ("!!str 12", "12"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: Any) -> None:
    found = value_of(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_json_is_yaml() -> None:
    assert value_of('{"a": [1, "x", null, true, {"b": 1.5}]}') == {
        "a": [1, "x", None, True, {"b": 1.5}]
    }


def test_aliases_repeat_what_was_anchored() -> None:
    assert value_of("a: &x [1, {b: 2}]\nc: *x\nd: &y text\ne: *y") == {
        "a": [1, {"b": 2}],
        "c": [1, {"b": 2}],
        "d": "text",
        "e": "text",
    }


def test_keys_that_look_like_numbers_are_text() -> None:
    assert value_of("{1: a, true: b}") == {"1": "a", "true": "b"}


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (b"\xff\xfe", ("", "utf-8", None)),
        ("a: b: c", ("", "yaml", 1)),
        ("a: [", ("", "yaml", 2)),
        ("a: \x00", ("", "yaml", None)),
        ("a: 1\nb: 2\na: 3", ("", "duplicate", 3)),
        ("x:\n  a: 1\n  a: 3", ("x", "duplicate", 3)),
        ("a: *b", ("a", "alias", 1)),
        ("a: &a [*a]", ("a[0]", "alias", 1)),
        ("a: &x {b: 1}\nc:\n  <<: *x", ("c", "merge-key", 3)),
        ("[a]: b", ("", "key", 1)),
        ("{a: b}: c", ("", "key", 1)),
        ("a: !!python/object:os.system {}", ("a", "tag", 1)),
        ("a: !custom x", ("a", "tag", 1)),
        ("a: !!int x", ("a", "tag", 1)),
        ("a: 9223372036854775808", ("a", "integer", 1)),
        ("a: 0xFFFFFFFFFFFFFFFF", ("a", "integer", 1)),
        ("a:\n" + "- " * 40, ("a" + "[0]" * 31, "depth", 2)),
        ("[" * 40, ("[0]" * 32, "depth", 1)),
        ("- a\n" * 20_001, ("[19999]", "size", 20_000)),
        ("\n".join(f"k{key}: 1" for key in range(1_001)), ("", "size", 1_001)),
        ("---\na: 1\n" * 1_001, ("", "size", 2_001)),
        ("a: " + "x" * 2**20, ("", "size", None)),
    ],
)
def test_what_is_refused(text: str | bytes, refused: tuple[str, str, int | None]) -> None:
    assert refusal(text) == refused


def test_a_billion_laughs_are_refused_before_they_are_told() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]"
        for old, new in zip("abcdefghi", "bcdefghij", strict=True)
    ]
    assert refusal("\n".join(lines))[1] == "size"


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(ManifestError):
        load_documents("a: \ud800")
    with pytest.raises(ManifestError):
        load_documents('a: "\\uD800"')


def test_a_byte_order_mark_is_no_text() -> None:
    (document,) = load_documents(b"\xef\xbb\xbfa: 1")
    assert document.value == {"a": 1}


def test_empty_files_have_no_documents() -> None:
    assert load_documents("") == ()
    assert load_documents("# nothing\n---\n") == ()


def test_a_misspelt_alias_gets_a_hint() -> None:
    with pytest.raises(ManifestError) as caught:
        load_documents("a: &common 1\nb: *comon\n")
    (problem,) = caught.value.problems
    assert (problem.path, problem.line, problem.suggestion) == ("b", 2, "common")
