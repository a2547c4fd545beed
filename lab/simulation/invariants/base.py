"""What an invariant is: hooks through which it looks at a world, a name, and a sentence."""

from datetime import datetime, timedelta
from typing import Any, Final

from lab.simulation.aws.bus import Detail
from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.aws.tables import LAG_MAX
from lab.simulation.world import World
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_claim import ClaimState, NodeClaim

# Clocks of functions are up to two seconds off, in either direction.
CLOCKS_APART: Final = timedelta(seconds=4)
WAITING: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING})
STEADY: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})


class Violation(BaseException):
    """An invariant does not hold. Not an Exception: nothing in the product can catch it."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name
        self.what = what


class Invariant:
    """One of them; the first line of its docstring is its sentence."""

    # it is about what the release before did not know, and wrote away
    of_this_release = False
    by_the_clock = False  # it cannot hold where the clocks of functions are minutes apart
    points: frozenset[str] | None = None  # the calls that it looks at; None: all

    def __init__(self, world: World) -> None:
        self.world = world

    @classmethod
    def concerns(cls, world: World) -> bool:
        """Whether a world has what it is about."""
        del world
        return True

    @classmethod
    def name(cls) -> str:
        """Return its name."""
        return cls.__name__

    @classmethod
    def sentence(cls) -> str:
        """Return what it says."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    def refute(self, what: str) -> None:
        """Say how it does not hold."""
        raise Violation(self.name(), what)

    def row_written(self, key: str, before: Any, after: Any) -> None:
        """Look at a row that was written."""

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        """Look at a call that had its effect."""

    def heard(self, detail_type: str, detail: Detail) -> None:
        """Look at an event that was published."""

    def ended(self, run: Run) -> None:
        """Look at a run that is over."""

    def holds(self) -> None:
        """Look at the world after a step that changed it."""


class OfCommits(Invariant):
    """Looks at commits of plans, with what their pass could know: its listing of claims is older than its commit."""

    points: frozenset[str] | None = frozenset(
        {"node_claims.list_live", "node_claims.commit"}
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._listed_us: dict[int, int] = {}  # by environment
        # when the pass that committed last had listed claims
        self._known_us: int | None = None
        self.committer = 0  # the environment of that pass

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if point == "node_claims.list_live":
            self._listed_us[environment.number] = self.world.kernel.now_us
        elif point == "node_claims.commit":
            self._known_us = self._listed_us.get(environment.number)
            self.committer = environment.number

    def shown_since_us(self) -> int:
        """Return the instant whose changes the last pass knew, however far an index lagged behind."""
        return (
            self.world.kernel.now_us if self._known_us is None else self._known_us
        ) - LAG_MAX


def replica_count(claim: NodeClaim | None) -> int:
    """Return how many replicas are on a claim."""
    return 0 if claim is None else sum(placed.count for placed in claim.placements)


def drain_start(reservation: CapacityReservation) -> datetime | None:
    """Return when the promise says that a block is drained from: 40 minutes before its end."""
    if reservation.kind is not ReservationKind.CAPACITY_BLOCK or reservation.end_at is None:
        return None
    return reservation.end_at - timedelta(minutes=40)
