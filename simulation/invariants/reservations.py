"""The ledger: no unit is promised twice, and every lease stands for something."""

from collections import Counter
from typing import Any

from shared.core.capacity.ledger import holds_open_lease
from shared.core.model.capacity_reservation import ACTIVE
from shared.core.model.node_claim import NodeClaim
from simulation.aws.lambdas import Environment
from simulation.invariants.base import WAITING, Invariant


class LeasesEqualWhatTheyStandFor(Invariant):
    """A reservation counts as many outstanding units as claims hold open leases on it."""

    def holds(self) -> None:
        leased: Counter[str] = Counter()
        for claim in self.world.state.claim_rows.values():
            if claim.lease is not None and holds_open_lease(claim):
                leased[claim.lease.reservation_id] += 1
        for key, record in self.world.state.reservation_rows.items():
            if record.balance.outstanding_count != leased[key]:
                self.refute(f"{key} counts {record.balance.outstanding_count} leases, claims hold {leased[key]}")


class NoUnitIsPromisedTwice(Invariant):
    """Of a reservation that nobody else touched, our instances and our promises together never exceed its units."""

    by_the_clock = True

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim) and before is None and after.lease is not None and not after.waits_for_slot:
            self._check(after.lease.reservation_id)

    def _check(self, reservation_id: str) -> None:
        ec2 = self.world.ec2
        if reservation_id in ec2.touched or ec2.reservations[reservation_id].state != ACTIVE:
            return
        promised = [
            claim.id
            for claim in self.world.state.claim_rows.values()
            if claim.state in WAITING and claim.lease is not None and claim.lease.reservation_id == reservation_id
        ]
        promised = [key for key in promised if not self.world.is_launched(key)]
        used, total = ec2.used_units(reservation_id), ec2.reservations[reservation_id].total_count
        if used + len(promised) > total:
            self.refute(f"{reservation_id} has {total} units, {used} are used and {sorted(promised)} shall have more")


class UnitsThatWerePromisedAreThere(Invariant):
    """EC2 never refuses us a unit of a reservation that nobody else touched."""

    by_the_clock = True

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if point == "ec2.launch" and self.world.ec2.refused:
            self.refute(self.world.ec2.refused[0])
