"""``reservoir doctor``."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import typer
from rich.text import Text

from reservoir.cli.console import messages, output
from reservoir.cli.examination.checks import CHECKS, examine
from reservoir.cli.examination.finding import Finding, Severity
from reservoir.cli.output import (
    Column,
    Form,
    Listing,
    Output,
    printable,
    show,
    terminal_width,
)
from reservoir.cli.policy import connection
from reservoir.ports.errors import AwsError
from reservoir.ports.safety import UnreadableRowError

_NARROWEST, _WIDEST = 30, 120  # columns of a paragraph
WRONG: Final = 1  # exit code: something is wrong

_STYLES: Final = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.HINT: "",
    Severity.SKIPPED: "dim",
}
FINDINGS: Final = Listing[Finding](
    columns=(
        Column(
            "SEVERITY",
            lambda row: row.severity.value,
            style=lambda row: _STYLES[row.severity],
        ),
        Column("CHECK", lambda row: row.check),
        Column("FOUND", lambda row: row.message, gives_way=True),
        Column("DO", lambda row: row.advice, gives_way=True),
    ),
    name=lambda row: f"{row.check}/{row.severity.value}",
    document=lambda row: {
        "kind": "Finding",
        "metadata": {"name": row.check},
        "status": {
            "severity": row.severity.value,
            "message": row.message,
            "advice": row.advice,
        },
    },
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def paragraphs(found: Sequence[Finding], width: int) -> Iterator[Text]:
    """Yield findings for a terminal: each finding, and below it what to do; broken between words, and never cut."""
    margin = max(len(severity) for severity in Severity) + 2
    room = max(_NARROWEST, min(width, _WIDEST) - margin)
    for finding in found:
        said = textwrap.wrap(printable(f"{finding.check}: {finding.message}"), room)
        todo = (
            textwrap.wrap(printable(f"do: {finding.advice}"), room)
            if finding.advice
            else []
        )
        first = Text(f"{finding.severity.value:<{margin}}", _STYLES[finding.severity])
        yield first.append_text(Text(said[0], ""))
        yield from (Text(" " * margin + line) for line in (*said[1:], *todo))


def doctor(context: typer.Context, form: Output = Form.TABLE) -> None:
    """Check a deployment for problems. Each finding says what to do; ends with 1 if there is an error."""
    from botocore.exceptions import BotoCoreError, ClientError

    found = examine(
        connection(context), (AwsError, UnreadableRowError, BotoCoreError, ClientError)
    )
    width = terminal_width()
    if form is Form.TABLE and width is not None and found:
        for line in paragraphs(found, width):
            output().print(line)
    else:
        show(found, FINDINGS, form, nothing=f"no problems found ({len(CHECKS)} checks)")
    if form.is_for_people and found:
        looked = len(CHECKS) - sum(
            finding.severity is Severity.SKIPPED for finding in found
        )
        messages().print(f"{looked} of {len(CHECKS)} checks ran")
    if any(finding.severity is Severity.ERROR for finding in found):
        raise typer.Exit(WRONG)
