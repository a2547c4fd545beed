"""Start an embedded AWS as a child process and speak to it.

>>> with EmbeddedAws() as aws:
...     aws.client("sqs").create_queue(QueueName="jobs")
...     aws.clock.advance(timedelta(minutes=25))
"""

import json
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import boto3
from botocore.config import Config

from lab.embedded.settings import (
    ACCOUNT_ID,
    NOT_THROTTLED,
    REGION,
    ROOT_ACCESS_KEY_ID,
    ROOT_SECRET_ACCESS_KEY,
)

START_LIMIT_S: Final = 300.0
STOP_LIMIT_S: Final = 10.0
CONTROL_LIMIT_S: Final = 60.0
JsonObject = dict[str, Any]


class ControlError(Exception):
    """The control API refused a request."""


class Control:
    """The control API (``docs/embedded-aws.md``)."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(
        self,
        method: str,
        path: str,
        payload: Mapping[str, Any] | None = None,
        limit_s: float | None = CONTROL_LIMIT_S,
    ) -> JsonObject:
        """Send a request, wait for the answer at most ``limit_s`` (None: for ever), return its object.

        Raises
        ------
        ControlError
            With the reason, when the request is refused.
        """
        body = None if payload is None else json.dumps(payload).encode()
        request = urllib.request.Request(self.url + path, body, method=method)  # noqa: S310 - loopback HTTP
        try:
            with urllib.request.urlopen(request, timeout=limit_s) as response:  # noqa: S310 - as above
                answer: JsonObject = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise ControlError(json.load(error)["error"]) from None
        return answer


class Clock:
    """The emulated time, seen from outside."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def now(self) -> datetime:
        """Return the emulated time, aware, in UTC."""
        return datetime.fromisoformat(self.state()["now"])

    def state(self) -> JsonObject:
        """Return the answer of ``GET /clock``: also how well the work keeps up."""
        return self._control.call("GET", "/clock")

    def advance(self, step: timedelta, *, coalesce: bool = False) -> datetime:
        """Move the clock forward; return the new time when all that is due by it, and what that caused, is done.

        With ``coalesce`` schedules that recur fire once, at the end, instead of at each of their times: for jumps over
        hours in which nothing that they find is of interest.
        """
        return self._set(advance_s=step.total_seconds(), coalesce=coalesce)

    def settle(self) -> datetime:
        """Wait until nothing is under way; return the time."""
        return self.advance(timedelta(0))

    def set_rate(self, factor: float) -> datetime:
        """Let at most ``factor`` emulated seconds pass in each real second from now on."""
        return self._set(rate=factor)

    def pause(self) -> datetime:
        """Stop the clock."""
        return self._set(pause=True)

    def resume(self) -> datetime:
        """Let the clock run on."""
        return self._set(pause=False)

    def govern(self, *, governed: bool) -> datetime:
        """Let the clock wait for the work that it causes, or run ahead of it as if the machine were overloaded."""
        return self._set(governed=governed)

    def _set(self, **change: Any) -> datetime:
        # Without a limit: how long an advance takes depends on what is due.
        return datetime.fromisoformat(
            self._control.call("POST", "/clock", change, limit_s=None)["now"]
        )


class EmbeddedAws:
    """An embedded AWS in a child process, from ``start`` (or ``with``) to ``stop``; it never outlives this process.

    Parameters
    ----------
    port, control_port
        Ports on 127.0.0.1; 0 takes free ones.
    log_level
        What the child writes to stderr.
    governed
        Whether the clock waits for the work that it causes; see ``Clock.govern``.
    run_nodes
        Whether instances run their user data, as processes of this machine with this one's rights.
    keep
        Folder to go on with if something is kept there, and to keep in; see ``keep``.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        control_port: int = 0,
        log_level: str = "WARNING",
        governed: bool = True,
        run_nodes: bool = False,
        keep: Path | None = None,
    ) -> None:
        self._arguments = ["--port", str(port), "--control-port", str(control_port)]
        self._arguments += ["--log-level", log_level, "--exit-with-stdin"]
        self._arguments += [] if governed else ["--no-governor"]
        self._arguments += ["--run-nodes"] if run_nodes else []
        self._arguments += [] if keep is None else ["--keep", str(keep.absolute())]
        self._process: subprocess.Popen[bytes] | None = None
        self._log: deque[str] = deque(maxlen=10_000)
        self._where: JsonObject = {}
        self._session = boto3.Session(
            ROOT_ACCESS_KEY_ID, ROOT_SECRET_ACCESS_KEY, region_name=REGION
        )
        self._making_clients = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the child and wait until it answers.

        Raises
        ------
        RuntimeError
            With what the child wrote, when it does not start.
        TimeoutError
            The same, when it needs too long.
        """
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "lab.embedded", *self._arguments],
            cwd=Path(__file__).parents[2],
            # never written; its end tells the child that this process is gone
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # a Ctrl-C is for this process, which may have to do something before that ends
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101 - given PIPE
        assert self._process.stderr is not None  # noqa: S101 - given PIPE
        threading.Thread(
            target=self._keep_log, args=(self._process.stderr,), daemon=True
        ).start()
        late = threading.Event()

        def kill(process: "subprocess.Popen[bytes]") -> None:
            late.set()
            process.kill()

        killer = threading.Timer(START_LIMIT_S, kill, (self._process,))
        killer.start()
        line = self._process.stdout.readline()
        killer.cancel()
        if not line:
            self.stop()
            if late.is_set():
                raise TimeoutError(
                    f"the embedded AWS did not start within {START_LIMIT_S:.0f} s:\n{self.log()}"
                )
            raise RuntimeError(f"the embedded AWS did not start:\n{self.log()}")
        self._where = json.loads(line)

    def stop(self) -> None:
        """End the child and remove what it left."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        if self._where:
            shutil.rmtree(self._where["folder"], ignore_errors=True)
        self._process = None

    @property
    def endpoint_url(self) -> str:
        """Where AWS answers."""
        return str(self._where["endpoint_url"])

    @property
    def ca_bundle(self) -> Path:
        """The certificate to trust there."""
        return Path(self._where["ca_bundle"])

    @property
    def region(self) -> str:
        """The only region."""
        return REGION

    @property
    def account_id(self) -> str:
        """The only account."""
        return ACCOUNT_ID

    @property
    def pid(self) -> int:
        """The child's process id."""
        return int(self._where["pid"])

    @property
    def folder(self) -> Path:
        """The child's private directory; ``logs/<function>`` in it has what functions wrote."""
        return Path(self._where["folder"])

    @property
    def is_started(self) -> bool:
        """Whether there is a child, and that directory."""
        return self._process is not None and bool(self._where)

    def metadata_url(self, instance_id: str) -> str:
        """Return where an instance finds its metadata: its ``AWS_EC2_METADATA_SERVICE_ENDPOINT``."""
        return f"{self._where['metadata_url']}{instance_id}/"

    @property
    def control(self) -> Control:
        """The control API."""
        return Control(self._where["control_url"])

    @property
    def clock(self) -> Clock:
        """The emulated time."""
        return Clock(self.control)

    def ec2(self, action: str, **payload: Any) -> JsonObject:
        """Order something of the EC2 emulation: a fault, a limit, an outsider (``docs/ec2-emulation.md``)."""
        return self.control.call("POST", f"/ec2/{action}", payload)

    def fault(self, action: str, **rule: Any) -> int:
        """Order a failure (``lab.embedded.faults``); return its id."""
        return int(self.control.call("POST", "/faults", {"action": action, **rule})["id"])

    def faults(self) -> list[JsonObject]:
        """Return the failures in force, each with its ``hits``."""
        return list(self.control.call("GET", "/faults")["faults"])

    def clear_faults(self) -> None:
        """Drop all ordered failures and the record of requests."""
        self.control.call("DELETE", "/faults")

    def requests(self, function: str | None = None) -> list[JsonObject]:
        """Return the AWS requests so far, all or one function's, oldest first."""
        query = f"?function={function}" if function else ""
        return list(self.control.call("GET", f"/requests{query}")["requests"])

    def clear_requests(self) -> None:
        """Start the record of requests anew."""
        self.control.call("DELETE", "/requests")

    def environments(self) -> list[JsonObject]:
        """Return the execution environments: ``function``, ``pid``, and processor time until the first event."""
        return list(self.control.call("GET", "/environments")["environments"])

    def limit_concurrency(self, count: int) -> None:
        """Set the account's quota of Lambda invocations at once; AWS's default is 1,000."""
        self.control.call("POST", "/lambda", {"account_concurrency": count})

    def set_account_quotas(self, quotas: Mapping[str, int]) -> None:
        """Set how many resources of a kind, such as ``AWS::IAM::Role``, the account may have; others as by default."""
        self.control.call("POST", "/account-quotas", dict(quotas))

    def set_account_rules(self, **rules: Any) -> None:
        """Set what the account demands: ``boundary``, ``tags``, ``with_keys``, ``in_vpc``, ``denied``."""
        self.control.call("POST", "/account-rules", rules)

    def keep(self) -> None:
        """Keep everything in the folder that was given, as a whole; the clock stands meanwhile, and requests wait.

        Raises
        ------
        ControlError
            When nothing was kept, with the reason.
        """
        self.control.call("POST", "/keep", limit_s=None)

    def reset(self) -> None:
        """Make the account empty."""
        self.control.call("POST", "/reset")

    def session(self) -> boto3.Session:
        """Return the session with the account's root credentials; ``client`` also knows the endpoint."""
        return self._session

    def client(self, service: Any, **options: Any) -> Any:
        """Return a ``boto3`` client for this AWS, with the root's credentials and one attempt a call by default.

        EC2 throttles none of its calls: a test looks again and again while the clock stands, and no token comes back.
        """
        settings = {
            "endpoint_url": self.endpoint_url,
            "verify": str(self.ca_bundle),
            "config": Config(
                retries={"total_max_attempts": 1},
                request_checksum_calculation="when_required",
                user_agent_extra=NOT_THROTTLED,
            ),
        }
        with self._making_clients:  # boto3's sessions are not thread-safe, its clients are
            return self._session.client(service, **{**settings, **options})

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which any AWS tool speaks to this AWS."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_CA_BUNDLE": str(self.ca_bundle),
            "AWS_ACCESS_KEY_ID": ROOT_ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": ROOT_SECRET_ACCESS_KEY,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def log(self) -> str:
        """Return what the child wrote to stderr."""
        return "".join(self._log)

    def function_log(self, function: str) -> str:
        """Return everything that a function's environments wrote."""
        folder = self.folder / "logs" / function
        return "".join(
            file.read_text(errors="replace") for file in sorted(folder.glob("*.log"))
        )

    def _keep_log(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._log.append(line.decode(errors="replace"))
