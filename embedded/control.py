"""The control API: how tests and the demo move the clock, order failures and speak to the EC2 emulation.

JSON over HTTP on a loopback port of its own, so it answers whatever MiniStack is doing. ``docs/embedded-aws.md`` lists
the operations. An answer is always a JSON object; a refused request gets status 400 and ``{"error": reason}``.
"""

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

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
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where the API answers."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def serve(self) -> None:
        """Serve until ``stop``."""
        self._server.serve_forever(0.1)

    def stop(self) -> None:
        """End ``serve``."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, method: str, target: str, body: bytes) -> tuple[int, JsonObject]:
        url = urlsplit(target)
        name = f"{method} {url.path}"
        try:
            payload = {**dict(parse_qsl(url.query)), **(json.loads(body) if body else {})}
            if name in self._operations:
                return 200, self._operations[name](payload)
            for prefix, operation in self._prefixes.items():
                if name.startswith(prefix):
                    return 200, operation(name.removeprefix(prefix), payload)
        except (ValueError, KeyError, TypeError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}
        return 404, {"error": f"no operation {name}"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
                """Keep requests out of stderr."""

            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def do_DELETE(self) -> None:
                self._serve()

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer = server._answer(self.command, self.path, body)
                content = json.dumps(answer, default=str).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler
