"""Commands that run in containers: the engine of the node runs them, and outlives us.

A container does not end with the program that has started it, as a process of the agent's unit does. So each has a name
by which it is ended, also when an agent that died has left it.
"""

import shutil
from collections.abc import Iterable
from typing import Final

from reservoir.agent.configuration import Run
from reservoir.agent.machine import ProcessId

# the first of these that the node has is used
ENGINES: Final = ("docker", "podman", "nerdctl")


def find_engine() -> str:
    """Return the engine's program; raises OSError where there is none."""
    for name in ENGINES:
        found = shutil.which(name)
        if found is not None:
            return found
    raise FileNotFoundError(f"a container needs one of {', '.join(ENGINES)} on the node")


def container_name(process: ProcessId) -> str:
    """Return the name of a process's container; names of workloads hold no "_"."""
    return f"reservoir_{process.workload_key.replace('/', '_')}_{process.number}"


def run_command(
    engine: str, process: ProcessId, run: Run, variables: Iterable[str]
) -> tuple[str, ...]:
    """Return the command that runs a container; ``variables`` take their values from our environment."""
    passed = (f"--env={name}" for name in sorted(variables))
    return (
        *(engine, "run", "--rm", f"--name={container_name(process)}"),
        *passed,
        *run.container_options,
        run.image,
        *run.command,
    )


def kill_command(engine: str, process: ProcessId) -> tuple[str, ...]:
    """Return what ends a process's container at once, if there is one, and removes it."""
    return (engine, "rm", "--force", container_name(process))
