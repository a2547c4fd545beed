"""Lambda for Python functions without containers: code, layers, environments and their credentials.

Replaces MiniStack's executor for Python functions. A function runs under AWS's runtime client on the interpreter that
runs the host, whatever ``Runtime`` it names; it sees its code, its layers, the runtime client and, as on AWS, a boto3
behind them. Environments are reused when idle, and invocations that overlap get environments of their own. Every
environment signs with credentials of its own for the function's role, which is how the router knows who calls.
"""

import base64
import contextvars
import hashlib
import importlib.util
import io
import json
import os
import threading
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from lab.embedded.functions.environments import (
    Environment,
    EnvironmentSpec,
    Invocation,
    Start,
)
from lab.embedded.functions.zygote import Process, Zygote, start_alone

# What the managed runtime brings: the runtime client and, last on the path, an SDK.
RUNTIME_PACKAGES: Final = (
    "awslambdaric",
    "runtime_client",
    "simplejson",
    "snapshot_restore_py",
)
COMMON_VARIABLES: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TZ": ":UTC",
}
SDK_PACKAGES: Final = (
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "dateutil",
    "six",
    "urllib3",
)
# Invocations that are worked on at once; others wait for their turn, and the clock waits with them
# (`lab.embedded.emulated_time.governor`). More than a few a core would only take the time from each other.
PLACES: Final = 2 + 2 * (
    len(os.sched_getaffinity(0))
    if hasattr(os, "sched_getaffinity")
    else os.cpu_count() or 1
)
# Whether the request that is being answered is a function's: what it invokes must not wait for its own place.
called_by_function: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "called_by_function", default=False
)
MAX_IDLE_ENVIRONMENTS: Final = 12  # each holds about 100 MB once the SDK is imported


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where every AWS call of a function goes, and the certificate it trusts there."""

    url: str
    ca_bundle: Path
    region: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """A session of the function's role."""

    access_key_id: str
    secret_access_key: str
    session_token: str


class LambdaRuntime:
    """All execution environments of one host.

    Parameters
    ----------
    folder
        Private directory for unpacked code, layers and logs.
    clock_file
        Where ``EmulatedClock.publish_to`` writes.
    endpoint
        The host's own endpoint.
    layer_content
        Gives a layer version's zip for its ARN, or None when it does not exist.
    register_session
        Makes STS know an environment's credentials: (credentials, function config).
    """

    def __init__(
        self,
        folder: Path,
        clock_file: Path,
        endpoint: Endpoint,
        layer_content: Callable[[str], bytes | None],
        register_session: Callable[[Credentials, Mapping[str, Any]], None],
    ) -> None:
        self._folder = folder
        self._clock_file = clock_file
        self._endpoint = endpoint
        self._layer_content = layer_content
        self._register_session = register_session
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(PLACES)
        self._unpacking = threading.Lock()
        self._preparing = threading.Lock()
        # by layers and runtime
        self._zygotes: dict[tuple[tuple[Path, ...], str], Zygote] = {}
        self._layers: dict[str, Path] = {}  # by ARN
        # (fingerprint, environment), longest idle first
        self._idle: list[tuple[str, Environment]] = []
        self._by_access_key: dict[str, Environment] = {}
        self._busy: set[Environment] = set()
        self._runtime_path = self._link_packages("runtime", RUNTIME_PACKAGES)
        self._sdk_path = self._link_packages("sdk", SDK_PACKAGES)

    def invoke(
        self,
        config: Mapping[str, Any],
        code: bytes,
        event: Any,
        invocation: str,
        trace_id: str,
    ) -> dict[str, Any]:
        """Run one invocation; the answer has MiniStack's executor shape (``body``, ``log``, ``error``).

        Raises
        ------
        LookupError
            The function names a layer that does not exist.
        """
        with nullcontext() if called_by_function.get() else self._places:
            return self._invoke(config, code, event, invocation, trace_id)

    def _invoke(
        self,
        config: Mapping[str, Any],
        code: bytes,
        event: Any,
        invocation: str,
        trace_id: str,
    ) -> dict[str, Any]:
        environment, fingerprint = self._acquire(config, code)
        outcome = environment.invoke(
            Invocation(invocation, json.dumps(event).encode(), trace_id)
        )
        self._release(environment, fingerprint)
        answer = {"body": outcome.body, "log": outcome.log}
        if outcome.failed:
            return {**answer, "error": True, "function_error": "Unhandled"}
        return answer

    def environment_of(self, access_key_id: str) -> Environment | None:
        """Return the environment that signs with this access key."""
        with self._lock:
            return self._by_access_key.get(access_key_id)

    def stop(self) -> None:
        """End all environments; the invocations that they serve fail."""
        with self._lock:
            busy, idle = list(self._busy), [environment for _, environment in self._idle]
            self._idle.clear()
            # an account that is made empty counts its layers' versions anew
            self._layers.clear()
        for environment in (*busy, *idle):
            environment.kill()  # who waits for a busy one closes it
        for environment in idle:
            self._retire(environment)
        with self._preparing:
            zygotes, self._zygotes = self._zygotes, {}
        for zygote in zygotes.values():
            zygote.close()

    def environments(self) -> list[dict[str, Any]]:
        """Return what runs: ``function``, ``pid`` and ``init_processor_s`` of each environment."""
        with self._lock:
            known = list(self._by_access_key.values())
        return [
            {
                "function": each.spec.function_name,
                "pid": each.pid,
                "init_processor_s": each.init_processor_s,
            }
            for each in known
        ]

    def _acquire(self, config: Mapping[str, Any], code: bytes) -> tuple[Environment, str]:
        fingerprint = _fingerprint(config)
        name = config["FunctionName"]
        stale: list[Environment] = []
        found: Environment | None = None
        with self._lock:
            for entry in reversed(self._idle.copy()):
                if entry[1].spec.function_name != name:
                    continue
                if entry[0] != fingerprint or not entry[1].alive:
                    self._idle.remove(entry)
                    stale.append(entry[1])
                elif found is None:
                    self._idle.remove(entry)
                    found = entry[1]
        for environment in stale:
            self._retire(environment)
        environment = found or self._start(config, code)
        with self._lock:
            self._busy.add(environment)
        return environment, fingerprint

    def _release(self, environment: Environment, fingerprint: str) -> None:
        retired: list[Environment] = []
        with self._lock:
            self._busy.discard(environment)
            if environment.alive:
                self._idle.append((fingerprint, environment))
            else:
                retired.append(environment)
            while len(self._idle) > MAX_IDLE_ENVIRONMENTS:
                retired.append(self._idle.pop(0)[1])
        for each in retired:
            self._retire(each)

    def _retire(self, environment: Environment) -> None:
        environment.close()
        with self._lock:
            self._by_access_key.pop(environment.spec.variables["AWS_ACCESS_KEY_ID"], None)

    def _start(self, config: Mapping[str, Any], code: bytes) -> Environment:
        task_root = self._unpack("code", _in_a_path(config["CodeSha256"]), code)
        layers = [
            self._layer(layer if isinstance(layer, str) else layer["Arn"])
            for layer in config.get("Layers") or ()
        ]
        identity = uuid.uuid4().hex
        credentials = Credentials(
            f"ASIA{identity[:16].upper()}", uuid.uuid4().hex, uuid.uuid4().hex
        )
        self._register_session(credentials, config)
        logs = self._folder / "logs" / config["FunctionName"]
        logs.mkdir(parents=True, exist_ok=True)
        python_path = [
            task_root,
            *(layer / "python" for layer in layers),
            self._runtime_path,
            self._sdk_path,
        ]
        spec = EnvironmentSpec(
            function_name=config["FunctionName"],
            function_arn=config["FunctionArn"],
            handler=config["Handler"],
            timeout_s=int(config.get("Timeout") or 3),
            task_root=task_root,
            variables=self._variables(config, credentials, task_root, python_path),
            log_file=logs / f"{identity}.log",
        )
        environment = Environment(spec, self._starter(tuple(layers), config["Runtime"]))
        with self._lock:
            self._by_access_key[credentials.access_key_id] = environment
        return environment

    def _starter(self, layers: tuple[Path, ...], runtime: str) -> Start:
        """Return how environments with these layers are started: forked where they may be."""
        with self._preparing:
            zygote = self._zygotes.get((layers, runtime))
            if zygote is None:
                path = [
                    *(layer / "python" for layer in layers),
                    self._runtime_path,
                    self._sdk_path,
                ]
                variables = {
                    **COMMON_VARIABLES,
                    **self._fixed_variables(runtime),
                    "PYTHONPATH": _joined(path),
                }
                zygote = self._zygotes[layers, runtime] = Zygote(variables, self._folder)

        def start(
            handler: str,
            variables: Mapping[str, str],
            folder: Path,
            stdin: int,
            log: IO[bytes],
        ) -> Process:
            forked = zygote.fork(handler, variables, folder, stdin, log)
            return forked or start_alone(handler, variables, folder, stdin, log)

        return start

    def _fixed_variables(self, runtime: str) -> dict[str, str]:
        """Return the variables that all functions of a runtime have alike, and cannot set."""
        return {
            "PYTHONDONTWRITEBYTECODE": "1",  # /var/task and /opt are read-only on AWS
            "TMPDIR": str(self._scratch()),
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{runtime}",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_REGION": self._endpoint.region,
            "AWS_DEFAULT_REGION": self._endpoint.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            # No function can reach the real AWS by a setting of its own.
            "AWS_ENDPOINT_URL": self._endpoint.url,
            "AWS_CA_BUNDLE": str(self._endpoint.ca_bundle),
            # for what is not boto3: a custom resource's response
            "SSL_CERT_FILE": str(self._endpoint.ca_bundle),
            "EMBEDDED_CLOCK_FILE": str(self._clock_file),
        }

    def _variables(
        self,
        config: Mapping[str, Any],
        credentials: Credentials,
        task_root: Path,
        python_path: list[Path],
    ) -> dict[str, str]:
        name = config["FunctionName"]
        logging = config.get("LoggingConfig") or {}
        return {
            **COMMON_VARIABLES,
            **(config.get("Environment") or {}).get("Variables", {}),
            "PYTHONPATH": _joined(python_path),
            "LAMBDA_TASK_ROOT": str(task_root),
            "_HANDLER": config["Handler"],
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_VERSION": config.get("Version", "$LATEST"),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(config.get("MemorySize", 128)),
            "AWS_LAMBDA_LOG_GROUP_NAME": logging.get("LogGroup") or f"/aws/lambda/{name}",
            "AWS_LAMBDA_LOG_FORMAT": logging.get("LogFormat") or "Text",
            **(
                {"AWS_LAMBDA_LOG_LEVEL": level}
                if (level := logging.get("ApplicationLogLevel"))
                else {}
            ),
            "AWS_LAMBDA_LOG_STREAM_NAME": uuid.uuid4().hex,
            "AWS_ACCESS_KEY_ID": credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "AWS_SESSION_TOKEN": credentials.session_token,
            **self._fixed_variables(config["Runtime"]),
        }

    def _scratch(self) -> Path:
        scratch = self._folder / "tmp"
        scratch.mkdir(exist_ok=True)
        return scratch

    def _layer(self, arn: str) -> Path:
        """Return where a layer version is unpacked; what a version holds never changes."""
        with self._lock:
            known = self._layers.get(arn)
        if known is not None:
            return known
        content = self._layer_content(arn)
        if content is None:
            raise LookupError(f"layer {arn} does not exist")
        folder = self._unpack("layers", hashlib.sha256(content).hexdigest()[:32], content)
        with self._lock:
            self._layers[arn] = folder
        return folder

    def _unpack(self, kind: str, name: str, content: bytes) -> Path:
        target = self._folder / kind / name
        with self._unpacking:
            if not target.exists():
                staging = target.with_suffix(".part")
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    archive.extractall(staging)
                staging.rename(target)
        return target

    def _link_packages(self, name: str, packages: tuple[str, ...]) -> Path:
        folder = self._folder / name
        folder.mkdir(parents=True)
        for package in packages:
            found = importlib.util.find_spec(package)
            if found is None or found.origin is None:
                raise ModuleNotFoundError(package)
            origin = Path(found.origin)
            origin = origin.parent if origin.name == "__init__.py" else origin
            (folder / origin.name).symlink_to(origin)
        return folder


def _joined(path: Sequence[Path]) -> str:
    return ":".join(map(str, path))


def _in_a_path(code_sha256: str) -> str:
    return base64.b64decode(code_sha256).hex()[:32]


def _fingerprint(config: Mapping[str, Any]) -> str:
    """Return what an environment may serve: Lambda starts another when code or configuration change."""
    relevant = (
        "FunctionArn",
        "CodeSha256",
        "Handler",
        "Role",
        "Layers",
        "Environment",
        "Timeout",
    )
    return json.dumps(
        {name: config.get(name) for name in relevant}, sort_keys=True, default=str
    )
