"""A step that does not come about: a broken rule, or a machine that cannot keep up; the two are never mixed up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from lab.demo.errors import NotReachedError, TooSlowError
from lab.demo.nodes import Nodes
from lab.demo.observer import Observed, Observer
from lab.demo.scenario import PACE, REAL_LIMIT_S, STEP_LIMIT, Story
from lab.demo.workload_system import WorkloadSystem
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.example import Titles
from tests.demo.support import START


@dataclass
class Machine:
    """A world in which nothing happens but time: ``real_s`` real seconds pass whenever the clock is moved."""

    real_s: float
    happens_after: timedelta = timedelta(days=1)
    seen: Observed = field(default_factory=lambda: Observed(now=START))
    passed_s: float = 0.0

    def look(self) -> Observed:
        return self.seen

    def advance(self, step: timedelta) -> None:
        self.passed_s += self.real_s
        assert self.seen.now is not None
        self.seen.now += step
        if self.seen.now >= START + self.happens_after:
            self.seen.counts["Launch Failed"] = 1

    def monotonic(self) -> float:
        return self.passed_s

    @property
    def clock(self) -> "Machine":
        return self


def story(machine: Machine) -> Story:
    def show(seen: Observed, step: str, wanted: Mapping[str, int]) -> None:
        del seen, step, wanted

    return Story(
        aws=cast("EmbeddedAws", machine),
        observer=cast("Observer", machine),
        titles=Titles({}),
        workload_system=WorkloadSystem(sqs=None, demand_queue_url=""),
        show=show,
        monotonic=machine.monotonic,
        nodes=Nodes(Path()),
        sleep=lambda _: None,
        step="a step",
    )


def wait(machine: Machine) -> None:
    story(machine)._until("the launch fails", lambda seen: seen.counts["Launch Failed"] > 0)


def test_what_does_not_happen_in_its_emulated_time_breaks_a_rule() -> None:
    machine = Machine(real_s=0.1)
    with pytest.raises(
        NotReachedError,
        match="a step: not within 0:10:00 of emulated time: the launch fails",
    ):
        wait(machine)
    assert machine.seen.now == START + STEP_LIMIT


def test_a_machine_on_which_emulated_time_hardly_passes_could_not_keep_up() -> None:
    with pytest.raises(
        TooSlowError, match="a step: not within 300 real seconds: the launch fails"
    ):
        wait(Machine(real_s=10))


@pytest.mark.parametrize("real_s", [0.001, 0.9 * REAL_LIMIT_S * PACE / STEP_LIMIT])
def test_what_happens_in_time_is_neither_however_slow_the_machine(real_s: float) -> None:
    machine = Machine(real_s, happens_after=STEP_LIMIT)
    wait(machine)
    assert machine.seen.now == START + STEP_LIMIT


@dataclass
class Queue:
    """A queue that remembers what was sent."""

    bodies: list[str] = field(default_factory=list)

    def send_message(self, **request: Any) -> None:
        self.bodies.append(request["MessageBody"])


def drain(claim_id: str) -> dict[str, Any]:
    return {
        "node": {"nodeClaim": claim_id},
        "workloads": [{"namespace": "ci", "name": "runners", "replicas": 2}],
    }


def test_a_notice_that_a_node_answers_itself_is_left_to_it() -> None:
    queue = Queue()
    system = WorkloadSystem(queue, "demand", answered_by_nodes={"ci/runners"})
    system.answer(Observed(drains={"nc-one": drain("nc-one")}))
    assert queue.bodies == []


def test_every_notice_is_answered_once_but_that_of_the_silent_node() -> None:
    queue = Queue()
    system = WorkloadSystem(queue, "demand", silent={"nc-hung"})
    seen = Observed(drains={"nc-one": drain("nc-one"), "nc-hung": drain("nc-hung")})
    system.answer(seen)
    system.answer(seen)
    assert queue.bodies == [
        '{"action": "release", "workload": {"metadata": {"namespace": "ci", "name": "runners"}}, "nodeClaim": "nc-one"}'
    ]
