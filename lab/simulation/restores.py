"""Tables that are restored to an earlier point, as the runbook says: all to one instant, and adopted after a look.

The functions are deployed anew, on the restored tables. What users sent since the instant they send again; instances
that were launched since run on without a claim, and nothing ends them.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from lab.fakes.messaging import MemoryBus
from lab.fakes.stores.discovery_turns import MemoryDiscoveryTurns
from lab.fakes.stores.launches import MemoryLaunchAttempts
from lab.fakes.stores.safety import ROLES, MemoryTableMarks, MemoryTallies
from lab.simulation.aws.policy import SharedPolicyStore
from lab.simulation.aws.tables import SimulatedState
from lab.simulation.kernel import MINUTE, Chance, Kernel
from lab.simulation.people.operators import ARN
from reservoir.usecases.safety.tables import AdoptTables, OwnTables

_KEPT: Final = 20  # points, a minute apart


@dataclass
class Tables:
    """The tables that belong together, with what else lies in them."""

    state: SimulatedState
    policy: SharedPolicyStore
    attempts: MemoryLaunchAttempts
    tallies: MemoryTallies
    turns: MemoryDiscoveryTurns
    marks: MemoryTableMarks

    def rows(self) -> list[Any]:
        """Return what they hold."""
        rows = [dict(table) for table, _ in self.state.indexed()]
        return [
            *rows,
            dict(self.attempts.rows),
            dict(self.tallies.rows),
            self.policy.rows(),
            self.turns.stored,
        ]

    def put_back(self, rows: list[Any]) -> None:
        """Hold what they held before, in tables that are others to DynamoDB."""
        for (table, index), before in zip(self.state.indexed(), rows[:3], strict=True):
            table.replace_all(before)
            index.replace_all(before)
        self.state.forget_known()
        self.attempts.rows, self.tallies.rows = dict(rows[3]), dict(rows[4])
        self.policy.put_back(rows[5])
        self.turns.stored = rows[6]
        for role in ROLES:
            self.marks.restore(role)


@dataclass
class Restores:
    """Whoever restores. ``deploy`` replaces all functions.

    ``restored`` hears that the tables are those of before, ``adopted`` that they count again.
    """

    kernel: Kernel
    chance: Chance
    hits: Callable[[], bool]  # whether the tables are restored this minute
    tables: Tables
    deployment: str
    deploy: Callable[[], None]
    restored: Callable[[], None]
    adopted: Callable[[], None]
    restored_at: datetime | None = None
    adopted_at: datetime | None = None
    _points: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def each_minute(self) -> None:
        """Take a point, and perhaps go back to one; once in a run is enough."""
        if self.restored_at is None:
            if self._points and self.hits():
                self._restore()
            self._points.append(self.tables.rows())
            self.kernel.after(MINUTE, self.each_minute)

    @property
    def is_unknown(self) -> bool:
        """Whether nobody has looked at restored tables yet."""
        return self.restored_at is not None and self.adopted_at is None

    def adopt(self) -> None:
        """Let somebody look at the tables and make them the deployment's own."""
        if self.is_unknown:
            command = AdoptTables(
                OwnTables(self.tables.marks, self.deployment), MemoryBus()
            )
            command.adopt(
                command.look(), by=ARN, reason="restored after OPS-5", now=self.kernel.now()
            )
            self.adopted_at = self.kernel.now()
            self.adopted()

    def _restore(self) -> None:
        back = self.chance.between("restore", 1, len(self._points))
        self.tables.put_back(self._points[-back])
        self.restored_at = self.kernel.now()
        self.deploy()
        self.restored()
        self.kernel.after(self.chance.between("restore", MINUTE, 10 * MINUTE), self.adopt)
