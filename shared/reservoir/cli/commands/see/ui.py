"""``reservoir ui``."""

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from reservoir.cli.commands.past.events import span
from reservoir.cli.console import fail, messages, output
from reservoir.cli.policy import connection

_NEEDED: Final = ("jinja2", "matplotlib")
_PORT: Final = 8642


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ui")(ui)


def ui(
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="Port on this machine; 0: any that is free."),
    ] = _PORT,
    every_s: Annotated[
        int,
        typer.Option(
            "--every",
            min=5,
            max=600,
            help="Read the tables this often at most, in seconds.",
        ),
    ] = 15,
    since: Annotated[
        str, typer.Option(help="How much of the past the timeline shows: 6h, 7d.")
    ] = "24h",
    ahead: Annotated[str, typer.Option(help="How much of the future it shows.")] = "2d",
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the page to this file instead.")
    ] = None,
) -> None:
    """Serve a page of the present state to browsers of this machine.

    Each load reads the tables again, until Ctrl-C. The page changes nothing.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        fail(f"the page needs {' and '.join(missing)}: pip install 'reservoir-ec2[report]'")
    past, future = span(since), span(ahead)
    if not past or not future:
        fail("the timeline needs some past and some future time")
    # imported here, because drawing takes a second to load
    from reservoir.cli.commands.see.metrics import Lately
    from reservoir.cli.ui.page import page
    from reservoir.cli.ui.picture import take
    from reservoir.cli.ui.server import HERE, Server

    stack = connection(context)

    def read() -> str:
        return page(take(stack, past, future))

    if html is not None:
        text = read()
        try:
            html.write_text(text, encoding="utf-8")
        except OSError as error:
            fail(f"cannot write {html}: {error.strerror}")
        output().print(f"{html}: {len(text.encode()) // 1024} KB")
        return
    lately = Lately(read, stack.outside.clock.now, timedelta(seconds=every_s))
    try:
        server = Server(lately.text, port)
    except OSError as error:
        fail(f"cannot listen on port {port}: {error.strerror}")
    messages().print(f"serving http://{HERE}:{server.server_port}/ until Ctrl-C")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
