"""Launches: exactly once, and what falls between two lines is found."""

from collections import Counter
from datetime import timedelta
from typing import Any, Final

from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.invariants.base import WAITING, Invariant
from lab.simulation.kernel import MINUTE, SECOND
from lab.simulation.world import World
from reservoir.core.model.node_claim import NodeClaim
from reservoir.names import Function


class NothingIsLaunchedTwice(Invariant):
    """A batch never has more instances alive than claims, and no instance belongs to two claims."""

    points = frozenset({"ec2.launch"})

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        alive = Counter(
            each.batch_id for each in self.world.ec2.live() if each.batch_id is not None
        )
        claims = Counter(claim.batch_id for claim in self.world.state.claim_rows.values())
        forgotten = {
            each.batch_id for each in self.world.ec2.live() if self.world.is_forgotten(each)
        } - claims.keys()
        for batch_id, count in alive.items():
            if count > claims[batch_id] and batch_id not in forgotten:
                self.refute(
                    f"{batch_id} has {claims[batch_id]} claims and {count} instances"
                )

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            isinstance(after, NodeClaim)
            and after.instance_id is not None
            and after.instance_id != getattr(before, "instance_id", None)
        ):
            for other in self.world.state.claim_rows.values():
                if other.instance_id == after.instance_id and other.id != key:
                    self.refute(f"{after.instance_id} belongs to {key} and to {other.id}")


class NoInstanceStaysWithoutAClaim(Invariant):
    """An instance of ours that no claim has is gone half an hour after the collector could first have seen it.

    Not one that restored tables may not know: it runs on until somebody ends it.
    """

    GRACE: Final = 30 * MINUTE

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._since: dict[str, int] = {}

    def ended(self, run: Run) -> None:
        if run.function is not Function.COLLECT or run.outcome != "done":
            return
        claimed = {
            claim.instance_id
            for claim in self.world.state.claim_rows.values()
            if claim.is_live
        }
        now = self.world.kernel.now_us
        loose = {
            each.id
            for each in self.world.ec2.live()
            if each.owner is not None
            and each.id not in claimed
            and not self.world.is_forgotten(each)
        }
        self._since = {key: self._since.get(key, now) for key in sorted(loose)}
        for key, since in self._since.items():
            if now - since > self.GRACE and not any(
                tally.is_shut for tally, _ in self.world.tallies.rows.values()
            ):
                self.refute(f"{key} has had no claim for {(now - since) // SECOND} s")


class TokensStandForOneRequest(Invariant):
    """A client token never comes back with another request."""

    def ended(self, run: Run) -> None:
        if run.function is Function.LAUNCH and self.world.ec2.mismatches:
            self.refute(self.world.ec2.mismatches[0])


class NoClaimWaitsForEver(Invariant):
    """What could not be launched for half an hour has given its replicas and its unit back."""

    def ended(self, run: Run) -> None:
        if run.function is not Function.COLLECT or run.outcome != "done":
            return
        late = self.world.kernel.now() - timedelta(minutes=45)
        for claim in self.world.state.claim_rows.values():
            if (
                claim.state in WAITING
                and not claim.waits_for_slot
                and claim.created_at < late
            ):
                self.refute(f"{claim.id} is {claim.state} since {claim.created_at}")


class FunctionsFailOfAwsAlone(Invariant):
    """A function fails by what AWS answers or by being killed, never by a mistake in the code or in a stand-in."""

    # what Python raises where something is called that is not there, or with other arguments
    _MISTAKES = ("AttributeError", "NameError", "NotImplementedError", "TypeError")

    def ended(self, run: Run) -> None:
        if run.outcome == "failed" and run.error.startswith(self._MISTAKES):
            self.refute(f"{run.function} failed: {run.error}")


class EverythingBacksOff(Invariant):
    """No minute has more launches and passes than work and back-off explain: nothing repeats as fast as it can."""

    MOST: Final = {
        Function.LAUNCH: 60,
        Function.PROVISION: 40,
        Function.REACT: 120,
        Function.DISCOVER_RESERVATIONS: 40,
        Function.RECORD: 120,  # of what all others tell
        Function.FOLLOW: 60,
    }

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._counts: Counter[tuple[Function, int]] = Counter()

    def ended(self, run: Run) -> None:
        place = (run.function, run.began_us // MINUTE)
        self._counts[place] += 1
        if self._counts[place] > self.MOST.get(run.function, 20):
            self.refute(f"{run.function} ran {self._counts[place]} times within a minute")
