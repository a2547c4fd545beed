"""The nouns, by the words that users type. A noun's module is imported when somebody asks for it."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from reservoir.cli.console import fail
from reservoir.cli.nouns.noun import Noun
from reservoir.core.scheduling_terms.labels import closest


@dataclass(frozen=True, slots=True)
class Registered:
    """A noun: its plural, other words for it, and the module whose ``NOUN`` it is."""

    plural: str
    aliases: tuple[str, ...]
    module: str


NOUNS: Final = (
    Registered("workloads", ("workload", "wl"), "reservoir.cli.nouns.workloads"),
    Registered("nodes", ("node", "nodeclaims", "nodeclaim", "nc"), "reservoir.cli.nouns.nodes"),
    Registered("reservations", ("reservation", "cr", "odcr"), "reservoir.cli.nouns.reservations"),
    Registered("offerings", ("offering", "offers", "offer"), "reservoir.cli.nouns.offerings"),
    Registered("blocks", ("block", "blockofferings", "blockoffering"), "reservoir.cli.nouns.blocks"),
    Registered("pools", ("pool", "nodepools", "nodepool"), "reservoir.cli.nouns.pools"),
    Registered(
        "classes",
        ("class", "nodeclasses", "nodeclass", "ec2nodeclasses", "ec2nodeclass"),
        "reservoir.cli.nouns.classes",
    ),
    Registered("teams", ("team",), "reservoir.cli.nouns.teams"),
    Registered("events", ("event", "ev"), "reservoir.cli.nouns.events"),
    Registered("decisions", ("decision", "plans"), "reservoir.cli.nouns.decisions"),
)
_BY_WORD: Final = {word: each for each in NOUNS for word in (each.plural, *each.aliases)}


def noun_of(word: str) -> Noun[Any]:
    """Return the noun that a word means; ends the command when there is none."""
    found = _BY_WORD.get(word.lower())
    if found is None:
        hint = closest(word.lower(), _BY_WORD)
        known = ", ".join(each.plural for each in NOUNS)
        fail(f"{word!a} is no kind of object" + (f"; did you mean {hint}?" if hint else f"; there are {known}"))
    noun: Noun[Any] = import_module(found.module).NOUN
    return noun
