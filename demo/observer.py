"""What the demo sees: EC2 through its public API, and the facts on the outbound bus."""

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from embedded.client import EmbeddedAws
from shared import names

LIVE_STATES: Final = ("pending", "running", "shutting-down")
EVENTS_KEPT: Final = 200
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

    @property
    def used_count(self) -> int:
        """Units in use, by anybody."""
        return self.total_count - self.available_count


@dataclass(frozen=True, slots=True)
class Instance:
    """One of our instances as EC2 describes it."""

    id: str
    instance_type: str
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
    placed: Counter[str] = field(default_factory=Counter)  # replicas by workload, without those that had to leave
    pending: dict[str, str] = field(default_factory=dict)  # workload -> why its replicas waited last
    awaited: set[str] = field(default_factory=set)  # claims that got replicas and are neither launched nor refused
    launched: dict[str, JsonObject] = field(default_factory=dict)  # claim -> detail of Node Launched
    drains: dict[str, JsonObject] = field(default_factory=dict)  # claim -> detail of Node Draining
    terminated: dict[str, JsonObject] = field(default_factory=dict)  # claim -> detail of Node Terminated
    over_count: list[str] = field(default_factory=list)  # reservations ever seen beyond their count

    def live(self, *states: str) -> list[Instance]:
        """Our instances in these states, by default those that run or are about to."""
        wanted = states or ("pending", "running")
        return [instance for instance in self.instances if instance.state in wanted]

    def all_run(self, wanted: Mapping[str, int]) -> bool:
        """Whether these many replicas, by workload, have their place on nodes that run."""
        placed = all(self.placed[name] == count for name, count in wanted.items())
        return placed and not self.awaited and all(it.state != "pending" for it in self.live())


class Observer:
    """Reads EC2 and a queue that a rule on the outbound bus feeds."""

    def __init__(self, aws: EmbeddedAws, *, bus_name: str, titles: Mapping[str, str]) -> None:
        self.seen = Observed()
        self._aws = aws
        self._titles = titles
        self._ec2, self._sqs = aws.client("ec2"), aws.client("sqs")
        self._tap = self._make_tap(bus_name)

    def _make_tap(self, bus_name: str) -> str:
        """Subscribe as any workload system would: a rule on the bus, a queue as its target."""
        queue_url = self._sqs.create_queue(QueueName="workload-system")["QueueUrl"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]
        events = self._aws.client("events")
        rule = events.put_rule(
            Name="everything", EventBusName=bus_name, EventPattern=json.dumps({"source": [names.EVENT_SOURCE]})
        )
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": attributes["QueueArn"],
            "Condition": {"ArnEquals": {"aws:SourceArn": rule["RuleArn"]}},
        }
        policy = {"Version": "2012-10-17", "Statement": [allow]}
        self._sqs.set_queue_attributes(QueueUrl=queue_url, Attributes={"Policy": json.dumps(policy)})
        events.put_targets(
            Rule="everything", EventBusName=bus_name, Targets=[{"Id": "tap", "Arn": attributes["QueueArn"]}]
        )
        return str(queue_url)

    def refresh(self) -> Observed:
        """Read everything once."""
        seen = self.seen
        seen.now = self._aws.clock.now()
        seen.reservations = self._reservations()
        seen.instances = self._instances()
        seen.over_count.extend(it.id for it in seen.reservations if it.available_count < 0)
        self._read_events()
        return seen

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
            _instance(it) for page in pages for reservation in page["Reservations"] for it in reservation["Instances"]
        ]

    def _read_events(self) -> None:
        while True:
            messages = self._sqs.receive_message(QueueUrl=self._tap, MaxNumberOfMessages=10).get("Messages", [])
            if not messages:
                return
            for message in messages:
                self._note(json.loads(message["Body"]))
            read = [{"Id": it["MessageId"], "ReceiptHandle": it["ReceiptHandle"]} for it in messages]
            self._sqs.delete_message_batch(QueueUrl=self._tap, Entries=read)

    def _note(self, event: JsonObject) -> None:
        kind, detail = event["detail-type"], event["detail"]
        self.seen.events.append(event)
        self.seen.counts[kind] += 1
        if kind == "Workload Placed":
            self.seen.placed[workload_name(detail["workload"])] += detail["replicas"]
            self.seen.pending.pop(workload_name(detail["workload"]), None)
            self.seen.awaited |= {node["nodeClaim"] for node in detail["nodes"]} - self.seen.launched.keys()
        elif kind == "Workload Pending":
            self.seen.pending[workload_name(detail["workload"])] = detail["message"]
        elif kind == "Launch Failed":
            self.seen.awaited -= set(detail["nodeClaims"])
            self._displace(detail["workloads"])
        elif kind == "Node Launched":
            self.seen.launched[detail["node"]["nodeClaim"]] = detail
            self.seen.awaited.discard(detail["node"]["nodeClaim"])
        elif kind == "Node Draining":
            if detail["node"]["nodeClaim"] not in self.seen.drains:  # a repeat has the same id
                self._displace(detail["workloads"])
            self.seen.drains[detail["node"]["nodeClaim"]] = detail
        elif kind == "Node Terminated":
            self.seen.terminated[detail["node"]["nodeClaim"]] = detail
            self._displace(detail.get("returned", []))

    def _displace(self, workloads: Iterable[JsonObject]) -> None:
        for workload in workloads:
            self.seen.placed[workload_name(workload)] -= workload["replicas"]


def workload_name(reference: Mapping[str, Any]) -> str:
    """Return ``namespace/name``."""
    return f"{reference['namespace']}/{reference['name']}"


def _instance(it: JsonObject) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in it.get("Tags", [])}
    reservation_id = it.get("CapacityReservationId")
    market = "reserved" if reservation_id else "spot" if it.get("InstanceLifecycle") == "spot" else "on-demand"
    return Instance(
        id=it["InstanceId"],
        instance_type=it["InstanceType"],
        state=it["State"]["Name"],
        market=market,
        reservation_id=reservation_id,
        claim_id=tags.get(names.NODE_CLAIM_TAG),
    )
