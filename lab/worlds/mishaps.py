"""A fleet at work, and what may befall its tables and EC2's answers while the functions go on."""

import random
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from lab.fakes.discovery import MemoryLaunchEnvironment
from lab.fakes.ec2 import FakeEc2, _Launched
from lab.fakes.manifests import workload_manifest
from lab.fakes.outside import with_parts
from lab.fakes.stores.safety import ROLES
from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.launch_world import node_class
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.core.safety.endings import Bound, Bounds, EndingKind
from reservoir.manifests.messages import SubmitMessage
from reservoir.names import OWNER_TAG
from reservoir.ports.ec2 import InstanceHealth
from reservoir.ports.errors import ThrottledError
from reservoir.ports.messaging import LaunchBatch
from reservoir.ports.policy import PolicyKind
from reservoir.ports.state import WorkloadRecord
from reservoir.runtime.composition.discover_reservations import discover_reservations_from
from reservoir.runtime.composition.intake import intake_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.demand.intake import Intake
from reservoir.usecases.discovery.discover_reservations import DiscoverReservations

RULES: Final = DemandRules(frozenset({"gpu"}))

Rows = dict[Any, Any]
"""The rows of one table in memory."""

NODES: Final = 24
ONE_EACH: Final = Bounds({kind: Bound(0, 1, 1) for kind in EndingKind})
NO_BOUNDS: Final = Bounds({kind: Bound(100, 1000, 1000) for kind in EndingKind})


_PART: Final = 0.5  # of the rows, where not all are meant
ABOUT_RESERVATIONS: Final = (
    NoticeKind.RESERVATION_CHANGED,
    NoticeKind.RESERVATION_UNDERUTILIZED,
)


class Mishap(StrEnum):
    """What befell a table."""

    NOTHING = "nothing"
    EMPTIED = "emptied"  # all rows are gone, the mark too
    ROWS_DELETED = "rows deleted"  # somebody deleted all rows but the mark
    RESTORED = "restored"  # to an hour ago; DynamoDB makes a new table of that
    WRITTEN_BACK = "written back"  # an hour ago's rows, by a script, into the same table
    # a script gave all rows other values: nodes are empty and drifted, work is withdrawn
    REWRITTEN = "rewritten"
    TORN = "torn"  # some rows are as they were an hour ago: half of many transactions
    OLDER_FORM = "older form"  # rows that lack what newer versions write
    NEWER_FORM = "newer form"  # rows that this version cannot read
    SOME_NEWER = "some of a newer form"  # functions of two releases write side by side


NOTICED: Final = frozenset({Mishap.EMPTIED, Mishap.RESTORED})
# which carries no mark: what it holds can be found again
TABLES: Final = (*ROLES, "Offerings")


class Answers(StrEnum):
    """How EC2 answers."""

    WHOLE = "whole"
    PARTIAL = "partial"  # listings leave instances out
    FAILING = "failing"
    UNWELL = "unwell"  # the status checks of all instances are said to fail


class PartialEc2(FakeEc2):
    """EC2 that answers badly when told to."""

    answers = Answers.WHOLE

    def _seen(self, instance: Instance) -> bool:
        if self.answers is Answers.FAILING:
            raise ThrottledError("RequestLimitExceeded", "DescribeInstances")
        return self.answers is not Answers.PARTIAL or int(instance.id[2:], 16) % 3 > 0

    def get_many(self, instance_ids: Collection[str]) -> Mapping[str, Instance]:
        return {
            key: it for key, it in super().get_many(instance_ids).items() if self._seen(it)
        }

    def list_unhealthy(self) -> tuple[InstanceHealth, ...]:
        if self.answers is not Answers.UNWELL:
            return super().list_unhealthy()
        since = self._clock.now() - timedelta(hours=1)
        return tuple(InstanceHealth(instance.id, since) for instance in self.live())

    def _shown(self) -> list[Instance]:
        return [instance for instance in super()._shown() if self._seen(instance)]


class FleetWorld(DisruptWorld):
    """All functions on a fleet that nobody has asked to change."""

    def __init__(self, expire_after: str = "Never") -> None:
        super().__init__("reserved", "on-demand", consolidateAfter="0s")
        self.let_expire(expire_after)
        self.batches: list[LaunchBatch] = []
        self.ec2: Any = PartialEc2(self.clock)
        self.templates._ec2 = self.ec2
        self.sent: list[SubmitMessage] = []
        status = node_class().status
        self.environment = MemoryLaunchEnvironment(
            status.subnets, status.security_group_ids, status.machine_images
        )

    def outside(self, **chosen: Any) -> Outside:
        return with_parts(super().outside(**chosen), launch_environment=self.environment)

    def discovery(self) -> DiscoverReservations:
        return discover_reservations_from(self.outside())

    def intake(self) -> Intake:
        return intake_from(self.outside())

    # --- time

    def every_function(self) -> None:
        """One minute. A function that fails ends nothing more, and is run again with the next minute."""
        self.clock.advance(minutes=1)
        for instance in self.ec2.all():
            if instance.state == "shutting-down":
                self.ec2.change(instance.id, state="terminated")
        self.ec2.start_all()
        now = self.clock.now()
        told = [
            Notice(NoticeKind.STATE_CHANGED, now, (instance.id,))
            for instance in self.ec2.live()
        ]
        told += [
            Notice(kind, now, reservation_ids=tuple(self.ec2.reservations))
            for kind in ABOUT_RESERVATIONS
        ]
        for function in (
            self.expire().run,
            lambda: self.expire().run_for("cr-1"),
            self.expire().run_deadlines,
            lambda: self.react().run(told),
            self.discovery().run,
            self.collect().run,
            self.plan_and_launch,
            self.launch_again,
            self.submit_again,
            self.disrupt().run,
            self.release,
            self.plan_and_launch,
        ):
            with suppress(Exception):
                function()

    def send(self, name: str, replicas: int, **spec: Any) -> None:
        """Submit replicas that need a node each."""
        workload = workload_manifest(
            f"research/{name}", replicas, {"nvidia.com/gpu": 8}, generation=1, **spec
        )
        self.sent.append(
            SubmitMessage.model_validate({"action": "submit", "workload": workload})
        )
        self.intake().apply(self.sent[-1], RULES)

    def _due_batches(self) -> list[LaunchBatch]:
        due = super()._due_batches()
        self.batches += due
        return due

    def launch_again(self) -> None:
        """SQS delivers launches twice, too, some of them late: a few each minute."""
        first = self.clock.now().minute % 4
        for batch in self.batches[first::4]:
            self.launch().run(batch)

    def let_expire(self, after: str) -> None:
        """Let the pool's nodes go at an age."""
        stored = self.store.get(PolicyKind.NODE_POOL, "gpu")
        assert stored is not None
        template = dict(stored.manifest["spec"]["template"])
        template["spec"] = {**template["spec"], "expireAfter": after}
        self.apply(
            {**stored.manifest, "spec": {**stored.manifest["spec"], "template": template}}
        )

    def submit_again(self) -> None:
        """SQS delivers messages twice."""
        for message in self.sent:
            self.intake().apply(message, RULES)

    # --- tables

    def tables(self) -> dict[str, list[tuple[Any, str]]]:
        """Return where the rows of each table are: owner and attribute."""
        claims: list[tuple[Any, str]] = [
            (self.state, "claim_rows"),
            (self.attempts, "rows"),
            (self.tallies, "rows"),
        ]
        return {
            "NodeClaims": claims,
            "Policy": [(self.store, "_rows")],
            "Reservations": [(self.state, "reservation_rows")],
            "Workloads": [(self.state, "workload_rows")],
            "Offerings": [
                (self.state.offerings, "_catalogue"),
                (self.state.offerings, "_shortages"),
                (self.shortages, "rows"),
            ],
        }

    def photo(self) -> dict[str, list[Rows]]:
        """Return a copy of all rows, which are values."""
        photo: dict[str, list[Rows]] = {}
        for role, places in self.tables().items():
            photo[role] = [dict(getattr(*place)) for place in places]
        return photo

    def put_back(self, photo: Mapping[str, list[Rows]]) -> None:
        for role, places in self.tables().items():
            for place, rows in zip(places, photo[role], strict=True):
                setattr(*place, dict(rows))

    def befall(
        self, role: str, mishap: Mishap, before: Mapping[str, list[Rows]], seed: int
    ) -> None:
        """Let something happen to a table; ``before`` is an hour ago."""
        chance = random.Random(seed)  # noqa: S311 - keeps no secret
        for place, old in zip(self.tables()[role], before[role], strict=True):
            setattr(*place, _after(mishap, getattr(*place), old, chance))
        if role not in ROLES:
            return
        if mishap is Mishap.EMPTIED:
            self.marks.empty(role)
        elif mishap is Mishap.RESTORED:
            self.marks.restore(role)
        elif mishap in (Mishap.NEWER_FORM, Mishap.SOME_NEWER):
            for place in self.tables()[role]:
                keys = sorted(getattr(*place))
                owner: Any = place[0]
                owner.unreadable |= {
                    key
                    for key in keys
                    if mishap is Mishap.NEWER_FORM or chance.random() < _PART
                }


def _after(mishap: Mishap, now: Rows, old: Rows, chance: random.Random) -> Rows:
    if mishap in (Mishap.EMPTIED, Mishap.ROWS_DELETED):
        return {}
    if mishap in (Mishap.RESTORED, Mishap.WRITTEN_BACK):
        return dict(old)
    if mishap is Mishap.TORN:
        mixed = {
            key: old.get(key) if chance.random() < _PART else row
            for key, row in now.items()
        }
        return {key: row for key, row in mixed.items() if row is not None}
    if mishap is Mishap.REWRITTEN:
        return {key: _rewritten(row) for key, row in now.items()}
    if mishap is Mishap.OLDER_FORM:
        return {key: _older(row) for key, row in now.items()}
    return dict(now)


def _rewritten(row: Any) -> Any:
    match row:
        case NodeClaim():
            return replace(
                row, placements=(), node_pool_hash="another", node_class_hash="another"
            )
        case WorkloadRecord():
            return replace(row, withdrawn=True)
        case _:
            return row


def _older(row: Any) -> Any:
    """Return a claim without what versions before did not write; the hashes are what drift goes by."""
    if not isinstance(row, NodeClaim):
        return row
    return replace(
        row,
        node_pool_hash="",
        node_class_hash="",
        launched_at=None,
        running_at=None,
        image_id=None,
    )


@dataclass(frozen=True)
class History:
    """A fleet as it was an hour ago and as it is: tables, and EC2."""

    before: Mapping[str, list[Rows]]
    now: Mapping[str, list[Rows]]
    launched: Mapping[str, Instance]
    templates: Mapping[str, Any]
    reservations: Mapping[str, Any]
    sent: Sequence[SubmitMessage]
    batches: Sequence[LaunchBatch]
    at: datetime
    turn: int

    def replay(self) -> FleetWorld:
        """Return a world in this state."""
        world = FleetWorld()
        world.clock.set(self.at)
        world.put_back(self.now)
        world.state.turn = self.turn
        world.ids._last = 10_000
        world.sent, world.batches = list(self.sent), list(self.batches)
        world.ec2._launched = {
            key: _Launched(it, it.launched_at) for key, it in self.launched.items()
        }
        world.ec2.templates = dict(self.templates)
        world.ec2.reservations = dict(self.reservations)
        return world


def history(expire_after: str = "Never") -> History:
    """Play 120 minutes: half of the fleet is launched in the first hour, the other half in the second.

    Passes take time of their own, so the world's clock is some minutes further at the end.
    """
    world = FleetWorld(expire_after)
    world.add_reservation("cr-1", total_count=6, tags={"team": "research"})
    world.send("early", NODES // 2)
    for _ in range(60):
        world.every_function()
    before = world.photo()
    world.send("late", NODES // 2 - 6)
    world.send("gang", 6, gang=True)
    for _ in range(60):
        world.every_function()
    assert len(world.ec2.live()) == NODES
    assert {instance.owner for instance in world.ec2.live()} == {"test"}, OWNER_TAG
    return History(
        before,
        world.photo(),
        {instance.id: instance for instance in world.ec2.all()},
        dict(world.ec2.templates),
        dict(world.ec2.reservations),
        world.sent,
        world.batches,
        world.clock.now(),
        world.state.turn,
    )


def befallen(
    then: History,
    mishaps: Mapping[str, Mishap],
    answers: Answers,
    *,
    bounds: Bounds,
    seed: int = 0,
) -> set[str]:
    """Return the instances at work that were told to drain, or ended, in the minutes after the mishaps.

    EC2 answers so for eight minutes, and then as it should.
    """
    world = then.replay()
    world.bounds = bounds
    at_work = {claim.instance_id for claim in world.live() if claim.placements}
    assert len(at_work) == NODES
    assert set(mishaps) == set(TABLES)
    for role, mishap in mishaps.items():
        world.befall(role, mishap, then.before, seed)
    for answering, minutes in ((answers, 8), (Answers.WHOLE, 15)):
        world.ec2.answers = answering
        for _ in range(minutes):
            world.every_function()
    drained = {event["node"].get("instanceId") for event in world.bus.of("Node Draining")}
    return {key for key in at_work if key is not None} & (
        drained | {i.id for i in world.ec2.all() if i.is_gone}
    )
