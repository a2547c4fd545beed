"""What happened in a seed, drawn in text: a line an event, and a lane for each function that runs beside others."""

from collections.abc import Iterator
from typing import Any, Final

from lab.simulation.aws.bus import Detail
from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.invariants.base import Invariant
from lab.simulation.world import World
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.state import ReservationRecord, WorkloadRecord

_LANES_MAX: Final = 8


class Timeline(Invariant):
    """Writes down what every hook hears; it never fails."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lines: list[str] = []
        self._lanes: list[int | None] = [None] * _LANES_MAX
        self._mishaps = 0

    def lines(self) -> list[str]:
        """Return the lines."""
        return self._lines

    def row_written(self, key: str, before: Any, after: Any) -> None:
        for text in _told(key, before, after):
            self._write("~", text)

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if environment.run is not None:
            self._write(
                "o",
                f"{environment.function} {environment.run.number}: {point}",
                environment.run,
            )

    def heard(self, detail_type: str, detail: Detail) -> None:
        node = detail.get("node", {})
        self._write(
            ">",
            f"{detail_type} {node.get('nodeClaim', '')} {detail.get('reason', '')}".rstrip(),
        )

    def ended(self, run: Run) -> None:
        self._write(
            "#", f"{run.function} {run.number} {run.outcome} {run.error}".rstrip(), run
        )
        self._lanes = [None if number == run.number else number for number in self._lanes]

    def _write(self, mark: str, text: str, run: Run | None = None) -> None:
        for kind, number in self.world.chance.came_true[self._mishaps :]:
            self._line("!", f"{kind} {number}", None)
        self._mishaps = len(self.world.chance.came_true)
        self._line(mark, text, run)

    def _line(self, mark: str, text: str, run: Run | None) -> None:
        lane = None if run is None else self._lane(run.number)
        lanes = "".join(
            mark if number == lane else "|" if busy is not None else " "
            for number, busy in enumerate(self._lanes)
        )
        outside = mark if lane is None else " "
        self._lines.append(
            f"{self.world.kernel.now():%H:%M:%S.%f}"[:-3] + f" {outside} {lanes} {text}"
        )

    def _lane(self, number: int) -> int | None:
        if number not in self._lanes and None in self._lanes:
            self._lanes[self._lanes.index(None)] = number
        return self._lanes.index(number) if number in self._lanes else None


def _told(key: str, before: Any, after: Any) -> Iterator[str]:
    """Say what changed in a row."""
    if isinstance(after, NodeClaim):
        was = "new" if before is None else before.state
        lease = (
            ""
            if after.lease is None
            else f", lease {after.lease.state} on {after.lease.reservation_id[-4:]}"
        )
        placed = (
            ", ".join(
                f"{placed.count} of {placed.workload_key}" for placed in after.placements
            )
            or "empty"
        )
        yield f"{key} {was} -> {after.state}, {after.offering.capacity_type} {after.instance_id or ''} {placed}{lease}"
    elif isinstance(after, WorkloadRecord):
        wanted = 0 if after.workload is None or after.withdrawn else after.workload.replicas
        yield f"{key} wants {wanted}, {after.placed_count} placed, generation {after.generation}"
    elif isinstance(after, ReservationRecord):
        balance = after.balance
        yield f"{key[-4:]}: {balance.available_count} available, {balance.outstanding_count} leased"
