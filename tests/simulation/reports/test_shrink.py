"""A failing seed is made short, replayed exactly, and drawn."""

from lab.simulation.aws.lambdas import Aim, Run
from lab.simulation.invariants.base import Invariant
from lab.simulation.play import drawn, play
from lab.simulation.reports.shrink import explained, shrunk
from reservoir.names import Function

STEPS = 400


class NoFunctionIsEverKilled(Invariant):
    """Does not hold, so that there is something to make short."""

    def ended(self, run: Run) -> None:
        if run.outcome == "killed":
            self.refute(f"{run.function} {run.error}")


INVARIANTS = (NoFunctionIsEverKilled,)


def failing() -> int:
    """Return a seed with mishaps beside a kill."""
    return next(
        seed
        for seed in range(1, 100)
        if (verdict := play(seed, STEPS, invariants=INVARIANTS)).name is not None
        and len(verdict.came_true) > 5
    )


def test_a_failure_is_made_short_and_fails_the_same() -> None:
    seed = failing()
    failed = play(seed, STEPS, invariants=INVARIANTS)
    short, left_out = shrunk(failed, STEPS, invariants=INVARIANTS)
    assert len(short.came_true) < 5 < len(failed.came_true)
    assert any(
        kind in ("killed_before", "killed_after", "launch_dies")
        for kind, _ in short.came_true
    )
    assert play(seed, STEPS, left_out, INVARIANTS) == short


def test_a_failure_is_drawn_with_its_mishaps_and_its_end() -> None:
    seed = failing()
    failed = play(seed, STEPS, invariants=INVARIANTS)
    lines = drawn(seed, STEPS, invariants=INVARIANTS)
    kind, number = failed.came_true[-1]
    assert any(line.endswith(f"{kind} {number}") for line in lines)
    assert " killed " in lines[-1]


def test_a_failure_is_explained_in_a_few_lines_and_kept_as_a_test() -> None:
    seed = failing()
    aims = frozenset({Aim(Function.EXPIRE, "policy.get", 1, "after")})
    failed = play(seed, STEPS, invariants=INVARIANTS, aims=aims)
    lines = explained(failed, STEPS, INVARIANTS)
    assert lines[0].startswith("shrunk to ")
    assert lines[-2].startswith("NoFunctionIsEverKilled: ")
    assert " killed " in lines[-3]
    kept = f'({seed}, {STEPS}, [Aim(Function.EXPIRE, "policy.get", 1, "after")])'
    assert (
        lines[-1]
        == f"to keep it, add to FAILED_ONCE in tests/simulation/test_seeds.py: {kept}"
    )
    assert play(seed, STEPS, invariants=INVARIANTS, aims=aims) == failed
