"""Play a seed from its beginning to its verdict."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics

from lab.simulation.aws.lambdas import Aim
from lab.simulation.invariants.base import Invariant, Violation
from lab.simulation.invariants.watcher import INVARIANTS, Watcher
from lab.simulation.liveness import heed_wake_ups, settle, stay_quiet
from lab.simulation.reports.situations import Situation, Situations
from lab.simulation.reports.timeline import Timeline
from lab.simulation.world import World
from reservoir.runtime.observability import logger

STEPS: Final = 2000
Aims = frozenset[Aim]  # the calls at which functions die whatever chance says
Mishap = tuple[str, int]  # its kind and number
Point = tuple[str, str]  # a function and a call that it makes
# how often it was made, and was the last thing that did not, and that did happen
Killed = tuple[int, int, int]
# What a process says of itself. Nobody reads it here, and it takes a twentieth of the time.
_SAID: Final[tuple[tuple[type[Any], str], ...]] = (
    (Logger, "info"),
    (Logger, "append_keys"),
    (Logger, "remove_keys"),
    (Metrics, "add_metric"),
    (EphemeralMetrics, "add_metric"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a seed ended. ``name`` None: everything held."""

    seed: int
    steps: int
    name: str | None = None
    what: str = ""
    came_true: tuple[Mishap, ...] = ()
    aims: Aims = frozenset()
    points: Mapping[Point, Killed] = field(default_factory=dict, compare=False)
    met: Counter[Situation] = field(default_factory=Counter, compare=False)


def play(
    seed: int,
    steps: int = STEPS,
    left_out: frozenset[Mishap] = frozenset(),
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    aims: Aims = frozenset(),
) -> Verdict:
    """Play ``steps`` steps with mishaps, but for those left out, then let everything settle."""
    return _played(_world(seed, left_out, aims), seed, steps, invariants)


def drawn(
    seed: int,
    steps: int,
    left_out: frozenset[Mishap] = frozenset(),
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    aims: Aims = frozenset(),
) -> list[str]:
    """Play the same, and return the timeline."""
    world = _world(seed, left_out, aims)
    timeline = Timeline(world)
    world.watchers.append(timeline)
    _played(world, seed, steps, invariants)
    return timeline.lines()


def _world(seed: int, left_out: frozenset[Mishap], aims: Aims) -> World:
    world = World(seed, left_out)
    world.lambdas.aims = aims
    return world


def _played(
    world: World, seed: int, steps: int, invariants: Sequence[type[Invariant]]
) -> Verdict:
    watcher = Watcher(world, invariants)
    situations = Situations(world)
    world.watchers += [watcher, situations]
    world.kernel.after_step = watcher.after_step
    name, what = None, ""
    try:
        with hushed():
            world.begin()
            while world.kernel.step_count < steps:
                world.kernel.step()
            settle(world)
            stay_quiet(world)
            heed_wake_ups(world)
    except Violation as violation:
        name, what = violation.name, violation.what
    finally:
        world.lambdas.stop()
    lambdas = world.lambdas
    points = {
        (place[0].value, place[1]): (
            count,
            lambdas.kills_before[place],
            lambdas.kills_after[place],
        )
        for place, count in lambdas.calls.items()
    }
    return Verdict(
        seed,
        world.kernel.step_count,
        name,
        what,
        tuple(world.chance.came_true),
        lambdas.aims,
        points,
        situations.met,
    )


@contextmanager
def hushed() -> Iterator[None]:
    """Keep the functions' own logs and metrics to themselves."""
    level, said = logger.log_level, [getattr(kind, method) for kind, method in _SAID]
    logger.setLevel("CRITICAL")
    for kind, method in _SAID:
        setattr(kind, method, _say_nothing)
    try:
        yield
    finally:
        for (kind, method), as_it_was in zip(_SAID, said, strict=True):
            setattr(kind, method, as_it_was)
        logger.setLevel(level)


def _say_nothing(*_arguments: Any, **_named: Any) -> None:
    """Nobody listens."""
