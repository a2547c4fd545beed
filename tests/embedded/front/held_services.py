"""A server for test_server: the path of a request names its service and what that does.

``/SERVICE/answer`` answers, ``/SERVICE/answer-shortly`` is a short call, ``/SERVICE/drop`` closes the connection, and
``/SERVICE/hold`` blocks its thread until somebody opens the FIFO that is the second argument. Each service answers with
how many calls it has executed.
"""

import json
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from lab.embedded.certificate import write_certificate
from lab.embedded.front.lanes import Lanes
from lab.embedded.front.server import ConnectionDropped, serve


class Services:
    """An ASGI application."""

    def __init__(self, fifo: Path) -> None:
        self._fifo = fifo
        self._lanes = Lanes()
        self._executed: Counter[str] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
            return
        _, service, what = scope["path"].split("/")
        executed = await self._lanes.bound(service, self._execute, _is_short)(service, what)
        if what == "drop":
            raise ConnectionDropped
        body = json.dumps({"executed": executed, "scheme": scope["scheme"]}).encode()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", b"%d" % len(body))],
            }
        )
        await send({"type": "http.response.body", "body": body})

    async def _execute(self, service: str, what: str) -> int:
        if what == "hold":
            self._fifo.read_text()  # blocks its thread on purpose
        self._executed[service] += 1
        return self._executed[service]


def _is_short(_service: str, what: str) -> bool:
    return what == "answer-shortly"


def main() -> None:
    """Serve until killed; tell the port when it answers."""
    folder, fifo = map(Path, sys.argv[1:])
    write_certificate(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    # Read by the test.
    serve(
        Services(fifo),
        listener,
        folder,
        lambda: print(listener.getsockname()[1], flush=True),  # noqa: T201 - the port is how whoever started it finds it
    )


if __name__ == "__main__":
    main()
