"""``reservoir-agent [--identity] [FILE]``: run until SIGTERM; FILE is /etc/reservoir/agent.toml unless it is named.

With ``--identity``: print what the node is for as soon as that is known, and end.
"""

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from reservoir.agent.agent import SOON_S, Agent
from reservoir.agent.aws import Instance, UnreachableError
from reservoir.agent.configuration import (
    Configuration,
    ConfigurationError,
    read_configuration,
)
from reservoir.agent.log_copies import LogCopies, LogCopying
from reservoir.agent.processes import Processes

FILE: Final = Path("/etc/reservoir/agent.toml")
STEP_S: Final = 1.0
# that commands get to end when the agent is stopped; less than the unit's TimeoutStopSec
STOP_S: Final = 100.0
LAST_COPY_S: Final = 10.0  # that the last lines get after that
BAD_CONFIGURATION: Final = 78  # EX_CONFIG: systemd does not start it again


def run() -> None:
    """Run the agent."""
    parser = argparse.ArgumentParser(
        "reservoir-agent", description="Run what Reservoir places on this node."
    )
    parser.add_argument(
        "file", type=Path, nargs="?", default=FILE, help="what is run for which workload"
    )
    parser.add_argument(
        "--identity",
        action="store_true",
        help="print what the node is for once it is known, and end",
    )
    asked = parser.parse_args()
    logging.basicConfig(level="INFO", format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        configuration = read_configuration(asked.file)
    except ConfigurationError as error:
        sys.stderr.write(f"reservoir-agent: {error}\n")
        sys.exit(BAD_CONFIGURATION)
    instance = Instance(
        os.environ.get("AWS_ENDPOINT_URL"),
        os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
    )
    if asked.identity:
        sys.stdout.write(
            f"{json.dumps(_identity(instance, configuration.node_claims_table))}\n"
        )
        return
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stopped.append(received))
    copying = _copying(configuration, instance)
    work = Processes(configuration.log_folder, None if copying is None else copying.copies)
    agent = Agent(configuration, instance, work, time.time)
    while not stopped:
        agent.step()
        time.sleep(STEP_S)
    work.stop(STOP_S)
    if copying is not None:
        copying.finish(LAST_COPY_S)


def _copying(configuration: Configuration, instance: Instance) -> LogCopying | None:
    """Begin to copy what commands write, if the file says where to."""
    group = configuration.log_group
    if not group:
        return None

    def send(stream: str, at_ms: int, lines: Sequence[str]) -> None:
        instance.write_log(group, stream, at_ms, lines)

    copying = LogCopying(LogCopies(send, time.time))
    copying.start()
    return copying


def _identity(instance: Instance, table: str) -> Mapping[str, Any]:
    """Wait for what the node is for."""
    while True:
        try:
            found = instance.identity(table)
        except UnreachableError as error:
            logging.getLogger("reservoir.agent").warning("asks again: %s", error)
            found = None
        if found is not None:
            return found
        time.sleep(SOON_S)


if __name__ == "__main__":
    run()
