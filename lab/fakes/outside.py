"""What is outside of use cases, in memory."""

import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

from lab.fakes.messaging import MemoryUnpublishedEvents
from lab.fakes.system import InTurn
from reservoir.names import Queue, Table
from reservoir.runtime.outside import Outside
from reservoir.runtime.settings import Settings


def settings(**changes: Any) -> Settings:
    """Return settings of a deployment whose tables and queues are names with nothing behind them."""
    nowhere = ("event_bus", "demand_dead_letter_queue_url", "snapshots_bucket")
    timers = (
        "drain_schedule_group",
        "drain_schedule_role_arn",
        "drain_schedule_target_arn",
        "drain_schedule_dead_letters_arn",
    )
    values: dict[str, Any] = {
        **dict.fromkeys((*nowhere, *timers), ""),
        "tables": {table: f"the-{table.name.lower()}" for table in Table},
        "queue_urls": {
            queue: f"https://sqs.example/{queue.name.lower()}" for queue in Queue
        },
        "deployment": "test",
        "instance_arn_prefix": "arn:aws:ec2:us-east-1:111122223333:instance/",
        "region": "us-east-1",
        "vm_memory_overhead": Fraction(0),
    }
    return Settings(**values | changes)


class _Absent:
    """A part that a world does not have; whoever uses it learns its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        raise AssertionError(
            f"{self._name}.{method} is used, and this world has no {self._name}"
        )


class _MemoryOutside:
    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.__dict__.update(parts)

    def __getattr__(self, name: str) -> Any:
        if name not in vars(Outside):
            raise AttributeError(name)
        return _Absent(name)


def memory_outside(**parts: Any) -> Outside:
    """Return what is outside of use cases, in memory: the parts that a world has, by their names in ``Outside``.

    Each look at the clock takes a second, and what could run side by side runs in turn, unless the world says
    otherwise.
    """
    unknown = parts.keys() - vars(Outside).keys()
    assert not unknown, f"not in the list of what is outside: {sorted(unknown)}"
    usual = {
        "monotonic_s": itertools.count().__next__,
        "executor": InTurn(),
        "unpublished_events": MemoryUnpublishedEvents(),
    }
    return cast("Outside", _MemoryOutside(usual | parts))


def with_parts(outside: Outside, **parts: Any) -> Outside:
    """Return an outside with other parts in place of some."""
    return memory_outside(**(vars(outside) | parts))
