"""Lent units as EC2 takes them back: unused ones at once, used ones once their instances have had their notice."""

from datetime import timedelta
from typing import Final

from lab.fakes.unit_loans import FakeUnitLender
from lab.simulation.aws.ec2 import SimulatedEc2
from lab.simulation.kernel import MINUTE, Kernel

_NOTICE_MIN: Final = 2


class SimulatedLender(FakeUnitLender):
    """Borrowers are whoever runs instances in what is lent."""

    def __init__(self, ec2: SimulatedEc2, kernel: Kernel) -> None:
        super().__init__(ec2)
        self._simulated = ec2
        self._kernel = kernel

    def change(self, source_id: str, target_count: int) -> None:
        """Lend so many units from now on."""
        self._count_borrowers(source_id)
        super().change(source_id, target_count)
        until = self._kernel.now() + timedelta(minutes=_NOTICE_MIN)
        for instance_id in self._beyond(source_id):
            self._simulated.tell_of_reclamation(instance_id, until)
        self._kernel.after(_NOTICE_MIN * MINUTE, lambda: self._end_notice(source_id))

    def _end_notice(self, source_id: str) -> None:
        for instance_id in self._beyond(source_id):
            self._simulated.end(instance_id, "Server.CapacityReservationInterrupted")
        self._count_borrowers(source_id)
        self._give_back(source_id)

    def _beyond(self, source_id: str) -> list[str]:
        """Return the borrowers' instances in units that are being taken back."""
        lent = self._simulated.reservations[source_id].lent
        if lent is None:
            return []
        return self._inside(lent.reservation_id)[lent.target_count :]

    def _count_borrowers(self, source_id: str) -> None:
        lent = self._simulated.reservations[source_id].lent
        if lent is not None:
            self.borrowed[source_id] = len(self._inside(lent.reservation_id))

    def _inside(self, lent_id: str) -> list[str]:
        return [
            each.id
            for each in self._simulated.live()
            if each.capacity_reservation_id == lent_id
        ]
