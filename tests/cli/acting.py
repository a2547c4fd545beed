"""The command line on a world in memory whose functions run while a command waits."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from typer.testing import Result

from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.manifests.answers.operations import OperationRequest, OperationResult
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.system import Sender
from reservoir.runtime.composition.intake import intake_from
from reservoir.runtime.composition.operate import operate_from
from reservoir.usecases.demand.authorise_demand import DemandRules
from tests.cli.world_stack import LaunchWorldStack, invoke

ME = "arn:aws:sts::111122223333:assumed-role/operators/ada"


@dataclass
class DemandInMemory:
    """Implements ``DemandQueue``."""

    bodies: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def send(self, body: str) -> str:
        self.bodies.append(body)
        self.sent.append(body)
        return f"m-{len(self.sent)}"


@dataclass
class Stack(LaunchWorldStack[DisruptWorld]):
    """Implements what acting commands use of ``reservoir.cli.stack.connection.Connection``."""

    demand: DemandInMemory = field(default_factory=DemandInMemory)
    is_stuck: bool = False  # no function runs

    @property
    def policy(self) -> MemoryPolicyStore:
        return self.world.store

    def caller(self) -> str:
        return ME

    def operate(self, request: OperationRequest) -> list[OperationResult]:
        return operate_from(self.world.outside()).run(
            request, Sender(self.caller(), "AROAOPERATORS0000000:ada")
        )

    def pause(self, seconds: float) -> None:
        self.world.clock.advance(seconds=seconds)
        if not self.is_stuck:
            self.work_off()
            self.world.plan_and_launch()

    def work_off(self) -> None:
        bodies, self.demand.bodies[:] = list(self.demand.bodies), []
        for body in bodies:
            message = parse_demand(body)
            assert not isinstance(message, DescribeMessage)
            try:
                intake_from(self.world.outside()).apply(
                    message, DemandRules(frozenset({"gpu"}))
                )
            except ManifestError:
                continue  # put away with its reason: tests/functions/test_intake_handler.py

    def run(self, *arguments: str, given: str | None = None) -> Result:
        return invoke(self, *arguments, given=given)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Everything that was ever sent."""
        return [json.loads(body) for body in self.demand.sent]


@pytest.fixture
def stack() -> Stack:
    return Stack(DisruptWorld("reserved", "on-demand"))


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reservoir.cli.console.can_ask", lambda: True)
