"""The control API: how tests and the demo move the clock, order failures and speak to the EC2 emulation.

JSON over HTTP on a loopback port of its own, so it answers whatever MiniStack is doing. ``docs/embedded-aws.md`` lists
the operations. An answer is always a JSON object; a refused request gets status 400 and ``{"error": reason}``.

Whoever can reach the loopback may use it, and web pages in this machine's browsers shall not: they say so in Origin, or
reach it by a name of their own, which is in Host.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from lab.embedded.loopback import Answer, LoopbackServer, Request

_OWN_NAMES: Final = ("127.0.0.1", "localhost", "::1")
JsonObject = dict[str, Any]
Operation = Callable[[JsonObject], JsonObject]


class ControlServer:
    """Serves ``operations`` ("GET /clock" and so on); ``prefixes`` serve what follows them ("POST /ec2/")."""

    def __init__(
        self,
        port: int,
        operations: Mapping[str, Operation],
        prefixes: Mapping[str, Callable[[str, JsonObject], JsonObject]],
    ) -> None:
        self._operations = operations
        self._prefixes = prefixes
        self._server = LoopbackServer(port, self._answer)

    @property
    def url(self) -> str:
        """Where the API answers."""
        return self._server.url

    def serve(self) -> None:
        """Serve until ``stop``."""
        self._server.serve_forever(0.1)

    def stop(self) -> None:
        """End ``serve``."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: Request) -> Answer:
        status, told = self._told(request)
        return Answer(status, "application/json", json.dumps(told, default=str).encode())

    def _told(self, request: Request) -> tuple[int, JsonObject]:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        if "origin" in request.headers or host not in _OWN_NAMES:
            return 403, {
                "error": "asked by a web page, or under a name that is not this machine's"
            }
        url = urlsplit(request.target)
        name = f"{request.method} {url.path}"
        try:
            payload = {
                **dict(parse_qsl(url.query)),
                **(json.loads(request.body) if request.body else {}),
            }
            if name in self._operations:
                return 200, self._operations[name](payload)
            for prefix, operation in self._prefixes.items():
                if name.startswith(prefix):
                    return 200, operation(name.removeprefix(prefix), payload)
        except (ValueError, KeyError, TypeError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}
        return 404, {"error": f"no operation {name}"}
