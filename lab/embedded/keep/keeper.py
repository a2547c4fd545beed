"""Keeps the whole embedded AWS in a folder, at a moment at which nothing is under way, and puts it back."""

from collections.abc import MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.embedded.ec2 import Ec2Emulation
from lab.embedded.emulated_time.clock import EmulatedClock
from lab.embedded.emulated_time.governor import Governor
from lab.embedded.functions.events import AsynchronousInvocations
from lab.embedded.keep import stores
from lab.embedded.keep.folder import KeepFolder, KeptStateError
from lab.embedded.keep.gate import Gate

# The longest poll of a queue that a client may have asked for, and something on top.
REQUEST_LIMIT_S: Final = 30.0
TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class Keeper:
    """Everything that has a state, beside MiniStack's stores.

    Not kept are ordered failures, the record of requests, what functions wrote to files, and warm environments.
    """

    clock: EmulatedClock
    governor: Governor
    ec2: Ec2Emulation
    events: AsynchronousInvocations
    backoff: MutableMapping[str, float]
    gate: Gate

    def keep(self, path: Path, port: int) -> None:
        """Write everything to a folder; the clock stands meanwhile, and requests wait.

        Raises
        ------
        KeptStateError
            When requests or invocations go on and on, or the folder is not ours to write to.
        """
        was_paused = self.clock.paused
        self.clock.pause()
        try:
            with ExitStack() as held:
                self._wait_until_quiet(held)
                state = {
                    "stores": stores.gather(),
                    "ec2": self.ec2.state(),
                    "events": self.events.waiting(),
                    "backoff": dict(self.backoff),
                    "clock": {"rate": self.clock.rate, "paused": was_paused},
                }
                self._folder(path).save(state, port=port, now_us=self.clock.epoch_us())
        finally:
            if not was_paused:
                self.clock.resume()

    def restore(self, path: Path, port: int) -> None:
        """Put back what is kept in a folder; until then the clock stands at the time at which it was kept.

        Raises
        ------
        KeptStateError
            When nothing is kept there, or not all of it, or its URLs cannot have that port.
        """
        state = self._folder(path).load(port)
        stores.restore(state["stores"])
        self.ec2.restore(state["ec2"])
        self.events.put_back(state["events"])
        self.backoff.update(state["backoff"])
        self.clock.set_rate(state["clock"]["rate"])
        if not state["clock"]["paused"]:
            self.clock.resume()

    def _wait_until_quiet(self, held: ExitStack) -> None:
        """Wait until nothing is under way, and keep it so until ``held`` is left."""
        for _ in range(TRIES):
            # In this order: an invocation that is under way needs the gate to be open.
            self.governor.settle()
            with ExitStack() as trial:
                try:
                    trial.enter_context(self.gate.closed(REQUEST_LIMIT_S))
                except TimeoutError as error:
                    raise KeptStateError(f"nothing was kept: {error}") from error
                trial.enter_context(self.governor.between_looks())
                if not self.governor.under_way:
                    held.push(trial.pop_all())
                    return
        raise KeptStateError("nothing was kept: functions are invoked again and again")

    def _folder(self, path: Path) -> KeepFolder:
        known: dict[str, Any] = {"clock": self.clock}
        return KeepFolder(path, known)
