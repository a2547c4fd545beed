"""Which rows a command is about: nouns and names as users type them, and the selectors."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypedDict, Unpack

import typer

from reservoir.cli.console import fail
from reservoir.cli.nouns.noun import Noun, Selection, Selector
from reservoir.cli.nouns.registry import NOUNS, noun_of
from reservoir.core.model.workload import (
    LabelSelector,
    LabelSelectorExpression,
    LabelSelectorOperator,
)
from reservoir.core.scheduling_terms.labels import closest


def complete_noun(context: typer.Context, incomplete: str) -> list[str]:
    """Return the nouns that a first word may become; names are not read for completion."""
    if context.params.get("words"):
        return []
    before, comma, last = incomplete.rpartition(",")
    return [
        f"{before}{comma}{each.plural}" for each in NOUNS if each.plural.startswith(last)
    ]


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NOUN [NAME]... | NOUN/NAME...",
        help="What to show; nouns may be several, with commas.",
        autocompletion=complete_noun,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="By labels, as in kubectl: team=research,stage!=test.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", help="Of workloads (default: default), events, decisions."
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Workloads of all namespaces.")
]
Pool = Annotated[str | None, typer.Option(help="By NodePool.")]
State = Annotated[str | None, typer.Option(help="By state, as the column STATE shows it.")]

_IN: Final = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL: Final = re.compile(r"([^=!\s]+)\s*(==?|!=)\s*([^=!\s]*)")
_KEY: Final = re.compile(r"(!?)\s*([^=!\s]+)")
_OPERATORS: Final = {
    "in": LabelSelectorOperator.IN,
    "notin": LabelSelectorOperator.NOT_IN,
    "=": LabelSelectorOperator.IN,
    "==": LabelSelectorOperator.IN,
    "!=": LabelSelectorOperator.NOT_IN,
}


class Given(TypedDict):
    """What the options above were given."""

    labels: str | None
    namespace: str | None
    all_namespaces: bool
    pool: str | None
    state: str | None


def meant(
    words: Sequence[str], **given: Unpack[Given]
) -> list[tuple[Noun[Any], Selection]]:
    """Return the nouns with which of their rows are meant; ends the command when something is not understood."""
    named = _named(words)
    chosen = selection([noun for noun, _ in named], **given)
    return [(noun, replace(chosen, names=names)) for noun, names in named]


def _named(words: Sequence[str]) -> list[tuple[Noun[Any], tuple[str, ...]]]:
    """Read ``NOUN[,NOUN] [NAME...]`` or ``NOUN/NAME...``; ends the command when a noun is not known."""
    if not words:
        fail(f"say what: {', '.join(each.plural for each in NOUNS)}")
    if "/" not in words[0]:
        return [(noun_of(word), tuple(words[1:])) for word in words[0].split(",")]
    names: dict[str, list[str]] = {}
    for word in words:
        noun, slash, name = word.partition("/")
        if not slash or not name:
            fail(f"{word!a} is not NOUN/NAME")
        names.setdefault(noun, []).append(name)
    return [(noun_of(noun), tuple(given)) for noun, given in names.items()]


def selection(
    nouns: Sequence[Noun[Any]],
    *,
    labels: str | None,
    namespace: str | None,
    all_namespaces: bool,
    pool: str | None,
    state: str | None,
) -> Selection:
    """Return which rows of these nouns are meant; ends the command when one of them does not take a selector."""
    if all_namespaces and namespace is not None:
        fail("--namespace and --all-namespaces contradict each other")
    given = {
        Selector.LABEL: labels,
        Selector.NAMESPACE: namespace or (all_namespaces or None),
        Selector.POOL: pool,
        Selector.STATE: state,
    }
    if given[Selector.NAMESPACE] is not None and any(
        Selector.NAMESPACE in noun.selectors for noun in nouns
    ):
        # as in kubectl, it has no effect on kinds without namespaces
        del given[Selector.NAMESPACE]
    for noun in nouns:
        for selector, value in given.items():
            if value is not None and selector not in noun.selectors:
                fail(f"{noun.plural} cannot be chosen by {selector.value}")
        if state is not None and noun.states and state.lower() not in noun.states:
            hint = closest(state.lower(), noun.states)
            known = ", ".join(sorted(noun.states))
            fail(
                f"{noun.plural} are never {state!a}"
                + (f"; did you mean {hint}?" if hint else f"; they are {known}")
            )
    return Selection(
        (), namespace or "", all_namespaces, label_selector(labels or ""), pool, state
    )


def label_selector(text: str) -> LabelSelector:
    """Read a label selector as kubectl writes it; ends the command when it is none."""
    terms = [term.strip() for term in re.split(r",(?![^()]*\))", text)]
    return LabelSelector(
        match_expressions=tuple(_expression(term) for term in terms if term)
    )


def _expression(term: str) -> LabelSelectorExpression:
    listed = _IN.fullmatch(term)
    if listed is not None:
        values = frozenset(value.strip() for value in listed[3].split(","))
        return LabelSelectorExpression(listed[1], _OPERATORS[listed[2]], values)
    compared = _EQUAL.fullmatch(term)
    if compared is not None:
        return LabelSelectorExpression(
            compared[1], _OPERATORS[compared[2]], frozenset({compared[3]})
        )
    alone = _KEY.fullmatch(term)
    if alone is None:
        fail(
            f"{term!a} is not a label selector: use key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
        )
    operator = (
        LabelSelectorOperator.DOES_NOT_EXIST if alone[1] else LabelSelectorOperator.EXISTS
    )
    return LabelSelectorExpression(alone[2], operator)
