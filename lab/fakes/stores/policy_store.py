"""The policy port in memory, with the same conditions as the table."""

import copy
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from reservoir.ports.policy import (
    CHANGES_MAX,
    DeletePolicy,
    Pause,
    PolicyKind,
    PolicyObject,
    PolicyStatus,
    PolicyWrite,
)
from reservoir.ports.state import ConflictError, UnreadableRowsError


class MemoryPolicyStore:
    """Implements ``PolicyStore``. ``before_commit`` runs before each commit: tests change the world or crash there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[tuple[PolicyKind, str], PolicyObject] = {}
        # the last of each, of deleted objects too
        self._revisions: dict[tuple[PolicyKind, str], int] = {}
        # what a newer release wrote, or what was damaged
        self.unreadable: set[tuple[PolicyKind, str]] = set()
        self.before_commit: Callable[[], None] = lambda: None
        self.commit_count = 0

    def list_all(self) -> tuple[PolicyObject, ...]:
        with self._lock:
            return tuple(
                PolicyObject(*key, {}, 0, 0, is_readable=False)
                if key in self.unreadable
                else copy.deepcopy(self._rows[key])
                for key in sorted(self._rows)
            )

    def get(self, kind: PolicyKind, name: str) -> PolicyObject | None:
        with self._lock:
            if (kind, name) in self.unreadable:
                raise UnreadableRowsError([f"{kind}/{name}"])
            return copy.deepcopy(self._rows.get((kind, name)))

    def commit(self, writes: Sequence[PolicyWrite]) -> None:
        assert len(writes) <= CHANGES_MAX, "one transaction"
        self.before_commit()
        with self._lock:
            moved = [
                f"{write.kind}/{write.name}"
                for write in writes
                if self._revision(write) != write.expected_revision
            ]
            if moved:
                raise ConflictError(moved)
            for write in writes:
                self._apply(write)
            self.commit_count += 1

    def _revision(self, write: PolicyWrite) -> int | None:
        row = self._rows.get((write.kind, write.name))
        return None if row is None else row.revision

    def _apply(self, write: PolicyWrite) -> None:
        key = (write.kind, write.name)
        self._revisions[key] = self._revisions.get(key, 0) + 1
        if isinstance(write, DeletePolicy):
            del self._rows[key]
            return
        row = self._rows.get(key)
        self._rows[key] = PolicyObject(
            kind=write.kind,
            name=write.name,
            # as a table would give it back
            manifest=json.loads(json.dumps(write.manifest, sort_keys=True)),
            generation=write.generation,
            revision=self._revisions[key],
            status=write.status or (PolicyStatus() if row is None else row.status),
            pause=Pause() if row is None else row.pause,
        )

    def save_pause(self, name: str, pause: Pause, *, expected: Pause) -> None:
        with self._lock:
            row = self._rows.get((PolicyKind.NODE_POOL, name))
            if row is None or row.pause != expected:
                raise ConflictError([f"{PolicyKind.NODE_POOL}/{name}"])
            self._rows[(PolicyKind.NODE_POOL, name)] = replace(row, pause=pause)

    def save_status(self, kind: PolicyKind, name: str, status: PolicyStatus) -> bool:
        with self._lock:
            row = self._rows.get((kind, name))
            if row is None or row.status == status:
                return False
            self._rows[(kind, name)] = replace(row, status=status)
            return True
