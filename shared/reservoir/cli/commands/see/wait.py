"""``reservoir wait``: until objects are as they are wanted, or the time is up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

import typer

from reservoir.cli.console import fail, messages, output
from reservoir.cli.nouns import selection
from reservoir.cli.nouns.found import Found, end_with_missing
from reservoir.cli.nouns.noun import Noun, Selection
from reservoir.cli.policy import connection
from reservoir.cli.stack.connection import Connection
from reservoir.cli.waiting import NOT_YET, Timeout, span, until

_DEFAULT_TIMEOUT: Final = "5m"
_FORMS: Final = "condition=Ready, condition=TYPE=STATUS, state=STATE or delete"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The goal: one condition, or one state, or that an object is gone (neither)."""

    condition: str = ""
    status: str = "True"
    state: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether the object shall be gone."""
        return not self.condition and not self.state

    def is_met(self, noun: Noun[Any], row: Any, document: dict[str, Any]) -> bool:
        """Whether a row is as it is wanted."""
        if self.state:
            return bool(noun.facts(row).state.lower() == self.state.lower())
        return any(
            str(each["type"]).lower() == self.condition.lower()
            and str(each["status"]).lower() == self.status.lower()
            for each in document.get("status", {}).get("conditions", ())
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("wait")(wait)


def wait(
    context: typer.Context,
    words: selection.Words = None,
    wanted: Annotated[
        str, typer.Option("--for", metavar="WHAT", help=f"What to wait for: {_FORMS}.")
    ] = "condition=Ready",
    namespace: selection.Namespace = None,
    timeout: Timeout = _DEFAULT_TIMEOUT,
) -> None:
    """Wait until objects are ready, in a state, or gone. Ends with 1 if the time is up first."""
    stack = connection(context)
    goal = read_goal(wanted)
    given = selection.Given(
        labels=None,
        namespace=namespace,
        all_namespaces=False,
        pool=None,
        state=goal.state or None,
    )
    meant = [
        (noun, _without_state(chosen))
        for noun, chosen in selection.meant(words or (), **given)
    ]
    if not all(chosen.names for _, chosen in meant):
        fail("name what to wait for: NOUN NAME... or NOUN/NAME...")
    if not goal.is_gone:
        found = [Found.of(stack, noun, chosen) for noun, chosen in meant]
        end_with_missing(stack, found)
        _refuse_what_never_comes(stack, found, goal)
    wait_for(stack, meant, goal, span(timeout))


def _refuse_what_never_comes(
    stack: Connection, found: Sequence[Found], goal: Wanted
) -> None:
    """End the command, instead of waiting until the time is up, where the object never has the condition."""
    now = stack.outside.clock.now()
    for each in found:
        documents = [each.noun.listing(now).document(row) for row in each.rows]
        if goal.condition and not any("conditions" in it["status"] for it in documents):
            states = ", ".join(sorted(each.noun.states))
            fail(
                f"{each.noun.plural} have no conditions: wait --for state=STATE"
                + (f", one of {states}" if states else "")
            )


def read_goal(text: str) -> Wanted:
    """Read the goal in ``--for``; end the command when it is not known."""
    what, _, rest = text.partition("=")
    if what == "condition" and rest:
        condition, _, status = rest.partition("=")
        return Wanted(condition=condition, status=status or "True")
    if what == "state" and rest:
        return Wanted(state=rest)
    if text != "delete":
        fail(f"{text!a} cannot be waited for; use {_FORMS}")
    return Wanted()


def wait_for(
    stack: Connection,
    meant: Sequence[tuple[Noun[Any], Selection]],
    goal: Wanted,
    timeout: timedelta,
) -> None:
    """Wait for all of them, one after the other within the same time; say of each how it ended."""
    end = stack.outside.clock.now() + timeout
    late = False
    for noun, chosen in meant:
        for name in chosen.names:
            one = Selection((name,), chosen.namespace, chosen.all_namespaces)
            left = max(timedelta(), end - stack.outside.clock.now())
            came = until(stack, left, _look(stack, noun, one, goal))
            if came is None:
                late = True
                messages().print(
                    f"{noun.kind}/{name}: the time is up: {_as_it_is(stack, noun, one)}"
                )
            else:
                output().print(f"{noun.kind}/{name} {came}")
    if late:
        raise typer.Exit(NOT_YET)


def _look(
    stack: Connection, noun: Noun[Any], chosen: Selection, goal: Wanted
) -> Callable[[], str | None]:
    """Return the sentence that an object has reached the goal; None until then."""

    def look() -> str | None:
        rows = Found.of(stack, noun, chosen).rows
        if goal.is_gone:
            return None if rows else "is gone"
        listing = noun.listing(stack.outside.clock.now())
        met = rows and all(
            goal.is_met(noun, row, dict(listing.document(row))) for row in rows
        )
        said = goal.state or (
            goal.condition if goal.status == "True" else f"{goal.condition}={goal.status}"
        )
        return f"is {said}" if met else None

    return look


def _as_it_is(stack: Connection, noun: Noun[Any], chosen: Selection) -> str:
    """Say how an object is that is not as it was wanted."""
    rows = Found.of(stack, noun, chosen).rows
    if not rows:
        return "it does not exist"
    document = dict(noun.listing(stack.outside.clock.now()).document(rows[0]))
    ready = [
        each
        for each in document.get("status", {}).get("conditions", ())
        if each["type"] == "Ready"
    ]
    if ready:
        said = f" ({ready[0]['message']})" if ready[0].get("message") else ""
        return f"Ready is {ready[0]['status']}{said}"
    return f"it is {noun.facts(rows[0]).state}"


def _without_state(chosen: Selection) -> Selection:
    """Return the selection by name alone, whatever the state is now."""
    return Selection(chosen.names, chosen.namespace, chosen.all_namespaces)
