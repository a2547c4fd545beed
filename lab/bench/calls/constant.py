"""TLS and HTTP alone: the front of the embedded AWS before an application that answers as many bytes as it is told.

``python -m lab.bench.calls.constant FOLDER BYTES`` prints its URL and serves until its input ends.
"""

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from lab.embedded.certificate import write_certificate
from lab.embedded.front.server import serve


class Constant:
    """An ASGI application that reads a request and answers always the same."""

    def __init__(self, size: int) -> None:
        self._body = bytes(size)
        self._headers = [
            (b"content-type", b"text/xml"),
            (b"content-length", b"%d" % size),
            (b"x-amzn-requestid", b"1"),
        ]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            for _ in range(2):
                await send({"type": f"{(await receive())['type']}.complete"})
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve until stdin ends."""
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    write_certificate(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    serve(Constant(size), listener, folder, lambda: print(url, flush=True))


if __name__ == "__main__":
    main()
