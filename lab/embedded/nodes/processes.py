"""Instances that run: the user data of each as a process of this machine, with the instance's own metadata.

Off unless it is asked for, because user data is a program that then runs here, with the rights of whoever started the
embedded AWS. Only user data that begins with ``#!`` is run, as cloud-init does; it sees the emulated time in every
Python that it starts, AWS at this endpoint, and credentials of its instance in its metadata and nowhere else.
"""

import base64
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.embedded.ec2 import Ec2Emulation
from lab.embedded.ec2.account.state import Instance
from lab.embedded.functions import worker
from lab.embedded.functions.runtime import Endpoint

LOOK_S: Final = 0.2
# How long an instance that is ending has to end by itself, in real seconds, before it is switched off.
GRACE_S: Final = 5.0
# of an instance's own: all of its processes carry it
_METADATA: Final = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
# Read by every Python that user data starts, before anything else.
_SITE: Final = """\
import importlib.util
_spec = importlib.util.spec_from_file_location("_embedded_clock", {worker!r})
_clock = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_clock)
_clock.shift_clock(_clock.emulated_time({clock!r}))
"""


class InstanceProcesses:
    """Starts and ends the processes of instances as EC2 starts and ends the instances.

    Parameters
    ----------
    ec2
        Whose instances they are.
    folder
        Each instance has a folder of its own below ``nodes`` in it, with ``user-data`` and ``console.log``.
    clock
        The file in which the emulated time is published.
    endpoint
        Where AWS answers.
    metadata_url
        Where the metadata service answers.
    """

    def __init__(
        self,
        ec2: Ec2Emulation,
        folder: Path,
        clock: Path,
        endpoint: Endpoint,
        metadata_url: str,
    ) -> None:
        self._ec2 = ec2
        self._folder = folder / "nodes"
        self._endpoint = endpoint
        self._metadata_url = metadata_url
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: dict[str, float] = {}
        self._stopped = threading.Event()
        site = self._folder / "site"
        site.mkdir(parents=True)
        code = _SITE.format(worker=worker.__file__, clock=str(clock))
        (site / "sitecustomize.py").write_text(code, encoding="utf-8")

    def run(self) -> None:
        """Follow EC2 until ``stop``."""
        while not self._stopped.wait(LOOK_S):
            self._follow(
                {instance.instance_id: instance for instance in self._ec2.instances()}
            )

    def stop(self) -> None:
        """Switch everything off."""
        self._stopped.set()
        for instance_id, child in list(self._running.items()):
            self._switch_off(instance_id, child)

    def _switch_off(self, instance_id: str, child: "subprocess.Popen[bytes]") -> None:
        _signal(child, signal.SIGKILL)
        child.wait()
        _kill_all_with(f"{_METADATA}={self._metadata_url}{instance_id}/")

    def _follow(self, instances: Mapping[str, Instance]) -> None:
        for instance_id, instance in instances.items():
            if instance.state == "running" and instance_id not in self._running:
                self._start(instance)
        for instance_id, child in list(self._running.items()):
            found = instances.get(instance_id)
            if found is None or found.state not in ("pending", "running"):
                self._end(instance_id, child)

    def _start(self, instance: Instance) -> None:
        script = _script(instance)
        if script is None:
            return
        home = self._folder / instance.instance_id
        home.mkdir(exist_ok=True)
        user_data = home / "user-data"
        user_data.write_bytes(script)
        user_data.chmod(0o700)
        with (home / "console.log").open("ab") as console:
            self._running[instance.instance_id] = subprocess.Popen(  # noqa: S603 - that is what is asked for
                [str(user_data)],
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=self._environment(instance.instance_id, home),
                start_new_session=True,
            )

    def _environment(self, instance_id: str, home: Path) -> dict[str, str]:
        return {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(self._folder / "site"),
            "AWS_ENDPOINT_URL": self._endpoint.url,
            "AWS_CA_BUNDLE": str(self._endpoint.ca_bundle),
            "SSL_CERT_FILE": str(self._endpoint.ca_bundle),
            _METADATA: f"{self._metadata_url}{instance_id}/",
        }

    def _end(self, instance_id: str, child: "subprocess.Popen[bytes]") -> None:
        """Ask the instance to shut down, and switch it off when it takes too long; everything on it ends with it."""
        if instance_id not in self._ending:
            self._ending[instance_id] = time.monotonic() + GRACE_S
            _signal(child, signal.SIGTERM)
        if child.poll() is not None or time.monotonic() >= self._ending[instance_id]:
            self._switch_off(instance_id, child)
            del self._running[instance_id], self._ending[instance_id]


def _script(instance: Instance) -> bytes | None:
    script = base64.b64decode(instance.spec.user_data or "")
    return script if script.startswith(b"#!") else None


def _signal(child: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of it has ended already
        os.killpg(child.pid, number)


def _kill_all_with(variable: str) -> None:
    """Kill what carries this variable in its environment: also what has left its process group."""
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
            if variable.encode() in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)
