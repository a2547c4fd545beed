"""Rows that change, printed as they do."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from reservoir.cli.console import output
from reservoir.cli.nouns.noun import Noun
from reservoir.cli.output import API_VERSION, Form, Listing, as_data, as_table, printable
from reservoir.ports.system import Clock

# Soon after a change there is often another; while nothing changes, the tables are read ever less often.
LEAST_S: Final = 2.0
MOST_S: Final = 15.0
_GROWS: Final = 1.5


def watch(
    noun: Noun[Any],
    read: Callable[[], list[Any]],
    form: Form,
    clock: Clock,
    pause: Callable[[float], None],
) -> None:
    """Print all rows, then each that is new or changed, and which are gone; until Ctrl-C. ``pause`` takes seconds."""
    known: Mapping[str, Any] | None = None
    titles: list[str] = []
    wait_s = LEAST_S
    try:
        while True:
            rows, listing = read(), noun.listing(clock.now())
            now = {listing.name(row): listing.document(row) for row in rows}
            changed = [
                row
                for row in rows
                if known is None or known.get(listing.name(row)) != now[listing.name(row)]
            ]
            gone = sorted(set(known or ()) - now.keys())
            titles = _print_change(rows, changed, gone, listing, form, titles)
            wait_s = LEAST_S if changed or gone else min(MOST_S, wait_s * _GROWS)
            known = now
            pause(wait_s)
    except KeyboardInterrupt:
        return


def _print_change(
    rows: Sequence[Any],
    changed: Sequence[Any],
    gone: Sequence[str],
    listing: Listing[Any],
    form: Form,
    titles: list[str],
) -> list[str]:
    """Print what happened, below ``titles`` or new ones: which columns a terminal has room for may change."""
    console = output()
    if form.is_for_people:
        width = console.width if console.is_terminal else None
        header, *lines = as_table(rows, listing, width, is_wide=form is Form.WIDE)
        if titles != (titles := header.plain.split()):
            console.print(header)
        meant = {listing.name(row) for row in changed}
        for row, line in zip(rows, lines, strict=True):
            if listing.name(row) in meant:
                console.print(line)
        for name in gone:
            console.print(f"{printable(name)} is gone")
    elif form is Form.JSON:
        left = [
            {"apiVersion": API_VERSION, "kind": "Gone", "metadata": {"name": name}}
            for name in gone
        ]
        for document in (*(dict(listing.document(row)) for row in changed), *left):
            console.print(json.dumps(document))
    elif changed:
        console.print(
            ("---\n" if form is Form.YAML else "") + as_data(changed, listing, form), end=""
        )
    return titles
