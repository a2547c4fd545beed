"""``reservoir envelope`` and ``reservoir tables`` on a world in memory."""

import pytest
from typer.testing import Result

from lab.fakes.ec2 import FakeEc2
from lab.fakes.outside import with_parts
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.worlds.launch_world import DEPLOYMENT, World, on_demand
from reservoir.core.safety.endings import EndingKind
from reservoir.manifests.answers.operations import OperationRequest, OperationResult
from reservoir.ports.system import Sender
from reservoir.runtime.composition.operate import operate_from
from tests.cli.world_stack import LaunchWorldStack, invoke

ME = "arn:aws:sts::111122223333:assumed-role/operators/ada"


class Stack(LaunchWorldStack[World]):
    """Implements what these commands use of ``reservoir.cli.stack.connection.Connection``."""

    deployment = DEPLOYMENT

    @property
    def instances(self) -> FakeEc2:
        return self.world.ec2

    def caller(self) -> str:
        return ME

    def operate(self, request: OperationRequest) -> list[OperationResult]:
        outside = with_parts(self.world.outside(), policy=MemoryPolicyStore())
        return operate_from(outside).run(request, Sender(ME, "AROAOPERATORS0000000:ada"))


@pytest.fixture
def world() -> World:
    """Forty nodes, whose claims somebody deleted."""
    world = World()
    world.add_workload(replicas=40)
    world.running(40, on_demand("m5.large"))
    world.state.claim_rows.clear()
    world.clock.advance(minutes=30)
    return world


def run(world: World, *arguments: str, given: str | None = None) -> Result:
    return invoke(Stack(world), *arguments, given=given)


def test_show_says_what_is_held(world: World) -> None:
    assert (
        "orphans: open, 0 ended within 60 minutes" in run(world, "envelope", "show").stdout
    )
    world.collect().run()
    shown = run(world, "envelope", "show").stdout
    assert (
        "orphans: closed, 0 ended within 60 minutes\n  40 would end, 4 of 40 may, 0 have ended: held since"
        in shown
    )


def test_a_lift_is_recorded_with_who_when_and_why_and_used_up_once(world: World) -> None:
    world.collect().run()
    lifting = (
        "envelope",
        "lift",
        "orphans",
        "--count",
        "40",
        "--reason",
        "the claims are gone for good",
    )
    result = run(world, *lifting, given="y\n")
    assert result.exit_code == 0
    world.collect().run()
    assert world.ec2.live() == []
    assert f"by {ME} for 40" in run(world, "envelope", "show").stdout
    assert "40 used: the claims are gone for good" in run(world, "envelope", "show").stdout
    (told,) = world.bus.of("Envelope Lifted")
    assert (told["kind"], told["count"], told["by"]) == ("orphans", 40, ME)


def test_nothing_is_lifted_without_a_yes(world: World) -> None:
    result = run(
        world,
        "envelope",
        "lift",
        "orphans",
        "--count",
        "40",
        "--reason",
        "because",
        given="n\n",
    )
    assert result.exit_code == 1
    assert world.tallies.rows == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("everything", "--count", "1", "--reason", "r"), "'everything' is not one of"),
        (("orphans", "--count", "0", "--reason", "r"), "greater than or equal to 1"),
        (
            ("orphans", "--count", "1", "--reason", "r", "--minutes", "1441"),
            "less than or equal to 1440",
        ),
        (("orphans", "--count", "1", "--reason", " "), "say why"),
        (("orphans", "--reason", "r"), "Missing option '--count'"),
    ],
)
def test_a_wrong_lift_says_what_is_wrong(
    world: World, arguments: tuple[str, ...], said: str
) -> None:
    result = run(world, "envelope", "lift", *arguments, "--yes")
    assert result.exit_code == 2
    assert said in result.stderr
    assert world.tallies.rows == {}


def test_a_tally_that_cannot_be_read_is_not_written_over(world: World) -> None:
    world.tallies.unreadable.add(EndingKind.ORPHANS)
    result = run(
        world, "envelope", "lift", "orphans", "--count", "1", "--reason", "r", "--yes"
    )
    assert result.exit_code == 2
    assert "nothing was written: cannot read the" in result.stderr


def test_tables_show_says_what_is_wrong_and_what_runs(world: World) -> None:
    world.marks.empty("NodeClaims")
    shown = run(world, "tables", "show").stdout
    assert "NodeClaims NodeClaims-1: no mark\n" in shown
    assert "NodeClaims has no mark: it is new, or was emptied" in shown
    assert (
        "40 instances carry this deployment's tag; 0 have a claim\nwithout one: i-" in shown
    )


def test_tables_are_adopted_by_somebody_for_a_reason(world: World) -> None:
    world.marks.restore("NodeClaims")
    assert world.collect().run().unknown_tables != ()
    assert run(world, "tables", "adopt", "--reason", "restored", given="n\n").exit_code == 1
    assert world.collect().run().unknown_tables != ()
    result = run(world, "tables", "adopt", "--reason", "restored to 12:00", "--yes")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "adopted")
    assert world.collect().run().unknown_tables == ()
    assert f"by {ME} (restored to 12:00)" in run(world, "tables", "show").stdout
    assert [told["generation"] for told in world.bus.of("Tables Adopted")] == [2]
    world.clock.advance(minutes=30)
    world.collect().run()
    assert len(world.ec2.live()) == 40, (
        "what was launched before is no orphan to adopted tables"
    )


def test_a_lift_that_is_over_lets_nothing_pass(world: World) -> None:
    run(
        world,
        "envelope",
        "lift",
        "orphans",
        "--count",
        "40",
        "--minutes",
        "5",
        "--reason",
        "r",
        "--yes",
    )
    world.clock.advance(minutes=6)
    world.collect().run()
    assert len(world.ec2.live()) == 40
