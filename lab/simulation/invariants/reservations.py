"""The ledger: no unit is promised twice, and every lease stands for something."""

from collections import Counter
from typing import Any

from lab.simulation.aws.lambdas import Environment
from lab.simulation.invariants.base import WAITING, Invariant
from lab.simulation.world import World
from reservoir.core.capacity.ledger import holds_open_lease
from reservoir.core.model.capacity_reservation import ACTIVE
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.state import ReservationRecord


class LeasesEqualWhatTheyStandFor(Invariant):
    """A reservation counts as many outstanding units as claims hold open leases on it."""

    def holds(self) -> None:
        leased: Counter[str] = Counter()
        for claim in self.world.state.claim_rows.values():
            if claim.lease is not None and holds_open_lease(claim):
                leased[claim.lease.reservation_id] += 1
        for key, record in self.world.state.reservation_rows.items():
            if record.balance.outstanding_count != leased[key]:
                self.refute(
                    f"{key} counts {record.balance.outstanding_count} leases, claims hold {leased[key]}"
                )


class NoUnitIsPromisedTwice(Invariant):
    """Of a reservation that nobody else touched, our instances and our promises together never exceed its units."""

    by_the_clock = True

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            isinstance(after, NodeClaim)
            and before is None
            and after.lease is not None
            and not after.waits_for_slot
        ):
            self._check(after.lease.reservation_id)

    def _check(self, reservation_id: str) -> None:
        if not _is_ours_alone(self.world, reservation_id):
            return
        promised = _promised(self.world, reservation_id)
        ec2 = self.world.ec2
        used = ec2.used_units(reservation_id)
        total = ec2.reservations[reservation_id].total_count
        # Who replaces a node is promised the unit that the node uses.
        handed_on = min(
            used, sum(self.world.state.claim_rows[each].waits_for_slot for each in promised)
        )
        if used + len(promised) - handed_on > total:
            self.refute(
                f"{reservation_id} has {total} units, {used} are used and {promised} shall have more"
            )


class NothingTakenCountsAsFree(Invariant):
    """Of a reservation that nobody else touched, no unit counts as free that an instance of ours has or shall have."""

    by_the_clock = True

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, ReservationRecord) or not _is_ours_alone(self.world, key):
            return
        if after.reservation.split_from is not None:
            return  # nothing is launched into it: EC2 gives its unit to whom it will
        ec2 = self.world.ec2
        used = ec2.used_units(key)
        total = ec2.reservations[key].total_count
        free = after.balance.free_units
        promised = [
            each
            for each in _promised(self.world, key)
            if not self.world.state.claim_rows[each].waits_for_slot
        ]
        if free > 0 and free + used + len(promised) > total:
            self.refute(
                f"{key} has {total} units, {used} are used, {promised} shall have more and {free} count as free"
            )


def _is_ours_alone(world: World, reservation_id: str) -> bool:
    """Whether a reservation can be used, and nobody else ever took something from it."""
    found = world.ec2.reservations.get(reservation_id)
    return (
        found is not None
        and found.state == ACTIVE
        and reservation_id not in world.ec2.touched
    )


def _promised(world: World, reservation_id: str) -> list[str]:
    """Return the claims that shall have a unit of a reservation, and for which EC2 was not asked yet."""
    waiting = (
        claim
        for claim in world.state.claim_rows.values()
        if claim.state in WAITING and claim.lease is not None
    )
    ids = [
        each.id
        for each in waiting
        if each.lease is not None and each.lease.reservation_id == reservation_id
    ]
    return sorted(key for key in ids if not world.is_launched(key))


class UnitsThatWerePromisedAreThere(Invariant):
    """EC2 never refuses us a unit of a reservation that nobody else touched."""

    by_the_clock = True
    points = frozenset({"ec2.launch"})

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if self.world.ec2.refused:
            self.refute(self.world.ec2.refused[0])
