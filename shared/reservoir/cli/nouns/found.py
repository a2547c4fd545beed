"""Rows that were asked for, and names to which none answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import typer

from reservoir.cli.console import FAILED, messages
from reservoir.cli.nouns.noun import Noun, Rows, Selection
from reservoir.cli.output import printable
from reservoir.cli.policy import attempt
from reservoir.cli.stack.connection import Connection
from reservoir.core.scheduling_terms.labels import closest


@dataclass(frozen=True)
class Found:
    """The rows of a noun that are meant, and the names that were asked for and to which no row answers."""

    noun: Noun[Any]
    rows: list[Any]
    unknown: tuple[str, ...]
    namespace: str = ""  # where was looked
    left_out: str = ""  # what to say of rows that were not read

    @classmethod
    def of(cls, stack: Connection, noun: Noun[Any], chosen: Selection) -> "Found":
        """Read the rows; ends the command when they cannot be read."""
        if not chosen.namespace and not chosen.all_namespaces:
            chosen = replace(chosen, namespace=noun.home)
        rows = attempt(lambda: noun.read(stack, chosen))
        left_out = rows.left_out if isinstance(rows, Rows) else ""
        if chosen.is_everything:
            return cls(noun, list(rows), (), chosen.namespace, left_out)
        facts = [(row, noun.facts(row)) for row in rows]
        known = set(chain.from_iterable(fact.names for _, fact in facts))
        unknown = tuple(name for name in chosen.names if name not in known)
        return cls(
            noun,
            [row for row, fact in facts if chosen.has(fact)],
            unknown,
            chosen.namespace,
            left_out,
        )

    def missing(self, stack: Connection) -> list[str]:
        """Say of each unknown name that there is none, and which one may have been meant."""
        if not self.unknown:
            return []
        rows = attempt(lambda: self.noun.read(stack, Selection(all_namespaces=True)))
        name_of = self.noun.listing(stack.outside.clock.now()).name
        others: dict[str, str] = {}
        for row in rows:
            _, _, in_its_namespace = name_of(row).partition("/")
            others.update(dict.fromkeys(self.noun.facts(row).names, in_its_namespace))
        # Without namespaces, what the noun's own reading left out by a selector is there.
        missing = [name for name in self.unknown if self.noun.home or name not in others]
        return [self._does_not_exist(name, others) for name in missing]

    def _does_not_exist(self, name: str, others: Mapping[str, str]) -> str:
        where = (
            f" in the namespace {self.namespace}"
            if self.noun.home and "/" not in name
            else ""
        )
        hint = others.get(name) or others.get(closest(name, others) or "")
        return f"{self.noun.kind}/{name} does not exist{where}" + (
            f"; did you mean {hint}?" if hint else ""
        )


def print_left_out(found: Sequence[Found]) -> None:
    """Say which rows were not read, where the answer has not all."""
    for each in found:
        if each.left_out:
            messages().print(each.left_out)


def end_with_missing(stack: Connection, found: Sequence[Found]) -> None:
    """End the command when something that was named is not there, and say what."""
    missing = list(chain.from_iterable(each.missing(stack) for each in found))
    for line in missing:
        messages().print(printable(line))
    if missing:
        raise typer.Exit(FAILED)
