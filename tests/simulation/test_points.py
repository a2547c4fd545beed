"""The report of fault points adds up what seeds met."""

from simulation.play import Verdict
from simulation.points import summed, table

VERDICTS = (
    Verdict(1, 0, points={("launch", "ec2.launch"): (3, 1, 0), ("expire", "ec2.get_many"): (5, 0, 0)}),
    Verdict(2, 0, points={("launch", "ec2.launch"): (2, 0, 2)}),
)


def test_points_are_added_up() -> None:
    assert summed(VERDICTS) == {("launch", "ec2.launch"): (5, 1, 2), ("expire", "ec2.get_many"): (5, 0, 0)}


def test_points_at_which_nothing_died_come_first() -> None:
    rows = [line for line in table(VERDICTS).splitlines() if line.startswith(("| launch", "| expire"))]
    assert rows == ["| expire | `ec2.get_many` | 5 | 0 | 0 |", "| launch | `ec2.launch` | 5 | 1 | 2 |"]
    assert "that 2 seeds met: 2. At 1 of them" in table(VERDICTS)
