"""Run the benches: one JSON object a line on standard output, progress on standard error."""

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, cast

import lab.bench
from lab.bench.harness import fresh, in_calibrations

# Rooms with benches, by what they measure; the package's other folders help them.
ROOMS: Final = (
    "advice",
    "scheduling",
    "exact",
    "functions",
    "deployed",
    "outside_aws",
    "emulator",
)


class Bench(Protocol):
    """What a module in one of the rooms must have to be a bench; any other module is a helper."""

    __name__: str

    def cases(self) -> Sequence[str]:
        """Return the names of its cases, in the order in which they run."""

    def run(self, case: str) -> dict[str, object]:
        """Measure one case; figures carry their unit in their name (``first_plan_s``, ``peak_rss_mib``)."""


def benches() -> Iterator[tuple[str, Bench]]:
    """Find the benches: modules in the rooms that define ``cases`` and ``run``, sorted by name."""
    folders = {
        f"lab.bench.{room}.": f"{folder}/{room}"
        for folder in lab.bench.__path__
        for room in ROOMS
    }
    found = [
        module.name
        for prefix, path in folders.items()
        for module in pkgutil.iter_modules([path], prefix)
    ]
    for name in sorted(found, key=lambda name: name.rpartition(".")[2]):
        module = importlib.import_module(name)
        if hasattr(module, "cases") and hasattr(module, "run"):
            yield name.rpartition(".")[2], cast("Bench", module)


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 2 when nothing has that name."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench", description=__doc__)
    parser.add_argument(
        "name",
        nargs="*",
        help="a bench (scheduler) or a case (diverse-10000); all benches without one",
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="print the names of benches and cases, measure nothing",
    )
    options = parser.parse_args(arguments)
    chosen = [
        (name, module, case)
        for name, module in benches()
        for case in module.cases()
        if not options.name or name in options.name or case in options.name
    ]
    if not chosen:
        print(
            f"no bench and no case is called {' or '.join(options.name)}; --list shows them",
            file=sys.stderr,
        )
        return 2
    for name, module, case in chosen:
        if options.list:
            print(f"{name} {case}")
            continue
        print(f"{name} {case} ...", file=sys.stderr, flush=True)
        figures = in_calibrations(module.run(case), fresh("lab.calibration:calibrate"))
        print(json.dumps({"bench": name, "case": case, **figures}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
