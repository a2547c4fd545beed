"""The story that the demo plays, step by step, and what must be true of EC2 after each."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import yaml

from lab.demo.chart import Mark
from lab.demo.errors import NotReachedError, RuleBrokenError, TooSlowError
from lab.demo.nodes import TUNING, Nodes, tuning_workload
from lab.demo.observer import Instance, Observed, Observer, Reservation, workload_name
from lab.demo.paid_units import (
    DATABASE,
    DATABASE_TYPE,
    READY,
    READY_COUNT,
    database_workload,
    enlarge,
)
from lab.demo.workload_system import WorkloadSystem
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.example import EXAMPLES, Titles

BLOCK_ENDS_IN: Final = timedelta(minutes=150)
DEMAND_AFTER: Final = timedelta(minutes=10)
# EC2 begins to terminate a block's instances this long before its end
RECLAIM_LEAD: Final = timedelta(minutes=30)
DRAIN_LEAD: Final = timedelta(minutes=40)
RACE_AFTER: Final = timedelta(minutes=30)
WITHDRAW_AFTER: Final = timedelta(minutes=60)
# of the clock between two looks, while nothing is expected
STRIDE: Final = timedelta(minutes=10)
PACE: Final = timedelta(seconds=2)  # the same, while something is
# What a step takes, whatever happens to the first try: everything that an event brings is found by a schedule within a
# minute, and what failed is tried again.
STEP_LIMIT: Final = timedelta(minutes=10)
REAL_LIMIT_S: Final = 300.0  # nobody watches longer
# of real time for what runs on nodes, each time that the clock moves on
NODES_PAUSE_S: Final = 0.25
BLOCK_COUNT: Final = 5
INFERENCE: Final = "serving/inference"


def read_workloads() -> Mapping[str, Mapping[str, Any]]:
    """Return the workloads of the story by ``namespace/name``."""
    documents = yaml.safe_load_all((EXAMPLES / "workloads.yaml").read_text())
    return {
        f"{it['metadata']['namespace']}/{it['metadata']['name']}": it for it in documents
    }


@dataclass
class Story:
    """Plays the steps. ``show`` is called after every look at the world, with the step's title and what is wanted.

    ``nodes`` are those that run something; what they do takes real time, which ``sleep`` gives them.
    """

    aws: EmbeddedAws
    observer: Observer
    titles: Titles
    workload_system: WorkloadSystem
    show: Callable[[Observed, str, Mapping[str, int]], None]
    monotonic: Callable[[], float]
    nodes: Nodes
    sleep: Callable[[float], None]
    wanted: dict[str, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    step: str = ""

    def play(self) -> None:
        """Play the whole story."""
        workloads = read_workloads()
        self.aws.clock.pause()  # from here on it moves when the story moves it
        began_at = _present(self.observer.refresh())
        with self._step("nobody wants anything: what is reserved is paid for, and idle"):
            self._pass_until(began_at + DEMAND_AFTER)
        self._fill(
            [
                *(workload for name, workload in workloads.items() if name != INFERENCE),
                tuning_workload(),
                database_workload(),
            ]
        )
        self._pass_until(began_at + RACE_AFTER)
        self._lose_a_race(workloads[INFERENCE])
        self._pass_until(began_at + WITHDRAW_AFTER)
        self._withdraw(workloads[INFERENCE])
        self._stand()
        self._move_in()
        self._drain_the_block()

    def _fill(self, workloads: list[Mapping[str, Any]]) -> None:
        with self._step("demand arrives: reservations fill first, the rest is paid for"):
            for workload in workloads:
                self._send("submit", workload)
            self._until("every replica runs", self._everything_runs)
            for title in ("Capacity Block", "interruptible", "general", "memory"):
                reservation = self._reservation(title)
                self._require(
                    reservation.available_count == 0,
                    f"{title}: {reservation.available_count} units left unused",
                )

    def _lose_a_race(self, inference: Mapping[str, Any]) -> None:
        with self._step("somebody else takes a unit between our look and our launch"):
            # EC2's counts lag behind what happens; here so far that nobody can see the outsider before the launch does.
            self.aws.ec2("configure", count_lag_s=STEP_LIMIT.total_seconds())
            self.aws.ec2(
                "outsider_launch",
                capacity_reservation_id=self.titles.id_of("inference"),
                count=1,
            )
            self._send("submit", inference)
            self._until(
                "the launch loses the race", lambda seen: seen.counts["Launch Failed"] > 0
            )
            self.aws.ec2("configure", count_lag_s=0)
            self._until("every replica runs", self._everything_runs)
            ours = self._inside(self._reservation("inference"))
            self._require(
                len(ours) == 2,
                f"{len(ours)} of our instances are in a reservation with 2 units left",
            )

    def _withdraw(self, inference: Mapping[str, Any]) -> None:
        with self._step("a workload is withdrawn: notice, `release`, its units are free"):
            self._send("withdraw", inference)
            self.wanted[INFERENCE] = 0
            # The third unit is the outsider's.
            self._until(
                "its units are free",
                lambda _: self._reservation("inference").available_count == 2,
            )

    def _stand(self) -> None:
        ready = self._reservation(READY)
        assert ready.start_at is not None  # noqa: S101 - every reservation has a start
        self._pass_until(ready.start_at)
        with self._step("a block begins: its static pool stands before anything asks"):
            self._until(
                "a node runs on each unit",
                lambda _: self._running_in(READY) == READY_COUNT,
            )

    def _running_in(self, title: str) -> int:
        inside = self._inside(self._reservation(title))
        return sum(it.state == "running" for it in inside)

    def _move_in(self) -> None:
        before = self._of_type(DATABASE_TYPE)
        bought = [it.id for it in before if it.reservation_id is None]
        self._require(
            len(bought) == 1, f"{len(bought)} nodes of the database are on demand"
        )
        with self._step("units become free: the node on demand moves in, and runs on"):
            enlarge(self.aws, self.titles.id_of(DATABASE))
            self._until("it is reserved", lambda seen: bought[0] in seen.moved_in_at)
            after = self._of_type(DATABASE_TYPE)
            self._require(
                {it.id for it in after} == {it.id for it in before},
                "an instance was restarted",
            )
            self._require(
                all(it.reservation_id is not None for it in after),
                "an instance still runs on demand",
            )

    def _of_type(self, instance_type: str) -> list[Instance]:
        live = self.observer.seen.live()
        return [it for it in live if it.instance_type == instance_type]

    def _drain_the_block(self) -> None:
        block = self._reservation("Capacity Block")
        assert block.end_at is not None  # noqa: S101 - a block has an end
        reclaim_at = block.end_at - RECLAIM_LEAD
        self._until(
            "the process on a node works",
            lambda _: self.nodes.progress() > 0,
            with_nodes=True,
        )
        self._pass_until(block.end_at - DRAIN_LEAD - timedelta(minutes=1))
        ours = {str(it.claim_id): it for it in self._inside(block)}
        self._require(
            len(ours) == BLOCK_COUNT, f"{len(ours)} of our instances run in the block"
        )
        tuning = {claim_id for claim_id in ours if self._is_for(TUNING, claim_id)}
        hung = min(ours.keys() - tuning)
        self.workload_system.silent.add(hung)
        self._pass_until(block.end_at - DRAIN_LEAD)
        with self._step(
            "the block nears its end: notice, `release`, gone; one never answers"
        ):
            self._until(
                "its workloads are told", lambda seen: ours.keys() <= seen.drains.keys()
            )
            self._until(
                "who answered is gone",
                lambda _: self._claims_inside(block) <= {hung},
                with_nodes=True,
            )
            deadline = self._deadline(hung)
            self._require(
                deadline <= reclaim_at, f"the deadline {deadline} is after {reclaim_at}"
            )
            for claim_id in ours.keys() - {hung}:
                gone_at = self._entered(ours[claim_id], "shutting-down")
                self._require(
                    gone_at < deadline, f"{claim_id} was released and ended at {gone_at}"
                )
            self._require(
                self._claims_inside(block) == {hung},
                "a node was ended that had not answered",
            )
        with self._step(
            "its agent saved a checkpoint: the process goes on from there elsewhere"
        ):
            self._until(
                "it goes on", lambda _: len(self.nodes.begun()) > 1, with_nodes=True
            )
            begun, saved = self.nodes.begun(), self.nodes.checkpoint()
            self._require(
                begun == [0, saved], f"it began at {begun}, and {saved} was saved"
            )
        self._pass_until(deadline)
        with self._step("the deadline ends the node that never answered, before EC2 would"):
            self._until("it is gone", lambda _: not self._claims_inside(block))
            gone_at = self._entered(ours[hung], "shutting-down")
            self._require(
                deadline <= gone_at < reclaim_at,
                f"ended at {gone_at}, not in {deadline} to {reclaim_at}",
            )
            self._until(
                "everybody is told", lambda seen: ours.keys() <= seen.terminated.keys()
            )

    def _is_for(self, workload: str, claim_id: str) -> bool:
        launched = self.observer.seen.launched[claim_id]["workloads"]
        return any(workload_name(it) == workload for it in launched)

    def _inside(self, reservation: Reservation) -> list[Instance]:
        return [
            it for it in self.observer.seen.live() if it.reservation_id == reservation.id
        ]

    def _claims_inside(self, reservation: Reservation) -> set[str]:
        return {str(it.claim_id) for it in self._inside(reservation)}

    def _deadline(self, claim_id: str) -> datetime:
        return datetime.fromisoformat(self.observer.seen.drains[claim_id]["deadline"])

    def _entered(self, instance: Instance, state: str) -> datetime:
        """Return when EC2 says that an instance entered a state; wait for the event, which may come after the state."""
        self._until(
            f"EC2 tells that {instance.id} is {state}",
            lambda seen: state in seen.entered[instance.id],
        )
        return self.observer.seen.entered[instance.id][state]

    def _everything_runs(self, seen: Observed) -> bool:
        return seen.all_run(self.wanted)

    def _send(self, action: str, workload: Mapping[str, Any]) -> None:
        if action == "submit":
            name = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
            self.wanted[name] = workload["spec"]["replicas"]
        self.workload_system.send(action, workload)

    def _reservation(self, title: str) -> Reservation:
        return next(it for it in self.observer.seen.reservations if it.title == title)

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self.step = title
        self.marks.append(Mark(_present(self._look()), title))
        yield

    def _look(self) -> Observed:
        seen = self.observer.look()
        self.workload_system.answer(seen)
        self.show(seen, self.step, self.wanted)
        return seen

    def _pass_until(self, moment: datetime) -> None:
        """Let emulated time pass in strides; what happens meanwhile is seen, and notices are answered."""
        while (now := self.aws.clock.now()) < moment:
            self.aws.clock.advance(min(STRIDE, moment - now), coalesce=True)
            self._look()

    def _until(
        self, what: str, holds: Callable[[Observed], bool], *, with_nodes: bool = False
    ) -> None:
        """Let emulated time pass until ``holds``.

        It stands while work is done, so nothing can be too late because this machine is slow: when a step's time is
        over, something did not happen that should have. Processes on nodes are no such work: where they have something
        to do (``with_nodes``), they get real time as well.
        """
        seen = self._look()
        limit, real_limit_s = _present(seen) + STEP_LIMIT, self.monotonic() + REAL_LIMIT_S
        while not holds(seen):
            if _present(seen) >= limit:
                raise NotReachedError(
                    f"{self.step}: not within {STEP_LIMIT} of emulated time: {what}"
                )
            if self.monotonic() > real_limit_s:
                raise TooSlowError(
                    f"{self.step}: not within {REAL_LIMIT_S:.0f} real seconds: {what}"
                )
            if with_nodes:
                self.sleep(NODES_PAUSE_S)
            self.aws.clock.advance(PACE)
            seen = self._look()

    def _require(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise RuleBrokenError(f"{self.step}: {otherwise}")


def _present(seen: Observed) -> datetime:
    assert seen.now is not None  # noqa: S101 - it has looked
    return seen.now
