"""How soon after the intended instant nodes are told that their block ends, and a reservation that begins is used.

It is used by demand that waits for it, or by a static pool, which launches a node on each unit: what is measured is how
long a unit is paid for and boots nothing yet. ``static-pool-nodes-lost`` measures it of units whose node EC2 ends.

The deployed stack, in its own time: many Capacity Blocks whose drains (or starts) are spread evenly over a minute, so
that every offset to the minute's schedules is met. The clock runs at a fifth of real speed while they come: all of AWS
and every function share this machine's few cores, while an account gives each invocation its own. Lateness counts in
the clock's seconds, so whatever is computed counts a fifth of what it took here.

``...-arrive`` lets EC2's events through, ``...-lost`` drops every event about blocks; exact timers and sweeps remain.
``...-swept`` deletes the timers too, which on AWS may by themselves be a minute late. Measured is the time on the event
that tells, which has whole seconds: the latest instant that it can stand for is taken.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from lab.bench.harness import tell
from lab.demo.observer import JsonObject
from lab.embedded.reservoir import DeployedReservoir
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.core.model.capacity_reservation import (
    RECLAIM_LEAD,
    RECLAIM_MARGIN,
    USUAL_NOTICE,
)
from reservoir.manifests.kinds.node_pool import ALL_RESERVED
from reservoir.names import Function

BLOCKS: Final = 40
APART: Final = timedelta(seconds=1.5)
LOST: Final = 20  # nodes that EC2 ends
# when the first of them is due, counted from its purchase
AHEAD: Final = timedelta(hours=3)
TYPE, NAME, ZONE = "p5.48xlarge", "timely", "us-east-1a"
RATE: Final = 0.2  # seconds of the clock in a real one
NODES_LOST: Final = "static-pool-nodes-lost"
_WHOLE_SECOND: Final = timedelta(seconds=1)
_LIMIT_S: Final = 900.0


def cases() -> Sequence[str]:
    """Return the kinds of instants, with events and timers, with timers, and with neither; and nodes that EC2 ends."""
    kinds = [
        f"{what}-{fate}"
        for what in ("block-drain", "activation", "static-pool")
        for fate in ("events-arrive", "events-lost", "swept")
    ]
    return [*kinds, NODES_LOST]


def run(case: str) -> dict[str, object]:
    """Deploy, let everything become due, and return how late it was."""
    with DeployedReservoir(report=tell) as reservoir:
        is_static = case.startswith("static-pool")
        stage = _Stage(World(reservoir), is_static=is_static)
        if case == NODES_LOST:
            return stage.stands_again()
        measured = stage.drains if case.startswith("block-drain") else stage.starts
        if is_static:
            measured = stage.stands
        return measured(
            events_arrive=case.endswith("arrive"), timers_fire=not case.endswith("swept")
        )


class _Stage:
    def __init__(self, world: World, *, is_static: bool) -> None:
        self.world = world
        self.due: dict[str, datetime] = {}  # by reservation
        self.timers_fire = True
        # by reservation: the latest instant that its first event can stand for
        self.told: dict[str, datetime] = {}
        node_class, pool = one_type_pool(NAME, TYPE, ["reserved"])
        if is_static:
            pool["spec"]["replicas"] = ALL_RESERVED
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            world.apply(write_manifests(Path(folder), [node_class, pool]))

    def drains(self, *, events_arrive: bool, timers_fire: bool) -> dict[str, object]:
        """Measure Node Draining against the instant at which each block's drain shall begin."""
        self._buy(
            lambda due_in: {
                "end_in_s": (
                    due_in + RECLAIM_LEAD + RECLAIM_MARGIN + USUAL_NOTICE
                ).total_seconds()
            }
        )
        self.world.discover()
        self.world.send(
            {"action": "submit", "workload": story_workload(NAME, BLOCKS, "100")}
        )
        self.world.until(
            "all run", lambda seen: len(seen.live("running")) == BLOCKS, real_time=True
        )
        self._let_come(events_arrive=events_arrive, timers_fire=timers_fire)
        self._watch(
            "Node Draining", lambda detail: [detail["node"]["capacityReservationId"]]
        )
        instances = [instance.id for instance in self.world.seen.live()]
        # Deadlines pass 8 minutes after the drains' start; EC2 begins with the first block 59 seconds after the last.
        self.world.aws.clock.advance(
            max(self.due.values()) + timedelta(minutes=8, seconds=1) - self.world.now()
        )
        self.world.reservoir.invoke(Function.EXPIRE)
        return {
            **self._lateness(),
            "ended_by_us": self._ended_by_us(instances),
            "blocks": BLOCKS,
        }

    def starts(self, *, events_arrive: bool, timers_fire: bool) -> dict[str, object]:
        """Measure Workload Placed against each block's start, for demand that only the blocks can serve."""
        self._buy_ahead()
        self.world.send(
            {"action": "submit", "workload": story_workload(NAME, BLOCKS, "100")}
        )
        self.world.until(
            "demand waits", lambda seen: f"story/{NAME}" in seen.pending, real_time=True
        )
        self._let_come(events_arrive=events_arrive, timers_fire=timers_fire)
        self._watch(
            "Workload Placed",
            lambda detail: [node["capacityReservationId"] for node in detail["nodes"]],
        )
        return self._all_run()

    def stands(self, *, events_arrive: bool, timers_fire: bool) -> dict[str, object]:
        """Measure Node Launched against each block's start, in a static pool that stands on every unit of them."""
        self._buy_ahead()
        self._let_come(events_arrive=events_arrive, timers_fire=timers_fire)
        self._watch(
            "Node Launched", lambda detail: [detail["node"]["capacityReservationId"]]
        )
        return self._all_run()

    def stands_again(self) -> dict[str, object]:
        """Measure Node Launched against the instant at which EC2 ends the node that stood on the unit before."""
        # On-demand reservations: EC2 cleans a block's unit for minutes, and gives it to nobody meanwhile.
        for number in range(LOST):
            self.world.reserve(f"{NAME} {number}", TYPE, ZONE, 1, NAME)
        self.world.discover()
        stood = self.world.until(
            "all stand", lambda seen: len(seen.live("running")) == LOST, real_time=True
        ).live()
        self.world.aws.clock.govern(governed=False)
        self.world.aws.clock.set_rate(RATE)
        for instance in stood:
            assert instance.reservation_id is not None
            self.due[instance.reservation_id] = self.world.now()
            self.world.aws.ec2("terminate_instance", instance_id=instance.id)
            time.sleep(APART.total_seconds() / RATE)
        first = {instance.id for instance in stood}
        self._watch(
            "Node Launched",
            lambda detail: (
                []
                if detail["node"]["instanceId"] in first
                else [detail["node"]["capacityReservationId"]]
            ),
        )
        return {**self._lateness(), "nodes": LOST}

    def _buy_ahead(self) -> None:
        self._buy(
            lambda due_in: {
                "start_in_s": due_in.total_seconds(),
                "end_in_s": timedelta(days=2).total_seconds(),
            }
        )
        self.world.discover()

    def _all_run(self) -> dict[str, object]:
        self.world.aws.clock.set_rate(1)
        self.world.until(
            "all run", lambda seen: len(seen.live("running")) == BLOCKS, real_time=True
        )
        assert not self.world.seen.over_count, self.world.seen.over_count
        return {**self._lateness(), "blocks": BLOCKS}

    def _buy(self, times: Callable[[timedelta], Mapping[str, float]]) -> None:
        for number in range(BLOCKS):
            due_in = AHEAD + number * APART
            before = self.world.now()
            block = self.world.buy_block(
                f"{NAME} {number}", TYPE, ZONE, 1, NAME, **times(due_in)
            )
            # a little too early: calls the product later than it is
            self.due[block] = before + due_in
        tell(f"{BLOCKS} blocks bought")

    def _let_come(self, *, events_arrive: bool, timers_fire: bool) -> None:
        if not events_arrive:
            self.world.aws.ec2(
                "mistreat_events",
                kind="drop",
                detail_type="Capacity Block",
                count=100 * BLOCKS,
            )
        self.timers_fire = timers_fire
        # how late the work is done is what is measured
        self.world.aws.clock.govern(governed=False)
        self.world.aws.clock.advance(
            min(self.due.values()) - timedelta(seconds=10) - self.world.now()
        )
        self.world.aws.clock.set_rate(RATE)

    def _delete_timers(self) -> None:
        scheduler = self.world.aws.client("scheduler")
        for page in scheduler.get_paginator("list_schedules").paginate():
            for timer in page["Schedules"]:
                scheduler.delete_schedule(Name=timer["Name"], GroupName=timer["GroupName"])

    def _watch(
        self, detail_type: str, concerned: Callable[[JsonObject], Sequence[str]]
    ) -> None:
        limit, said = time.monotonic() + _LIMIT_S, 0.0
        while len(self.told) < len(self.due):
            if not self.timers_fire:
                self._delete_timers()  # each sweep sets those anew that are near
            for event in self.world.look().events:
                if event["detail-type"] == detail_type:
                    at = datetime.fromisoformat(event["time"]) + _WHOLE_SECOND
                    for reservation_id in concerned(event["detail"]):
                        self.told.setdefault(reservation_id, at)
            if time.monotonic() > limit:
                raise TimeoutError(
                    f"{len(self.told)} of {len(self.due)} were told\n{self.world.summary()}"
                )
            if time.monotonic() - said > 5:  # seconds between two lines
                said = time.monotonic()
                tell(f"{len(self.told)} of {len(self.due)}")
            time.sleep(0.5)

    def _lateness(self) -> dict[str, object]:
        late_s = sorted(
            (self.told[key] - self.due[key]).total_seconds() for key in self.due
        )
        assert late_s[0] >= 0, f"told {-late_s[0]} s before the time"
        return {
            "p50_s": round(late_s[len(late_s) // 2], 1),
            "p99_s": round(late_s[int(len(late_s) * 0.99)], 1),
            "worst_s": round(late_s[-1], 1),
        }

    def _ended_by_us(self, instance_ids: Sequence[str]) -> int:
        """Count instances that we ended; EC2 would give another reason."""
        pages = self.world.aws.client("ec2").get_paginator("describe_instances")
        shown: list[Any] = [
            instance
            for page in pages.paginate(InstanceIds=list(instance_ids))
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        ]
        return sum(
            it.get("StateReason", {}).get("Code") == "Client.UserInitiatedShutdown"
            for it in shown
        )
