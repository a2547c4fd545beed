"""Planners, launchers, an outside world and a discovery on one ledger, event by event, on simulated time.

Every actor reads at one moment and writes at a later one; between the two anything else may happen. Actors die,
messages are lost and delivered twice, EC2's counts lag and its answers arrive late. The same events run on any
implementation of the state ports.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from lab.bench.planners.ec2 import Chaos, Ec2Reservation, Figures, SimulatedClock
from lab.bench.planners.values import KEY, START, Stores, demand, facts, planned_claim
from lab.fakes.messaging import MemoryBus
from reservoir.core.capacity.ledger import COUNT_LAG, holds_open_lease
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.ports.state import ConflictError, PlannedCommit, ReservationRecord
from reservoir.usecases.discovery.observe_reservation import ReservationObserver

OBSERVE_EVERY_S: Final = 60.0
COLLECT_EVERY_S: Final = 120.0
RESEND_AFTER: Final = timedelta(seconds=60)
_WAITING: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING})


class LedgerWorld:
    """One simulation."""

    def __init__(
        self,
        stores: Stores,
        clock: SimulatedClock,
        *,
        seed: int,
        planners: int,
        totals: tuple[int, ...],
        chaos: Chaos,
        forget: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.workloads, self.reservations, self.claims = stores
        self.clock = clock
        self.random = random.Random(seed)
        self.chaos = chaos
        self.figures = Figures()
        self.ec2 = {
            f"cr-{i}": Ec2Reservation(f"cr-{i}", total, i % 2 == 1)
            for i, total in enumerate(totals)
        }
        self.observer = ReservationObserver(self.reservations, self.claims, MemoryBus())
        # The last saved observation: instant of its data, when it began, count.
        self.oracle: dict[str, tuple[datetime, datetime, int]] = {}
        # open promises by claim
        self.effects: dict[str, dict[str, datetime | None]] = {key: {} for key in self.ec2}
        # launches of instances that are gone
        self.ended: dict[str, list[datetime]] = {key: [] for key in self.ec2}
        self._forget = forget
        self._queue: list[tuple[datetime, int, Callable[[], None]]] = []
        self._sequence = 0
        self._claim_number = 0
        self._measured_at = START
        self._stopping = False
        # more planners pass more rarely: they meet in their commits, not in reads
        self._pace = max(1.0, planners / 4)
        self.workloads.put(demand(), expected_revision=None)
        for reservation in self.ec2.values():
            reservation.changed(START - timedelta(hours=1))
            self._observe_now(reservation)
        for planner in range(planners):
            self._after(self.random.uniform(0, 2), partial(self._plan, planner))
        self._after(OBSERVE_EVERY_S, self._discover)
        self._after(COLLECT_EVERY_S, self._collect)
        if chaos.outsider_every_s:
            self._after(chaos.outsider_every_s, self._outsider)

    # --- time

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(
            self._queue,
            (self.clock.at + timedelta(seconds=seconds), self._sequence, action),
        )

    def run(self, operations: int) -> Figures:
        """Run until so many operations were done, then let everything come to rest."""
        while self.figures.operations < operations and self._queue:
            self._step()
        self._stopping = True
        end = self.clock.at + timedelta(minutes=30)
        while self._queue and self._queue[0][0] <= end:
            self._step()
        return self.figures

    def _step(self) -> None:
        at, _, action = heapq.heappop(self._queue)
        self._measure(at)
        self.clock.at = at
        action()
        for reservation in self.ec2.values():
            promised = len(
                self.effects[reservation.id].keys() | reservation.instances.keys()
            )
            if promised + reservation.scrubbing > reservation.total:
                self.figures.twice += 1

    def _dies(self) -> bool:
        dies = not self._stopping and self.random.random() < self.chaos.death
        self.figures.deaths += dies
        return dies

    def _measure(self, until: datetime) -> None:
        """Add up what was idle although the last observation together with all own promises showed it free."""
        seconds = (until - self._measured_at).total_seconds()
        self._measured_at = until
        if self._stopping or seconds <= 0:
            return
        for reservation in self.ec2.values():
            instant, began, count = self.oracle[reservation.id]
            promises = self.effects[reservation.id].values()
            later = sum(at is None or at > instant for at in promises)
            # The unit of an instance that is gone may be missing from the count, or free in it and being scrubbed.
            uncertain = sum(
                at is None or at > began - COUNT_LAG
                for at in (*promises, *self.ended[reservation.id])
            )
            free = min(max(0, count - later), max(0, reservation.available))
            provable = min(max(0, count - uncertain), free)
            self.figures.capacity_s += (reservation.total - reservation.outsiders) * seconds
            record = self.reservations.get(reservation.id)
            offered = 0 if record is None else min(free, record.reservation.free_units)
            self.figures.waiting_s += offered * seconds
            self.figures.hidden_s += (free - offered) * seconds
            self.figures.avoidable_s += max(0, provable - offered) * seconds

    # --- demand and planners

    def _plan(self, planner: int) -> None:
        if self._stopping:
            return
        seen = self.reservations.list_current()
        # while others do the same
        self._after(self.random.uniform(0.05, 2), lambda: self._commit(seen))
        self._after(self.random.uniform(1, 5) * self._pace, lambda: self._plan(planner))

    def _commit(self, seen: tuple[ReservationRecord, ...]) -> None:
        claims = [
            self._claim(record.reservation)
            for record in seen
            for _ in range(min(record.reservation.free_units, self.random.randint(1, 8)))
        ][:90]
        if not claims or self._dies():
            return
        self.figures.operations += 1
        try:
            self.claims.commit(PlannedCommit(tuple(claims)))
        except ConflictError:
            self.figures.conflicts += 1
            return
        self.figures.commits += 1
        for claim in claims:
            self.effects[str(claim.offering.reservation_id)][claim.id] = None
        if self._dies():
            return  # before the launch messages
        for claim in claims:
            self._send(claim.id)

    def _claim(self, reservation: CapacityReservation) -> NodeClaim:
        self._claim_number += 1
        return planned_claim(self._claim_number, reservation, self.clock.at)

    # --- launches

    def _send(self, claim_id: str) -> None:
        for _ in range(1 + (self.random.random() < self.chaos.duplicate)):
            self._after(self.random.uniform(0.1, 3), lambda: self._launch(claim_id))

    def _launch(self, claim_id: str) -> None:
        claim = self.claims.get(claim_id)
        if claim is None or claim.state not in _WAITING or self._dies():
            return
        if claim.state is ClaimState.PLANNED:
            try:
                self.claims.save(
                    replace(claim, state=ClaimState.LAUNCHING),
                    expected_revision=claim.revision,
                )
            except ConflictError:
                return
        if not self._dies():
            self._after(self.random.uniform(0.2, 2), lambda: self._create_fleet(claim_id))

    def _create_fleet(self, claim_id: str) -> None:
        """EC2's part; the claim's id is the client token, so a repeat finds the same instance."""
        claim = self.claims.get(claim_id)
        if claim is None or claim.state is not ClaimState.LAUNCHING:
            return
        self.figures.operations += 1
        reservation = self.ec2[str(claim.offering.reservation_id)]
        # set: adopted, as EC2 says when it was launched
        launched_at = reservation.instances.get(claim_id)
        if launched_at is None:
            if reservation.available <= 0:
                self.figures.refused += 1
                refused_at = self.clock.at
                self._after(
                    self.random.uniform(0.05, 1),
                    lambda: self._refused(claim_id, refused_at),
                )
                return
            reservation.instances[claim_id] = self.clock.at
            reservation.changed(self.clock.at)
            self.effects[reservation.id][claim_id] = self.clock.at
            self.figures.launches += 1
        if not self._dies():
            self._after(
                self.random.uniform(0.05, 1), lambda: self._settle(claim_id, launched_at)
            )

    def _settle(self, claim_id: str, launched_at: datetime | None) -> None:
        claim = self.claims.get(claim_id)
        if claim is None or claim.state is not ClaimState.LAUNCHING:
            return
        settled_at = launched_at or self.clock.at
        launched = replace(
            claim,
            state=ClaimState.LAUNCHED,
            launched_at=settled_at,
            instance_id=f"i-{claim_id}",
        )
        try:
            self.claims.settle(launched, expected_revision=claim.revision)
        except ConflictError:
            return
        self.figures.operations += 1
        self._after(
            self.random.expovariate(1 / self.chaos.lifetime_s),
            lambda: self._terminate(claim_id),
        )

    def _refused(self, claim_id: str, refused_at: datetime) -> None:
        claim = self.claims.get(claim_id)
        if claim is None or claim.state is not ClaimState.LAUNCHING:
            return
        reservation_id = str(claim.offering.reservation_id)
        if claim_id in self.ec2[reservation_id].instances:
            # a duplicate of this call came after and got a unit that was freed meanwhile
            return
        self.reservations.mark_exhausted(reservation_id, refused_at=refused_at)
        self._end(claim, ClaimState.FAILED)

    def _end(self, claim: NodeClaim, state: ClaimState) -> None:
        ended = replace(claim, state=state, terminated_at=self.clock.at)
        try:
            written = self.claims.return_replicas(
                ended,
                expected_revision=claim.revision,
                placements={KEY: 1},
                returned_at=self.clock.at,
            )
        except ConflictError:
            self._after(1, lambda: self._end_again(claim.id, state))
            return
        self.figures.operations += 1
        if not holds_open_lease(written):
            self._forget(claim.id)
        if state is ClaimState.FAILED:
            self.effects[str(claim.offering.reservation_id)].pop(claim.id, None)

    def _end_again(self, claim_id: str, state: ClaimState) -> None:
        claim = self.claims.get(claim_id)
        if claim is not None and claim.may_become(state):
            self._end(claim, state)

    # --- the ends of instances

    def _terminate(self, claim_id: str) -> None:
        claim = self.claims.get(claim_id)
        if claim is None or claim.state is not ClaimState.LAUNCHED:
            return
        reservation = self.ec2[str(claim.offering.reservation_id)]
        self.ended[reservation.id].append(reservation.instances.pop(claim_id))
        self.effects[reservation.id].pop(claim_id, None)
        scrub_s = (
            self.random.uniform(60, 300)
            if reservation.is_block
            else self.random.uniform(0, 20)
        )
        reservation.scrubbing += 1

        def scrubbed() -> None:
            reservation.scrubbing -= 1
            reservation.changed(self.clock.at)

        self._after(scrub_s, scrubbed)
        self._end(claim, ClaimState.TERMINATED)

    # --- discovery, collection, outsiders

    def _discover(self) -> None:
        records = {
            record.reservation.id: record for record in self.reservations.list_current()
        }
        began = self.clock.at
        for reservation in self.ec2.values():
            instant = began - timedelta(
                seconds=self.random.uniform(0, COUNT_LAG.total_seconds())
            )
            count = reservation.described(instant)
            late = self.random.random() < self.chaos.late_answer
            delay_s = self.random.uniform(60, 150) if late else self.random.uniform(0.1, 5)
            save = self._saving(
                reservation, records.get(reservation.id), count, began, instant
            )
            if not self._dies():
                self._after(delay_s, save)
        self._after(OBSERVE_EVERY_S * self.random.uniform(0.5, 1), self._discover)

    def _saving(
        self,
        reservation: Ec2Reservation,
        before: ReservationRecord | None,
        count: int,
        began: datetime,
        instant: datetime,
    ) -> Callable[[], None]:
        def save() -> None:
            self.figures.operations += 1
            leased = {claim.id for claim in self.claims.list_leased(reservation.id)}
            self.observer.observe(before, self._facts(reservation, count), began)
            if instant > self.oracle[reservation.id][0]:
                self.oracle[reservation.id] = (instant, began, count)
                self.ended[reservation.id] = [
                    at for at in self.ended[reservation.id] if at > began - COUNT_LAG
                ]
            for claim_id in leased:
                claim = self.claims.get(claim_id)
                if claim is not None and not claim.is_live and not holds_open_lease(claim):
                    self._forget(claim_id)

        return save

    def _observe_now(self, reservation: Ec2Reservation) -> None:
        facts = self._facts(reservation, reservation.total)
        self.reservations.save_observation(
            facts, observed_at=START - timedelta(seconds=1), absorbed=(), expected=None
        )
        self.oracle[reservation.id] = (
            START - timedelta(seconds=1),
            START,
            reservation.total,
        )

    def _facts(self, reservation: Ec2Reservation, available: int) -> CapacityReservation:
        return facts(
            reservation.id, reservation.total, available, is_block=reservation.is_block
        )

    def _collect(self) -> None:
        for claim in self.claims.list_live():
            if claim.state in _WAITING and self.clock.at - claim.created_at > RESEND_AFTER:
                self._send(claim.id)
            elif claim.state is ClaimState.LAUNCHED and self._stopping:
                self._after(self.random.uniform(0, 60), partial(self._terminate, claim.id))
        self._after(COLLECT_EVERY_S, self._collect)

    def _outsider(self) -> None:
        reservation = self.random.choice(list(self.ec2.values()))
        if self._stopping:
            reservation.outsiders = 0
        elif self.random.random() < 0.5 and reservation.available > 0:
            reservation.outsiders += 1
        elif reservation.outsiders:
            reservation.outsiders -= 1
        reservation.changed(self.clock.at)
        self._after(
            self.chaos.outsider_every_s * self.random.uniform(0.5, 1.5), self._outsider
        )

    # --- the end

    def leaks(self) -> dict[str, Any]:
        """Return what a run that came to rest has left: units, leases, instances and replicas not given back."""
        found: dict[str, Any] = {}
        for reservation in self.ec2.values():
            record = self.reservations.get(reservation.id)
            open_leases = len(self.claims.list_leased(reservation.id))
            expected = (reservation.total, 0, 0, 0)
            actual = (
                -1 if record is None else record.balance.free_units,
                -1 if record is None else record.balance.outstanding_count,
                open_leases,
                len(reservation.instances),
            )
            if actual != expected:
                found[reservation.id] = {
                    "free, outstanding, open leases, instances": actual,
                    "expected": expected,
                }
        wanted = self.workloads.get(KEY)
        if wanted is None or wanted.placed_count != 0:
            found[KEY] = {"placed": wanted and wanted.placed_count}
        return found
