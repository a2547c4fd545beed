"""``reservoir doctor``: what is wrong is found, and says what to do; what is right is not."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import format_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import Result

from shared.manifests.kinds.launch_limits import LaunchLimits
from shared.manifests.operations import OperationRequest, Verb
from shared.usecases.provisioning.gather_snapshot import SnapshotGatherer
from tests.fakes.messaging import MemoryBus
from tests.fakes.safety import MemoryTableMarks, MemoryTallies
from tests.fakes.state import MemoryReservations
from tests.reservoir.acting import Stack
from tests.usecases.disrupt_world import DisruptWorld
from tests.usecases.launch_world import DEPLOYMENT

ALARM = {"AlarmName": "Reservoir-x", "StateValue": "OK", "AlarmActions": ["arn:topic"]}


@dataclass
class Queue:
    """A dead-letter queue with a number of letters."""

    name: str
    letters: int

    def count(self) -> int:
        return self.letters


@dataclass
class Aws:
    """A client of every service that the doctor asks."""

    world: DisruptWorld
    alarms: list[dict[str, Any]] = field(default_factory=lambda: [ALARM])
    rules: list[dict[str, Any]] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    late_s: int = 0

    def get_paginator(self, operation: str) -> "Pages":
        if operation in self.denied:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, operation)
        return Pages({"MetricAlarms": self.alarms, "Rules": self.rules})

    def get_caller_identity(self) -> dict[str, Any]:
        at = self.world.clock.now().replace(microsecond=0)
        self.world.clock.advance(seconds=self.late_s)
        return {"ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(at, usegmt=True)}}}


@dataclass
class Pages:
    page: dict[str, Any]

    def paginate(self, **_: object) -> Iterator[dict[str, Any]]:
        yield self.page


@dataclass
class Patient(Stack):
    """What the doctor examines."""

    aws: Any = None
    deployment: str = DEPLOYMENT
    launch_limits: LaunchLimits = field(default_factory=LaunchLimits)
    letters: dict[str, int] = field(default_factory=dict)

    @property
    def dead_letter_queues(self) -> Mapping[str, Queue]:
        return {name: Queue(name, count) for name, count in self.letters.items()}

    @property
    def snapshots(self) -> SnapshotGatherer:
        return self.world.gatherer()

    @property
    def reservations(self) -> MemoryReservations:
        return self.world.state.reservations

    @property
    def tallies(self) -> MemoryTallies:
        return self.world.tallies

    @property
    def table_marks(self) -> MemoryTableMarks:
        return self.world.marks

    @property
    def publisher(self) -> MemoryBus:
        return self.world.bus

    def client(self, _: str) -> Aws:
        aws: Aws = self.aws
        return aws

    def findings(self) -> list[tuple[str, str, str]]:
        """Severity, check and message of each finding."""
        items = json.loads(self.run("doctor", "-o", "json").stdout)["items"]
        return [(it["status"]["severity"], it["metadata"]["name"], it["status"]["message"]) for it in items]


@pytest.fixture
def patient() -> Patient:
    """A deployment with a reservation, of which nothing is wrong."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.minutes(1)
    return Patient(world, aws=Aws(world))


def only(patient: Patient) -> tuple[str, str, str]:
    (finding,) = patient.findings()
    return finding


def test_a_deployment_of_which_nothing_is_wrong(patient: Patient) -> None:
    result: Result = patient.run("doctor")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing is wrong: 10 checks\n")


def test_a_reservation_that_no_class_selects(patient: Patient) -> None:
    patient.world.select()
    assert only(patient) == ("warning", "reservations", "no EC2NodeClass selects cr-1: 1 x p5.48xlarge")


def test_tables_that_are_not_known_to_be_whole_are_an_error(patient: Patient) -> None:
    patient.world.marks.empty("NodeClaims")
    assert patient.findings()[0][:2] == ("error", "tables")
    assert patient.run("doctor").exit_code == 1


def test_a_paused_pool_is_a_hint_that_says_who(patient: Patient) -> None:
    patient.operate(OperationRequest(verb=Verb.PAUSE, names=["gpu"], reason="OPS-8"))
    severity, check, message = only(patient)
    assert (severity, check) == ("hint", "policy")
    assert message.startswith("NodePool/gpu is paused by ")
    assert patient.run("doctor").exit_code == 0


def test_a_pool_that_can_never_launch(patient: Patient) -> None:
    patient.world.apply({**patient.world.store.list_all()[-1].manifest, "metadata": {"name": "lost"}})
    stored = next(each for each in patient.world.store.list_all() if each.name == "lost")
    template = stored.manifest["spec"]["template"]
    reference = {**template["spec"]["nodeClassRef"], "name": "gone"}
    spec = {
        **stored.manifest["spec"],
        "template": {**template, "spec": {**template["spec"], "nodeClassRef": reference}},
    }
    patient.world.apply({**stored.manifest, "spec": spec})
    error, warning = patient.findings()
    assert error == ("error", "pools", "NodePool/lost can never launch anything: there is no EC2NodeClass gone")
    assert warning[:2] == ("warning", "policy")
    assert warning[2].startswith("NodePool/lost: ")
    assert patient.run("doctor").exit_code == 1


def test_letters_alarms_and_rules(patient: Patient) -> None:
    patient.letters = {"demand": 2, "launches": 0}
    patient.aws.alarms = [ALARM, {**ALARM, "StateValue": "ALARM"}, {**ALARM, "AlarmActions": []}]
    patient.aws.rules = [{"Name": "Reservoir-r", "State": "DISABLED"}, {"Name": "Reservoir-s", "State": "ENABLED"}]
    assert patient.findings() == [
        ("error", "alarms", "Reservoir-x has gone off: "),
        ("error", "schedules", "Reservoir-r is disabled"),
        ("warning", "alarms", "1 of 3 alarms tell nobody"),
        ("warning", "dead-letters", "demand: 2 messages were given up"),
    ]


def test_a_clock_that_is_late(patient: Patient) -> None:
    patient.aws.late_s = 90
    assert only(patient)[:2] == ("error", "clock")


def test_what_may_not_be_looked_at_is_said_to_be_skipped(patient: Patient) -> None:
    patient.aws.denied = {"list_rules"}
    severity, check, message = only(patient)
    assert (severity, check) == ("skipped", "schedules")
    assert message.startswith("not looked at: ")
    result = patient.run("doctor")
    assert result.exit_code == 0
    assert result.stderr == "9 of 10 checks were made\n"
