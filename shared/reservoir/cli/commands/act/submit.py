"""``reservoir submit``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

import typer

from reservoir.cli import files
from reservoir.cli.console import fail, messages, output, report
from reservoir.cli.output import number, printable
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack import sending
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.sending import Outgoing
from reservoir.cli.waiting import NOT_YET, Timeout, span, until
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.messages import parse_demand
from reservoir.manifests.parsing.problems import Problem, errors_of
from reservoir.manifests.validate import Read, read_files
from reservoir.ports.state import WorkloadRecord

_ANSWERED_WITHIN: Final = "1m"


@dataclass(frozen=True, slots=True)
class _Sent:
    """A manifest with its message."""

    manifest: WorkloadManifest
    outgoing: Outgoing


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("submit")(submit)


def submit(
    context: typer.Context,
    filenames: files.Filenames,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait until all replicas have a place, and say why some have none.",
        ),
    ] = False,
    timeout: Timeout = _ANSWERED_WITHIN,
) -> None:
    """Send workloads, new or changed.

    Waits until they are accepted. Content that is stored already is not sent again.
    """
    stack = connection(context)
    sent = [_sent(stack, manifest) for manifest in _workloads(filenames)]
    for each in sent:
        _send(stack, each.outgoing)
    end = stack.outside.clock.now() + span(timeout)
    for each in sent:
        _say_whether_accepted(stack, each, end - stack.outside.clock.now())
    waiting = [
        each
        for each in sent
        if wait and not _is_placed(stack, each, end - stack.outside.clock.now())
    ]
    if waiting:
        raise typer.Exit(NOT_YET)


def _workloads(filenames: Sequence[str]) -> list[WorkloadManifest]:
    """Return the workloads of files; ends the command with everything that is wrong."""
    reading = read_files(files.read(filenames))
    problems = [
        *reading.problems,
        *(_not_demand(read) for read in reading.manifests if not _is_demand(read)),
    ]
    report(problems)
    if errors_of(problems):
        fail("nothing was sent")
    return [
        read.manifest
        for read in reading.manifests
        if isinstance(read.manifest, WorkloadManifest)
    ]


def _is_demand(read: Read) -> bool:
    return isinstance(read.manifest, WorkloadManifest)


def _not_demand(read: Read) -> Problem:
    return Problem(
        "kind",
        "not-demand",
        "is policy; reservoir apply takes it",
        read.document.line_of(("kind",)),
        subject="/".join(read.identity),
        source=read.document.source,
    )


def _sent(stack: Connection, manifest: WorkloadManifest) -> _Sent:
    outgoing = sending.submit(
        manifest, attempt(lambda: stack.outside.workloads.get(manifest.to_core().key))
    )
    if outgoing.body is not None:
        # as it will be read: the bounds of a message, too
        attempt(lambda: parse_demand(outgoing.body or ""))
    return _Sent(manifest, outgoing)


def _send(stack: Connection, outgoing: Outgoing) -> None:
    body = outgoing.body
    if body is not None:
        attempt(lambda: stack.outside.demand.send(body))


def _say_whether_accepted(stack: Connection, sent: _Sent, timeout: timedelta) -> None:
    key, generation = sent.outgoing.key, sent.outgoing.generation
    if sent.outgoing.body is None:
        output().print(f"workload/{key} unchanged (generation {generation})")
        return
    stored = until(
        stack,
        timeout,
        lambda: sending.is_stored(
            sent.manifest, generation, attempt(lambda: stack.outside.workloads.get(key))
        ),
    )
    if stored is None:
        fail(
            f"workload/{key} was sent as generation {generation}, but not confirmed in time: it may have been"
            " refused (Workload Rejected on the bus, or reservoir dlq list demand) or still be on its way"
        )
    if not stored:
        fail(
            f"workload/{key} was changed by somebody else at the same time; look at it, then submit again"
        )
    output().print(f"workload/{key} accepted (generation {generation})")


def _is_placed(stack: Connection, sent: _Sent, timeout: timedelta) -> bool:
    """Wait for the places of a workload's replicas, and say each new reason why some have none."""
    key = sent.outgoing.key
    told: list[str] = []

    def placed() -> WorkloadRecord | None:
        record = attempt(lambda: stack.outside.workloads.get(key))
        if (
            record is None
            or record.generation != sent.outgoing.generation
            or record.withdrawn
        ):
            fail(f"workload/{key} was changed or withdrawn by somebody else")
        reasons = [
            f"{each.count} x {each.code.value}: {each.message}" for each in record.unplaced
        ]
        for reason in reasons if reasons != told else ():
            messages().print(printable(f"workload/{key} waits: {reason}"))
        told[:] = reasons
        return None if record.pending_count else record

    record = until(stack, timeout, placed)
    if record is not None:
        output().print(f"workload/{key} placed ({number(record.placed_count, 'replica')})")
        return True
    messages().print(f"workload/{key} still waits: see reservoir explain workload {key}")
    return False
