"""Every verb that acts takes a kind and a name in the same words."""

from typing import Final

import pytest
import typer

from reservoir.cli.naming import INSTEAD, VERBS, named, names_of, workload_key
from reservoir.cli.nouns.registry import NOUNS, Registered

NAMES: Final = {"workloads": "web/crawl", "nodes": "nc-1"}
ALONE: Final = {verb: takes for verb, takes in VERBS.items() if len(takes) == 1}


def words_of(noun: Registered) -> list[str]:
    return [noun.plural, *noun.aliases, noun.plural.upper()]


TAKEN: Final = [
    (verb, noun) for verb, takes in VERBS.items() for noun in NOUNS if noun.plural in takes
]
REFUSED: Final = [
    (verb, noun)
    for verb, takes in VERBS.items()
    for noun in NOUNS
    if noun.plural not in takes
]


def ids(value: object) -> str:
    return value.plural if isinstance(value, Registered) else str(value)


@pytest.mark.parametrize(("verb", "noun"), TAKEN, ids=ids)
def test_a_verb_takes_every_word_for_its_nouns_before_a_blank_and_before_a_slash(
    verb: str, noun: Registered
) -> None:
    name = NAMES.get(noun.plural, "p")
    for word in words_of(noun):
        wanted = [(noun, name)]
        assert named(verb, [word, name]) == wanted
        assert named(verb, [f"{word}/{name}"]) == wanted
        assert named(verb, [word, f"{word}/{name}"]) == wanted
        assert named(verb, [word, name, name]) == wanted


@pytest.mark.parametrize(("verb", "noun"), REFUSED, ids=ids)
def test_a_verb_refuses_other_nouns_and_says_what_is_meant(
    verb: str, noun: Registered, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in words_of(noun):
        with pytest.raises(typer.Exit) as ended:
            named(verb, [word, "p"])
        said = capsys.readouterr().err
        assert ended.value.exit_code == 2
        assert f"reservoir {verb} takes no {noun.plural}; " in said
        assert INSTEAD.get((verb, noun.plural), "") in said


@pytest.mark.parametrize("verb", ALONE)
def test_a_verb_of_one_noun_needs_no_kind(verb: str) -> None:
    assert names_of(verb, ["a", "b", "a"]) == ["a", "b"]


@pytest.mark.parametrize(
    "verb", [verb for verb, takes in ALONE.items() if takes == ("workloads",)]
)
def test_a_namespace_may_be_called_like_another_kind(verb: str) -> None:
    assert names_of(verb, ["events/ingest"]) == ["events/ingest"]
    assert names_of(verb, ["workload/workload/ingest"]) == ["workload/ingest"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("form", ["{0}", "{0}/"])
def test_a_kind_without_a_name_ends_nothing(
    verb: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for noun in (noun for noun in NOUNS if noun.plural in VERBS[verb]):
        with pytest.raises(typer.Exit):
            named(verb, [form.format(noun.kind)])
        assert f"say what to {verb}: " in capsys.readouterr().err


def test_names_that_say_what_they_name_need_no_kind() -> None:
    assert [
        kind.plural
        for kind, _ in named("explain", ["nc-1", "i-0abc", "web/crawl", "i-team/crawl"])
    ] == [
        "nodes",
        "nodes",
        "workloads",
        "workloads",
    ]


def test_a_workload_without_a_namespace_is_in_the_default_one() -> None:
    assert (workload_key("crawl"), workload_key("web/crawl")) == (
        "default/crawl",
        "web/crawl",
    )
