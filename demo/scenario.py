"""The story that the demo plays, step by step, and what must be true of EC2 after each."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import yaml

from demo.observer import Observed, Observer, Reservation
from embedded.client import EmbeddedAws
from embedded.reservoir.example import EXAMPLES, Titles

BLOCK_ENDS_IN: Final = timedelta(minutes=150)
RECLAIM_LEAD: Final = timedelta(minutes=30)  # EC2 begins to terminate a block's instances this long before its end
DRAIN_LEAD: Final = timedelta(minutes=40)
CHECKPOINT: Final = timedelta(minutes=5)  # what the training workload asks for on top
FAST: Final = 25.0  # emulated seconds a second while the block drains
STEP_LIMIT_S: Final = 60.0


class DemoFailedError(Exception):
    """Something that must be true of EC2 is not."""


def read_workloads() -> Mapping[str, Mapping[str, Any]]:
    """Return the workloads of the story by ``namespace/name``."""
    documents = yaml.safe_load_all((EXAMPLES / "workloads.yaml").read_text())
    return {f"{it['metadata']['namespace']}/{it['metadata']['name']}": it for it in documents}


@dataclass
class Story:
    """Plays the steps. ``show`` is called after every look at the world, with the step's title and what is wanted."""

    aws: EmbeddedAws
    observer: Observer
    titles: Titles
    demand_queue_url: str
    show: Callable[[Observed, str, Mapping[str, int]], None]
    monotonic: Callable[[], float]
    pause: Callable[[float], None]
    wanted: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)  # reservation title -> most units ever used
    released: set[str] = field(default_factory=set)  # claims whose notice was answered
    step: str = ""

    def play(self) -> None:
        """Play the whole story."""
        workloads = read_workloads()
        self._fill([workloads[name] for name in workloads if name != "serving/inference"])
        self._lose_a_race(workloads["serving/inference"])
        self._withdraw(workloads["serving/inference"])
        self._drain_the_block()

    def _fill(self, workloads: list[Mapping[str, Any]]) -> None:
        with self._step("demand arrives: reservations fill first, the rest is paid for"):
            for workload in workloads:
                self._send("submit", workload)
            self._until("every replica runs", self._everything_runs)
            for title in ("Capacity Block", "interruptible", "general", "memory"):
                reservation = self._reservation(title)
                self._require(
                    reservation.available_count == 0, f"{title}: {reservation.available_count} units left unused"
                )

    def _lose_a_race(self, inference: Mapping[str, Any]) -> None:
        with self._step("somebody else takes a unit between our look and our launch"):
            # EC2's counts lag behind what happens; here so far that nobody can see the outsider before the launch does.
            self.aws.ec2("configure", count_lag_s=STEP_LIMIT_S)
            self.aws.ec2("outsider_launch", capacity_reservation_id=self.titles.id_of("inference"), count=1)
            self._send("submit", inference)
            self._until("the launch loses the race", lambda seen: seen.counts["Launch Failed"] > 0)
            self.aws.ec2("configure", count_lag_s=0)
            self._until("every replica runs", self._everything_runs)
            ours = [it for it in self.observer.seen.live() if it.reservation_id == self.titles.id_of("inference")]
            self._require(len(ours) == 2, f"{len(ours)} of our instances are in a reservation with 2 units left")

    def _withdraw(self, inference: Mapping[str, Any]) -> None:
        with self._step("a workload is withdrawn: it leaves its nodes, its units are free again"):
            self._send("withdraw", inference)
            self.wanted["serving/inference"] = 0
            self._until("its units are free", self._left_by_inference)

    def _left_by_inference(self, seen: Observed) -> bool:
        """Do the workload system's part: answer each notice; then see whether the units are free."""
        for claim_id, detail in seen.drains.items():
            if claim_id not in self.released:
                self.released.add(claim_id)
                for workload in detail["workloads"]:
                    who = {"metadata": {"namespace": workload["namespace"], "name": workload["name"]}}
                    self._tell({"action": "release", "workload": who, "nodeClaim": claim_id})
        return self._reservation("inference").available_count == 2  # the third is the outsider's

    def _drain_the_block(self) -> None:
        with self._step("the Capacity Block nears its end: notice, then termination before EC2 reclaims"):
            block = self._reservation("Capacity Block")
            assert block.end_at is not None  # noqa: S101 - a block has an end
            ours = {it.claim_id for it in self.observer.seen.live() if it.reservation_id == block.id}
            self._require(len(ours) == 4, f"{len(ours)} of our instances run in the block")
            starts = block.end_at - DRAIN_LEAD - CHECKPOINT
            self.aws.clock.advance(starts - timedelta(seconds=30) - self.aws.clock.now())
            self.aws.clock.set_rate(FAST)
            self._until("its workloads are told", lambda seen: ours <= set(seen.drains))
            self._until("its nodes are gone", lambda seen: self._gone(seen, block))
            gone_at = self.aws.clock.now()
            self.aws.clock.set_rate(1.0)
            reclaim_at = block.end_at - RECLAIM_LEAD
            self._require(gone_at < reclaim_at, f"gone at {gone_at}, EC2 reclaims from {reclaim_at}")
            for claim_id in ours:
                deadline = datetime.fromisoformat(self.observer.seen.drains[str(claim_id)]["deadline"])
                self._require(deadline <= reclaim_at, f"the deadline {deadline} is after {reclaim_at}")

    def _gone(self, seen: Observed, block: Reservation) -> bool:
        return not [it for it in seen.live("pending", "running") if it.reservation_id == block.id]

    def _everything_runs(self, seen: Observed) -> bool:
        return seen.all_run(self.wanted)

    def _send(self, action: str, workload: Mapping[str, Any]) -> None:
        name = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
        if action == "submit":
            self.wanted[name] = workload["spec"]["replicas"]
        self._tell({"action": action, "workload": workload})

    def _tell(self, body: Mapping[str, Any]) -> None:
        self.aws.client("sqs").send_message(QueueUrl=self.demand_queue_url, MessageBody=json.dumps(body))

    def _reservation(self, title: str) -> Reservation:
        return next(it for it in self.observer.seen.reservations if it.title == title)

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self.step = title
        self._look()
        yield

    def _look(self) -> Observed:
        seen = self.observer.refresh()
        for reservation in seen.reservations:
            self.peak[reservation.title] = max(self.peak.get(reservation.title, 0), reservation.used_count)
        self.show(seen, self.step, self.wanted)
        return seen

    def _until(self, what: str, holds: Callable[[Observed], bool]) -> None:
        """Look at the world until ``holds``, for a limited time."""
        limit = self.monotonic() + STEP_LIMIT_S
        while not holds(self._look()):
            if self.monotonic() > limit:
                raise DemoFailedError(f"{self.step}: not within {STEP_LIMIT_S:.0f} s: {what}")
            self.pause(0.2)

    def _require(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise DemoFailedError(f"{self.step}: {otherwise}")
