"""What a fleet comes to: use of what is paid for, money, waiting, and AWS's calls with their price."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final

from infra.config import FUNCTIONS
from infra.operations.idle_cost import (
    LAMBDA_USD_A_GB_S,
    LAMBDA_USD_A_MILLION,
    MILLION,
    READS_USD_A_MILLION,
    SQS_USD_A_MILLION,
    WRITES_USD_A_MILLION,
)
from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.catalogue import ON_DEMAND, SPOT, ZONES
from lab.simulation.invariants.base import Invariant
from lab.simulation.kernel import HOUR, SECOND
from lab.simulation.size.fleet import COARSENESS, SAMPLED_EVERY, TYPE, Fleet
from reservoir.names import Function
from reservoir.ports.state import WorkloadRecord

EVENTS_USD_A_MILLION: Final = 1.0
_CLIENTS: Final = {
    "sqs": "SQS",
    "events": "EventBridge",
    "scheduler": "Scheduler",
    "ec2": "EC2",
}
_OF_EC2: Final = frozenset(
    {"launch_environment", "instance_types", "unit_mover", "capacity_blocks"}
)
_READS: Final = (
    "get",
    "list",
    "load",
    "find",
    "read",
    "turn",
    "latest",
    "begin_probes",
    "meter",
    "accounts",
)
# a unit is 4 KB twice where consistency is eventual; a row is 1 KB at most
_ROWS_A_READ_UNIT: Final = 8


@dataclass(slots=True)
class Tally:
    """Sums over a month; what schedules ask for runs more seldom here, and counts as often as in a deployment."""

    runs: Counter[Function]
    seconds: defaultdict[Function, float]
    calls: Counter[str]
    read_units: int = 0
    rows_written: int = 0


class Meter(Invariant):
    """Listens, and samples the fleet; nothing fails."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self.fleet = fleet
        self.tally = Tally(Counter(), defaultdict(float), Counter())
        self.waits_s: list[float] = []
        self.node_hours = defaultdict[str, float](float)  # reserved, spot, on-demand
        self.wanted_hours = 0.0
        self.reserved_hours = 0.0
        self._asked_us: dict[str, int] = {}
        self._computed_s = defaultdict[int, float](float)
        self._looked_s = time.process_time()
        self._writes = 0
        fleet.every(SAMPLED_EVERY, self._sample)

    # --- what is heard of

    def row_written(self, key: str, before: Any, after: Any) -> None:
        self._writes += 1
        if not isinstance(after, WorkloadRecord):
            return
        now = self.world.kernel.now_us
        if after.pending_count and not after.withdrawn:
            self._asked_us.setdefault(key, now)
        elif key in self._asked_us:
            self.waits_s.append((now - self._asked_us.pop(key)) / SECOND)

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        run = environment.run
        if run is None:
            return
        self._compute(run)
        weight = _weight(run)
        port, method = point.split(".")
        if port in _CLIENTS or port in _OF_EC2:
            self.tally.calls[_CLIENTS.get(port, "EC2")] += weight
        elif port != "prices":
            rows = (
                len(answer)
                if isinstance(answer, Sized) and not isinstance(answer, str)
                else 1
            )
            self.tally.calls["DynamoDB"] += weight
            if method.startswith(_READS):
                self.tally.read_units += weight * max(1, -(-rows // _ROWS_A_READ_UNIT))
            else:
                meters = rows if port == "accounts" else 0  # nobody hears of those
                self.tally.rows_written += weight * max(1, meters, self._writes)
        self._writes = 0

    def ended(self, run: Run) -> None:
        self._compute(run)
        weight = _weight(run)
        self.tally.runs[run.function] += weight
        took_s = (run.ended_us - run.began_us) / SECOND + self._computed_s.pop(
            run.number, 0
        )
        self.tally.seconds[run.function] += weight * took_s

    def _compute(self, run: Run) -> None:
        """Charge the run for the processor time since anybody looked."""
        now_s = time.process_time()
        self._computed_s[run.number] += now_s - self._looked_s
        self._looked_s = now_s

    def _sample(self) -> None:
        hours = SAMPLED_EVERY / HOUR
        for instance in self.fleet.ec2.live():
            market = (
                "reserved"
                if instance.capacity_reservation_id
                else instance.lifecycle or "on-demand"
            )
            self.node_hours[market] += hours
        self.wanted_hours += hours * sum(
            each.replicas for each in self.fleet.users.wanted.values() if not each.withdrawn
        )
        self.reserved_hours += hours * sum(
            each.total_count for each in self.fleet.ec2.reservations.values()
        )

    # --- what it comes to

    def money(self) -> Mapping[str, float]:
        """Return USD by what they are for; reservations are paid for whether used or not."""
        price, cheap = ON_DEMAND[TYPE] / MILLION, SPOT[TYPE, ZONES[0][0]] / MILLION
        return {
            "reservations": self.reserved_hours * price,
            "spot": self.node_hours["spot"] * cheap,
            "on-demand": self.node_hours["on-demand"] * price,
            "all on demand": sum(self.node_hours.values()) * price,
        }

    def bill(self) -> Iterator[tuple[str, str, float]]:
        """Yield what the scheduler itself costs: what, how much, USD."""
        tally = self.tally
        gb_s = sum(
            FUNCTIONS[each].memory_mib / 1024 * seconds
            for each, seconds in tally.seconds.items()
        )
        runs = sum(tally.runs.values())
        usd = gb_s * LAMBDA_USD_A_GB_S + runs * LAMBDA_USD_A_MILLION / MILLION
        yield "Lambda", f"{runs:,} runs, {gb_s:,.0f} GB-s", usd
        reads, writes = tally.read_units, tally.rows_written
        stored_usd = (reads * READS_USD_A_MILLION + writes * WRITES_USD_A_MILLION) / MILLION
        yield "DynamoDB", f"{reads:,.0f} read units, {writes:,} rows written", stored_usd
        # A message is sent, received and deleted; the pollers of idle queues are in what a deployment costs idle.
        yield (
            "SQS",
            f"{tally.calls['SQS']:,} calls",
            3 * tally.calls["SQS"] * SQS_USD_A_MILLION / MILLION,
        )
        events = tally.calls["EventBridge"] + tally.calls["Scheduler"]
        yield (
            "EventBridge, Scheduler",
            f"{events:,} calls",
            events * EVENTS_USD_A_MILLION / MILLION,
        )
        yield "EC2", f"{tally.calls['EC2']:,} calls", 0.0


def _weight(run: Run) -> int:
    """Return how many runs of a deployment this one stands for."""
    if run.function is Function.RECORD:
        return 1  # its schedule runs as often as in a deployment
    return COARSENESS if '"minute-' in json.dumps(run.event).replace("\\", "") else 1
