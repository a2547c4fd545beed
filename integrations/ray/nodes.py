"""Ray's worker nodes as workloads of one replica: ``gpu-4f1c`` is ``NAMESPACE/gpu-4f1c``, of the node type ``gpu``.

Ray decides how many nodes of which type there are and which one goes; Reservoir decides what they are made of. Nothing
here needs Ray itself.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from reservoir.client import Client, RejectedError
from reservoir.client.events import DrainReason, NodeDraining
from reservoir.client.facts import Fact
from reservoir.client.messages import ManifestError

_AT_ONCE: Final = 16  # nodes that are asked for at the same time
_PAUSE_S: Final = 1.0  # after a failure
logger = logging.getLogger(__name__)

# Name of a node, when its machine ends, and why.
TellRay = Callable[[str, datetime, str], None]


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node that Ray has asked for: its type, and Ray's request, by which Ray knows it again."""

    node_type: str
    request_id: str


class RayNodes:
    """All nodes of one cluster, in memory and in ``file``: an autoscaler that is started anew knows them.

    Any number of threads may use one.
    """

    def __init__(
        self, client: Client, namespace: str, file: Path, new_id: Callable[[], str]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._file = file
        self._new_id = new_id
        self._lock = threading.Lock()
        self._nodes: dict[str, RayNode] = {}
        if file.exists():
            self._nodes = {
                name: RayNode(**node) for name, node in json.loads(file.read_text()).items()
            }

    def all(self) -> Mapping[str, RayNode]:
        """Return what Ray has asked for and not ended, by name."""
        with self._lock:
            return dict(self._nodes)

    def create(
        self, node_type: str, request_id: str, spec: Mapping[str, Any], count: int
    ) -> None:
        """Have ``count`` nodes wanted; ``spec`` is a Workload's, without ``replicas``.

        Raises
        ------
        ManifestError, RejectedError
            The spec is not valid, or refused; the nodes are not wanted.
        UnansweredError
            Nobody has said that they are stored; they count as wanted, because they may be.
        """
        names = [f"{node_type}-{self._new_id()}" for _ in range(count)]
        # Kept first: what is wanted and not known here would never be ended.
        self._change(dict.fromkeys(names, RayNode(node_type, request_id)))
        with ThreadPoolExecutor(_AT_ONCE) as side_by_side:
            list(side_by_side.map(lambda name: self._submit(name, spec), names))

    def end(self, name: str) -> None:
        """Have a node's machine not wanted any more; it is known until that is stored."""
        self._client.withdraw(self._key(name))
        self._change({}, gone=name)

    def follow(self, tell_ray: TellRay) -> None:
        """Answer drains for ever: whatever fails is tried again."""
        while True:
            try:
                for fact in self._client.events():
                    self.hear(fact, tell_ray)
            except Exception:  # whatever it is, the fact comes again
                logger.exception("a drain was not handled")
                time.sleep(_PAUSE_S)

    def hear(self, fact: Fact, tell_ray: TellRay) -> None:
        """Let Ray take its work off a machine that must go; the machine itself says when that is done.

        The node is not wanted any more, so that nothing takes its place under its name: Ray asks for another one if it
        needs one.
        """
        notice = fact.event
        if not isinstance(notice, NodeDraining):
            return
        for workload in notice.workloads:
            if workload.namespace == self._namespace:
                if notice.reason is not DrainReason.WITHDRAWN:
                    self._client.withdraw(self._key(workload.name))
                tell_ray(
                    workload.name, notice.deadline, f"Reservoir: {notice.reason.value}"
                )

    def _submit(self, name: str, spec: Mapping[str, Any]) -> None:
        workload = {
            "apiVersion": "reservoir/v1",
            "kind": "Workload",
            "metadata": {"namespace": self._namespace, "name": name, "generation": 1},
            "spec": {**spec, "replicas": 1},
        }
        try:
            self._client.submit(workload)
        except (ManifestError, RejectedError):
            self._change({}, gone=name)
            raise

    def _change(self, new: Mapping[str, RayNode], gone: str | None = None) -> None:
        with self._lock:
            kept = {
                name: node for name, node in self._nodes.items() if name != gone
            } | dict(new)
            written = self._file.with_name(f"{self._file.name}.new")
            written.write_text(
                json.dumps({name: asdict(node) for name, node in kept.items()})
            )
            written.replace(self._file)
            self._nodes = kept

    def _key(self, name: str) -> str:
        return f"{self._namespace}/{name}"
