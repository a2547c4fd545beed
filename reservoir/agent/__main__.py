"""``reservoir-agent [FILE]``: run until SIGTERM; FILE is /etc/reservoir/agent.toml unless it is named."""

import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from reservoir.agent.agent import Agent
from reservoir.agent.aws import Instance
from reservoir.agent.configuration import ConfigurationError, read_configuration
from reservoir.agent.processes import Processes

FILE: Final = Path("/etc/reservoir/agent.toml")
STEP_S: Final = 1.0
BAD_CONFIGURATION: Final = 78  # EX_CONFIG: systemd is told not to start it again


def run() -> None:
    """Run the agent."""
    logging.basicConfig(level="INFO", format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        configuration = read_configuration(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
    except ConfigurationError as error:
        sys.stderr.write(f"reservoir-agent: {error}\n")
        sys.exit(BAD_CONFIGURATION)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stopped.append(received))
    work = Processes(configuration.log_folder)
    instance = Instance(os.environ.get("AWS_ENDPOINT_URL"), os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"))
    agent = Agent(configuration, instance, work, time.time)
    while not stopped:
        agent.step()
        time.sleep(STEP_S)
    work.stop()


if __name__ == "__main__":
    run()
