"""The command line's stack on a world in memory; each test adds what its commands use besides."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tests.fakes.stores.state import MemoryDecisions, MemoryNodeClaims, MemoryReservations, MemoryState, MemoryWorkloads
from tests.fakes.system import ManualClock


class _World(Protocol):
    state: MemoryState
    clock: ManualClock


W = TypeVar("W", bound=_World)


@dataclass
class WorldStack(Generic[W]):
    """The part of ``reservoir.stack.connection.Connection`` that any world has: its tables and its clock."""

    world: W

    @property
    def node_claims(self) -> MemoryNodeClaims:
        return self.world.state.node_claims

    @property
    def workloads(self) -> MemoryWorkloads:
        return self.world.state.workloads

    @property
    def reservations(self) -> MemoryReservations:
        return self.world.state.reservations

    @property
    def decisions(self) -> MemoryDecisions:
        return self.world.state.decisions

    @property
    def clock(self) -> ManualClock:
        return self.world.clock
