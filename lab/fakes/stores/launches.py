"""The launch ports in memory."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from reservoir.core.capacity.shortage import (
    Shortage,
    is_probed_by_other,
    needs_probe,
    probed,
)
from reservoir.core.capacity.unavailable_offerings import Remembered
from reservoir.core.launching.launch_outcome import LaunchAttempt, LaunchOutcome
from reservoir.core.model.node_class import NodeClass, Validation
from reservoir.core.model.node_pool import NodePool
from reservoir.ports.launches import R
from reservoir.ports.state import UnreadableRowsError


class MemoryLaunchAttempts:
    """Implements ``LaunchAttemptStore``."""

    def __init__(self) -> None:
        self.rows: dict[str, LaunchAttempt] = {}
        self.unreadable: set[str] = set()

    def latest(self, batch_id: str) -> LaunchAttempt | None:
        if batch_id in self.unreadable:
            raise UnreadableRowsError([batch_id])
        return self.rows.get(batch_id)

    def begin(self, attempt: LaunchAttempt) -> LaunchAttempt:
        stored = self.rows.get(attempt.batch_id)
        if stored is None or (stored.completed and stored.number == attempt.number - 1):
            self.rows[attempt.batch_id] = attempt
        return self.rows[attempt.batch_id]

    def leave_unanswered(
        self, attempt: LaunchAttempt, code: str, now: datetime
    ) -> LaunchAttempt:
        stored = self.rows[attempt.batch_id]
        if stored.number == attempt.number and stored.outcome is None:
            left = replace(stored, unanswered_at=now, unanswered_code=code)
            self.rows[attempt.batch_id] = left
        return self.rows[attempt.batch_id]

    def resolve(self, attempt: LaunchAttempt, outcome: LaunchOutcome) -> LaunchAttempt:
        stored = self.rows[attempt.batch_id]
        if stored.number == attempt.number and stored.outcome is None:
            self.rows[attempt.batch_id] = replace(stored, outcome=outcome)
        return self.rows[attempt.batch_id]

    def complete(self, attempt: LaunchAttempt) -> None:
        stored = self.rows[attempt.batch_id]
        if stored.number == attempt.number and stored.outcome is not None:
            self.rows[attempt.batch_id] = replace(stored, completed=True)


class MemoryShortageHistory:
    """Implements ``ShortageHistory``."""

    def __init__(self) -> None:
        self.rows: dict[Remembered, Shortage] = {}

    def get_many(self, offerings: Collection[Remembered]) -> Mapping[Remembered, Shortage]:
        return {
            offering: self.rows[offering] for offering in offerings if offering in self.rows
        }

    def put(self, shortages: Mapping[Remembered, Shortage]) -> None:
        self.rows.update(shortages)

    def begin_probes(
        self, offerings: Collection[R], batch_id: str, now: datetime
    ) -> frozenset[R]:
        known = {
            offering: self.rows[offering] for offering in offerings if offering in self.rows
        }
        short = {
            offering: shortage
            for offering, shortage in known.items()
            if needs_probe(shortage, now)
        }
        taken = {
            offering
            for offering, shortage in short.items()
            if is_probed_by_other(shortage, batch_id, now)
        }
        for offering in short.keys() - taken:
            if short[offering].probe_batch_id != batch_id:
                self.rows[offering] = probed(short[offering], batch_id, now)
        return frozenset(taken)

    def forget(self, offerings: Collection[Remembered]) -> None:
        for offering in offerings:
            self.rows.pop(offering, None)


class MemoryPolicy:
    """Implements ``LaunchPolicy``."""

    def __init__(
        self, pools: Collection[NodePool] = (), classes: Collection[NodeClass] = ()
    ) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.classes = {node_class.name: node_class for node_class in classes}
        self.unreadable: set[str] = set()  # names of pools and classes

    def _require_readable(self, *names: str) -> None:
        if self.unreadable.intersection(names):
            raise UnreadableRowsError(names)

    def node_class(self, name: str) -> NodeClass | None:
        self._require_readable(name)
        return self.classes.get(name)

    def node_pool(self, name: str) -> NodePool | None:
        self._require_readable(name)
        return self.pools.get(name)

    def node_classes(self) -> tuple[NodeClass, ...]:
        self._require_readable(*self.classes)
        return tuple(self.classes[name] for name in sorted(self.classes))

    def node_pools_of(self, node_class_name: str) -> tuple[NodePool, ...]:
        found = [
            pool for pool in self.pools.values() if pool.node_class_name == node_class_name
        ]
        return tuple(sorted(found, key=lambda pool: pool.name))

    def save_validation(self, node_class_name: str, validation: Validation) -> None:
        self._require_readable(node_class_name)
        node_class = self.classes[node_class_name]
        status = replace(node_class.status, validation=validation)
        self.classes[node_class_name] = replace(node_class, status=status)

    def block_launches(self, node_class_name: str, reason: str) -> None:
        node_class = self.classes[node_class_name]
        status = replace(node_class.status, launch_blocked_reason=reason)
        self.classes[node_class_name] = replace(node_class, status=status)
