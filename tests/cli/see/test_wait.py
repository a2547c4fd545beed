"""``reservoir wait`` and ``reservoir apply --wait``, with the functions at work while they wait."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.worlds.policies import node_class, pool
from reservoir.core.model.conditions import Condition, ConditionStatus, ConditionType
from reservoir.names import Function
from reservoir.ports.policy import PolicyKind, PolicyStatus
from tests.cli.acting import Stack, stack
from tests.cli.policy.test_policy_commands import Stack as PolicyStack
from tests.cli.world_stack import invoke

__all__ = ["stack"]


def test_a_workload_is_waited_for_until_it_is_placed(stack: Stack) -> None:
    stack.world.add_reservation("cr-1", total_count=1)
    stack.world.submit("train", gpus=8)
    result = stack.run("wait", "workload/research/train", "--for", "state=placed")
    assert (result.exit_code, result.stdout) == (
        0,
        "workload/research/train is placed\n",
    ), result.stderr


def test_what_does_not_come_in_time_says_how_it_is(stack: Stack) -> None:
    stack.world.submit("huge", gpus=9)
    result = stack.run(
        "wait", "workload", "research/huge", "--for", "state=placed", "--timeout", "5s"
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "workload/research/huge: the time is up: it is waiting\n"


def test_a_condition_is_not_waited_for_where_there_are_none(stack: Stack) -> None:
    stack.world.submit("huge", gpus=9)
    before = stack.clock.now()
    result = stack.run("wait", "workload", "research/huge")
    assert (result.exit_code, stack.clock.now()) == (2, before)
    assert result.stderr.startswith(
        "workloads have no conditions: wait --for state=STATE, one of leaving, partial,"
    )


def test_a_node_is_waited_for_until_it_is_gone(stack: Stack) -> None:
    stack.world.add_reservation("cr-1", total_count=1)
    stack.world.submit("train", gpus=8)
    stack.world.minutes(2)
    (claim,) = stack.world.live()
    assert (
        stack.run("wait", f"node/{claim.id}", "--for=delete", "--timeout=3s").exit_code == 1
    )
    gone = stack.run("wait", "node/nc-gone", "--for=delete")
    assert (gone.exit_code, gone.stdout) == (0, "node/nc-gone is gone\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workloads", "--for=state=placed"), "name what to wait for"),
        (("workload/a/b", "--for=ready"), "'ready' cannot be waited for"),
        (
            ("workload/a/b", "--for=state=plced"),
            "workloads are never 'plced'; did you mean placed?",
        ),
        (("workload/a/b", "--for=state=placed"), "workload/a/b does not exist"),
    ],
)
def test_what_cannot_come_is_refused_at_once(
    stack: Stack, arguments: tuple[str, ...], said: str
) -> None:
    before = stack.clock.now()
    result = stack.run("wait", *arguments)
    assert (result.exit_code, said in result.stderr, stack.clock.now()) == (
        2,
        True,
        before,
    ), result.stderr


@dataclass
class Applying(PolicyStack):
    """A stack in memory in which things happen, one a second, while a command waits."""

    now: Any = None
    happens: list[Callable[[], object]] = field(default_factory=list)
    looked_at: datetime | None = None

    def __post_init__(self) -> None:
        self.now = super().clock

    @property
    def clock(self) -> Any:
        return self.now

    @property
    def passes(self) -> "Applying":
        return self

    def last(self, function: Function) -> datetime | None:
        assert function is Function.DISCOVER_RESERVATIONS
        return self.looked_at

    def pause(self, seconds: float) -> None:
        self.now.advance(seconds=seconds)
        if self.happens:
            self.happens.pop(0)()

    def find(
        self, kind: PolicyKind, name: str, status: ConditionStatus, message: str = ""
    ) -> None:
        ready = Condition(ConditionType.READY, status, "NoneFound", message, self.now.now())
        self.policy.save_status(kind, name, PolicyStatus((ready,)))

    def look(self, after: timedelta = timedelta()) -> None:
        self.looked_at = self.now.now() + after


def test_apply_waits_until_all_of_it_is_ready() -> None:
    stack = Applying()
    stack.happens = [
        lambda: stack.find(PolicyKind.NODE_CLASS, "c", ConditionStatus.TRUE),
        lambda: stack.find(PolicyKind.NODE_POOL, "p", ConditionStatus.TRUE),
    ]
    result = invoke(
        stack, "apply", "--wait", "-f", "-", given=node_class() + "---" + pool()
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "ec2nodeclass/c created",
        "nodepool/p created",
        "ec2nodeclass/c is Ready",
        "nodepool/p is Ready",
    ]


def test_apply_says_what_a_class_lacks_when_the_time_is_up() -> None:
    stack = Applying()
    lack = "AMIsReady: the terms select no machine image"
    stack.happens = [
        lambda: stack.find(PolicyKind.NODE_CLASS, "c", ConditionStatus.FALSE, lack)
    ]
    result = invoke(
        stack, "apply", "--wait", "--timeout", "5s", "-f", "-", given=node_class()
    )
    assert (result.exit_code, result.stderr) == (
        1,
        f"ec2nodeclass/c: the time is up: Ready is False ({lack})\n",
    )


def test_what_was_ready_before_an_update_is_not_taken_for_ready_after_it() -> None:
    stack = Applying()
    invoke(stack, "apply", "-f", "-", given=node_class())
    stack.find(PolicyKind.NODE_CLASS, "c", ConditionStatus.TRUE)
    changed = node_class(image="other-*")
    blind = invoke(stack, "apply", "--wait", "--timeout", "5s", "-f", "-", given=changed)
    assert (
        blind.exit_code,
        "discovery has not read the applied objects yet" in blind.stderr,
    ) == (1, True)
    stack.happens = [lambda: stack.look(), lambda: stack.look(after=timedelta(minutes=1))]
    again = invoke(stack, "apply", "--wait", "-f", "-", given=node_class())
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (
        0,
        "ec2nodeclass/c is Ready",
    ), again.stderr
    assert stack.happens == []
