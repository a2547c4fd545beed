"""Start the embedded AWS: ``python -m lab.embedded``.

When it answers, one JSON line on stdout says where: ``endpoint_url``, ``ca_bundle``, ``control_url``,
``metadata_url``, ``pid``, ``folder``, ``region``, ``account_id``. SIGINT and SIGTERM end it; nothing is left in the
temporary directory.
"""

import argparse
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.embedded.certificate import write_certificate
from lab.embedded.functions.runtime import Endpoint
from lab.embedded.keep.folder import KeptStateError, read_index
from lab.embedded.settings import ACCOUNT_ID, HOST, REGION, prepare_environment
from reservoir.runtime.garbage import collection_paused


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.embedded", description="AWS in one process, on loopback only"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of the AWS endpoint (default: a free one)"
    )
    parser.add_argument(
        "--control-port",
        type=int,
        default=0,
        help="port of the control API (default: a free one)",
    )
    parser.add_argument(
        "--log-level", default="WARNING", help="what goes to stderr (default: %(default)s)"
    )
    parser.add_argument(
        "--exit-with-stdin",
        action="store_true",
        help="end when stdin is closed: when the parent ends",
    )
    parser.add_argument(
        "--no-governor",
        action="store_true",
        help="let emulated time run ahead of the work, as overload",
    )
    parser.add_argument(
        "--run-nodes",
        action="store_true",
        help="run the user data of instances as processes of this machine, with your rights",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="go on with what is kept there, and keep there what POST /keep orders",
    )
    return parser.parse_args(arguments)


def _end_with_stdin() -> None:
    while os.read(0, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _run(options: argparse.Namespace, folder: Path) -> None:
    kept = read_index(options.keep) if options.keep else None
    listener = _listen(options.port, kept)
    port = listener.getsockname()[1]
    ca_bundle, _ = write_certificate(folder)
    endpoint = Endpoint(f"https://127.0.0.1:{port}", ca_bundle, REGION)
    prepare_environment(port, folder, ca_bundle, endpoint.url, options.log_level)

    # what is imported stays: looking for garbage among it takes half as long again
    with collection_paused():
        # MiniStack reads its environment when it is imported
        from lab.embedded.host import Host

    host = Host(
        listener,
        options.control_port,
        folder,
        endpoint,
        governed=not options.no_governor,
        run_nodes=options.run_nodes,
        keep=options.keep,
        kept=kept,
    )
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: host.request_stop())
    threading.Thread(target=_end, args=(host.wait_for_stop, folder), daemon=True).start()
    if options.exit_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()

    def announce() -> None:
        where = {
            "endpoint_url": endpoint.url,
            "ca_bundle": str(ca_bundle),
            "control_url": host.control.url,
            "metadata_url": host.metadata.url,
            "pid": os.getpid(),
            "folder": str(folder),
            "region": REGION,
            "account_id": ACCOUNT_ID,
        }
        sys.stdout.write(json.dumps(where) + "\n")
        sys.stdout.flush()

    host.run(announce)


def _listen(wanted: int, kept: Mapping[str, Any] | None) -> socket.socket:
    """Listen where it is wanted; else where the URLs of the queues that are kept say, or anywhere if that is taken."""
    if wanted == 0 and kept is not None:
        with suppress(OSError):
            return socket.create_server((HOST, kept["port"]))
    return socket.create_server((HOST, wanted))


def _end(wait_for_stop: Callable[[], None], folder: Path) -> None:
    wait_for_stop()
    shutil.rmtree(folder, ignore_errors=True)
    sys.stderr.flush()
    os._exit(0)  # nothing else is worth waiting for: MiniStack's threads, idle connections


def main() -> None:
    """Run until a signal."""
    options = _parse(sys.argv[1:])
    logging.basicConfig(level=options.log_level, stream=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="embedded-aws-"))
    try:
        _run(options, folder)
    except KeptStateError as error:
        sys.exit(str(error))
    finally:  # only a failure to start comes here
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
