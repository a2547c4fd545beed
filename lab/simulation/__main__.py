"""``python -m lab.simulation --seed 1 --seeds 200 --steps 2000``: play seeds; draw the first that fails, made short.

Seeds are shared out among processes. What was played is written down, if ``--done`` names a file, and not played again.
"""

import argparse
import gc
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Final

from lab.calibration import calibrate
from lab.simulation.mutants import ROOT
from lab.simulation.play import STEPS, Aims, Verdict, play
from lab.simulation.reports.points import possible, table, targets
from lab.simulation.reports.shrink import explained
from lab.simulation.reports.situations import summary

_CHUNK: Final = 5
_ROUNDS: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the seeds; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m lab.simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument(
        "--steps", type=int, default=STEPS, help="how many steps with mishaps each has"
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="how many play at once"
    )
    parser.add_argument(
        "--done",
        type=Path,
        help="a file of seeds that held, to go on after; it is added to",
    )
    parser.add_argument(
        "--points", type=Path, help="a file for the table of calls at which functions died"
    )
    asked = parser.parse_args(arguments)
    done = _read(asked.done, asked.steps)
    seeds = [
        seed for seed in range(asked.seed, asked.seed + asked.seeds) if seed not in done
    ]
    timed = list(_played(seeds, asked))
    verdicts = [verdict for verdict, _ in timed]
    aimed = list[Verdict]()
    if asked.points is not None:
        for _ in range(_ROUNDS):  # who dies elsewhere makes other calls
            aimed += _aimed(list(targets([*verdicts, *aimed])), asked)
        asked.points.write_text(table(verdicts, aimed, possible()), encoding="utf-8")
    failed = [verdict for verdict in [*verdicts, *aimed] if verdict.name is not None]
    for verdict in failed:
        where = "".join(f", {aim}" for aim in sorted(verdict.aims, key=str))
        print(
            f"seed {verdict.seed}{where}, step {verdict.steps}: {verdict.name}: {verdict.what}"
        )
    if failed:
        print("\n".join(explained(failed[0], asked.steps)))
    known = f" ({asked.seeds - len(seeds)} of them before)" if done else ""
    print(f"{asked.seeds} seeds of {asked.steps} steps{known}, {len(failed)} failed")
    if timed:
        print(summary(sum((verdict.met for verdict in verdicts), Counter())))
        print(
            pace(
                [seconds for _, seconds in timed],
                float(str(calibrate()["calibration_python_s"])),
            )
        )
    return 1 if failed else 0


def pace(seconds: Sequence[float], calibration_s: float) -> str:
    """Say how many seeds one core plays a minute; ``seconds`` are its processor time for each."""
    each = sum(seconds) / len(seconds)
    return (
        f"{60 / each:.0f} seeds a minute on one core: {each:.3f} s each, which is {each / calibration_s:.1f} times the "
        f"calibration of {calibration_s} s"
    )


def _played(seeds: list[int], asked: argparse.Namespace) -> Iterator[tuple[Verdict, float]]:
    with ProcessPoolExecutor(asked.processes, initializer=_spare_garbage) as pool:
        for verdict, seconds in pool.map(
            partial(_timed, steps=asked.steps), seeds, chunksize=_CHUNK
        ):
            if verdict.name is None and asked.done is not None:
                with asked.done.open("a", encoding="utf-8") as file:
                    file.write(f"{verdict.seed} {asked.steps} {code()}\n")
            yield verdict, seconds


@cache
def code() -> str:
    """Return what names the code that is played: a seed that held says nothing of code that was changed since."""
    found = hashlib.sha256()
    for folder in ("functions", "infra", "shared", "lab/simulation", "lab/fakes"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:12]


def _read(file: Path | None, steps: int) -> frozenset[int]:
    """Return the seeds that were played with so many steps of this code and did not fail."""
    if file is None or not file.exists():
        return frozenset()
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return frozenset(int(line[0]) for line in lines if line[1:] == [str(steps), code()])


def _aimed(wanted: list[tuple[int, Aims]], asked: argparse.Namespace) -> list[Verdict]:
    """Play seeds in which a function dies where it did not by chance."""
    seeds, where = [seed for seed, _ in wanted], [aims for _, aims in wanted]
    with ProcessPoolExecutor(asked.processes, initializer=_spare_garbage) as pool:
        return [
            verdict
            for verdict, _ in pool.map(
                partial(_timed, steps=asked.steps), seeds, where, chunksize=_CHUNK
            )
        ]


def _spare_garbage() -> None:
    """Collect between seeds only: within a seed there is little, and looking for it takes a tenth of the time."""
    gc.freeze()
    gc.disable()


def _timed(seed: int, aims: Aims = frozenset(), *, steps: int) -> tuple[Verdict, float]:
    """Play a seed; return its processor time too, in seconds."""
    began = time.process_time()
    verdict = play(seed, steps, aims=aims)
    gc.collect()
    return verdict, time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
