"""What is outside of use cases, in memory, under the names that the process's adapters have for it."""

import itertools
from concurrent.futures import Executor
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from lab.fakes.system import InTurn
from reservoir.names import Queue, Table
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
        "queue_urls": {queue: f"https://sqs.example/{queue.name.lower()}" for queue in Queue},
        "deployment": "test",
        "instance_arn_prefix": "arn:aws:ec2:us-east-1:111122223333:instance/",
        "region": "us-east-1",
        "vm_memory_overhead": Fraction(0),
    }
    return Settings(**values | changes)


@dataclass(frozen=True)
class Outside:
    """Stands in the place of ``reservoir.runtime.adapters.Adapters``; what a world leaves out, nothing of it uses."""

    settings: Settings
    clock: Any
    ids: Any = None
    pause: Any = None
    monotonic_s: Any = field(default=itertools.count().__next__)  # each look takes a second
    executor: Executor = field(default_factory=InTurn)
    workloads: Any = None
    reservations: Any = None
    node_claims: Any = None
    offerings: Any = None
    policy: Any = None
    principals: Any = None
    launch_policy: Any = None
    decisions: Any = None
    launch_attempts: Any = None
    shortage_history: Any = None
    accounts: Any = None
    boot_failures: Any = None
    tallies: Any = None
    table_marks: Any = None
    queue: Any = None
    publisher: Any = None
    timers: Any = None
    start_messages: Any = None
    reservation_reader: Any = None
    unit_mover: Any = None
    capacity_blocks: Any = None
    launch_environment: Any = None
    instances: Any = None
    fleet: Any = None
    launch_templates: Any = None
    instance_types: Any = None
    prices: Any = None
