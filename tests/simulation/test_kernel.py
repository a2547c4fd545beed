"""Time and turns: the earliest comes first, and code that waits lets it."""

from greenlet import greenlet

from lab.simulation.kernel import SECOND, Chance, Kernel


def test_the_earliest_comes_first_and_of_one_instant_the_one_that_was_asked_for_first() -> (
    None
):
    kernel, happened = Kernel(), list[str]()
    kernel.at(2, lambda: happened.append("late"))
    kernel.at(1, lambda: happened.append("first"))
    kernel.at(1, lambda: happened.append("second"))
    while kernel.step():
        pass
    assert happened == ["first", "second", "late"]
    assert kernel.now_us == 2


def test_codes_that_wait_take_turns() -> None:
    kernel, happened = Kernel(), list[str]()

    def work(name: str, us: int) -> None:
        for _ in range(2):
            kernel.wait(us)
            happened.append(f"{name} {kernel.now_us}")

    kernel.at(0, greenlet(lambda: work("slow", 3)).switch)
    kernel.at(0, greenlet(lambda: work("quick", 2)).switch)
    while kernel.step():
        pass
    assert happened == ["quick 2", "slow 3", "quick 4", "slow 6"]


def test_every_turn_is_a_step() -> None:
    kernel, seen = Kernel(), list[int]()
    kernel.after_step = lambda: seen.append(kernel.now_us)

    def work() -> None:
        kernel.wait(1)
        kernel.wait(1)

    kernel.at(5, greenlet(work).switch)
    while kernel.step():
        pass
    assert (seen, kernel.step_count) == ([6, 7, 7], 3)


def test_what_is_past_happens_now() -> None:
    kernel = Kernel()
    kernel.at(SECOND, lambda: kernel.at(0, lambda: None))
    while kernel.step():
        pass
    assert kernel.now_us == SECOND


def test_chances_of_one_kind_do_not_move_those_of_another() -> None:
    alone, together = Chance(1), Chance(1)
    [together.hits("other", 0.5) for _ in range(10)]
    assert [alone.hits("kind", 0.5) for _ in range(20)] == [
        together.hits("kind", 0.5) for _ in range(20)
    ]


def test_a_chance_that_is_left_out_moves_no_other() -> None:
    whole = Chance(1)
    hits = [whole.hits("kind", 0.5) for _ in range(20)]
    without = Chance(1, frozenset({("kind", 0)}))
    first = hits.index(True)
    assert [without.hits("kind", 0.5) for _ in range(20)] == [
        hit and n != first for n, hit in enumerate(hits)
    ]
    assert whole.came_true[1:] == without.came_true
