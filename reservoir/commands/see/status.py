"""``reservoir status``."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from reservoir.commands.see.status_text import lines
from reservoir.console import output
from reservoir.policy import connection
from reservoir.stack.connection import Connection
from shared.core.history.summary import subject, summary
from shared.core.serialisation.json_codec import dumps
from shared.usecases.history.see_status import SeeStatus, Status, Unknown
from shared.usecases.history.take_sample import CountWhatIsThere


class Format(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="What to print.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(context: typer.Context, form: Output = Format.TEXT) -> None:
    """Show in one screen how things are.

    What is paid and idle, what waits and why, what ends soon, what was bought and for whom, what was refused.
    """
    seen = see(connection(context)).see()
    console = output()
    if form is Format.JSON:
        console.print(json.dumps(document(seen), indent=2))
        return
    for line in lines(seen, console.width):
        console.print(line)


def see(stack: Connection) -> SeeStatus:
    """Return what looks at a stack."""
    there = CountWhatIsThere(stack.reservations, stack.node_claims, stack.workloads, stack.offerings, stack.clock)
    return SeeStatus(there, stack.history, stack.reservations, stack.queues, stack.alarms, stack.passes, stack.clock)


def document(seen: Status) -> dict[str, Any]:
    """Return it for programs; what is not known is ``{"unknown": WHY}``."""
    discovery = seen.discovery
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Status",
        "at": seen.asked_at.isoformat(),
        "there": _unknown(seen.there) or json.loads(dumps(seen.there)),
        "refused": _unknown(seen.refused)
        or [
            {"at": it.at.isoformat(), "type": it.detail_type, "object": subject(it), "what": summary(it)}
            for it in _known(seen.refused)
        ],
        "discovery": {"unknown": discovery.why}
        if isinstance(discovery, Unknown)
        else {
            "changedAt": discovery.changed_at.isoformat() if discovery.changed_at else None,
            "readAt": discovery.read_at.isoformat() if discovery.read_at else None,
            "stale": list(discovery.stale),
        },
        "queues": _unknown(seen.queues)
        or {
            queue.name.lower(): {"messages": depth.message_count, "oldestS": depth.oldest_s}
            for queue, depth in _known(seen.queues).items()
        },
        "alarms": _unknown(seen.alarms) or list(_known(seen.alarms)),
    }


def _unknown(found: Any) -> dict[str, str] | None:
    return {"unknown": found.why} if isinstance(found, Unknown) else None


def _known(found: Any) -> Any:
    return found
