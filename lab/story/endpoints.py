"""Where programs of a story reach AWS: endpoints for some services, which can be taken away."""

import http.client
import re
import ssl
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from lab.embedded.client import EmbeddedAws

_SCOPE: Final = re.compile(r"Credential=[^/]+/\d{8}/[^/]+/([^/]+)/aws4_request")
_OF_A_CONNECTION: Final = frozenset(
    {"connection", "transfer-encoding", "content-length", "date", "server"}
)


class Endpoint:
    """An interface endpoint: passes on what is signed for its services, and drops everything else without an answer.

    While ``is_down`` it drops everything. ``calls`` counts what was passed on, by service.
    """

    def __init__(self, aws: EmbeddedAws, *services: str) -> None:
        self.services = frozenset(services)
        self.calls: Counter[str] = Counter()
        self.is_down = False
        self._upstream = urlsplit(aws.endpoint_url)
        self._trusted = ssl.create_default_context(cafile=str(aws.ca_bundle))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        served.load_cert_chain(aws.ca_bundle, aws.ca_bundle.with_name("key.pem"))
        self._server.socket = served.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where programs reach it."""
        return f"https://127.0.0.1:{self.port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                scope = _SCOPE.search(self.headers.get("Authorization") or "")
                service = "" if scope is None else scope[1]
                if endpoint.is_down or service not in endpoint.services:
                    self.close_connection = True
                    return
                endpoint.calls[service] += 1
                answer, content = endpoint.ask(self, body)
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _OF_A_CONNECTION:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _pass_on  # noqa: N815 - as http.server calls them

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
                """Tell nobody."""

        return Handler

    def ask(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Ask AWS what was asked here, with the headers that were signed; return its answer."""
        connection = http.client.HTTPSConnection(
            self._upstream.netloc, context=self._trusted
        )
        try:
            connection.putrequest(
                request.command, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()
