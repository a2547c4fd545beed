"""Computations at once."""

import os
import signal
from functools import partial

import pytest

from reservoir.cli.side_by_side import side_by_side


def square(number: int) -> int:
    return number * number


def refuse() -> int:
    message = "no"
    raise LookupError(message)


@pytest.mark.parametrize("count", range(6))
def test_answers_come_in_the_order_of_the_questions(count: int) -> None:
    assert (
        side_by_side([partial(square, number) for number in range(count)])
        == [0, 1, 4, 9, 16, 25][:count]
    )


@pytest.mark.parametrize(
    "tasks", [(refuse, partial(square, 1)), (partial(square, 1), refuse)]
)
def test_whoever_raises_the_caller_learns_it(tasks: tuple[partial[int], ...]) -> None:
    with pytest.raises(LookupError, match="no"):
        side_by_side(tasks)


def test_a_copy_leaves_ctrl_c_to_the_first_process() -> None:
    def handler() -> object:
        return signal.getsignal(signal.SIGINT)

    found = side_by_side([handler, handler])
    assert found[0] is signal.getsignal(signal.SIGINT)
    assert signal.SIG_IGN in found or len(os.sched_getaffinity(0)) == 1


def test_what_a_killed_copy_did_not_answer_is_computed_here() -> None:
    here = os.getpid()

    def answer() -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    assert side_by_side([answer, answer, answer]) == [7, 7, 7]
