"""Make a failing seed short: leave out the mishaps without which it fails all the same, and stop where it fails."""

from collections.abc import Iterator, Sequence
from typing import Final

from lab.simulation.invariants.base import Invariant
from lab.simulation.invariants.watcher import INVARIANTS
from lab.simulation.play import Mishap, Verdict, drawn, play

_PLAYS_MAX = 200
_DRAWN_LINES: Final = 60


def shrunk(
    failed: Verdict,
    steps: int,
    *,
    plays: int = _PLAYS_MAX,
    invariants: Sequence[type[Invariant]] = INVARIANTS,
) -> tuple[Verdict, frozenset[Mishap]]:
    """Return the shortest failure that was found in so many plays, and the mishaps to leave out for it.

    It is the same invariant that does not hold. Halves of the mishaps are left out first, then smaller parts of them.
    """
    best, left_out = failed, frozenset[Mishap]()
    part = max(1, len(failed.came_true) // 2)
    while plays > 0:
        for mishaps in _parts(best.came_true, part):
            plays -= 1
            verdict = play(
                failed.seed,
                min(steps, best.steps),
                left_out | frozenset(mishaps),
                invariants,
                failed.aims,
            )
            if verdict.name == failed.name and len(verdict.came_true) < len(best.came_true):
                best, left_out = verdict, left_out | frozenset(mishaps)
                break
            if plays == 0:
                break
        else:
            if part == 1:
                break
            part = max(1, part // 2)
    return best, left_out


def _parts(mishaps: Sequence[Mishap], size: int) -> Iterator[Sequence[Mishap]]:
    """Yield the mishaps in parts, the last ones first: they have moved the least of what comes after them."""
    for start in range(len(mishaps) - size, -size, -size):
        yield mishaps[max(0, start) : start + size]


def explained(
    failed: Verdict, steps: int, invariants: Sequence[type[Invariant]] = INVARIANTS
) -> list[str]:
    """Make a failure short, draw its end, and say how to keep it."""
    short, left_out = shrunk(failed, steps, invariants=invariants)
    lines = drawn(short.seed, short.steps, left_out, invariants, short.aims)
    return [
        f"shrunk to {short.steps} steps and {len(short.came_true)} of {len(failed.came_true)} mishaps:",
        *lines[-_DRAWN_LINES:],
        f"{short.name}: {short.what}",
        f"to keep it, add to FAILED_ONCE in tests/simulation/test_seeds.py: {keepsake(failed, steps)}",
    ]


def keepsake(failed: Verdict, steps: int) -> str:
    """Return what a regression test needs to play a failure again."""
    aims = ", ".join(
        f'Aim(Function.{aim.function.name}, "{aim.point}", {aim.number}, "{aim.side}")'
        for aim in sorted(failed.aims, key=str)
    )
    return f"({failed.seed}, {steps}, [{aims}])"
