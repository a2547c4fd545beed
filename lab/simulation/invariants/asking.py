"""What EC2 is asked for: nothing too late, and not again at once what it had nothing of."""

from datetime import timedelta
from typing import Any, Final

from infra.config import FUNCTIONS
from lab.simulation.aws.lambdas import Environment
from lab.simulation.invariants.base import CLOCKS_APART, Invariant, drain_start
from lab.simulation.kernel import MINUTE, SECOND
from lab.simulation.world import World
from reservoir.core.launching.launch_outcome import LaunchErrorKind, LaunchOutcome
from reservoir.core.model.plan import OfferingKey
from reservoir.names import Function


class NothingIsAskedForTooLate(Invariant):
    """No launch begins a quarter of an hour after its plan, nor of a unit in a block whose drain has begun."""

    by_the_clock = True
    points = frozenset({"launch_attempts.begin"})
    DEADLINE: Final = timedelta(minutes=15)
    # From a look at the clock to the record of what EC2 shall be asked for, in the slowest run there can be.
    SLACK: Final = timedelta(seconds=FUNCTIONS[Function.LAUNCH].timeout_s) + CLOCKS_APART

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        looked_at, target = self.world.kernel.now() - self.SLACK, answer.request.target
        for claim_id in answer.claim_ids:
            claim = self.world.state.claim_rows.get(claim_id)
            if claim is not None and looked_at - claim.created_at > self.DEADLINE:
                self.refute(
                    f"{claim_id} was planned at {claim.created_at}, and EC2 shall be asked for it now"
                )
        drain_at = (
            None
            if target is None
            else drain_start(self.world.ec2.reservations[target.reservation_id])
        )
        if drain_at is not None and looked_at > drain_at:
            self.refute(
                f"{target.reservation_id} drains since {drain_at}, and EC2 shall be asked for a unit of it now"
            )


class WhatWasShortRests(Invariant):
    """Once a launch has noted that EC2 has nothing of an offering, none that begins later asks for it at once again."""

    by_the_clock = True
    points = frozenset({"ec2.launch", "launch_attempts.complete", "launch_attempts.begin"})
    RESTS_US: Final = 3 * MINUTE - 2 * int(CLOCKS_APART.total_seconds()) * SECOND

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._asked_count = 0
        # when, by the run that was told so
        self._refused: dict[int, dict[OfferingKey, int]] = {}
        # when EC2 said so, and when all of that was noted
        self._noted: dict[OfferingKey, tuple[int, int]] = {}

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        run, now = environment.run, self.world.kernel.now_us
        if run is None:
            return
        if point == "ec2.launch":
            self._refused.setdefault(run.number, {}).update(
                dict.fromkeys(self._short(answer), now)
            )
        elif point == "launch_attempts.complete":
            for offering, refused_us in self._refused.pop(run.number, {}).items():
                self._noted[offering] = (refused_us, now)
        elif point == "launch_attempts.begin":
            for offering in answer.request.offerings:
                refused_us, noted_us = self._noted.get(offering, (-self.RESTS_US, now))
                if noted_us < run.began_us and now - refused_us < self.RESTS_US:
                    self.refute(
                        f"EC2 had no {offering} {(now - refused_us) // SECOND} s ago, and is asked for it again"
                    )

    def _short(self, outcome: LaunchOutcome) -> set[OfferingKey]:
        """Return the offerings of which EC2 had nothing; none where it only answers once more."""
        calls = self.world.ec2.launch_calls
        if len(calls) == self._asked_count:
            return set()
        request, self._asked_count = calls[-1], len(calls)
        short = {
            (error.instance_type, error.zone_id)
            for error in outcome.errors
            if error.kind is LaunchErrorKind.INSUFFICIENT_CAPACITY
        }
        return {
            each
            for each in request.offerings
            if (each.instance_type, each.zone_id) in short
        }
