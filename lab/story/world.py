"""A deployed Reservoir, what a test does to it, and what it sees of it: only AWS's public API and the command line."""

import json
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from infra.naming import function_name
from lab.demo.observer import Observed, Observer
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import DeployedReservoir
from lab.story.commands import run_command
from reservoir.names import DEPLOYMENT, EVENT_BUS, Function, Queue, output_name

# keeps a broken story from hanging; what it waits for takes seconds on an idle machine
LIMIT_S: Final = 600.0
PACE: Final = timedelta(seconds=1)  # of emulated time from one look to the next ...
# ... and after some looks, when it is a schedule that is waited for
STRIDE: Final = timedelta(seconds=5)
LOOKS_BEFORE_STRIDES: Final = 20
HURRY: Final = 20.0  # emulated seconds a second
PAUSE_S: Final = 0.2  # of real time, where it is a process that is waited for
# What a function writes when its role lacks a permission.
DENIALS: Final = ("AccessDenied", "UnauthorizedOperation", "not authorized to perform")


class World:
    """One deployment, and one subscriber of its bus. ``titles`` names the reservations that the subscriber watches.

    Emulated time runs as real time does, and jumps ahead while a story waits; where instances run processes
    (``runs_nodes``), for which the clock does not wait, it never jumps by itself.
    """

    def __init__(self, reservoir: DeployedReservoir, *, runs_nodes: bool = False) -> None:
        self.reservoir = reservoir
        self._runs_nodes = runs_nodes
        self.titles: dict[str, str] = {}
        # lines that a story about missing permissions brought about
        self.expected_denials: list[str] = []
        self._observer = Observer(
            reservoir.aws,
            bus_name=reservoir.outputs[output_name(EVENT_BUS)],
            titles=self.titles,
        )
        # all facts, and not only the latest: a story may ask for any of them
        self.seen.events = deque()

    @property
    def aws(self) -> EmbeddedAws:
        """The embedded AWS."""
        return self.reservoir.aws

    @property
    def seen(self) -> Observed:
        """What the subscriber saw at the last look."""
        return self._observer.seen

    def output(self, variable: str) -> str:
        """Return the stack output that carries an environment variable's value."""
        return self.reservoir.outputs[output_name(variable)]

    def reserve(
        self,
        title: str,
        instance_type: str,
        zone: str,
        count: int,
        purpose: str,
        **more: Any,
    ) -> str:
        """Make a targeted on-demand reservation; return its id."""
        answer = self.aws.client("ec2").create_capacity_reservation(
            InstanceType=instance_type,
            InstancePlatform="Linux/UNIX",
            AvailabilityZone=zone,
            InstanceCount=count,
            InstanceMatchCriteria="targeted",
            TagSpecifications=[
                {
                    "ResourceType": "capacity-reservation",
                    "Tags": [{"Key": "purpose", "Value": purpose}],
                }
            ],
            **more,
        )
        return self.watch(
            title, str(answer["CapacityReservation"]["CapacityReservationId"])
        )

    def buy_block(
        self,
        title: str,
        instance_type: str,
        zone: str,
        count: int,
        purpose: str,
        **times: float,
    ) -> str:
        """Buy a Capacity Block (``start_in_s``, ``end_in_s``); return its id."""
        block = self.aws.ec2(
            "purchase_capacity_block",
            instance_type=instance_type,
            zone=zone,
            count=count,
            tags={"purpose": purpose},
            **times,
        )
        return self.watch(title, str(block["capacity_reservation_id"]))

    def watch(self, title: str, reservation_id: str) -> str:
        """Let the subscriber watch a reservation; return its id."""
        self.titles[reservation_id] = title
        return reservation_id

    def discover(self) -> None:
        """Read reservations and classes now instead of at the next schedule; instance types have been, by then."""
        self.reservoir.invoke(Function.DISCOVER_RESERVATIONS)

    def command(
        self, *arguments: str, stdin: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command line against this deployment."""
        return run_command(arguments, self.reservoir.environment(), stdin)

    def apply(self, manifests: Path) -> None:
        """Apply a file or folder of manifests; what the command line writes is in the error."""
        done = self.command("apply", "-f", str(manifests))
        assert done.returncode == 0, done.stdout + done.stderr

    def send(self, body: Mapping[str, Any] | str) -> None:
        """Send a message of demand, as an object or as raw text."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.aws.client("sqs").send_message(
            QueueUrl=self.output(Queue.DEMAND.value), MessageBody=text
        )

    def look(self) -> Observed:
        """Read EC2 and the bus."""
        return self._observer.refresh()

    def events(self, detail_type: str) -> list[dict[str, Any]]:
        """Return the details of the facts of a kind that were read so far, in the order in which they came.

        The bus keeps no order, and more of a kind may come.
        """
        return [
            event["detail"]
            for event in self.seen.events
            if event["detail-type"] == detail_type
        ]

    def until(
        self, what: str, holds: Callable[[Observed], bool], *, real_time: bool = False
    ) -> Observed:
        """Let emulated time pass until ``holds``; what functions logged is in the error when it never does.

        With ``real_time`` it passes no faster than outside: a failure that was ordered keeps a request from its
        answer, or times are what is measured.
        """
        limit, looks = time.monotonic() + LIMIT_S, 0
        while not holds(self.look()):
            looks += 1
            assert time.monotonic() < limit, (
                f"not within {LIMIT_S:.0f} s: {what}\n{self.summary()}"
            )
            if real_time or self._runs_nodes:
                time.sleep(PAUSE_S)
            else:
                self.aws.clock.advance(PACE if looks < LOOKS_BEFORE_STRIDES else STRIDE)
        return self.seen

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """Let emulated time run ahead while a program of a story waits for something."""
        self.aws.clock.set_rate(HURRY)
        try:
            yield
        finally:
            self.aws.clock.set_rate(1)

    def summary(self) -> str:
        """Return what a developer wants to see when a story fails."""
        facts = [
            f"{event['time']} {event['detail-type']}: {json.dumps(event['detail'])}"
            for event in self.seen.events
        ]
        complaints = list(self._lines_with(("ERROR", "WARNING", "Traceback")))
        return "\n".join(
            ["facts:", *facts[-30:], "complaints of functions:", *complaints[-30:]]
        )

    def log(self, function: Function) -> str:
        """Return what a function has written."""
        return self.aws.function_log(function_name(self.output(DEPLOYMENT), function))

    def _lines_with(self, words: Collection[str]) -> Iterator[str]:
        """Yield what functions have written with one of these words, each line with its function."""
        for function in Function:
            for line in self.log(function).splitlines():
                if any(word in line for word in words):
                    yield f"{function}: {line}"

    def denials(self) -> list[str]:
        """Return the lines in which functions tell of permissions that they lack, but for the expected ones."""
        lines = self._lines_with(DENIALS)
        return [line for line in lines if line not in self.expected_denials]

    def now(self) -> datetime:
        """Return the emulated time."""
        return self.aws.clock.now()
