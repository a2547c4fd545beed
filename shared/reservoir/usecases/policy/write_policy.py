"""Write changes of policy in the caller's name, and publish them: the author, and each field before and after."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reservoir.manifests.events import (
    Change,
    ChangedObject,
    PolicyChanged,
    PolicyFieldChange,
)
from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.ports.policy import DeletePolicy, PolicyStore, PolicyWrite, PutPolicy
from reservoir.usecases.policy.apply_policy import PolicyChange

# So many fields of one event fit an entry of EventBridge (256 KB) however long each is.
_MOST_FIELDS: Final = 200
_LONGEST_TEXT: Final = 200
# User data may hold secrets, and people who may read the history may not be allowed to read policy.
_WITHHELD: Final = frozenset({"spec.userData"})
_NOT_SHOWN: Final = "(not shown)"


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Writes, wakes the planner, and publishes. ``by``: who changes policy, as AWS knows them."""

    store: PolicyStore
    queue: WorkQueue
    publisher: EventPublisher
    by: str

    def change(self, changes: Sequence[PolicyChange]) -> None:
        """Write them all, or none. Raises ConflictError and AwsError."""
        for change in changes:
            if change.change is Change.UNCHANGED and change.status is not None:
                self.store.save_status(change.kind, change.name, change.status)
        effective = [each for each in changes if each.change is not Change.UNCHANGED]
        if effective:
            self.store.commit([_write(change) for change in effective])
            self.queue.wake_planner(reason="policy changed")
            self.publisher.publish([self._event(effective)])

    def _event(self, changes: Iterable[PolicyChange]) -> PolicyChanged:
        left = _MOST_FIELDS
        told: list[ChangedObject] = []
        for change in changes:
            fields = list(_changed_fields(change.before, change.after))
            shown = fields[:left]
            left -= len(shown)
            told.append(
                ChangedObject(
                    kind=change.kind,
                    name=change.name,
                    change=change.change,
                    generation=change.generation,
                    fields=shown,
                    fields_left_out=len(fields) - len(shown),
                )
            )
        return PolicyChanged(by=self.by, changes=told)


def _write(change: PolicyChange) -> PolicyWrite:
    if change.after is None:
        return DeletePolicy(change.kind, change.name, change.revision or 0)
    return PutPolicy(
        change.kind,
        change.name,
        change.after,
        change.generation,
        change.revision,
        change.status,
    )


def _changed_fields(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[PolicyFieldChange]:
    old, new = dict(_leaves(before or {})), dict(_leaves(after or {}))
    for path in sorted({*old, *new}):
        was, is_now = old.get(path), new.get(path)
        if was != is_now:
            yield PolicyFieldChange(
                path=path, before=_shown(path, was), after=_shown(path, is_now)
            )


def _leaves(value: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of an object by path, each as JSON; a list is one value."""
    for name, part in value.items():
        path = f"{within}.{name}" if within else name
        if isinstance(part, Mapping) and part:
            yield from _leaves(part, path)
        else:
            yield path, json.dumps(part, sort_keys=True)


def _shown(path: str, text: str | None) -> str | None:
    if text is None:
        return None
    if path in _WITHHELD:
        return _NOT_SHOWN
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
