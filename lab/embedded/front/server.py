"""TLS and HTTP of the AWS endpoint: uvicorn on uvloop, with llhttp's parser, and a way to drop a connection.

A service's answer must be losable: the request has been executed, and its connection is closed instead of answered.
ASGI has no word for that, so a request's scope carries the function that does it.
"""

import contextlib
import gc
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Application = Callable[..., Any]

# a warm function's idle connection must not race with its next call
KEEP_ALIVE_S: Final = 600
# how long one service computes before another thread may: a fifth of Python's default
TURN_S: Final = 0.001
OBJECTS_BEFORE_COLLECTION: Final = 20_000  # Python has 700, less than one request makes
# in an ASGI scope: what closes the request's connection at once
_CLOSE: Final = "embedded.close"


class ConnectionDropped(Exception):  # noqa: N818 - an outcome, not an error of this program
    """The request's connection is to be closed without an answer."""


def serve(
    application: Application,
    listener: socket.socket,
    folder: Path,
    on_ready: Callable[[], None],
) -> None:
    """Answer HTTPS on ``listener`` for ever; an ``application`` that raises ConnectionDropped gives no answer.

    Parameters
    ----------
    folder
        Holds ``ca.pem`` and ``key.pem``.
    on_ready
        Called once requests are answered.
    """
    sys.setswitchinterval(TURN_S)
    _collect_rarely()
    config = uvicorn.Config(
        _dropping(application),
        loop="uvloop",
        http=_DroppableProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # whoever calls is who they are
        server_header=False,
        date_header=False,  # the application's business
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_certfile=folder / "ca.pem",
        ssl_keyfile=folder / "key.pem",
    )
    _Server(config, on_ready).run([listener])


def _collect_rarely() -> None:
    """Leave what was imported out of garbage collections, and have fewer of them: they were a quarter of a call."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION, 20, 20)


class _Server(uvicorn.Server):
    """Tells when it answers, and leaves signals to its process."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _DroppableProtocol(HttpToolsProtocol):
    """One connection, whose requests can have it closed."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[_CLOSE] = self.transport.abort


def _dropping(application: Application) -> Application:
    async def run(scope: dict[str, Any], receive: Application, send: Application) -> None:
        try:
            await application(scope, receive, send)
        except ConnectionDropped:
            scope[_CLOSE]()
            # uvicorn would answer 500 before it knows
            while (await receive())["type"] != "http.disconnect":
                pass

    return run
