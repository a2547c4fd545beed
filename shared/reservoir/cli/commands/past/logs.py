"""``reservoir logs``."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Annotated, Final

import typer

from reservoir.cli.commands.past.events import span
from reservoir.cli.console import fail, messages, output
from reservoir.cli.naming import names_of, workload_key
from reservoir.cli.policy import attempt, connection
from reservoir.cli.stack.connection import Connection
from reservoir.cli.stack.node_logs import LogLine, NodeLogs
from reservoir.names import node_log_group
from reservoir.ports.errors import AwsError

EVERY_S: Final = 2.0
# A line is kept seconds after it was written: so far back each look looks again.
_LATE: Final = timedelta(minutes=1)
_NO_GROUP: Final = "ResourceNotFoundException"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(logs)


def logs(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[workload/]NAME", help="One workload, as NAMESPACE/NAME or NAME."
        ),
    ],
    node: Annotated[
        str | None,
        typer.Option(help="Of this node only: its claim, or the id of its instance."),
    ] = None,
    process: Annotated[
        str | None,
        typer.Option(
            "--replica",
            metavar="NUMBER",
            help="Of this replica of each node only, from 0; `checkpoint` is the checkpoint hook.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="How far back: 30m, 6h, 7d. Default: all that is kept."),
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, help="Only so many lines, the newest.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on printing new lines, until Ctrl-C."),
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Begin each line with its time.")
    ] = False,
) -> None:
    """Print what the commands of a workload have written.

    Nodes keep it for themselves unless their agents copy it to CloudWatch Logs (`log_group`, docs/nodes.md).
    """
    named = names_of("logs", words)
    if len(named) != 1:
        fail("name one workload")
    key = workload_key(named[0])
    stack = connection(context)
    claim = None if node is None else attempt(lambda: _claim_of(node, stack))
    prefix = f"{key}/" if claim is None else f"{key}/{claim}/"
    kept = NodeLogs(stack.client("logs"), node_log_group(stack.outside.settings.deployment))

    def read(start: datetime | None, *, newest_first: bool = False) -> Iterator[LogLine]:
        found = kept.lines(prefix, since=start, newest_first=newest_first)
        return (line for line in found if process in (None, line.origin.process))

    begins = None if since is None else stack.outside.clock.now() - span(since)
    is_single = claim is not None and process is not None
    printed = Printed(is_single=is_single, with_times=timestamps)
    # Lines that --tail leaves out are not new ones of --follow either.
    recent = stack.outside.clock.now() - _LATE
    known = attempt(lambda: list(_kept(read, recent, None))) if tail and follow else []
    attempt(lambda: printed.print(_kept(read, begins, tail)))
    if follow:
        printed.know(known)
        _follow(printed, read, stack)
    elif not printed.ids:
        messages().print(
            f"there are no lines of {key}: nodes copy the output of commands if agent.toml has a log_group"
        )


def _claim_of(node: str, stack: Connection) -> str:
    """Return the claim of a node that the user names by its instance, or by the claim itself."""
    if not node.startswith("i-"):
        return node
    found = stack.outside.node_claims.find_by_instance([node])
    if node not in found:
        fail(
            f"instance {node} is not known (nodes that ended are forgotten after a week): name its claim"
        )
    return found[node].id


class Printed:
    """Prints lines, each once.

    ``is_single``: they are one process's, whose node and number need not be before each line.
    """

    def __init__(self, *, is_single: bool, with_times: bool) -> None:
        self._is_single = is_single
        self._with_times = with_times
        self.ids: dict[str, int] = {}

    def print(self, lines: Iterable[LogLine]) -> None:
        """Print those that are new."""
        for line in lines:
            if line.id not in self.ids:
                self.ids[line.id] = line.at_ms
                output().print(self._text(line), soft_wrap=True)

    def know(self, lines: Iterable[LogLine]) -> None:
        """Take lines for printed."""
        self.ids |= {line.id: line.at_ms for line in lines}

    def forget_before(self, at_ms: float) -> None:
        """Forget lines that no look can bring again."""
        self.ids = {id_: at for id_, at in self.ids.items() if at >= at_ms}

    def _text(self, line: LogLine) -> str:
        origin = line.origin
        parts = []
        if self._with_times:
            at = datetime.fromtimestamp(line.at_ms / 1000, UTC)
            parts.append(f"{at:%Y-%m-%dT%H:%M:%SZ}")
        if not self._is_single:
            parts.append(f"{origin.node_claim}/{origin.process}")
        return "  ".join([*parts, line.text])


Read = Callable[..., Iterator[LogLine]]


def _kept(read: Read, begins: datetime | None, tail: int | None) -> Iterator[LogLine]:
    """Yield what is kept, the oldest first, or the newest so many lines of it."""
    try:
        if tail is None:
            yield from read(begins)
        else:
            yield from reversed(list(islice(read(begins, newest_first=True), tail)))
    except AwsError as error:
        if error.code != _NO_GROUP:
            raise
        fail("the stack has no log group of nodes: it was deployed from an older release")


def _follow(printed: Printed, read: Read, stack: Connection) -> None:
    try:
        while True:
            stack.pause(EVERY_S)
            begins = stack.outside.clock.now() - _LATE
            attempt(partial(_print_since, printed, read, begins))
            printed.forget_before(begins.timestamp() * 1000)
    except KeyboardInterrupt:
        return


def _print_since(printed: Printed, read: Read, begins: datetime) -> None:
    printed.print(read(begins))
