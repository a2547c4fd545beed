"""The report of fault points adds up what seeds met."""

from lab.simulation.aws.lambdas import Aim
from lab.simulation.mutants import ROOT
from lab.simulation.play import Verdict, play
from lab.simulation.reports.points import WHY_NEVER, possible, summed, table, targets
from reservoir.names import Function

VERDICTS = (
    Verdict(
        1,
        0,
        points={("launch", "ec2.launch"): (3, 1, 0), ("expire", "ec2.get_many"): (5, 0, 0)},
    ),
    Verdict(2, 0, points={("launch", "ec2.launch"): (2, 0, 2)}),
)


def test_points_are_added_up() -> None:
    assert summed(VERDICTS) == {
        ("launch", "ec2.launch"): (5, 1, 2),
        ("expire", "ec2.get_many"): (5, 0, 0),
    }


def test_points_at_which_nothing_died_come_first() -> None:
    rows = [
        line
        for line in table(VERDICTS, [], {}).splitlines()
        if line.startswith(("| launch", "| expire"))
    ]
    assert rows == [
        "| expire | `ec2.get_many` | 5 | 0 | 0 |",
        "| launch | `ec2.launch` | 5 | 1 | 2 |",
    ]
    assert "that 2 seeds met: 2. At 1 of" in table(VERDICTS, [], {})


def test_what_chance_left_is_aimed_at() -> None:
    assert list(targets(VERDICTS)) == [
        (1, frozenset({Aim(Function.EXPIRE, "ec2.get_many", 3, side)}))
        for side in ("before", "after")
    ]


def test_what_an_aim_did_not_reach_is_aimed_at_with_another_seed() -> None:
    point = (Function.LAUNCH, "ec2.launch")
    aimed = frozenset({Aim(*point, 2, "after")})
    verdicts = [Verdict(seed, 0, points={point: (3, 1, 0)}) for seed in (1, 2)]
    missed = Verdict(1, 0, points={point: (3, 1, 0)}, aims=aimed)
    assert [seed for seed, _ in targets(verdicts)] == [1]
    assert list(targets([*verdicts, missed])) == [(2, aimed)]


def test_a_function_dies_where_it_was_aimed_at() -> None:
    point = ("launch", "launch_attempts.complete")
    by_chance = play(5, 700)
    calls, before, after = by_chance.points[point]
    for side, wanted in (("before", (before + 1, after)), ("after", (before, after + 1))):
        aimed = play(
            5, 700, aims=frozenset({Aim(Function.LAUNCH, point[1], (calls + 1) // 2, side)})
        )
        assert (aimed.name, aimed.points[point][1:]) == (None, wanted)


def test_calls_that_nothing_made_are_named() -> None:
    lines = table(
        VERDICTS, [], {"ec2": frozenset({"launch", "get_many", "tag_claims", "forget"})}
    ).splitlines()
    assert lines[-2:] == [
        "* `ec2.forget`: no call to the outside: a process's own memory",
        "* `ec2.tag_claims`: nobody knows why",
    ]
    assert {"launch", "get_many", "list_visible"} <= possible()["ec2"]


def test_of_each_call_that_the_report_on_file_has_as_never_made_it_says_why() -> None:
    lines = (
        (ROOT / "lab" / "simulation" / "POINTS.md").read_text(encoding="utf-8").splitlines()
    )
    never = [line for line in lines if line.startswith("* `")]
    assert never
    assert [line for line in never if line.endswith("nobody knows why")] == []
    offered = {
        f"{port}.{method}" for port, methods in possible().items() for method in methods
    }
    assert WHY_NEVER.keys() <= offered, (
        "a reason for a call that no adapter offers any more"
    )
