"""``python -m lab.mutation``: change each room's code step by step, and see which changes its tests notice."""

import argparse
import os
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lab.mutation import workshop
from lab.mutation.results import Change, Figures, equivalents, store
from lab.mutation.rooms import ROOMS, Room


def _try_all(room: Room, workers: int) -> list[str]:
    """Try what has not been tried, and once more what had survived: tests may have been written since."""
    earlier = workshop.verdicts(room).survived
    workshop.run(room, (), workers)
    every = workshop.names(room)
    again = sorted(earlier & workshop.verdicts(room).survived)
    if again:
        workshop.run(room, again, workers)
    return every


def _drawn(room: Room, count: int, seed: int) -> list[str]:
    every = workshop.names(room)
    return sorted(
        random.Random(f"{seed} {room.name}").sample(every, min(count, len(every)))
    )


def _judged(room: Room, tried: Sequence[str], mutants: int) -> tuple[Figures, list[Change]]:
    known = workshop.verdicts(room)
    survived = known.survived & set(tried)
    killed = known.killed & set(tried)
    without_effect = equivalents()
    changes = workshop.changes(room, survived)
    differing = [change for change in changes if change not in without_effect]
    equivalent = len(changes) - len(differing)
    figures = Figures(
        room.name, mutants, len(killed) + len(survived), equivalent, len(killed)
    )
    return figures, differing


def _shown(figures: Figures, survivors: Sequence[Change]) -> str:
    lines = [
        f"{figures.room}: {figures.killed} killed of {figures.tried} tried, {figures.equivalent} "
        f"equivalent: {figures.killed_percent:.1f} %"
    ]
    for change in survivors:
        lines += [f"  {change.function}", f"    - {change.was}", f"    + {change.instead}"]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Try the mutants that are asked for, print what survived, and keep or judge the figures."""
    parser = argparse.ArgumentParser(prog="python -m lab.mutation", description=__doc__)
    parser.add_argument(
        "--room", action="append", choices=[room.name for room in ROOMS], help="these alone"
    )
    parser.add_argument("--sample", type=int, help="so many of each room, drawn by chance")
    parser.add_argument("--seed", type=int, default=1, help="another draw")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--at-least", type=float, help="keep no figures; fail below so many percent of all"
    )
    asked = parser.parse_args(arguments)
    rooms = [room for room in ROOMS if asked.room is None or room.name in asked.room]
    if asked.at_least is None:
        for room in rooms:
            figures, survivors = _room_tried(room, asked.sample, asked.seed, asked.workers)
            store(figures)
            print(_shown(figures, survivors), flush=True)
        return 0
    return _sampled(rooms, asked.sample, asked.seed, asked.workers, asked.at_least)


def _room_tried(
    room: Room, sample: int | None, seed: int, workers: int
) -> tuple[Figures, list[Change]]:
    if sample is None:
        every = _try_all(room, workers)
        return _judged(room, every, len(every))
    drawn = _drawn(room, sample, seed)
    workshop.run(room, drawn, workers)
    return _judged(room, drawn, len(workshop.names(room)))


def _sampled(
    rooms: Sequence[Room], sample: int, seed: int, workers: int, at_least_percent: float
) -> int:
    """Try some mutants of each room, several rooms at a time, since most of the time goes into each room's start."""
    drawn = {room: _drawn(room, sample, seed) for room in rooms}
    with ThreadPoolExecutor(workers) as rooms_at_once:
        list(rooms_at_once.map(lambda room: workshop.run(room, drawn[room], 1), rooms))
    tried = killed = 0
    for room in rooms:
        figures, survivors = _judged(room, drawn[room], len(drawn[room]))
        print(_shown(figures, survivors))
        tried += figures.tried - figures.equivalent
        killed += figures.killed
    percent = 100 * killed / tried
    print(f"{killed} of {tried} mutants that differ were killed: {percent:.1f} %")
    return 0 if percent >= at_least_percent else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
