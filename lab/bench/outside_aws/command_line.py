"""How long the command line takes: ``--help``, ``validate``, and ``get`` of each noun against the embedded AWS.

Fresh processes, the least and the median of several. Processor time is the children's alone; what the emulated AWS
works meanwhile is in the seconds on the clock only.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from lab.bench.harness import tell
from lab.embedded.reservoir import ROOT, DeployedReservoir
from reservoir.cli.nouns.registry import NOUNS

RUNS: Final = 9
_ALONE: Final = {
    "help": ("--help",),
    "validate": ("validate", "-f", "examples/policy", "-f", "examples/workloads"),
}
# What a noun needs besides its name.
_MORE: Final = {"workloads": ("-A",), "blocks": ("p5.48xlarge",)}
_CONNECTED: Final = {
    "get": ("get",),
    **{
        f"get_{noun.plural}": ("get", noun.plural, *_MORE.get(noun.plural, ()))
        for noun in NOUNS
    },
    "status": ("status",),
}


def cases() -> Sequence[str]:
    """Return one case for commands without an account, one for those with."""
    return ["cli-alone", "cli-connected"]


def run(case: str) -> dict[str, object]:
    """Call each command several times and return figures."""
    if case == "cli-alone":
        return figures(_ALONE, {})
    with DeployedReservoir(report=tell) as reservoir:
        apply = _command(("apply", "-f", "examples/policy"))
        subprocess.run(  # noqa: S603 - ours
            apply, cwd=ROOT, env=reservoir.environment(), check=True, capture_output=True
        )
        reservoir.aws.clock.pause()
        reservoir.aws.clock.settle()
        return figures(_CONNECTED, reservoir.environment())


def figures(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]
) -> dict[str, object]:
    """Measure commands."""
    found: dict[str, object] = {}
    for name, arguments in commands.items():
        _call(arguments, environment)  # writes bytecode, which an installed package has
        walls_s, cpus_s = zip(
            *(_call(arguments, environment) for _ in range(RUNS)), strict=True
        )
        found[f"{name}_least_s"] = round(min(walls_s), 3)
        found[f"{name}_median_s"] = round(statistics.median(walls_s), 3)
        found[f"{name}_least_cpu_s"] = round(min(cpus_s), 3)
    return found


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "reservoir", *arguments]


def _call(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the seconds on the clock and those of the processor."""
    environment = {**os.environ, **environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = _command(arguments)
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)  # noqa: S603 - our own program
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
