"""The interruption benchmark through the deployed stack: a full queue, then the function is let at it.

The mix is that of ``lab.bench.functions.interruption``. Instances exist in the emulated EC2 in the state that their
message tells, claims lie in DynamoDB, a hundred nodes to a workload. As upstream, the clock runs from the moment at
which the poller is switched on until every message is handled: SQS, the event source mapping, the function in processes
of its own with its role's permissions, DynamoDB, EC2 and the outbound bus are all in the time. All of AWS runs on the
same machine here, so ``messages_per_s`` is a lower bound of the function's own; ``function_cpu_ms_per_message`` is the
processor time of its processes, as the kernel counts it. ``batch_p50_s`` and ``batch_p99_s`` are Lambda's own Duration
metric. One instance in a hundred lacks the tag that a launch gives it. EC2 tells of every instance that the function
terminates, too: ``handled`` are all messages, and what is counted a message is counted by it.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from infra.config import FUNCTIONS
from infra.naming import function_name
from lab.bench.functions.interruption import (
    SEED,
    SIZES,
    Warned,
    claim_id,
    mix,
    running_claim,
)
from lab.bench.harness import tell
from lab.embedded.client import EmbeddedAws
from lab.embedded.functions.environments import processor_s
from lab.embedded.reservoir import DeployedReservoir
from lab.embedded.settings import ACCOUNT_ID, REGION
from lab.fakes.values import workload
from reservoir import names
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.node_life.notice import NoticeKind
from reservoir.core.serialisation.json_codec import loads
from reservoir.names import DEPLOYMENT, Function, Queue, Table, output_name
from reservoir.ports.state import PlannedCommit, WorkloadRecord

TYPE: Final = "m5.large"
NODES_OF_A_WORKLOAD: Final = 100
_ROWS: Final = 90  # of a transaction, which holds 100
_LAUNCHES: Final = 500  # of one RunInstances call
_POLLERS: Final = FUNCTIONS[Function.REACT].max_concurrency
# one in so many: its launch died before it could tag it, or the rate of CreateTags was used up
_UNTAGGED: Final = 100
_LIMIT_S: Final = 3_600.0
_STALL_S: Final = 45.0  # longer than any batch takes
_HIDDEN: Final = timedelta(minutes=5)  # longer than a message in work is hidden
Item = TypeVar("Item")


def cases() -> Sequence[str]:
    """Return one case a size of the upstream benchmark."""
    return [f"interruption-deployed-{size}" for size in SIZES]


def run(case: str) -> dict[str, object]:
    """Fill the queue, let the function work it off and return figures."""
    count = int(case.rpartition("-")[2])
    with DeployedReservoir(report=tell) as reservoir:
        return InterruptionStorm(reservoir).measure(count)


class InterruptionStorm:
    """One deployment. Its clock stands, so that no schedule works beside the function that is measured."""

    def __init__(self, reservoir: DeployedReservoir) -> None:
        self.reservoir = reservoir
        self.aws: EmbeddedAws = reservoir.aws
        self.name = function_name(self._output(DEPLOYMENT), Function.REACT)
        self.queue_url = self._output(Queue.REACTIONS.value)
        self.sqs, self.ec2, self.lambda_ = (
            self.aws.client(service) for service in ("sqs", "ec2", "lambda")
        )
        (mapping,) = self.lambda_.list_event_source_mappings(FunctionName=self.name)[
            "EventSourceMappings"
        ]
        self.mapping_id = mapping["UUID"]
        self.aws.clock.pause()
        self.clock = StoppedClock(self.aws.clock.now())

    def _warm(self, _: int) -> None:
        self.lambda_.invoke(FunctionName=self.name, Payload=b'{"Records": []}')

    def prepare(self, count: int) -> list[Warned]:
        """Make nodes and fill the queue, which nobody reads; return the nodes.

        The clock waits for the sweeps that it fires on the way: one that met the claims would do what the messages ask.
        """
        self._poll(enabled=False)
        nodes = list(mix(count))
        instance_ids = self._instances(nodes)
        self._claims(nodes, instance_ids)
        self._fill([node.body(instance_ids[node.number], self.clock.at) for node in nodes])
        return nodes

    def measure(self, count: int) -> dict[str, object]:
        """Let the function work off the queue and return figures."""
        with ThreadPoolExecutor(_POLLERS) as pool:  # cold starts are measured elsewhere
            list(pool.map(self._warm, range(_POLLERS)))
        nodes = self.prepare(count)
        self.aws.clock.govern(governed=False)  # how long the work takes is what is measured
        self.aws.clear_requests()
        before, used_s = self._handled(), self._used_s()
        began_at, started = datetime.now(tz=UTC), time.perf_counter()
        self._poll(enabled=True)
        self._until_empty(count)
        total_s, used_s = time.perf_counter() - started, self._used_s() - used_s
        self.check(nodes)
        handled = self._handled() - before
        assert handled >= count
        cpu_ms = round(used_s / handled * 1000, 3)
        figures = self._figures(handled, total_s, self._durations_s(began_at))
        return {"messages": count, "function_cpu_ms_per_message": cpu_ms, **figures}

    def _used_s(self) -> float:
        """Return the processor time of the function's processes so far."""
        pids = [
            int(each["pid"])
            for each in self.aws.environments()
            if each["function"] == self.name
        ]
        return sum(processor_s(pid) or 0.0 for pid in pids)

    def _figures(
        self, handled: int, total_s: float, batch_s: Mapping[str, float]
    ) -> dict[str, object]:
        calls = Counter(request["operation"] for request in self.aws.requests(self.name))
        return {
            "handled": handled,
            "total_s": round(total_s, 3),
            "messages_per_s": round(handled / total_s),
            "batch_p50_s": batch_s["p50"],
            "batch_p99_s": batch_s["p99"],
            "aws_calls_per_message": round(calls.total() / handled, 3),
            "calls": {
                name: round(number / handled, 3) for name, number in calls.most_common()
            },
        }

    def _handled(self) -> int:
        """Return how many messages the function says that it has understood so far."""
        kinds = {kind.value for kind in NoticeKind}
        written = (
            json.loads(line)
            for line in self.aws.function_log(self.name).splitlines()
            if '"_aws"' in line
        )
        return sum(
            int(sum(numbers))
            for each in written
            for name, numbers in each.items()
            if name in kinds
        )

    def _output(self, variable: str) -> str:
        return self.reservoir.outputs[output_name(variable)]

    def _poll(self, *, enabled: bool) -> None:
        self.lambda_.update_event_source_mapping(UUID=self.mapping_id, Enabled=enabled)

    def _instances(self, nodes: Sequence[Warned]) -> dict[int, str]:
        """Launch one instance a node, as spot where it is to be interrupted, and bring each to its state."""
        named = [{"Name": "instance-type", "Values": [TYPE]}]
        offered = self.ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=named
        )
        zones = {offering["Location"] for offering in offered["InstanceTypeOfferings"]}
        subnets = [
            it
            for it in self.ec2.describe_subnets()["Subnets"]
            if it["AvailabilityZone"] in zones
        ]
        image_id = self.ec2.describe_images(
            Filters=[{"Name": "architecture", "Values": ["x86_64"]}]
        )["Images"][0]
        found: dict[int, str] = {}
        for is_spot in (True, False):
            alike = [node for node in nodes if (node.kind == "spot") is is_spot]
            for place, chunk in enumerate(_chunks(alike, _LAUNCHES)):
                answer = self.ec2.run_instances(
                    ImageId=image_id["ImageId"],
                    InstanceType=TYPE,
                    MinCount=len(chunk),
                    MaxCount=len(chunk),
                    SubnetId=subnets[place % len(subnets)]["SubnetId"],
                    TagSpecifications=[
                        {"ResourceType": "instance", "Tags": [self._owner_tag()]}
                    ],
                    **(
                        {"InstanceMarketOptions": {"MarketType": "spot"}} if is_spot else {}
                    ),
                )
                launched = sorted(
                    instance["InstanceId"] for instance in answer["Instances"]
                )
                found |= {
                    node.number: instance_id
                    for node, instance_id in zip(chunk, launched, strict=True)
                }
                tell(f"{len(found)} of {len(nodes)} instances launched")
        for number, instance_id in found.items():
            if number % _UNTAGGED:
                tag = {"Key": names.NODE_CLAIM_TAG, "Value": claim_id(number)}
                self.ec2.create_tags(Resources=[instance_id], Tags=[tag])
        self.aws.clock.advance(timedelta(minutes=1))
        for early in (("stopped", "terminated"), ("stopping", "shutting-down")):
            for state in early:
                ids = [found[node.number] for node in nodes if node.state == state]
                end = (
                    self.ec2.stop_instances
                    if state.startswith("stop")
                    else self.ec2.terminate_instances
                )
                for some in _chunks(ids, _LAUNCHES):
                    end(InstanceIds=some)
            if early[0] == "stopped":
                self.aws.clock.advance(timedelta(minutes=1))
        self.clock.at = self.aws.clock.now()
        return found

    def _owner_tag(self) -> dict[str, str]:
        return {"Key": names.OWNER_TAG, "Value": self._output(DEPLOYMENT)}

    def _claims(self, nodes: Sequence[Warned], instance_ids: dict[int, str]) -> None:
        """Write workloads and running claims through the product's own stores."""
        dynamodb = self.aws.client("dynamodb")
        workloads = DynamoDbWorkloadStore(
            dynamodb, self._output(Table.WORKLOADS.value), self.clock
        )
        claims = DynamoDbNodeClaimStore(
            dynamodb,
            node_claims_table=self._output(Table.NODE_CLAIMS.value),
            reservations_table=self._output(Table.RESERVATIONS.value),
            workloads_table=self._output(Table.WORKLOADS.value),
            clock=self.clock,
        )
        keys = []
        for number in range(0, len(nodes), NODES_OF_A_WORKLOAD):
            wanted = workload(
                f"train-{number // NODES_OF_A_WORKLOAD}", replicas=NODES_OF_A_WORKLOAD
            )
            keys.append(wanted.key)
            workloads.put(WorkloadRecord(wanted.key, 1, 0, wanted), expected_revision=None)
        for chunk in _chunks(nodes, _ROWS):
            made = tuple(
                running_claim(
                    node.number,
                    instance_ids[node.number],
                    OfferingKey(TYPE, "us-east-1a", "use1-az1", _market(node)),
                    keys[node.number // NODES_OF_A_WORKLOAD],
                    self.clock.at,
                )
                for node in chunk
            )
            claims.commit(PlannedCommit(claims=made))
        tell(f"{len(nodes)} claims written")

    def _fill(self, bodies: list[str]) -> None:
        """Let EC2 tell all of it in random order, once the queue is empty; nobody but rules may send to it."""
        while self._left():  # what EC2 told of the preparation, some of it late
            self.sqs.purge_queue(QueueUrl=self.queue_url)
            time.sleep(2)
        random.Random(SEED).shuffle(bodies)
        envelope = {"account": ACCOUNT_ID, "region": REGION, "resources": []}
        for number, body in enumerate(bodies):
            self.aws.ec2(
                "emit", event={"id": f"bench-{number}", **envelope, **json.loads(body)}
            )
        limit = time.monotonic() + _STALL_S
        while (sent := self._left()) < len(bodies):
            if time.monotonic() > limit:
                raise TimeoutError(
                    f"rules let {sent} of {len(bodies)} events into the queue"
                )
            time.sleep(0.05)
        tell(f"{sent} messages sent")

    def _until_empty(self, count: int) -> None:
        limit, told = time.monotonic() + _LIMIT_S, 0.0
        moved_at, before = time.monotonic(), 0
        while left := self._left():
            if left != before:
                moved_at, before = time.monotonic(), left
            elif time.monotonic() - moved_at > _STALL_S:
                # A batch failed: its messages are hidden for some time, and the clock stands.
                self.aws.clock.advance(_HIDDEN)
                moved_at = time.monotonic()
            if time.monotonic() > limit:
                raise TimeoutError(
                    f"{left} of {count} messages are left after {_LIMIT_S:.0f} s"
                )
            if time.monotonic() - told > 5:  # seconds between two lines
                told = time.monotonic()
                tell(f"{count - left} of {count} messages handled")
            time.sleep(0.05)

    def _left(self) -> int:
        asked = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(
            QueueUrl=self.queue_url, AttributeNames=asked
        )["Attributes"]
        return sum(int(found[name]) for name in asked)

    def _durations_s(self, since: datetime) -> dict[str, float]:
        """Return percentiles of the function's Duration; metrics keep real time."""
        answer = self.aws.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/Lambda",
            MetricName="Duration",
            Dimensions=[{"Name": "FunctionName", "Value": self.name}],
            StartTime=since,
            EndTime=since + timedelta(hours=4),
            Period=14_400,
            ExtendedStatistics=["p50", "p99"],
        )
        (point,) = answer["Datapoints"]
        return {
            name: round(value / 1000, 4)
            for name, value in point["ExtendedStatistics"].items()
        }

    def check(self, nodes: Sequence[Warned]) -> None:
        """Every node is on its way out, and nothing was given up."""
        rows = self.aws.client("dynamodb").get_paginator("scan")
        table = self._output(Table.NODE_CLAIMS.value)
        kinds: Counter[str] = Counter()
        for page in rows.paginate(TableName=table):
            for row in page["Items"]:
                if row[names.KEY]["S"].startswith("nc-"):
                    kinds[_state(row)] += 1
        gone = {ClaimState.DRAINING, ClaimState.TERMINATING, ClaimState.TERMINATED}
        assert kinds.total() == len(nodes)
        assert {ClaimState(kind) for kind in kinds} <= gone, kinds


@dataclass
class StoppedClock:
    """The deployment's clock, which stands."""

    at: datetime

    def now(self) -> datetime:
        """Return the time at which it stands."""
        return self.at


def _state(row: dict[str, Any]) -> str:
    return loads(NodeClaim, row["data"]["S"]).state.value


def _market(node: Warned) -> CapacityType:
    return CapacityType.SPOT if node.kind == "spot" else CapacityType.ON_DEMAND


def _chunks(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
