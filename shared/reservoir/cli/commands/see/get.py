"""``reservoir get``."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from reservoir.cli.commands.see.watch import watch
from reservoir.cli.console import fail
from reservoir.cli.nouns import selection
from reservoir.cli.nouns.found import Found, end_with_missing, print_left_out
from reservoir.cli.nouns.noun import Noun, Selection, Selector
from reservoir.cli.output import Form, NoHeaders, Output, SortBy, in_order, show_all
from reservoir.cli.policy import connection
from reservoir.cli.stack.connection import Connection

_WITHOUT_NOUN = ("pools,classes,teams",)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("get")(get)


def get(
    context: typer.Context,
    words: selection.Words = None,
    labels: selection.Labels = None,
    namespace: selection.Namespace = None,
    all_namespaces: selection.AllNamespaces = False,
    pool: selection.Pool = None,
    state: selection.State = None,
    form: Output = Form.TABLE,
    sort_by: SortBy = None,
    no_headers: NoHeaders = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Keep listing rows that change, until Ctrl-C; one noun at a time.",
        ),
    ] = False,
    for_workloads: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="WORKLOAD",
            help="With blocks: which of these types to buy for it; all: for all that wait.",
        ),
    ] = None,
    waiting_usd: Annotated[
        str | None,
        typer.Option(
            metavar="USD", help="With --for: the cost of an hour of waiting, for each unit."
        ),
    ] = None,
) -> None:
    """List workloads, nodes, reservations, offerings, policy.

    Without a noun, policy is listed: pools, classes and teams. Decisions and events can be listed, too. For calendar
    programs there is -o ics, of the calendar alone.

    Ends with 2 if a name does not exist.
    """
    stack = connection(context)
    if for_workloads or waiting_usd is not None:
        from reservoir.cli.commands.see.block_choice import show_block_choice

        if (
            form is not Form.TABLE
            or sort_by is not None
            or no_headers
            or follow
            or labels
            or all_namespaces
            or pool
            or state
        ):
            fail("--for goes with --namespace alone")
        show_block_choice(stack, words or (), for_workloads or (), namespace, waiting_usd)
        return
    given = selection.Given(
        labels=labels,
        namespace=namespace,
        all_namespaces=all_namespaces,
        pool=pool,
        state=state,
    )
    meant = selection.meant(words or _WITHOUT_NOUN, **given)
    if follow and (form.takes or form is Form.ICS or sort_by is not None or no_headers):
        fail(
            "--watch goes with table, wide, json, yaml and name, and neither sorts nor leaves out titles"
        )
    if follow:
        _watch(stack, meant, form)
        return
    found = [Found.of(stack, noun, chosen) for noun, chosen in meant]
    now = stack.outside.clock.now()
    if any(each.rows for each in found) or not any(chosen.names for _, chosen in meant):
        parts = [(_rows(stack, each, form), each.noun.listing(now)) for each in found]
        ordered = [(in_order(rows, listing, sort_by), listing) for rows, listing in parts]
        show_all(
            ordered, form, nothing=_nothing(found, meant[0][1]), headers=not no_headers
        )
    print_left_out(found)
    end_with_missing(stack, found)


def _rows(stack: Connection, found: Found, form: Form) -> Sequence[Any]:
    """Return rows, with all that is known of them in forms that show it."""
    if form in (Form.TABLE, Form.NAME):
        return found.rows
    return found.noun.more(stack, found.rows)


def _watch(
    stack: Connection, meant: Sequence[tuple[Noun[Any], Selection]], form: Form
) -> None:
    if len(meant) > 1:
        fail("watch one noun at a time")
    ((noun, chosen),) = meant
    has_printed = False

    def look() -> list[Any]:
        nonlocal has_printed
        found = Found.of(stack, noun, chosen)
        if not has_printed:
            print_left_out([found])
        has_printed = has_printed or bool(found.left_out)
        return found.rows

    watch(
        noun,
        look,
        form,
        stack.outside.clock,
        stack.pause,
    )


def _nothing(found: Sequence[Found], chosen: Selection) -> str:
    """Say what there is none of, and where else to look."""
    nouns = " or ".join(each.noun.plural for each in found)
    if (
        chosen.pool is not None
        or chosen.state is not None
        or chosen.labels.match_expressions
    ):
        return f"no {nouns} match"
    looked_in = next(
        (each.namespace for each in found if Selector.NAMESPACE in each.noun.selectors), ""
    )
    return f"no {nouns}" + (
        f" in the namespace {looked_in}; -A looks in all namespaces" if looked_in else ""
    )
