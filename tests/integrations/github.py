"""A GitHub of the documented shapes: webhooks, the API of runners, and the program that a runner's machine starts."""

import hashlib
import hmac
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import ROOT

SECRET: Final = b"It's a Secret to Everybody"
TOKEN: Final = "token"  # noqa: S105 - of nobody
SCRIPT: Final = ROOT / "integrations" / "github_runners" / "start-runners.sh"
USER: Final = "nobody"  # of every Linux
NEEDED: Final = ("bash", "curl", "jq", "runuser", "setsid")
# What a runner does that was started with a configuration for one job: it comes to GitHub with it, and ends.
RUNNER: Final = """#!/bin/sh
exec curl -fsS --cacert {folder}/ca.pem {url}/session \\
  -d "{{\\"jit\\": \\"$ACTIONS_RUNNER_INPUT_JITCONFIG\\", \\"user\\": \\"$(id -un)\\", \\"arguments\\": \\"$*\\"}}"
"""
# The one command of AWS's command line that the script calls, on the SDK that this machine has.
AWS: Final = """#!{python}
import json, sys
import boto3
assert sys.argv[1:3] == ["dynamodb", "query"], sys.argv
options = dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True))
assert options.pop("--output") == "json"
found = boto3.client("dynamodb").query(
    TableName=options.pop("--table-name"),
    KeyConditionExpression=options.pop("--key-condition-expression"),
    ExpressionAttributeValues=json.loads(options.pop("--expression-attribute-values")),
)
assert not options, options
print(json.dumps({{"Items": found["Items"]}}))
print("asked", file=sys.stderr)
"""


@dataclass
class FakeGitHub:
    """Implements ``Call`` as GitHub documents its API: names are taken once, and busy runners are not removed."""

    runners: dict[str, int] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    made: list[dict[str, Any]] = field(default_factory=list)
    came: list[dict[str, str]] = field(default_factory=list)
    fails_with: int | None = None  # when it is asked to register a runner

    def __call__(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, Any]:
        if path == "/orgs/acme/actions/runners/generate-jitconfig":
            assert method == "POST"
            assert body is not None
            return (
                self._register(body) if self.fails_with is None else (self.fails_with, None)
            )
        if path.startswith("/orgs/acme/actions/runners?name="):
            name = path.partition("=")[2]
            found = [
                self._runner(number, it, [])
                for it, number in self.runners.items()
                if it.startswith(name)
            ]
            return 200, {"total_count": len(found), "runners": found}
        if method == "DELETE":
            number = int(path.rpartition("/")[2])
            name = next(it for it, its in self.runners.items() if its == number)
            if name in self.busy:
                return 422, None
            del self.runners[name]
            return 204, None
        job = int(path.rpartition("/")[2])
        return 200, {"id": job, "status": "completed" if job in self.over else "queued"}

    def come(self, said: Mapping[str, str]) -> None:
        """Let a runner come with its configuration: it runs one job, and GitHub forgets it."""
        (name,) = [
            it for it, number in self.runners.items() if said["jit"] == f"config-{number}"
        ]
        del self.runners[name]
        self.came.append({**said, "name": name})

    def _register(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        required = {"name", "runner_group_id", "labels"}
        if (
            not required <= body.keys() <= required | {"work_folder"}
            or not 1 <= len(body["labels"]) <= 100
        ):
            return 422, None
        if body["name"] in self.runners:
            return 409, None
        self.made.append(dict(body))
        number = self.runners[body["name"]] = len(self.made)
        runner = self._runner(number, body["name"], body["labels"])
        return 201, {"runner": runner, "encoded_jit_config": f"config-{number}"}

    def _runner(self, number: int, name: str, labels: list[str]) -> dict[str, Any]:
        shown = [
            {"id": place, "name": label, "type": "custom"}
            for place, label in enumerate(labels)
        ]
        return {
            "id": number,
            "name": name,
            "os": "unknown",
            "status": "offline",
            "busy": name in self.busy,
            "labels": shown,
            "runner_group_id": 1,
        }


def payload(
    action: str, job: int, runner: str | None = None, *labels: str
) -> dict[str, Any]:
    """Return what GitHub says of a job: every field that its schema of ``workflow_job`` requires.

    What belongs to a runner is null until one has taken the job, and stays so for a job that is cancelled before.
    Source: https://docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job
    """
    api, page = "https://api.github.com/repos/acme/app", "https://github.com/acme/app"
    is_over = action == "completed"
    return {
        "action": action,
        "workflow_job": {
            "id": job,
            "run_id": 1,
            "run_url": f"{api}/actions/runs/1",
            "run_attempt": 1,
            "node_id": "CR_kwDOA",
            "head_sha": "0" * 40,
            "head_branch": "main",
            "workflow_name": "CI",
            "url": f"{api}/actions/jobs/{job}",
            "html_url": f"{page}/actions/runs/1/job/{job}",
            "check_run_url": f"{api}/check-runs/{job}",
            "status": action,
            "conclusion": ("success" if runner else "cancelled") if is_over else None,
            "created_at": "2026-11-22T10:00:00Z",
            "started_at": "2026-11-22T10:00:00Z",
            "completed_at": "2026-11-22T10:05:00Z" if is_over else None,
            "name": "build; rm -rf /",
            "steps": [],
            "labels": list(labels or ("self-hosted", "gpu")),
            "runner_id": 5 if runner else None,
            "runner_name": runner,
            "runner_group_id": 1 if runner else None,
            "runner_group_name": "Default" if runner else None,
        },
        "repository": {
            "id": 1,
            "name": "app",
            "full_name": "acme/app",
            "private": True,
            "owner": {"login": "acme"},
        },
        "organization": {"login": "acme", "id": 2},
        "sender": {"login": "octocat", "id": 3, "type": "User"},
    }


def request(said: Any, secret: bytes = SECRET, **headers: str) -> dict[str, Any]:
    """Return a delivery as the function's URL hands it over."""
    body = json.dumps(said)
    signature = "sha256=" + hmac.new(secret, body.encode(), hashlib.sha256).hexdigest()
    given = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/044aadd",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "workflow_job",
        "X-GitHub-Hook-ID": "292430182",
        "X-Hub-Signature-256": signature,
        **headers,
    }
    return {"body": body, "isBase64Encoded": False, "headers": given}


@contextmanager
def serving(github: FakeGitHub, aws: EmbeddedAws) -> Iterator[str]:
    """Serve GitHub's API over TLS, with the certificate that everything on the embedded AWS trusts; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            said: Any = json.loads(self.rfile.read(length)) if length else None
            if self.path == "/session":
                github.come(said)
                status, answer = 200, None
            else:
                assert self.headers["Authorization"] == f"Bearer {TOKEN}"
                assert self.headers["Accept"] == "application/vnd.github+json"
                assert self.headers["X-GitHub-Api-Version"] == "2022-11-28"
                status, answer = github(self.command, self.path, said)
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server calls them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
            """Tell nobody."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted.load_cert_chain(aws.ca_bundle, aws.ca_bundle.with_name("key.pem"))
    server.socket = trusted.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def why_no_machine() -> str | None:
    """Return why the script cannot run here, or None."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        return f"start-runners.sh needs {', '.join(lacking)}"
    return (
        None
        if os.geteuid() == 0
        else "start-runners.sh needs root, to run jobs as somebody else"
    )


@contextmanager
def starting_runners(
    aws: EmbeddedAws, instance_id: str, table: str, api: str
) -> Iterator[Callable[[], int]]:
    """Run ``start-runners.sh`` as an instance does, with its metadata alone; yield how often it has asked AWS."""
    folder = Path(tempfile.mkdtemp(prefix="runners"))
    folder.chmod(0o755)  # jobs run as somebody else
    shutil.copy(aws.ca_bundle, folder / "ca.pem")
    _program(folder / "bin" / "aws", AWS.format(python=sys.executable))
    _program(folder / "actions-runner" / "run.sh", RUNNER.format(folder=folder, url=api))
    environment = {
        "PATH": f"{folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "AWS_ENDPOINT_URL": aws.endpoint_url,
        "AWS_CA_BUNDLE": str(aws.ca_bundle),
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": aws.metadata_url(instance_id),
        "RUNNERS_TABLE": table,
        "RUNNERS_FOLDER": f"{folder}/runners",
        "RUNNER_PROGRAM": f"{folder}/actions-runner",
        "RUNNER_USER": USER,
    }
    with (folder / "log").open("wb") as log:
        script = subprocess.Popen(  # noqa: S603 - our own script
            ["bash", SCRIPT],  # noqa: S607 - it is on the PATH
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield lambda: (folder / "log").read_text().splitlines().count("asked")
    finally:
        script.kill()
        script.wait()
        shutil.rmtree(folder)


def _program(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o755)
