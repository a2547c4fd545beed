"""Two runs of one batch that overlap, because its message came twice: EC2 launches once."""

from dataclasses import replace
from datetime import timedelta

from lab.worlds.launch_world import World, reserved
from reservoir.core.model.node_claim import ClaimState
from reservoir.usecases.launching.launch import ADOPTION_AGE, LaunchReport
from tests.formal.turns import Run, Stopping


class Twice:
    """A batch of one claim in two runs, which stop before each effect on claims, attempts and EC2."""

    def __init__(self) -> None:
        self.world = World()
        self.world.add_reservation(total_count=2, available_count=2)
        self.world.add_workload()
        self.batch = self.world.plan(1, reserved())

    def run(self) -> Run:
        return Run(self.launch)

    def launch(self) -> LaunchReport:
        use_case = self.world.launch()
        claims = Stopping(use_case.claims, {"save", "save_many"})
        stopping = replace(
            use_case,
            claims=claims,
            outcomes=replace(use_case.outcomes, claims=claims),
            attempts=Stopping(use_case.attempts, {"begin", "resolve", "complete"}),
            fleet=Stopping(use_case.fleet, {"launch"}),
        )
        return stopping.run(self.batch)

    def finish(self, run: Run) -> None:
        while run.at is not None:
            run.step(run.at)

    def assert_launched_once(self) -> None:
        (claim,) = self.world.claims()
        assert claim.state is ClaimState.LAUNCHED
        assert [instance.id for instance in self.world.ec2.all()] == [claim.instance_id]
        assert self.world.free_units() == 1


def test_a_claim_that_the_other_run_has_marked_is_not_taken_for_one_that_was_given_back() -> (
    None
):
    twice = Twice()
    one, two = twice.run(), twice.run()
    one.step("begin")
    two.step("begin")
    one.step("save_many")  # and is about to ask EC2
    assert one.at == "launch"

    twice.finish(two)
    twice.finish(one)

    twice.assert_launched_once()


def test_a_run_that_was_overtaken_does_not_close_the_attempt_of_the_other() -> None:
    twice = Twice()
    dead = twice.run()
    dead.step("begin")
    dead.step("save_many")
    dead.die()
    twice.world.clock.advance(seconds=(ADOPTION_AGE + timedelta(seconds=1)).total_seconds())
    # both have found that nothing came of the first attempt
    one, two = twice.run(), twice.run()
    assert one.at == two.at == "resolve"
    two.step("resolve")
    two.step("complete")
    two.step("begin")
    two.step("save_many")
    assert two.at == "launch"

    twice.finish(one)
    twice.finish(two)

    twice.assert_launched_once()
