"""The nouns, by the words that users type. A noun's module is imported when it is asked for."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from reservoir.cli.console import fail
from reservoir.cli.nouns.noun import Noun
from reservoir.core.scheduling_terms.labels import closest


@dataclass(frozen=True, slots=True)
class Registered:
    """A noun: its plural, other words for it, its name in KIND/NAME, and the module whose ``NOUN`` it is."""

    plural: str
    aliases: tuple[str, ...]
    kind: str
    module: str


NOUNS: Final = (
    Registered(
        "workloads", ("workload", "wl"), "workload", "reservoir.cli.nouns.workloads"
    ),
    Registered(
        "nodes",
        ("node", "nodeclaims", "nodeclaim", "nc"),
        "node",
        "reservoir.cli.nouns.nodes",
    ),
    Registered(
        "reservations",
        ("reservation", "cr", "odcr"),
        "reservation",
        "reservoir.cli.nouns.reservations",
    ),
    Registered("calendar", ("dates",), "calendar", "reservoir.cli.nouns.dates.calendar"),
    Registered(
        "offerings",
        ("offering", "offers", "offer"),
        "offering",
        "reservoir.cli.nouns.offerings",
    ),
    Registered(
        "blocks",
        ("block", "blockofferings", "blockoffering"),
        "block",
        "reservoir.cli.nouns.blocks",
    ),
    Registered(
        "purchases", ("purchase",), "purchase", "reservoir.cli.nouns.dates.purchases"
    ),
    Registered(
        "pools", ("pool", "nodepools", "nodepool"), "nodepool", "reservoir.cli.nouns.pools"
    ),
    Registered(
        "classes",
        (
            "class",
            "nodeclasses",
            "nodeclass",
            "ec2nodeclasses",
            "ec2nodeclass",
            "ec2nc",
            "ec2ncs",
        ),
        "ec2nodeclass",
        "reservoir.cli.nouns.classes",
    ),
    Registered("teams", ("team",), "team", "reservoir.cli.nouns.teams"),
    Registered("events", ("event", "ev"), "event", "reservoir.cli.nouns.events"),
    Registered(
        "decisions", ("decision", "plans"), "decision", "reservoir.cli.nouns.decisions"
    ),
)
_BY_WORD: Final[dict[str, Registered]] = {}
for _noun in NOUNS:
    _BY_WORD.update(dict.fromkeys((_noun.plural, *_noun.aliases), _noun))


def is_noun(word: str) -> bool:
    """Whether a word means a noun."""
    return word.lower() in _BY_WORD


def registered(word: str) -> Registered:
    """Return the noun that a word means; end the command when there is none."""
    found = _BY_WORD.get(word.lower())
    if found is None:
        hint = closest(word.lower(), _BY_WORD)
        known = ", ".join(each.plural for each in NOUNS)
        fail(
            f"{word!a} is not a kind of object"
            + (f"; did you mean {hint}?" if hint else f"; there are {known}")
        )
    return found


def noun_of(word: str) -> Noun[Any]:
    """Return the noun that a word means; ends the command when there is none."""
    noun: Noun[Any] = import_module(registered(word).module).NOUN
    return noun
