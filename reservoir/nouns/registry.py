"""The nouns, by the words that users type. A noun's module is imported when somebody asks for it."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from reservoir.console import fail
from reservoir.nouns.noun import Noun
from shared.core.scheduling_terms.labels import closest


@dataclass(frozen=True, slots=True)
class Registered:
    """A noun: its plural, other words for it, and the module whose ``NOUN`` it is."""

    plural: str
    aliases: tuple[str, ...]
    module: str


NOUNS: Final = (
    Registered("workloads", ("workload", "wl"), "reservoir.nouns.workloads"),
    Registered("nodes", ("node", "nodeclaims", "nodeclaim", "nc"), "reservoir.nouns.nodes"),
    Registered("reservations", ("reservation", "cr", "odcr"), "reservoir.nouns.reservations"),
    Registered("offerings", ("offering", "offers", "offer"), "reservoir.nouns.offerings"),
    Registered("blocks", ("block", "blockofferings", "blockoffering"), "reservoir.nouns.blocks"),
    Registered("pools", ("pool", "nodepools", "nodepool"), "reservoir.nouns.pools"),
    Registered(
        "classes", ("class", "nodeclasses", "nodeclass", "ec2nodeclasses", "ec2nodeclass"), "reservoir.nouns.classes"
    ),
    Registered("teams", ("team",), "reservoir.nouns.teams"),
    Registered("events", ("event", "ev"), "reservoir.nouns.events"),
    Registered("decisions", ("decision", "plans"), "reservoir.nouns.decisions"),
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
