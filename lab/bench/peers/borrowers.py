"""Borrowers who use every unit that is lent until its notice is over: no unit comes back to its owner sooner."""

from typing import Final

from lab.bench.peers.account import Account
from lab.fakes.unit_loans import FakeUnitLender
from lab.simulation.kernel import MINUTE, Kernel

_NOTICE_US: Final = 2 * MINUTE


class EagerBorrowers(FakeUnitLender):
    """EC2's interruptible allocations, all of them used."""

    def __init__(self, ec2: Account, kernel: Kernel) -> None:
        super().__init__(ec2)
        self._kernel = kernel

    def change(self, source_id: str, target_count: int) -> None:
        """Lend so many units from now on."""
        lent = self.lent(source_id)
        self.borrowed[source_id] = 0 if lent is None else lent.count
        super().change(source_id, target_count)
        self._kernel.after(_NOTICE_US, lambda: self._end_notice(source_id, target_count))

    def _end_notice(self, source_id: str, target_count: int) -> None:
        self.borrowed[source_id] = min(self.borrowed[source_id], target_count)
        self._give_back(source_id)
