"""The command line's stack on a world in memory; each test adds what its commands use besides."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from typer.testing import CliRunner, Result

from lab.fakes.messaging import MemoryBus
from lab.fakes.outside import settings
from lab.fakes.stores.launches import MemoryShortageHistory
from lab.fakes.stores.safety import MemoryTableMarks, MemoryTallies
from lab.fakes.stores.state import (
    MemoryDecisions,
    MemoryNodeClaims,
    MemoryOfferings,
    MemoryReservations,
    MemoryState,
    MemoryWorkloads,
)
from lab.fakes.system import ManualClock
from lab.worlds.launch_world import World
from reservoir.cli.app import app
from reservoir.manifests.answers.policy_request import PolicyRequest
from reservoir.manifests.kinds.launch_limits import LaunchLimits
from reservoir.ports.system import Sender
from reservoir.runtime.composition.change_policy import change_policy_from
from reservoir.runtime.settings import Settings

# whom AWS vouches for
CHANGES_POLICY = Sender(
    "arn:aws:sts::111122223333:assumed-role/operators/ada", "AROAOPERATORS0000000:ada"
)


def invoke(
    stack: object, *arguments: str, given: str | None = None, columns: int = 200
) -> Result:
    """Call the command line on a stack, in a plain terminal of so many columns."""
    return CliRunner().invoke(
        app,
        arguments,
        input=given,
        obj=stack,
        env={"COLUMNS": str(columns), "NO_COLOR": "1"},
    )


class OwnOutside:
    """A stack in memory whose own attributes are the parts of ``Outside`` that its commands use."""

    deployment = "test"
    launch_limits = LaunchLimits()
    changes_policy = True

    @property
    def outside(self) -> Any:
        return self

    @property
    def settings(self) -> Settings:
        return settings(deployment=self.deployment, launch_limits=self.launch_limits)

    def change_policy(self, request: PolicyRequest) -> None:
        change_policy_from(self.outside, request, CHANGES_POLICY)


class _World(Protocol):
    state: MemoryState
    clock: ManualClock


W = TypeVar("W", bound=_World)
L = TypeVar("L", bound=World)


@dataclass
class WorldStack(OwnOutside, Generic[W]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that any world has: its tables and its clock."""

    world: W

    @property
    def node_claims(self) -> MemoryNodeClaims:
        return self.world.state.node_claims

    @property
    def workloads(self) -> MemoryWorkloads:
        return self.world.state.workloads

    @property
    def offerings(self) -> MemoryOfferings:
        return self.world.state.offerings

    @property
    def reservations(self) -> MemoryReservations:
        return self.world.state.reservations

    @property
    def decisions(self) -> MemoryDecisions:
        return self.world.state.decisions

    @property
    def shortage_history(self) -> MemoryShortageHistory:
        return self.world.state.shortage_history

    @property
    def clock(self) -> ManualClock:
        return self.world.clock


class LaunchWorldStack(WorldStack[L]):
    """That of a world in which nodes are launched and end: with what bounds endings, and the bus."""

    @property
    def tallies(self) -> MemoryTallies:
        return self.world.tallies

    @property
    def table_marks(self) -> MemoryTableMarks:
        return self.world.marks

    @property
    def publisher(self) -> MemoryBus:
        return self.world.bus
