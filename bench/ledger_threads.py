"""Planners in threads on a real DynamoDB API: the conditions and transactions themselves are what is tried."""

import random
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from bench.ledger_values import KEY, START, Stores, demand, facts, planned_claim
from shared.core.capacity_reservation import CapacityReservation
from shared.core.node_claim import ClaimState, NodeClaim
from shared.ports.state import ConflictError, PlannedCommit
from shared.usecases.observe_reservation import ReservationObserver

SPEED: Final = 60  # simulated seconds in a real one: lag and observations pass quickly


class FastClock:
    """Implements ``Clock``; a minute passes in a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> datetime:
        """Return the simulated instant."""
        return START + timedelta(seconds=(time.monotonic() - self._began) * SPEED)


@dataclass
class Account:
    """What really is in one reservation, under a lock; ``twice`` counts launches for which there was no unit."""

    total: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    instances: set[str] = field(default_factory=set)
    twice: int = 0

    def launch(self, claim_id: str) -> bool:
        """Launch unless it is there already."""
        with self.lock:
            if claim_id in self.instances:
                return True
            if len(self.instances) >= self.total:
                self.twice += 1
                return False
            self.instances.add(claim_id)
            return True

    def terminate(self, claim_id: str) -> None:
        """End an instance; its unit is free at once."""
        with self.lock:
            self.instances.discard(claim_id)

    def available(self) -> int:
        """Return the count that a describe shows."""
        with self.lock:
            return self.total - len(self.instances)


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
    """Planner threads, each of which also launches and ends what it planned, and one discovery thread."""

    def __init__(
        self,
        stores: Stores,
        clock: FastClock,
        *,
        totals: tuple[int, ...],
        seed: int,
        death: float = 0.01,  # the dead keep their units until the end of the run
    ) -> None:
        self.workloads, self.reservations, self.claims = stores
        self.clock = clock
        self.seed = seed
        self.death = death
        self.accounts = {f"cr-{index}": Account(total) for index, total in enumerate(totals)}
        self.observer = ReservationObserver(self.reservations, self.claims)
        self.figures = ThreadedFigures()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._number = 0
        self._errors: list[BaseException] = []
        self.workloads.put(demand(), expected_revision=None)
        for key, account in self.accounts.items():
            self.reservations.save_observation(
                self._facts(key, account.total), observed_at=clock.now(), absorbed=(), expected=None
            )

    def run(self, planners: int, operations: int) -> ThreadedFigures:
        """Run until so many operations were done, then recover as ``collect`` and discovery do, and count leaks."""
        began = time.monotonic()
        threads = [threading.Thread(target=self._guarded, args=(self._planner, n, operations)) for n in range(planners)]
        observer = threading.Thread(target=self._guarded, args=(self._discover,))
        for thread in (observer, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        self._stop.set()
        observer.join()
        if self._errors:
            raise self._errors[0]
        self._recover()
        self.figures.twice = sum(account.twice for account in self.accounts.values())
        self.figures.leaks = self._leaks()
        self.figures.seconds = round(time.monotonic() - began, 1)
        return self.figures

    def _guarded(self, target: object, *arguments: object) -> None:
        try:
            target(*arguments)  # type: ignore[operator] # a bound method of this class
        except BaseException as error:  # noqa: BLE001 # handed to the main thread
            self._errors.append(error)
            self._stop.set()

    def _planner(self, number: int, operations: int) -> None:
        chance = random.Random(self.seed * 1000 + number)  # noqa: S311 # a simulation's seed
        while not self._stop.is_set() and self.figures.operations < operations:
            claims = [
                self._claim(record.reservation)
                for record in self.reservations.list_current()
                for _ in range(min(record.reservation.free_units, chance.randint(1, 4)))
            ]
            if not claims:
                time.sleep(chance.uniform(0.1, 0.4))  # polls of many threads would be most of the load
                continue
            committed = self._commit(claims, chance)
            for claim in committed:
                self._live(claim, chance)

    def _commit(self, claims: list[NodeClaim], chance: random.Random) -> list[NodeClaim]:
        try:
            self.claims.commit(PlannedCommit(tuple(claims)))
            if chance.random() < 0.1:
                self.claims.commit(PlannedCommit(tuple(claims)))  # the answer was lost
        except ConflictError:
            self._count(conflicts=1)
            return []
        self._count(commits=1)
        return claims

    def _live(self, claim: NodeClaim, chance: random.Random) -> None:
        """Take a claim through its life; a death anywhere leaves it to the recovery."""
        account = self.accounts[str(claim.offering.reservation_id)]
        if self._dies(chance):
            return
        claim = self.claims.save(replace(claim, state=ClaimState.LAUNCHING), expected_revision=claim.revision)
        self._count()
        if self._dies(chance):
            return
        if not account.launch(claim.id):
            self._return(claim, ClaimState.FAILED)
            return
        if self._dies(chance):
            return
        launched = replace(claim, state=ClaimState.LAUNCHED, launched_at=self.clock.now(), instance_id=f"i-{claim.id}")
        claim = self.claims.settle(launched, expected_revision=claim.revision)
        self._count()
        time.sleep(chance.choice((0, 0, 0.02)))  # some leases are absorbed while the instance runs, most after it
        account.terminate(claim.id)
        self._return_current(claim.id)

    def _return_current(self, claim_id: str) -> None:
        """End the claim; discovery may close its lease at the same moment."""
        while (claim := self.claims.get(claim_id)) is not None and claim.may_become(ClaimState.TERMINATED):
            try:
                self._return(claim, ClaimState.TERMINATED)
            except ConflictError:
                continue

    def _return(self, claim: NodeClaim, state: ClaimState) -> None:
        ended = replace(claim, state=state, terminated_at=self.clock.now())
        self.claims.return_replicas(
            ended, expected_revision=claim.revision, placements={KEY: 1}, returned_at=self.clock.now()
        )
        self._count()

    def _discover(self) -> None:
        while not self._stop.is_set():
            self._observe_all()
            time.sleep(0.3)

    def _observe_all(self) -> None:
        began = self.clock.now()
        records = {record.reservation.id: record for record in self.reservations.list_current()}
        for key, account in self.accounts.items():
            self.observer.observe(records.get(key), self._facts(key, account.available()), began)

    def _recover(self) -> None:
        """Adopt or fail what died half-way, end everything, observe after the lag."""
        for claim in self.claims.list_live():
            account = self.accounts[str(claim.offering.reservation_id)]
            if claim.state in (ClaimState.PLANNED, ClaimState.LAUNCHING) and claim.id not in account.instances:
                self._return(claim, ClaimState.FAILED)
            elif claim.state is ClaimState.LAUNCHING:
                launched = replace(claim, state=ClaimState.LAUNCHED, launched_at=self.clock.now())
                self.claims.settle(launched, expected_revision=claim.revision)
        for claim in self.claims.list_live():
            self.accounts[str(claim.offering.reservation_id)].terminate(claim.id)
            self._return_current(claim.id)
        time.sleep(60 / SPEED)  # the lag, on the fast clock
        self._observe_all()

    def _leaks(self) -> int:
        record = self.workloads.get(KEY)
        leaks = 0 if record is None else record.placed_count
        for key, account in self.accounts.items():
            stored = self.reservations.get(key)
            leaks += len(self.claims.list_leased(key))
            leaks += 0 if stored is None else stored.balance.outstanding_count
            leaks += account.total - (0 if stored is None else stored.balance.free_units)
        return leaks

    def _dies(self, chance: random.Random) -> bool:
        dies = chance.random() < self.death
        if dies:
            self._count(deaths=1)
        return dies

    def _count(self, *, commits: int = 0, conflicts: int = 0, deaths: int = 0) -> None:
        with self._lock:
            self.figures.operations += 1
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
