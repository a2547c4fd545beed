"""Fresh processes for fair figures: nothing that one measurement loaded or warmed is there for the next."""

import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.calibration import Figures

RUNS = 3
_REPOSITORY = Path(__file__).resolve().parents[2]
# One core: libraries that would start threads of their own are told not to.
_SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def fresh(
    function: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Figures:
    """Call ``function`` ("lab.bench.module:name") with text arguments in a new process and return its figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        answer = Path(folder) / "answer.json"
        command = [
            sys.executable,
            "-m",
            "lab.bench.harness",
            str(answer),
            function,
            *arguments,
        ]
        subprocess.run(  # noqa: S603 - our own module, started with our own arguments
            command,
            check=True,
            cwd=_REPOSITORY,
            env={**os.environ, **_SINGLE_THREADED, **(environment or {})},
        )
        figures: Figures = json.loads(answer.read_text())
    return figures


def medians(runs: Sequence[Figures]) -> Figures:
    """Take the median of each time and size over the runs; everything else must be the same in all of them.

    Of what is told in calibrations the least, as a calibration is the best of five: a neighbour only makes it more.

    Raises
    ------
    AssertionError
        A figure that is neither a time nor a size differs between runs: the plan is not deterministic.
    """
    figures: Figures = {}
    for name, first in runs[0].items():
        values = [run[name] for run in runs]
        if name.endswith("_in_calibrations"):
            figures[name] = min(float(str(value)) for value in values)
        elif name.endswith(("_s", "_mib")) and isinstance(first, int | float):
            figures[name] = round(
                statistics.median(float(str(value)) for value in values), 4
            )
        else:
            assert all(value == first for value in values), (
                f"{name} differs between runs: {values}"
            )
            figures[name] = first
    return figures


def repeated(function: str, *arguments: str, runs: int = RUNS) -> Figures:
    """Return the medians of several fresh processes."""
    return medians([fresh(function, *arguments) for _ in range(runs)])


def peak_rss_mib() -> float:
    """Return the largest resident size of this process so far.

    Linux's own count where there is one: what ``getrusage`` says includes the parent as it was when it forked.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(
            line for line in status.read_text().splitlines() if line.startswith("VmHWM:")
        )
        return round(int(line.split()[1]) / 1024, 1)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def in_calibrations(figures: Figures, calibration: Figures) -> Figures:
    """Return the figures with the calibration, and each processor time as a multiple of the piece of pure Python.

    What a bench has put beside calibrations of its own stays.
    """
    unit = float(str(calibration["calibration_python_s"]))
    multiples = {
        f"{name.removesuffix('_s')}_in_calibrations": round(value / unit, 2)
        for name, value in figures.items()
        if name.endswith("_cpu_s") and isinstance(value, int | float)
    }
    return {**multiples, **figures, **calibration}


def tell(line: str) -> None:
    """Show how far a long case is, beside its figures."""
    print(line, file=sys.stderr, flush=True)


def _pin_to_one_core() -> None:
    """Keep the process on one core, as the smallest Lambda that has a whole one would."""
    # Linux only; elsewhere the figures are of whatever the system does
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _main(answer: str, function: str, *arguments: str) -> None:
    _pin_to_one_core()
    module, _, name = function.partition(":")
    figures = getattr(importlib.import_module(module), name)(*arguments)
    Path(answer).write_text(json.dumps(figures))


if __name__ == "__main__":
    _main(*sys.argv[1:])
