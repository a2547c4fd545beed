"""``python -m simulation --seed 1 --seeds 200 --steps 2000``: play seeds; draw the first that fails, made short.

Seeds are shared out among processes. What was played is written down, if ``--done`` names a file, and not played again.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from simulation.play import STEPS, Verdict, drawn, play
from simulation.points import table
from simulation.shrink import shrunk

_DRAWN_LINES: Final = 60
_CHUNK: Final = 5


def main() -> int:
    """Play the seeds; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many steps with mishaps each has")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many play at once")
    parser.add_argument("--done", type=Path, help="a file of seeds that were played; it is added to")
    parser.add_argument("--points", type=Path, help="a file for the table of calls at which functions died")
    asked = parser.parse_args()
    done = _read(asked.done, asked.steps)
    seeds = [seed for seed in range(asked.seed, asked.seed + asked.seeds) if seed not in done]
    verdicts = list(_played(seeds, asked))
    failed = [verdict for verdict in verdicts if verdict.name is not None]
    if asked.points is not None:
        asked.points.write_text(table(verdicts), encoding="utf-8")
    for verdict in failed:
        print(f"seed {verdict.seed}, step {verdict.steps}: {verdict.name}: {verdict.what}")
    if failed:
        _explain(failed[0], asked.steps)
    known = f" ({asked.seeds - len(seeds)} of them before)" if done else ""
    print(f"{asked.seeds} seeds of {asked.steps} steps{known}, {len(failed)} failed")
    return 1 if failed else 0


def _played(seeds: list[int], asked: argparse.Namespace) -> Iterator[Verdict]:
    with ProcessPoolExecutor(asked.processes) as pool:
        for verdict in pool.map(partial(play, steps=asked.steps), seeds, chunksize=_CHUNK):
            if verdict.name is None and asked.done is not None:
                with asked.done.open("a", encoding="utf-8") as file:
                    file.write(f"{verdict.seed} {asked.steps}\n")
            yield verdict


def _read(file: Path | None, steps: int) -> frozenset[int]:
    """Return the seeds that were played with so many steps and did not fail."""
    if file is None or not file.exists():
        return frozenset()
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return frozenset(int(seed) for seed, played in lines if int(played) == steps)


def _explain(failed: Verdict, steps: int) -> None:
    """Make a failure short, draw its end, and say how to keep it."""
    short, left_out = shrunk(failed, steps)
    print(f"\nshrunk to {short.steps} steps and {len(short.came_true)} of {len(failed.came_true)} mishaps:")
    print("\n".join(drawn(short.seed, short.steps, left_out)[-_DRAWN_LINES:]))
    print(f"{short.name}: {short.what}")
    print(f"\nto keep it: add ({short.seed}, {steps}) to FAILED_ONCE in tests/simulation/test_seeds.py\n")


if __name__ == "__main__":
    sys.exit(main())
