"""What is outside one execution environment: stand-ins that all environments share, behind points where it may die."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, cast

from lab.fakes.ec2 import FakeTemplates
from lab.fakes.system import InTurn
from lab.simulation.aws.lambdas import Environment, Port
from lab.simulation.old_release import behind_old
from reservoir.adapters.eventbridge import EventBridgePublisher, SqsUnpublishedEvents
from reservoir.adapters.scheduler_timers import SchedulerDrainTimers
from reservoir.adapters.sqs import (
    SqsDeadLetters,
    SqsEndings,
    SqsRedelivery,
    SqsStartMessages,
    SqsWorkQueue,
)
from reservoir.names import Queue, Table
from reservoir.runtime.composition.parts.outside import Process
from reservoir.runtime.outside import Outside
from reservoir.runtime.settings import Settings
from reservoir.usecases.policy.stored_policy import StoredPolicy

DEPLOYMENT: Final = "simulation"
REJECTED: Final = "rejected"  # the queue of what nobody could read
UNPUBLISHED: Final = "unpublished"  # the queue of what the outbound bus refused
SETTINGS: Final = Settings(
    tables=dict.fromkeys(Table, ""),
    queue_urls={queue: queue.name for queue in Queue},
    event_bus="reservoir",
    demand_dead_letter_queue_url=REJECTED,
    snapshots_bucket="",
    drain_schedule_group="drain",
    drain_schedule_role_arn="role",
    drain_schedule_target_arn="expire",
    drain_schedule_dead_letters_arn="undelivered",
    unpublished_events_queue_url=UNPUBLISHED,
    deployment=DEPLOYMENT,
    instance_arn_prefix="arn:aws:ec2:us-east-1:111122223333:instance/",
    region="us-east-1",
    vm_memory_overhead=Fraction(0),
)


class SimulatedOutside:
    """Implements ``reservoir.runtime.outside.Outside``, attribute by attribute.

    ``behind`` are the stand-ins that all environments share, by their names in ``Outside``, and the clients that stand
    for boto3's: the adapters of queues, of the bus and of timers are the real ones, over those.
    """

    def __init__(self, environment: Environment, behind: Mapping[str, Any]) -> None:
        self._environment = environment
        self._behind = behind
        self.settings = behind["settings"]
        self.clock = environment
        self.monotonic_s = environment.monotonic_s
        self.pause = environment.pause
        self.ids = behind["ids"]
        self.executor = InTurn()
        self.identities = behind["identities"]
        # without mishaps: it may lag anyway, and bounds nothing exactly
        self.demand_census = behind["demand_census"]
        sqs = self._port("sqs")
        urls = SETTINGS.queue_urls
        self.queue = SqsWorkQueue(
            sqs,
            planning_url=urls[Queue.PLANNING],
            launches_url=urls[Queue.LAUNCHES],
            ids=self.ids,
        )
        self.dead_letters = SqsDeadLetters(sqs, REJECTED)
        self.reactions = SqsRedelivery(sqs, urls[Queue.REACTIONS])
        self.start_messages = SqsStartMessages(
            sqs, urls[Queue.REACTIONS], environment, lambda _id, _error: None
        )
        self.endings = SqsEndings(sqs, urls[Queue.REACTIONS], environment)
        self.unpublished_events = SqsUnpublishedEvents(
            sqs, UNPUBLISHED, self._port("events"), lambda _error: None
        )
        self.publisher = EventBridgePublisher(
            self._port("events"), SETTINGS.event_bus, unpublished=self.unpublished_events
        )
        self.timers = SchedulerDrainTimers(
            self._port("scheduler"),
            group="drain",
            role_arn="role",
            target_arn="expire",
            dead_letters_arn="undelivered",
            clock=environment,
            on_refusal=lambda _name, _error: None,
        )
        self.launch_policy = StoredPolicy(self._port("policy"), environment)
        ec2 = self._port("ec2")
        self.fleet = self.instances = self.reservation_reader = ec2
        self.launch_templates = FakeTemplates(ec2)  # a warm process remembers what it made

    def __getattr__(self, name: str) -> Any:
        return self._port(name)

    def _port(self, name: str) -> Any:
        port = Port(name, self._behind[name], self._environment)
        self.__dict__[name] = port
        return port


def process_of(environment: Environment, behind: Mapping[str, Any]) -> Process:
    """Return the process of an environment."""
    behind = behind_old(behind) if environment.is_old else behind
    return Process(cast("Outside", SimulatedOutside(environment, behind)))
