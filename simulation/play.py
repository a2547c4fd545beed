"""Play a seed from its beginning to its verdict."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Final

from shared.runtime.observability import logger
from simulation.invariants import Violation, Watcher
from simulation.liveness import settle, stay_quiet
from simulation.world import World

STEPS: Final = 2000
_DISABLED: Final = "POWERTOOLS_METRICS_DISABLED"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a seed ended. ``name`` None: everything held."""

    seed: int
    steps: int
    name: str | None = None
    what: str = ""
    came_true: tuple[tuple[str, int], ...] = ()


def play(seed: int, steps: int = STEPS, left_out: frozenset[tuple[str, int]] = frozenset()) -> Verdict:
    """Play ``steps`` steps with mishaps, then let everything settle."""
    world = World(seed, left_out)
    watcher = Watcher(world)
    world.watchers.append(watcher)
    world.kernel.after_step = watcher.after_step
    verdict = Verdict(seed, 0)
    try:
        with hushed():
            world.begin()
            while world.kernel.step_count < steps:
                world.kernel.step()
            settle(world)
            stay_quiet(world)
    except Violation as violation:
        verdict = Verdict(seed, 0, violation.name, violation.what)
    finally:
        world.lambdas.stop()
    return Verdict(seed, world.kernel.step_count, verdict.name, verdict.what, tuple(world.chance.came_true))


@contextmanager
def hushed() -> Iterator[None]:
    """Keep the functions' own logs and metrics to themselves."""
    level, disabled = logger.log_level, os.environ.get(_DISABLED, "")  # noqa: TID251 - Powertools asks there
    logger.setLevel("CRITICAL")
    os.environ[_DISABLED] = "true"  # noqa: TID251
    try:
        with redirect_stdout(StringIO()):  # what is counted is written a hundred at a time all the same
            yield
    finally:
        logger.setLevel(level)
        os.environ[_DISABLED] = disabled or "false"  # noqa: TID251
