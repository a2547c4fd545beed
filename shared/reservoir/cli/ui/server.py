"""Serves one page to browsers of this machine.

Other pages of the same browser can send requests here, too: only GET is answered, only under the server's own names
(a name that an attacker's DNS points here is refused), and nothing may frame or read the answer.
"""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from reservoir.ports.errors import AwsError

HERE: Final = "127.0.0.1"
_PATH: Final = "/"
_PATIENCE_S: Final = 10  # who sends nothing for so long is not waited for
_NOT_ALLOWED: Final = 405
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Server(ThreadingHTTPServer):
    """Listens on this machine only; port 0 is any that is free."""

    def __init__(self, read: Callable[[], str], port: int) -> None:
        super().__init__((HERE, port), _Handler)
        self.read = read

    @property
    def names(self) -> tuple[str, ...]:
        """By what it may be called."""
        return f"{HERE}:{self.server_port}", f"localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of one path."""

    server: Server
    timeout = _PATIENCE_S

    def parse_request(self) -> bool:
        """Refuse what is no GET, and what was sent to another name, before anything else is looked at."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            self._answer(_NOT_ALLOWED, "only GET is answered")
            return False
        called = self.headers.get_all("Host", [])
        if len(called) != 1 or called[0] not in self.server.names:
            self._answer(403, "this is not the name of this server")
            return False
        return True

    def do_GET(self) -> None:
        """Answer."""
        if self.path != _PATH:
            self._answer(404, "there is one page: /")
            return
        try:
            text = self.server.read()
        except AwsError as error:
            self._answer(502, f"AWS refused: {error}")
            return
        self._answer(200, text, kind="text/html")

    def _answer(self, status: int, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.close_connection = True
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status == _NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: the terminal is for what went wrong."""
