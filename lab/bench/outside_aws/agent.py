"""What the agent costs on a node where nothing happens: memory, processor time, and calls that leave the machine.

A real agent with one command that sleeps, as it is delivered (a question every four seconds), against a stand-in for
the instance's metadata and for AWS on this machine. What it asks of the metadata stays on the machine and is not
counted.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from lab.bench.harness import tell

SETTLED_AFTER_S: Final = 15.0  # it has asked, started the command and told that it is ready
MEASURED_S: Final = 180.0
_ARN: Final = {
    "region": "us-east-1",
    "accountId": "123456789012",
    "instanceId": "i-0123456789abcdef0",
}
_METADATA: Final = {
    "dynamic/instance-identity/document": json.dumps(_ARN),
    "meta-data/iam/security-credentials/": "node",
    "meta-data/iam/security-credentials/node": json.dumps(
        {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": "ASIAEXAMPLE",
            "SecretAccessKey": "example",
            "Token": "example",
            "Expiration": "2099-01-01T00:00:00Z",
        }
    ),
}
_IDENTITY: Final = json.dumps(
    {
        "version": 1,
        "nodeClaim": "nc-4f1c",
        "nodePool": "training",
        "nodeClass": "training",
        "capacityType": "reserved",
        "capacityReservationId": "cr-0a1b",
        "state": "running",
        "workloads": [{"namespace": "research", "name": "train-llm-7", "replicas": 1}],
    }
)


def cases() -> Sequence[str]:
    """Return the one case."""
    return ["agent-idle"]


def run(case: str) -> dict[str, object]:
    """Measure an idle agent for three minutes."""
    tell(f"{case}: {SETTLED_AFTER_S + MEASURED_S:.0f} s of real time")
    with tempfile.TemporaryDirectory() as folder:
        return figures(Path(folder), SETTLED_AFTER_S, MEASURED_S)


def figures(folder: Path, settled_after_s: float, measured_s: float) -> dict[str, object]:
    """Start an agent with its files in ``folder``, let it settle, and measure it."""
    configuration = folder / "agent.toml"
    configuration.write_text(
        'node_claims_table = "claims"\nreports_queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/reports"\n'
        f'log_folder = "{folder}/logs"\n[[run]]\nworkload = "*/*"\ncommand = ["sleep", "3600"]\n'
    )
    outside = _Outside()
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": f"{outside.url}/aws",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": outside.url,
    }
    command = [sys.executable, "-m", "reservoir.agent", str(configuration)]
    agent = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)  # noqa: S603 - ours
    try:
        time.sleep(settled_after_s)
        calls = outside.calls.total()
        transferred = outside.transferred_bytes
        cpu_s = _cpu_s(agent.pid)
        told = outside.calls["AmazonSQS.SendMessage"]
        time.sleep(measured_s)
        minutes = measured_s / 60
        return {
            "rss_mib": round(_rss_mib(agent.pid), 1),
            "calls_per_minute": round((outside.calls.total() - calls) / minutes, 2),
            "bodies_bytes_per_minute": round(
                (outside.transferred_bytes - transferred) / minutes
            ),
            "cpu_ms_per_minute": round(1_000 * (_cpu_s(agent.pid) - cpu_s) / minutes, 1),
            "reports_before": told,
            "measured_s": measured_s,
        }
    finally:
        agent.terminate()
        agent.wait()
        outside.close()


class _Outside:
    """Metadata and AWS; counts calls of AWS by their target, and the bytes of their bodies."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.transferred_bytes = 0
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self._answer(200, "token")

            def do_GET(self) -> None:
                found = _METADATA.get(self.path.removeprefix("/latest/"))
                self._answer(404 if found is None else 200, found or "")

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                self.rfile.read(length)
                target = str(self.headers["X-Amz-Target"])
                item = {"identity": {"S": _IDENTITY}}
                answer = json.dumps(
                    {"Items": [item]} if target.endswith("Query") else {"MessageId": "m"}
                )
                outside.calls[target] += 1
                outside.transferred_bytes += length + len(answer)
                self._answer(200, answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def _rss_mib(pid: int) -> float:
    (resident_kib,) = re.findall(
        r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return int(resident_kib) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
