"""Planners in threads on a real DynamoDB API: the conditions and transactions themselves are what is tried."""

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from lab.bench.harness import tell
from lab.bench.planners.values import KEY, START, Stores, demand, facts, planned_claim
from lab.fakes.messaging import MemoryBus
from reservoir.core.capacity.ledger import COUNT_LAG
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.ports.state import ConflictError, PlannedCommit
from reservoir.usecases.discovery.observe_reservation import ReservationObserver

SPEED: Final = 60  # simulated seconds in a real one: lag and observations pass quickly
# Probabilities: of a commit whose answer is lost, of a message that comes twice, of an observation that is saved more
# than a minute after it began, of a claim that is given up instead of being launched again.
_LOST_ANSWER: Final = 0.1
_DUPLICATE: Final = 0.05
_LATE: Final = 0.05
_GIVEN_UP: Final = 0.3
_DISCOVERIES: Final = 2  # as events and the schedule start them
_TOLD_EVERY: Final = 2_500  # operations


class FastClock:
    """Implements ``Clock``; a minute passes in a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> datetime:
        """Return the simulated instant."""
        return START + timedelta(seconds=(time.monotonic() - self._began) * SPEED)


class Account:
    """What really is in one reservation, under a lock; ``twice`` counts launches for which there was no unit."""

    def __init__(self, total: int, clock: FastClock) -> None:
        self.total = total
        self.twice = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._instances: set[str] = set()
        self._launched: set[str] = set()  # ever: a claim's id is its client token
        self._history: list[tuple[datetime, int]] = [
            (clock.now() - timedelta(hours=1), total)
        ]

    def launch(self, claim_id: str) -> bool:
        """Launch, unless it was launched before."""
        with self._lock:
            if claim_id in self._launched:
                return True
            if len(self._instances) >= self.total:
                self.twice += 1
                return False
            self._launched.add(claim_id)
            self._instances.add(claim_id)
            self._changed()
            return True

    def terminate(self, claim_id: str) -> None:
        """End an instance; its unit is free at once."""
        with self._lock:
            self._instances.discard(claim_id)
            self._changed()

    def described(self, instant: datetime) -> int:
        """Return the count as it was at ``instant``, as EC2's lagging answer has it."""
        with self._lock:
            return next(
                (count for at, count in reversed(self._history) if at <= instant),
                self._history[0][1],
            )

    def _changed(self) -> None:
        self._history.append((self._clock.now(), self.total - len(self._instances)))
        del self._history[:-2_000]  # far more than can happen within the lag


@dataclass
class ThreadedFigures:
    """What a run measured."""

    operations: int = 0
    commits: int = 0
    conflicts: int = 0
    deaths: int = 0
    twice: int = 0
    leaks: int = 0
    seconds: float = 0.0


class ThreadedLedger:
    """Threads of planners, each of which also launches and ends what it planned; of discovery; and of redelivery.

    Redelivery gets the claims of the dead, as the collector sends them again, and some that are being worked on.
    """

    def __init__(
        self,
        stores: Stores,
        clock: FastClock,
        *,
        totals: tuple[int, ...],
        seed: int,
        death: float = 0.01,
    ) -> None:
        self.workloads, self.reservations, self.claims = stores
        self.clock = clock
        self.seed = seed
        self.death = death
        self.accounts = {
            f"cr-{index}": Account(total, clock) for index, total in enumerate(totals)
        }
        self.observer = ReservationObserver(self.reservations, self.claims, MemoryBus())
        self.figures = ThreadedFigures()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        # claims to deliver again; None: the last
        self._again: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._number = 0
        self._errors: list[BaseException] = []
        self._began = time.monotonic()
        self.workloads.put(demand(), expected_revision=None)
        for key, account in self.accounts.items():
            self.reservations.save_observation(
                self._facts(key, account.total),
                observed_at=clock.now(),
                absorbed=(),
                expected=None,
            )

    def run(self, planners: int, operations: int) -> ThreadedFigures:
        """Run until so many operations were done, let everything come to rest, and count leaks."""
        working = [
            self._thread(self._plan, number, operations) for number in range(planners)
        ]
        discovering = [
            self._thread(self._discover, number) for number in range(_DISCOVERIES)
        ]
        redelivering = self._thread(self._redeliver)
        for thread in (*working, *discovering):
            thread.join()
        self._again.put(None)
        redelivering.join()
        if self._errors:
            raise self._errors[0]
        self._come_to_rest()
        self.figures.twice = sum(account.twice for account in self.accounts.values())
        self.figures.leaks = self._leaks()
        self.figures.seconds = round(time.monotonic() - self._began, 1)
        return self.figures

    def _thread(self, target: Callable[..., None], *arguments: int) -> threading.Thread:
        def guarded() -> None:
            try:
                target(*arguments)
            except BaseException as error:  # noqa: BLE001 # handed to the main thread
                self._errors.append(error)
                self._stop.set()

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    # --- planners

    def _plan(self, number: int, operations: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        while not self._stop.is_set() and self.figures.operations < operations:
            claims = [
                self._claim(record.reservation)
                for record in self.reservations.list_current()
                for _ in range(min(record.reservation.free_units, chance.randint(1, 4)))
            ]
            if not claims:
                # polls of many threads would be most of the load
                time.sleep(chance.uniform(0.1, 0.4))
                continue
            for claim in self._commit(claims, chance):
                if chance.random() < _DUPLICATE:
                    self._again.put(claim.id)
                self._live(claim.id, chance, self.death)
        self._stop.set()

    def _commit(self, claims: list[NodeClaim], chance: random.Random) -> list[NodeClaim]:
        try:
            self.claims.commit(PlannedCommit(tuple(claims)))
            if chance.random() < _LOST_ANSWER:
                self.claims.commit(PlannedCommit(tuple(claims)))
        except ConflictError:
            self._count(conflicts=1)
            return []
        self._count(commits=1)
        return claims

    # --- the life of a claim: each step looks at what is stored, so that it may be done again by somebody else

    def _live(self, claim_id: str, chance: random.Random, death: float) -> None:
        for step in (self._begin, self._launch, self._end):
            if chance.random() < death:
                self._count(deaths=1)
                self._again.put(claim_id)
                return
            step(claim_id, chance)

    def _begin(self, claim_id: str, _chance: random.Random) -> None:
        claim = self.claims.get(claim_id)
        if claim is not None and claim.state is ClaimState.PLANNED:
            self._move(
                lambda: self.claims.save(
                    _in(claim, ClaimState.LAUNCHING), expected_revision=claim.revision
                )
            )

    def _launch(self, claim_id: str, _chance: random.Random) -> None:
        claim = self.claims.get(claim_id)
        if claim is None or claim.state is not ClaimState.LAUNCHING:
            return
        if not self.accounts[str(claim.offering.reservation_id)].launch(claim_id):
            self._move(lambda: self._return(claim, ClaimState.FAILED))
            return
        launched = replace(
            _in(claim, ClaimState.LAUNCHED),
            launched_at=self.clock.now(),
            instance_id=f"i-{claim_id}",
        )
        self._move(lambda: self.claims.settle(launched, expected_revision=claim.revision))

    def _end(self, claim_id: str, chance: random.Random) -> None:
        # some leases are absorbed while the instance runs, most after it
        time.sleep(chance.choice((0, 0, 0.02)))
        while (
            claim := self.claims.get(claim_id)
        ) is not None and claim.state is ClaimState.LAUNCHED:
            self.accounts[str(claim.offering.reservation_id)].terminate(claim_id)
            if self._move(partial(self._return, claim, ClaimState.TERMINATED)):
                return

    def _return(self, claim: NodeClaim, state: ClaimState) -> NodeClaim:
        now = self.clock.now()
        ended = replace(_in(claim, state), terminated_at=now)
        return self.claims.return_replicas(
            ended, expected_revision=claim.revision, placements={KEY: 1}, returned_at=now
        )

    def _move(self, move: Callable[[], NodeClaim]) -> bool:
        """Move a claim; False when somebody else moved it meanwhile (discovery may have closed its lease)."""
        try:
            move()
        except ConflictError:
            return False
        self._count()
        return True

    def _redeliver(self) -> None:
        chance = random.Random(self.seed)
        while (claim_id := self._again.get()) is not None:
            claim = self.claims.get(claim_id)
            if (
                claim is not None
                and claim.state is ClaimState.PLANNED
                and chance.random() < _GIVEN_UP
            ):
                self._move(partial(self._return, claim, ClaimState.FAILED))
            else:
                self._live(claim_id, chance, self.death)

    # --- discovery

    def _discover(self, number: int) -> None:
        chance = random.Random(self.seed * 100 + number)
        while not self._stop.is_set():
            self._observe_all(chance)
            time.sleep(0.3)

    def _observe_all(self, chance: random.Random) -> None:
        """Describe and save; what is described may be as old as the lag, and come late."""
        began = self.clock.now()
        records = {
            record.reservation.id: record for record in self.reservations.list_current()
        }
        shown = {
            key: self._facts(key, account.described(began - COUNT_LAG * chance.random()))
            for key, account in self.accounts.items()
        }
        if chance.random() < _LATE:
            time.sleep(90 / SPEED)
        for key, reservation in shown.items():
            self.observer.observe(records.get(key), reservation, began)

    # --- the end

    def _come_to_rest(self) -> None:
        """End everything, as the owners of the instances would, and observe after the lag."""
        chance = random.Random(self.seed)
        for claim in self.claims.list_live():
            self._live(claim.id, chance, death=0)
        time.sleep(2 * COUNT_LAG.total_seconds() / SPEED)
        self._observe_all(random.Random(self.seed))

    def _leaks(self) -> int:
        record = self.workloads.get(KEY)
        leaks = 0 if record is None else record.placed_count
        for key, account in self.accounts.items():
            stored = self.reservations.get(key)
            leaks += len(self.claims.list_leased(key))
            leaks += 0 if stored is None else stored.balance.outstanding_count
            leaks += account.total - (0 if stored is None else stored.balance.free_units)
        return leaks

    def _count(self, *, commits: int = 0, conflicts: int = 0, deaths: int = 0) -> None:
        with self._lock:
            self.figures.operations += 1
            if self.figures.operations % _TOLD_EVERY == 0:
                seconds = time.monotonic() - self._began
                tell(f"{self.figures.operations} operations after {seconds:.0f} s")
            self.figures.commits += commits
            self.figures.conflicts += conflicts
            self.figures.deaths += deaths

    def _claim(self, reservation: CapacityReservation) -> NodeClaim:
        with self._lock:
            self._number += 1
            number = self._number
        return planned_claim(number, reservation, self.clock.now())

    def _facts(self, key: str, available: int) -> CapacityReservation:
        return facts(key, self.accounts[key].total, available)


def _in(claim: NodeClaim, state: ClaimState) -> NodeClaim:
    return replace(claim, state=state)
