"""The daemon beside slurmctld: works off the requests of Slurm's programs, and answers drains."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from integrations.slurm.nodes import SlurmNodes

_EVERY_S: Final = 1.0
_AT_ONCE: Final = 64  # nodes that are waited for at the same time
logger = logging.getLogger(__name__)


class Daemon:
    """One a cluster: its subscription is read by nobody else. A request is deleted once it is done, and only then."""

    def __init__(self, nodes: SlurmNodes, spool: Path, *, stopped: threading.Event) -> None:
        self._nodes = nodes
        self._spool = spool
        self._stopped = stopped
        self._under_way: set[Path] = set()
        self._verbs: Mapping[str, Callable[[str], object]] = {
            ".resume": nodes.resume,
            ".suspend": nodes.let_go,
            ".resume_fail": nodes.let_go,
        }

    def run(self) -> None:
        """Work until it is stopped."""
        listener = threading.Thread(target=self._listen, daemon=True)
        listener.start()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while not self._stopped.wait(_EVERY_S):
                for request in sorted(self._spool.glob("[0-9]*")):
                    if request in self._under_way or request.suffix not in self._verbs:
                        continue
                    self._under_way.add(request)
                    if request.suffix == ".resume":
                        pool.submit(self._work_off, request)
                    else:
                        # at once: a node may be asked for again right after
                        self._work_off(request)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                self._nodes.client.on_draining(
                    self._nodes.drain, self._nodes.namespace, idle_s=20
                )
            except Exception:  # whatever it is, the notice is handled again
                logger.exception("a drain was not handled")
                self._stopped.wait(_EVERY_S)

    def _work_off(self, request: Path) -> None:
        try:
            nodes = self._nodes.slurm.hostnames(request.read_text().strip())
            with ThreadPoolExecutor(_AT_ONCE) as side_by_side:
                list(side_by_side.map(self._verbs[request.suffix], nodes))
            request.unlink()
        except Exception:  # whatever it is, the request is left, and tried again
            logger.exception("the request %s was not done", request.name)
            self._stopped.wait(_EVERY_S)
        finally:
            self._under_way.discard(request)
