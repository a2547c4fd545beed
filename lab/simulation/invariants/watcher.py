"""What must hold after every step, whatever mishaps there were: each has a name, and a sentence that says it."""

from collections.abc import Sequence
from typing import Any, Final

from lab.simulation.aws.bus import Detail
from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.invariants.asking import NothingIsAskedForTooLate, WhatWasShortRests
from lab.simulation.invariants.base import Invariant
from lab.simulation.invariants.demand import (
    EndedClaimsHoldNothing,
    EveryPlacedReplicaIsCounted,
    LimitsAreKept,
    NothingIsPlacedThatNobodyWants,
    PlansKeepTheRules,
    UpdatesLeaveEnoughRunning,
    UpdatesPlaceNoMoreThanTheSurge,
)
from lab.simulation.invariants.launches import (
    EverythingBacksOff,
    FunctionsFailOfAwsAlone,
    NoClaimWaitsForEver,
    NoInstanceStaysWithoutAClaim,
    NothingIsLaunchedTwice,
    TokensStandForOneRequest,
)
from lab.simulation.invariants.lending import NothingPromisedIsLent
from lab.simulation.invariants.lives import (
    BlocksAreDrainedInTime,
    BudgetsAreKept,
    ClaimsOnlyMoveForward,
    EventsTellWhatIsSo,
    NobodyIsEndedBeforeItsDeadline,
    NothingIsPlacedInABlockThatDrains,
    NothingIsTerminatedWithoutIntent,
    WhatEndsByChoicePassesTheEnvelope,
)
from lab.simulation.invariants.operations import (
    CordonedNodesReceiveNothing,
    FinishedIsCountedOnce,
    OperationsAreTold,
    PausedPoolsLaunchNothing,
)
from lab.simulation.invariants.placed import NeighboursMoveNoDrain, NodesHoldWhatRuns
from lab.simulation.invariants.promises import (
    DrainsAreAnnounced,
    EndingsStayWithinBounds,
    UnknownTablesEndNothing,
)
from lab.simulation.invariants.reservations import (
    LeasesEqualWhatTheyStandFor,
    NothingTakenCountsAsFree,
    NoUnitIsPromisedTwice,
    UnitsThatWerePromisedAreThere,
)
from lab.simulation.invariants.standing import StaticPoolsAreNeverTooLarge
from lab.simulation.invariants.teams import (
    BorrowingLimitsAreKept,
    LendingLimitsAreKept,
    ResourceQuotasAreKept,
    TeamBudgetsAreKept,
)
from lab.simulation.invariants.warm import WarmNodesAreFreeUnits
from lab.simulation.world import World

INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    EveryPlacedReplicaIsCounted,
    EndedClaimsHoldNothing,
    NothingIsPlacedThatNobodyWants,
    PlansKeepTheRules,
    LimitsAreKept,
    LeasesEqualWhatTheyStandFor,
    NoUnitIsPromisedTwice,
    NothingTakenCountsAsFree,
    UnitsThatWerePromisedAreThere,
    NothingIsLaunchedTwice,
    NoInstanceStaysWithoutAClaim,
    TokensStandForOneRequest,
    NoClaimWaitsForEver,
    NothingIsAskedForTooLate,
    WhatWasShortRests,
    EverythingBacksOff,
    FunctionsFailOfAwsAlone,
    ClaimsOnlyMoveForward,
    NothingIsPlacedInABlockThatDrains,
    BlocksAreDrainedInTime,
    NobodyIsEndedBeforeItsDeadline,
    WhatEndsByChoicePassesTheEnvelope,
    NothingIsTerminatedWithoutIntent,
    BudgetsAreKept,
    EventsTellWhatIsSo,
    DrainsAreAnnounced,
    EndingsStayWithinBounds,
    UnknownTablesEndNothing,
    CordonedNodesReceiveNothing,
    PausedPoolsLaunchNothing,
    OperationsAreTold,
    FinishedIsCountedOnce,
    BorrowingLimitsAreKept,
    LendingLimitsAreKept,
    TeamBudgetsAreKept,
    ResourceQuotasAreKept,
    NodesHoldWhatRuns,
    NeighboursMoveNoDrain,
    StaticPoolsAreNeverTooLarge,
    WarmNodesAreFreeUnits,
    NothingPromisedIsLent,
    UpdatesPlaceNoMoreThanTheSurge,
    UpdatesLeaveEnoughRunning,
)


class Watcher:
    """Lets all invariants look at a world."""

    def __init__(
        self, world: World, invariants: Sequence[type[Invariant]] = INVARIANTS
    ) -> None:
        is_mixed, is_wrong = world.upgrade.is_made, world.has_wrong_clocks
        self._all = [
            invariant(world)
            for invariant in invariants
            if invariant.concerns(world)
            and not (is_mixed and invariant.of_this_release)
            and not (is_wrong and invariant.by_the_clock)
        ]
        self._by_hook: dict[str, list[Invariant]] = {}
        for hook in ("row_written", "called", "heard", "ended", "holds"):
            self._by_hook[hook] = [each for each in self._all if _looks_at(each, hook)]
        self._by_point: dict[str, list[Invariant]] = {}
        self._changed = False

    def row_written(self, key: str, before: Any, after: Any) -> None:
        """Pass on."""
        self._changed = True
        for each in self._by_hook["row_written"]:
            each.row_written(key, before, after)

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        """Pass on."""
        looking = self._by_point.get(point)
        if looking is None:
            looking = [
                each
                for each in self._by_hook["called"]
                if each.points is None or point in each.points
            ]
            self._by_point[point] = looking
        for each in looking:
            each.called(environment, point, answer)

    def heard(self, detail_type: str, detail: Detail) -> None:
        """Pass on."""
        for each in self._by_hook["heard"]:
            each.heard(detail_type, detail)

    def ended(self, run: Run) -> None:
        """Pass on."""
        for each in self._by_hook["ended"]:
            each.ended(run)

    def after_step(self) -> None:
        """Look at the world if the step changed it."""
        if self._changed:
            self._changed = False
            for each in self._by_hook["holds"]:
                each.holds()


def _looks_at(invariant: Invariant, hook: str) -> bool:
    """Whether its class has a method of its own for what is passed on there."""
    return getattr(type(invariant), hook) is not getattr(Invariant, hook)
