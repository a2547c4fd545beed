"""Which policy objects launch nothing now, and why, as discovery left their conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from reservoir.core.model.conditions import ConditionStatus, ConditionType
from reservoir.ports.policy import PolicyKind, PolicyObject
from reservoir.usecases.policy.policy_objects import paused_text

UNREADABLE = "it cannot be read: a newer release wrote it, or it was damaged"


@dataclass(frozen=True, slots=True)
class NotLaunching:
    """A class, or a paused pool, and why nothing is launched of it."""

    kind: PolicyKind
    name: str
    why: str


def not_launching(objects: Sequence[PolicyObject]) -> tuple[NotLaunching, ...]:
    """Return the classes that are not ready and the pools that are paused, by kind and name."""
    found = chain.from_iterable(map(_found, objects))
    return tuple(sorted(found, key=lambda each: (each.kind, each.name)))


def _found(item: PolicyObject) -> Iterator[NotLaunching]:
    if item.kind is PolicyKind.NODE_CLASS:
        ready = next(
            (each for each in item.status.conditions if each.type is ConditionType.READY),
            None,
        )
        if ready is not None and ready.status is ConditionStatus.FALSE:
            yield NotLaunching(item.kind, item.name, ready.message)
        elif not item.is_readable:
            yield NotLaunching(item.kind, item.name, UNREADABLE)
    elif item.kind is PolicyKind.NODE_POOL:
        paused = paused_text(item.pause)
        if paused is not None:
            yield NotLaunching(item.kind, item.name, f"is paused {paused}")


def refused_dry_runs(objects: Sequence[PolicyObject]) -> tuple[NotLaunching, ...]:
    """Return the classes whose launches EC2 would refuse, by name, according to the last dry run."""
    found = []
    for item in objects:
        said = next(
            (
                each
                for each in item.status.conditions
                if each.type is ConditionType.VALIDATION_SUCCEEDED
            ),
            None,
        )
        if said is not None and said.status is ConditionStatus.FALSE:
            found.append(NotLaunching(item.kind, item.name, said.message))
    return tuple(sorted(found, key=lambda each: (each.kind, each.name)))
