"""Make a failing seed short: leave out the mishaps without which it fails all the same, and stop where it fails."""

from collections.abc import Iterator, Sequence

from simulation.invariants.base import Invariant
from simulation.invariants.watcher import INVARIANTS
from simulation.play import Mishap, Verdict, play

_PLAYS_MAX = 200


def shrunk(
    failed: Verdict, steps: int, *, plays: int = _PLAYS_MAX, invariants: Sequence[type[Invariant]] = INVARIANTS
) -> tuple[Verdict, frozenset[Mishap]]:
    """Return the shortest failure that was found in so many plays, and the mishaps to leave out for it.

    It is the same invariant that does not hold. Halves of the mishaps are left out first, then smaller parts of them.
    """
    best, left_out = failed, frozenset[Mishap]()
    part = max(1, len(failed.came_true) // 2)
    while plays > 0:
        for mishaps in _parts(best.came_true, part):
            plays -= 1
            verdict = play(failed.seed, min(steps, best.steps), left_out | frozenset(mishaps), invariants)
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
