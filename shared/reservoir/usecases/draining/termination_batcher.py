"""One TerminateInstances for all that a batch ends: EC2 refills the bucket of these calls with five a second."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reservoir.ports.ec2 import InstanceTerminator, TerminationReceipt


@dataclass(slots=True)
class TerminationBatcher:
    """An ``InstanceTerminator`` that collects requests within ``batch`` and asks EC2 once, at its end.

    The intents are committed by then, so the minute's sweep repeats requests that got lost or that EC2 refused, and
    reports refusals. Receipts are made before EC2 has answered, and report none.
    """

    terminator: InstanceTerminator
    _gathered: set[str] = field(default_factory=set, init=False)

    def terminate(self, instance_ids: Collection[str]) -> TerminationReceipt:
        """Note the instances for the end of the batch."""
        self._gathered.update(instance_ids)
        return TerminationReceipt(accepted=frozenset())

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Ask EC2 at the end of the block, also of one that fails half-way. Raises what the terminator raises."""
        try:
            yield
        finally:
            gathered, self._gathered = self._gathered, set()
            if gathered:
                self.terminator.terminate(gathered)
