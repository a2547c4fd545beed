"""``reservoir metrics``: for Prometheus, once or as often as it asks."""

from collections.abc import Callable
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Annotated, Final

import typer

from reservoir.cli.commands.see.status import see
from reservoir.cli.console import fail, messages, output
from reservoir.cli.openmetrics import CONTENT_TYPE, exposition
from reservoir.cli.policy import connection

_PATH: Final = "/metrics"
_HERE: Final = "127.0.0.1"
_LEAST_S: Final = 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("metrics")(metrics)


def metrics(
    context: typer.Context,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]:PORT",
            help="Serve /metrics there until Ctrl-C; without an address on this machine only.",
        ),
    ] = None,
    every_s: Annotated[
        int,
        typer.Option(
            "--every",
            min=_LEAST_S,
            max=600,
            help="With --listen: read the tables this often at most, in seconds.",
        ),
    ] = 15,
) -> None:
    """Print what `status` knows for Prometheus, as OpenMetrics.

    The number of series is bounded: of each gauge the thousand largest, and the sum of all others.
    """
    stack = connection(context)

    def read() -> str:
        return exposition(see(stack, with_teams=True).see())

    if listen is None:
        output().print(read(), end="")
        return
    address, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        fail(f"{listen!a} is not [ADDRESS]:PORT, such as :9090")
    lately = Lately(read, stack.outside.clock.now, timedelta(seconds=every_s))
    try:
        server = serving(lately, address or _HERE, int(port))
    except OSError as error:
        fail(f"cannot listen on {listen}: {error.strerror}")
    messages().print(
        f"serving http://{address or _HERE}:{server.server_port}{_PATH} until Ctrl-C"
    )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


class Lately:
    """The last reading: requests that come soon after each other get the same."""

    def __init__(
        self, read: Callable[[], str], now: Callable[[], datetime], at_most_every: timedelta
    ) -> None:
        self._read = read
        self._now = now
        self._at_most_every = at_most_every
        self._lock = Lock()
        self._text = ""
        self._read_at: datetime | None = None

    def text(self) -> str:
        """Return the last reading, or a new one when it is too old; requests that come meanwhile wait."""
        with self._lock:
            now = self._now()
            if self._read_at is None or now - self._read_at >= self._at_most_every:
                self._text, self._read_at = self._read(), now
            return self._text


def serving(lately: Lately, address: str, port: int) -> ThreadingHTTPServer:
    """Return a server of ``/metrics`` that listens already."""

    class Handler(BaseHTTPRequestHandler):
        """Answers GET of one path."""

        def do_GET(self) -> None:
            """Answer."""
            if self.path != _PATH:
                self.send_error(404)
                return
            body = lately.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: a scraper comes every few seconds."""

    return ThreadingHTTPServer((address, port), Handler)
