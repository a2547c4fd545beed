"""Karpenter's way of counting, for comparison: each controller keeps its own numbers in memory (R-101 to R-106).

A controller overwrites its count of a reservation by each describe (every 60 s), takes one off after a launch, adds one
when a terminated instance is gone, and sets it to 0 when EC2 refuses. Two controllers (two clusters, or two replicas of
anything) that may use the same reservation know nothing of each other.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from lab.bench.planners.ec2 import Chaos, Ec2Reservation, Figures
from lab.bench.planners.values import START
from reservoir.core.capacity.ledger import COUNT_LAG


@dataclass
class Controller:
    """What one controller believes is available."""

    count: dict[str, int] = field(default_factory=dict)


class KarpenterWorld:
    """Controllers that launch into the same reservations."""

    def __init__(
        self, *, seed: int, controllers: int, totals: tuple[int, ...], chaos: Chaos
    ) -> None:
        self.random = random.Random(seed)
        self.chaos = chaos
        self.now = START
        self.figures = Figures()
        self.ec2 = {
            f"cr-{i}": Ec2Reservation(f"cr-{i}", total, i % 2 == 1)
            for i, total in enumerate(totals)
        }
        self.controllers = [Controller() for _ in range(controllers)]
        self._queue: list[tuple[datetime, int, Callable[[], None]]] = []
        self._sequence = 0
        self._number = 0
        for reservation in self.ec2.values():
            reservation.changed(START - timedelta(hours=1))
        for controller in self.controllers:
            self._describe(controller)
            self._after(self.random.uniform(0, 10), partial(self._loop, controller))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(
            self._queue, (self.now + timedelta(seconds=seconds), self._sequence, action)
        )

    def run(self, operations: int) -> Figures:
        """Run until so many operations were done."""
        while self.figures.operations < operations:
            at, _, action = heapq.heappop(self._queue)
            seconds = (at - self.now).total_seconds()
            for reservation in self.ec2.values():
                self.figures.capacity_s += reservation.total * seconds
                self.figures.waiting_s += reservation.available * seconds
            self.now = at
            action()
        return self.figures

    def _describe(self, controller: Controller) -> None:
        for reservation in self.ec2.values():
            instant = self.now - timedelta(
                seconds=self.random.uniform(0, COUNT_LAG.total_seconds())
            )
            controller.count[reservation.id] = reservation.described(instant)
            self.figures.operations += 1
        self._after(60, lambda: self._describe(controller))

    def _loop(self, controller: Controller) -> None:
        """Claim every unit that is believed free, as saturating demand makes a scheduling loop do."""
        for reservation_id, count in controller.count.items():
            for _ in range(count):
                self._after(
                    self.random.uniform(0.5, 3),
                    partial(self._launch, controller, reservation_id),
                )
        self._after(10, lambda: self._loop(controller))

    def _launch(self, controller: Controller, reservation_id: str) -> None:
        self.figures.operations += 1
        reservation = self.ec2[reservation_id]
        if reservation.available <= 0:
            self.figures.refused += 1
            controller.count[reservation_id] = 0
            return
        self._number += 1
        claim_id = f"nc-{self._number}"
        reservation.instances[claim_id] = self.now
        reservation.changed(self.now)
        controller.count[reservation_id] = max(0, controller.count[reservation_id] - 1)
        self.figures.launches += 1
        lifetime_s = self.random.expovariate(1 / self.chaos.lifetime_s)
        self._after(lifetime_s, lambda: self._terminate(controller, reservation, claim_id))

    def _terminate(
        self, controller: Controller, reservation: Ec2Reservation, claim_id: str
    ) -> None:
        self.figures.operations += 1
        reservation.instances.pop(claim_id)
        reservation.scrubbing += 1

        def scrubbed() -> None:
            reservation.scrubbing -= 1
            reservation.changed(self.now)

        self._after(
            self.random.uniform(60, 300)
            if reservation.is_block
            else self.random.uniform(0, 20),
            scrubbed,
        )
        controller.count[reservation.id] += 1
