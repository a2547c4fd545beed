"""What the demo sees: EC2 through its public API and its events, and the facts on the outbound bus."""

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from botocore.config import Config

from lab.demo.history import Curve, Stay
from lab.embedded.client import EmbeddedAws
from reservoir import names

EVENTS_KEPT: Final = 200
STATE_CHANGE: Final = "EC2 Instance State-change Notification"
# A slow machine is no reason to ask twice.
PATIENT: Final = Config(read_timeout=600, retries={"total_max_attempts": 1})
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation as EC2 describes it."""

    id: str
    title: str
    instance_type: str
    zone: str
    total_count: int
    available_count: int
    end_at: datetime | None
    is_active: bool
    start_at: datetime | None = None

    @property
    def used_count(self) -> int:
        """Units in use, by anybody."""
        return self.total_count - self.available_count


@dataclass(frozen=True, slots=True)
class Instance:
    """One of our instances as EC2 describes it."""

    id: str
    instance_type: str
    zone: str
    state: str
    market: str  # reserved, spot or on-demand
    reservation_id: str | None
    claim_id: str | None


@dataclass
class Observed:
    """Everything seen so far; refreshed by ``Observer``."""

    now: datetime | None = None
    reservations: list[Reservation] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    events: deque[JsonObject] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    counts: Counter[str] = field(default_factory=Counter)  # events by detail-type
    # replicas by workload, without those that had to leave
    placed: Counter[str] = field(default_factory=Counter)
    # workload -> why its replicas waited last
    pending: dict[str, str] = field(default_factory=dict)
    # claims that got replicas and are neither launched nor refused
    awaited: set[str] = field(default_factory=set)
    # claim -> detail of Node Launched
    launched: dict[str, JsonObject] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)  # claims that EC2 gave no instance
    # claim -> detail of Node Draining
    drains: dict[str, JsonObject] = field(default_factory=dict)
    # claim -> detail of Node Terminated
    terminated: dict[str, JsonObject] = field(default_factory=dict)
    # instances that EC2 moved into a reservation, and since when
    moved_in_at: dict[str, datetime] = field(default_factory=dict)
    # reservations ever seen beyond their count
    over_count: list[str] = field(default_factory=list)
    # every instance of ours, as it was seen first
    met: dict[str, Instance] = field(default_factory=dict)
    # instance -> state -> since when, by EC2
    entered: dict[str, dict[str, datetime]] = field(default_factory=dict)
    # our nodes by reservation title, or by market beside them
    curves: dict[str, Curve] = field(default_factory=dict)

    def live(self, *states: str) -> list[Instance]:
        """Our instances in these states, by default those that run or are about to."""
        wanted = states or ("pending", "running")
        return [instance for instance in self.instances if instance.state in wanted]

    def stays(self) -> Iterator[Stay]:
        """Yield for how long each instance of ours has been charged so far."""
        assert self.now is not None  # noqa: S101 - it has looked
        for identity, instance in self.met.items():
            entered = self.entered.get(identity, {})
            if "running" not in entered:
                continue
            kind, zone = instance.instance_type, instance.zone
            ended_at = entered.get("shutting-down", self.now)
            moved_at = self.moved_in_at.get(identity)
            if moved_at is None:
                yield Stay(kind, zone, instance.market, entered["running"], ended_at)
            else:
                yield Stay(kind, zone, instance.market, entered["running"], moved_at)
                yield Stay(kind, zone, "reserved", moved_at, ended_at)

    def all_run(self, wanted: Mapping[str, int]) -> bool:
        """Whether these many replicas, by workload, have their place on nodes that run."""
        placed = all(self.placed[name] == count for name, count in wanted.items())
        return (
            placed and not self.awaited and all(it.state != "pending" for it in self.live())
        )

    def note(self, event: JsonObject) -> None:
        """Take in a fact; facts come in any order, because EventBridge keeps none."""
        kind, detail = event["detail-type"], event["detail"]
        if kind == STATE_CHANGE:
            entered = self.entered.setdefault(detail["instance-id"], {})
            entered.setdefault(detail["state"], datetime.fromisoformat(event["time"]))
            return
        self.events.append(event)
        self.counts[kind] += 1
        if kind == "Workload Placed":
            self.placed[workload_name(detail["workload"])] += detail["replicas"]
            self.pending.pop(workload_name(detail["workload"]), None)
            # What became of a claim may be told before that it was made.
            answered = self.launched.keys() | self.refused
            self.awaited |= {node["nodeClaim"] for node in detail["nodes"]} - answered
        elif kind == "Workload Pending":
            self.pending[workload_name(detail["workload"])] = detail["message"]
        elif kind == "Launch Failed":
            self.refused |= set(detail["nodeClaims"])
            self.awaited -= self.refused
            self._displace(detail["workloads"])
        elif kind == "Node Launched":
            self.launched[detail["node"]["nodeClaim"]] = detail
            self.awaited.discard(detail["node"]["nodeClaim"])
        elif kind == "Node Moved Into Reservation":
            moved_at = datetime.fromisoformat(event["time"])
            self.moved_in_at.setdefault(detail["node"]["instanceId"], moved_at)
        elif kind == "Node Draining":
            if detail["node"]["nodeClaim"] not in self.drains:  # a repeat has the same id
                self._displace(detail["workloads"])
            self.drains[detail["node"]["nodeClaim"]] = detail
        elif kind == "Node Terminated":
            self.terminated[detail["node"]["nodeClaim"]] = detail
            self._displace(detail.get("returned", []))

    def _displace(self, workloads: Iterable[JsonObject]) -> None:
        for workload in workloads:
            self.placed[workload_name(workload)] -= workload["replicas"]


class Observer:
    """Reads EC2 and a queue that a rule on the outbound bus feeds."""

    def __init__(
        self, aws: EmbeddedAws, *, bus_name: str, titles: Mapping[str, str]
    ) -> None:
        self.seen = Observed()
        self._aws = aws
        self._titles = titles
        self._ec2 = aws.client("ec2", config=PATIENT)
        self._sqs = aws.client("sqs", config=PATIENT)
        self._tap = self._make_tap(bus_name)

    def _make_tap(self, bus_name: str) -> str:
        """Subscribe as any workload system would: rules on the bus and on EC2's, a queue as their target."""
        queue_url = self._sqs.create_queue(QueueName="workload-system")["QueueUrl"]
        arn = self._sqs.get_queue_attributes(
            QueueUrl=queue_url, AttributeNames=["QueueArn"]
        )["Attributes"]["QueueArn"]
        events = self._aws.client("events")
        patterns = {
            bus_name: {"source": [names.EVENT_SOURCE]},
            "default": {"source": ["aws.ec2"], "detail-type": [STATE_CHANGE]},
        }
        rules = [
            events.put_rule(
                Name="everything", EventBusName=bus, EventPattern=json.dumps(pattern)
            )["RuleArn"]
            for bus, pattern in patterns.items()
        ]
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": rules}},
        }
        policy = {"Version": "2012-10-17", "Statement": [allow]}
        self._sqs.set_queue_attributes(
            QueueUrl=queue_url, Attributes={"Policy": json.dumps(policy)}
        )
        for bus in patterns:
            events.put_targets(
                Rule="everything", EventBusName=bus, Targets=[{"Id": "tap", "Arn": arn}]
            )
        return str(queue_url)

    def refresh(self) -> Observed:
        """Read everything once."""
        self._read_events()
        return self._read_ec2()

    def look(self) -> Observed:
        """Read what is new, and EC2 when anything is: a look at a world in which nothing happens is two requests."""
        return self._read_ec2() if self._read_events() else self._read_clock()

    def _read_clock(self) -> Observed:
        self.seen.now = self._aws.clock.now()
        return self.seen

    def _read_ec2(self) -> Observed:
        seen = self._read_clock()
        seen.reservations = self._reservations()
        seen.instances = self._instances()
        seen.over_count.extend(it.id for it in seen.reservations if it.available_count < 0)
        for instance in seen.instances:
            seen.met.setdefault(instance.id, instance)
        self._note_curves(seen)
        return seen

    def _note_curves(self, seen: Observed) -> None:
        assert seen.now is not None  # noqa: S101 - just read
        inside = Counter(it.reservation_id for it in seen.live())
        beside = Counter(it.market for it in seen.live())
        for it in seen.reservations:
            total = it.total_count if it.is_active else 0
            seen.curves.setdefault(it.title, Curve()).note(seen.now, inside[it.id], total)
        for market in ("spot", "on-demand"):
            seen.curves.setdefault(market, Curve()).note(
                seen.now, beside[market], beside[market]
            )

    def _reservations(self) -> list[Reservation]:
        pages = self._ec2.get_paginator("describe_capacity_reservations").paginate()
        found = [
            Reservation(
                id=it["CapacityReservationId"],
                title=self._titles[it["CapacityReservationId"]],
                instance_type=it["InstanceType"],
                zone=it["AvailabilityZone"],
                total_count=it["TotalInstanceCount"],
                available_count=it["AvailableInstanceCount"],
                end_at=it.get("EndDate"),
                is_active=it["State"] == "active",
                start_at=it.get("StartDate"),
            )
            for page in pages
            for it in page["CapacityReservations"]
            if it["CapacityReservationId"] in self._titles
        ]
        return sorted(found, key=lambda it: (it.title, it.id))

    def _instances(self) -> list[Instance]:
        filters = [{"Name": "tag-key", "Values": [names.OWNER_TAG]}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
        return [
            _instance(it)
            for page in pages
            for reservation in page["Reservations"]
            for it in reservation["Instances"]
        ]

    def _read_events(self) -> bool:
        """Read all events that are there; return whether there was any."""
        any_read = False
        while True:
            messages = self._sqs.receive_message(
                QueueUrl=self._tap, MaxNumberOfMessages=10
            ).get("Messages", [])
            if not messages:
                return any_read
            any_read = True
            for message in messages:
                self.seen.note(json.loads(message["Body"]))
            read = [
                {"Id": it["MessageId"], "ReceiptHandle": it["ReceiptHandle"]}
                for it in messages
            ]
            self._sqs.delete_message_batch(QueueUrl=self._tap, Entries=read)


def workload_name(reference: Mapping[str, Any]) -> str:
    """Return ``namespace/name``."""
    return f"{reference['namespace']}/{reference['name']}"


def _instance(it: JsonObject) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in it.get("Tags", [])}
    reservation_id = it.get("CapacityReservationId")
    market = (
        "reserved"
        if reservation_id
        else "spot"
        if it.get("InstanceLifecycle") == "spot"
        else "on-demand"
    )
    return Instance(
        id=it["InstanceId"],
        instance_type=it["InstanceType"],
        zone=it["Placement"]["AvailabilityZone"],
        state=it["State"]["Name"],
        market=market,
        reservation_id=reservation_id,
        claim_id=tags.get(names.NODE_CLAIM_TAG),
    )
