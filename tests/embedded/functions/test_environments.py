"""An execution environment and its process, which may be faster than whoever started it."""

import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

from lab.embedded.emulated_time.clock import EmulatedClock
from lab.embedded.functions.environments import Environment, EnvironmentSpec, Invocation
from lab.embedded.functions.zygote import Process, start_alone
from tests.embedded.conftest import until

HANDLER = """
import pathlib
pathlib.Path("loaded").touch()
def handle(event, context):
    return event
"""


@pytest.mark.embedded
def test_a_process_that_asks_for_its_event_before_it_is_known_waits_for_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    EmulatedClock().publish_to(tmp_path / "clock")
    path = f"{tmp_path}:{sysconfig.get_path('purelib')}"
    variables = {"PYTHONPATH": path, "EMBEDDED_CLOCK_FILE": str(tmp_path / "clock")}
    spec = EnvironmentSpec(
        "echo", "arn:echo", "handler.handle", 60, tmp_path, variables, tmp_path / "log"
    )

    def start_late(
        handler: str, variables: Mapping[str, str], folder: Path, stdin: int, log: IO[bytes]
    ) -> Process:
        process = start_alone(handler, variables, folder, stdin, log)
        until((tmp_path / "loaded").exists)
        # it asks as soon as it has loaded its handler; with less this test would find less, not fail
        time.sleep(0.2)
        return process

    environment = Environment(spec, start_late)
    outcome = environment.invoke(Invocation("request-1", b'"an event"', ""))
    environment.close()
    assert (outcome.body, outcome.failed) == ("an event", False)
