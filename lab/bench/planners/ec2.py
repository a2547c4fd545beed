"""What surrounds the ledger in its benches: time, EC2's reservations with their lagging counts, mishaps, figures."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lab.bench.planners.values import START


@dataclass
class SimulatedClock:
    """Implements ``Clock``."""

    at: datetime = START

    def now(self) -> datetime:
        """Return the simulated instant."""
        return self.at

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.at += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Chaos:
    """Probabilities of what goes wrong."""

    death: float = 0.02  # of an actor between two of its effects
    duplicate: float = 0.05  # of a launch message
    late_answer: float = 0.05  # of an observation: saved more than a minute after it began
    lifetime_s: float = 1800.0  # of an instance, on average
    outsider_every_s: float = 0.0  # 0: nobody else launches into the reservations


@dataclass
class Ec2Reservation:
    """What really is: instances by claim, units that outsiders use, units being scrubbed."""

    id: str
    total: int
    is_block: bool
    instances: dict[str, datetime] = field(default_factory=dict)  # claim id -> launched at
    outsiders: int = 0
    scrubbing: int = 0
    # available count since when
    history: list[tuple[datetime, int]] = field(default_factory=list)

    @property
    def available(self) -> int:
        """Units into which EC2 would launch now."""
        return self.total - len(self.instances) - self.outsiders - self.scrubbing

    def changed(self, now: datetime) -> None:
        """Remember the new count for describes that lag."""
        self.history.append((now, self.available))
        del self.history[:-200]  # far more than can happen within the lag

    def described(self, instant: datetime) -> int:
        """Return the count as it was at ``instant``, as EC2's lagging answer has it."""
        return next(
            (count for at, count in reversed(self.history) if at <= instant),
            self.history[0][1],
        )


@dataclass
class Figures:
    """What a run measured. ``twice`` counts moments at which more was promised than there is."""

    operations: int = 0
    commits: int = 0
    conflicts: int = 0
    launches: int = 0
    refused: int = 0
    deaths: int = 0
    twice: int = 0
    capacity_s: float = 0.0  # unit-seconds that there were
    # of them free, shown by an observation, and held back by the ledger's caution
    hidden_s: float = 0.0
    # of the hidden ones, those that a ledger could have offered without knowing EC2's lag
    avoidable_s: float = 0.0
    waiting_s: float = 0.0  # of them offered by the ledger, until some planner took them

    @property
    def ledger_utilisation_percent(self) -> float:
        """Units in use, promised or offered, of what an all-knowing ledger could offer on the same observations."""
        if self.capacity_s:
            return round(100 * (1 - self.hidden_s / self.capacity_s), 3)
        return 0.0

    @property
    def utilisation_percent(self) -> float:
        """Units in use or promised; the planners' pace counts too."""
        if self.capacity_s:
            return round(100 * (1 - (self.hidden_s + self.waiting_s) / self.capacity_s), 3)
        return 0.0

    @property
    def of_feasible_percent(self) -> float:
        """Units in use or promised, of what no ledger that promises nothing twice could have exceeded.

        Such a ledger knows each launch at the instant of EC2 and each observation as soon as it is saved, but of the
        age of EC2's counts only the bound: a launch of the last 30 s before an observation may be in it or not.
        """
        feasible_s = self.capacity_s - (self.hidden_s - self.avoidable_s)
        unused_s = self.avoidable_s + self.waiting_s
        return round(100 * (1 - unused_s / feasible_s), 3) if feasible_s else 0.0
