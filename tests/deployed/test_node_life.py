"""What happens to nodes after their launch, deployed: section by section what Karpenter's lifecycle suites ask for.

The tests tell one story in their order, on one deployment. Each pool buys one instance type, so that what is done to
one of them does not touch the others.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from infra.naming import function_name
from lab.demo.observer import Instance, JsonObject, Observed
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir import names
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    RESERVATION_LABELS,
)
from reservoir.core.serialisation.json_codec import loads
from reservoir.names import DEPLOYMENT, Function, Queue, Table

pytestmark = pytest.mark.embedded

GOLDEN: Final = Path(__file__).parents[1] / "events"
ZONE, OTHER_ZONE = "us-east-1a", "us-east-1b"
SPOT_NODES: Final = 100
TYPES: Final = {
    "spotty": ("t3.large", ("spot", "on-demand")),
    "lent": ("c6i.large", ("reserved",)),
    "steady": ("m7i.xlarge", ("reserved", "on-demand")),
    "adopted": ("r7i.large", ("reserved", "on-demand")),
    "strict": ("c7i.xlarge", ("reserved",)),
    "served": ("m6i.xlarge", ("on-demand",)),
    "blocks": ("p5.48xlarge", ("reserved",)),
    "broken": ("p4d.24xlarge", ("reserved",)),
    "coming": ("p5en.48xlarge", ("reserved",)),
}
REPLICAS: Final = {
    "lent": 2,
    "steady": 1,
    "adopted": 1,
    "strict": 1,
    "served": 3,
    "blocks": 2,
}
CPU: Final = {
    "spotty": "1500m",
    "lent": "1500m",
    "adopted": "1500m",
    "blocks": "100",
    "broken": "50",
    "coming": "50",
}
BLOCKS_END_AFTER: Final = timedelta(hours=4)


@pytest.fixture(scope="module")
def reservations(world: World) -> dict[str, str]:
    """What the account has paid for, by title."""
    lent = world.aws.ec2(
        "create_interruptible", instance_type="c6i.large", zone=ZONE, count=10
    )
    lent_id = world.watch("lent", lent["capacity_reservation_id"])
    world.aws.client("ec2").create_tags(
        Resources=[lent_id], Tags=[{"Key": "purpose", "Value": "lent"}]
    )
    ends = {
        minutes: (BLOCKS_END_AFTER + timedelta(minutes=minutes)).total_seconds()
        for minutes in (39, 60)
    }
    return {
        "lent": lent_id,
        "steady": world.reserve("steady", "m7i.xlarge", ZONE, 1, "steady"),
        "strict": world.reserve("strict", "c7i.xlarge", ZONE, 1, "strict"),
        "ends in 39": world.buy_block(
            "ends in 39", "p5.48xlarge", ZONE, 1, "blocks", end_in_s=ends[39]
        ),
        "ends in 60": world.buy_block(
            "ends in 60", "p5.48xlarge", OTHER_ZONE, 1, "blocks", end_in_s=ends[60]
        ),
    }


@pytest.fixture(scope="module", autouse=True)
def nodes(
    world: World, reservations: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Everything runs before the first story, but for the fleet of the last, which would slow down all others."""
    pools = []
    for name, (instance_type, capacity_types) in TYPES.items():
        of_class = {"openReservationPreference": "open"} if name == "adopted" else {}
        pools += one_type_pool(name, instance_type, capacity_types, **of_class)
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), pools))
    world.discover()
    for name, replicas in REPLICAS.items():
        submit(world, name, replicas)
    assert set(reservations.values()) == set(world.titles)
    world.until(
        "everything runs", lambda seen: len(seen.live("running")) == sum(REPLICAS.values())
    )
    world.until(
        "all launches are told", lambda seen: len(seen.launched) == sum(REPLICAS.values())
    )


def submit(world: World, name: str, replicas: int) -> None:
    world.send(
        {"action": "submit", "workload": story_workload(name, replicas, CPU.get(name, "3"))}
    )


def of_pool(seen: Observed, name: str, *states: str) -> list[Instance]:
    return [
        instance
        for instance in seen.live(*states)
        if instance.instance_type == TYPES[name][0]
    ]


def one(world: World, name: str) -> Instance:
    (instance,) = of_pool(world.look(), name)
    return instance


def by_instance(facts: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Return facts about nodes by instance: the claim's tag of an instance may come later than any of them."""
    return {fact["node"]["instanceId"]: fact for fact in facts.values()}


def staying(seen: Observed, name: str) -> list[Instance]:
    """Return the running nodes of a pool that do not drain."""
    drains = by_instance(seen.drains)
    return [
        instance for instance in of_pool(seen, name, "running") if instance.id not in drains
    ]


def on_spot(seen: Observed, name: str) -> Instance:
    """Return a running spot node of a pool; where its spot offerings rest, others are on demand."""
    return next(each for each in staying(seen, name) if each.market == "spot")


def reasons(seen: Observed, *instances: Instance) -> list[str | None]:
    """Why nodes drain, None where one does not."""
    drains = by_instance(seen.drains)
    return [drains.get(instance.id, {}).get("reason") for instance in instances]


def claim_of(world: World, instance: Instance) -> NodeClaim:
    """Return the stored claim, which is also what the planner sees of the node."""
    key = {
        names.KEY: {"S": by_instance(world.seen.launched)[instance.id]["node"]["nodeClaim"]}
    }
    row = world.aws.client("dynamodb").get_item(
        TableName=world.output(Table.NODE_CLAIMS.value), Key=key, ConsistentRead=True
    )["Item"]
    return loads(NodeClaim, row["data"]["S"])


def undelivered(world: World) -> int:
    """Return how many events were given up."""
    urls = world.aws.client("sqs").list_queues(QueueNamePrefix=world.output(DEPLOYMENT))[
        "QueueUrls"
    ]
    return sum(waiting(world, url) for url in urls if "ReactionsDeadLetters" in url)


def waiting(world: World, url: str) -> int:
    attributes = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = world.aws.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=attributes
    )["Attributes"]
    return sum(int(found[name]) for name in attributes)


def no_message_waits(world: World, url: str, _: Observed) -> bool:
    return waiting(world, url) == 0


def sweep(world: World) -> None:
    world.reservoir.invoke(Function.EXPIRE)


def golden(name: str, **detail: str) -> str:
    event = json.loads((GOLDEN / f"{name}.json").read_text())
    return json.dumps({**event, "detail": {**event["detail"], **detail}})


# S-80
def test_what_nobody_can_read_and_what_is_about_others_is_dropped(world: World) -> None:
    deliver(
        world,
        "not json at all",
        "[]",
        "{}",
        golden("unknown_kind"),
        golden("spot_interruption"),
    )
    assert world.look().drains == {}


def deliver(world: World, *bodies: str) -> None:
    """Hand bodies to the reaction as its queue would; nobody but the stack's rules may send there."""
    records = [
        {
            "messageId": f"m-{number}",
            "receiptHandle": f"r-{number}",
            "body": body,
            "attributes": {},
        }
        for number, body in enumerate(bodies)
    ]
    answer = world.aws.client("lambda").invoke(
        FunctionName=function_name(world.output(DEPLOYMENT), Function.REACT),
        Payload=json.dumps({"Records": records}),
    )
    assert json.loads(answer["Payload"].read()) == {"batchItemFailures": []}


def test_a_reclaimed_reservation_drains_its_nodes_and_is_full(
    world: World, reservations: dict[str, str]
) -> None:
    """S-77, S-83."""
    lent = of_pool(world.look(), "lent")
    world.aws.ec2(
        "reclaim_interruptible",
        capacity_reservation_id=reservations["lent"],
        target_count=0,
    )
    world.until("both drain", lambda seen: set(reasons(seen, *lent)) == {"Interruption"})

    def is_full(_: Observed) -> bool:
        row = world.aws.client("dynamodb").get_item(
            TableName=world.output(Table.RESERVATIONS.value),
            Key={names.KEY: {"S": reservations["lent"]}},
        )["Item"]
        return int(row["free_units"]["N"]) <= 0

    world.until("it is known to be full", is_full)
    world.send(
        {
            "action": "withdraw",
            "workload": {
                "metadata": {"namespace": "story", "name": "lent", "generation": 2}
            },
        }
    )


def test_planned_maintenance_drains(world: World) -> None:  # S-77
    served = of_pool(world.look(), "served")[0]
    world.aws.ec2("schedule_maintenance", instance_ids=[served.id], entity_arns=True)
    world.until("it drains", lambda seen: reasons(seen, served) == ["ScheduledChange"])


# S-85
def test_an_unhealthy_node_is_reported_once_an_episode_or_replaced(world: World) -> None:
    sick = staying(world.look(), "served")[0]

    def impaired(*, is_ill: bool) -> None:
        world.aws.ec2(
            "set_status_checks",
            instance_id=sick.id,
            system_status="impaired" if is_ill else "ok",
        )
        world.aws.clock.advance(timedelta(minutes=3))
        sweep(world)
        sweep(world)

    set_policy(world, "report")
    before = counted(world, "NodesUnhealthy")
    impaired(is_ill=True)
    world.until("it is counted", lambda _: counted(world, "NodesUnhealthy") == before + 1)
    impaired(is_ill=False)
    impaired(is_ill=True)
    world.until(
        "it is counted again", lambda _: counted(world, "NodesUnhealthy") == before + 2
    )
    assert reasons(world.look(), sick) == [None]
    set_policy(world, "replace")
    sweep(world)
    world.until("it is replaced", lambda seen: reasons(seen, sick) == ["Unhealthy"])


def set_policy(world: World, policy: str) -> None:
    """Change what failed checks do, as a deployment with another ``instanceStatusPolicy`` would."""
    functions = world.aws.client("lambda")
    name = function_name(world.output(DEPLOYMENT), Function.EXPIRE)
    variables = functions.get_function_configuration(FunctionName=name)["Environment"][
        "Variables"
    ]
    functions.update_function_configuration(
        FunctionName=name,
        Environment={"Variables": {**variables, names.INSTANCE_STATUS_POLICY: policy}},
    )
    # one of the schedule's may be under way with the old setting; it began before this one and ends before
    sweep(world)
    sweep(world)


def counted(world: World, metric: str) -> int:
    """Add up what the sweep has written of a metric."""
    lines = [
        line for line in world.log(Function.EXPIRE).splitlines() if f'"{metric}"' in line
    ]
    return sum(int(sum(json.loads(line)[metric])) for line in lines)


def test_nodes_of_reservations_that_are_gone_become_on_demand(
    world: World, reservations: dict[str, str]
) -> None:
    """S-70, S-71, S-73, S-76: by the sweep alone, within 75 seconds."""
    steady, strict = one(world, "steady"), one(world, "strict")
    assert claim_of(world, steady).labels[CAPACITY_RESERVATION_ID] == reservations["steady"]
    world.reserve("strict too", TYPES["strict"][0], ZONE, 1, "strict")
    for title in ("steady", "strict"):
        world.aws.client("ec2").cancel_capacity_reservation(
            CapacityReservationId=reservations[title]
        )
    world.aws.clock.advance(timedelta(seconds=75))
    world.until("both are told", lambda _: demoted(world) == {steady.id, strict.id})
    for instance in (steady, strict):
        claim = claim_of(world, instance)
        assert claim.state is ClaimState.RUNNING
        assert claim.labels[CAPACITY_TYPE] == "on-demand"
        assert not RESERVATION_LABELS & claim.labels.keys()
        assert claim.price_atto_usd_per_hour > 10**15
    sweep(world)
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    world.reservoir.invoke(Function.DISRUPT)
    world.until(
        "only the strict pool has drifted", lambda seen: strict_goes(world, seen, strict)
    )
    assert reasons(world.seen, steady) == [None]
    assert claim_of(world, steady).labels[CAPACITY_TYPE] == "on-demand"


def demoted(world: World) -> set[str]:
    """Return the instances of which it was told, maybe more than once: sweeps that meet tell each for itself."""
    return {
        str(event["node"]["instanceId"])
        for event in world.events("Node Capacity Type Changed")
    }


def strict_goes(world: World, seen: Observed, strict: Instance) -> bool:
    world.reservoir.invoke(Function.DISRUPT)
    return reasons(seen, strict) == ["Drift"]


def test_a_node_that_ec2_moves_into_a_selected_reservation_is_reserved(
    world: World,
) -> None:
    adopted = one(world, "adopted")
    assert adopted.market == "on-demand"
    answer = world.aws.client("ec2").create_capacity_reservation(
        InstanceType=adopted.instance_type,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=claim_of(world, adopted).offering.zone,
        InstanceCount=1,
        InstanceMatchCriteria="open",
        TagSpecifications=[
            {
                "ResourceType": "capacity-reservation",
                "Tags": [{"Key": "purpose", "Value": "adopted"}],
            }
        ],
    )
    reservation_id = world.watch(
        "adopting", answer["CapacityReservation"]["CapacityReservationId"]
    )
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    sweep(world)
    after = claim_of(world, adopted)
    assert after.offering.reservation_id == reservation_id
    assert after.labels[CAPACITY_RESERVATION_ID] == reservation_id
    assert after.labels[CAPACITY_TYPE] == "reserved"
    assert 0 < after.price_atto_usd_per_hour < 10**15


def test_a_reservation_that_begins_is_used_although_its_event_is_lost(world: World) -> None:
    start = timedelta(minutes=10)
    block = world.aws.ec2(
        "purchase_capacity_block",
        instance_type=TYPES["coming"][0],
        zone=ZONE,
        count=1,
        start_in_s=start.total_seconds(),
        end_in_s=timedelta(hours=30).total_seconds(),
        tags={"purpose": "coming"},
    )
    world.watch("coming", block["capacity_reservation_id"])
    starts_at = world.now() + start
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    submit(world, "coming", 1)
    world.until("its demand waits", lambda seen: "story/coming" in seen.pending)
    world.aws.ec2("mistreat_events", kind="drop", detail_type="Capacity Block", count=1)
    world.aws.clock.advance(starts_at - timedelta(minutes=2) - world.now(), coalesce=True)
    world.aws.clock.advance(starts_at - timedelta(seconds=2) - world.now())
    world.until("its demand is placed", lambda seen: seen.placed["story/coming"] == 1)
    placed = (
        event for event in world.seen.events if event["detail-type"] == "Workload Placed"
    )
    (placed_at,) = (
        it["time"] for it in placed if it["detail"]["workload"]["name"] == "coming"
    )
    assert datetime.fromisoformat(placed_at) - starts_at < timedelta(seconds=60)


def test_a_unit_that_boots_nothing_is_reported_and_left_alone(world: World) -> None:
    block = world.buy_block(
        "broken", TYPES["broken"][0], ZONE, 1, "broken", end_in_s=86_400 * 3
    )
    world.aws.ec2(
        "break_units", capacity_reservation_id=block, interconnect_status="impaired"
    )
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    submit(world, "broken", 1)
    failed = set[str]()
    for _ in range(2):
        seen = world.until(
            "a node is launched into it",
            lambda seen: bool(of_pool(seen, "broken", "pending")),
        )
        (instance,) = of_pool(seen, "broken", "pending")
        failed.add(instance.id)
        world.aws.clock.advance(timedelta(minutes=16), coalesce=True)
        world.until("it is given up", lambda seen: not of_pool(seen, "broken", "pending"))
        # terminated, and its unit scrubbed
        world.aws.clock.advance(timedelta(minutes=7), coalesce=True)
    assert len(failed) == 2
    world.until("it is reported", lambda _: bool(world.events("Capacity Suspected")))
    event = world.events("Capacity Suspected")[0]  # two sweeps at once may both say so
    assert event["capacityReservationId"] == block
    assert event["instanceIds"] == [instance.id]
    assert event["blockStatus"]["interconnectStatus"] == "impaired"
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    world.aws.clock.advance(timedelta(minutes=2))
    for queue in (Queue.PLANNING, Queue.LAUNCHES):
        url = world.output(queue.value)
        world.until(f"{queue} is empty", partial(no_message_waits, world, url))
    assert of_pool(world.look(), "broken") == [], (
        "EC2 shows a free unit; nothing is launched into it"
    )


# S-68
def test_a_block_drains_forty_minutes_before_its_end_and_is_empty_before_ec2_begins(
    world: World,
) -> None:
    ends = {
        it.title: it.end_at for it in world.look().reservations if it.end_at is not None
    }
    soon, later = (
        next(
            i
            for i in of_pool(world.seen, "blocks")
            if i.reservation_id == world_id(world, title)
        )
        for title in ("ends in 39", "ends in 60")
    )
    world.aws.clock.advance(
        ends["ends in 39"] - timedelta(minutes=39) - world.now(), coalesce=True
    )
    world.until("one drains", lambda seen: reasons(seen, soon) == ["CapacityBlockEnding"])
    assert reasons(world.look(), later) == [None]
    deadline = datetime.fromisoformat(by_instance(world.seen.drains)[soon.id]["deadline"])
    assert deadline == ends["ends in 39"] - timedelta(minutes=32)
    world.aws.clock.advance(deadline + timedelta(seconds=1) - world.now(), coalesce=True)
    sweep(world)
    described = world.aws.client("ec2").describe_instances(InstanceIds=[soon.id])[
        "Reservations"
    ][0]["Instances"][0]
    assert described["StateReason"]["Code"] == "Client.UserInitiatedShutdown", (
        "we end it, not EC2"
    )
    assert world.now() < ends["ends in 39"] - timedelta(minutes=30)


def world_id(world: World, title: str) -> str:
    return next(
        reservation_id for reservation_id, known in world.titles.items() if known == title
    )


def test_a_hundred_spot_warnings_drain_a_hundred_nodes_whose_replicas_are_replaced_first(
    world: World,
) -> None:
    """S-77, S-79, S-82."""
    submit(world, "spotty", SPOT_NODES)
    world.until(
        "all run", lambda seen: len(of_pool(seen, "spotty", "running")) == SPOT_NODES
    )
    spots = of_pool(world.seen, "spotty")
    assert {instance.market for instance in spots} == {"spot"}
    for instance in spots:
        world.aws.ec2("interrupt_spot", instance_id=instance.id, notice_s=600)
    world.until("all drain", lambda seen: set(reasons(seen, *spots)) == {"Interruption"})
    world.until("each is replaced", lambda seen: len(staying(seen, "spotty")) == SPOT_NODES)
    seen = world.until(
        "all launches are told", lambda seen: all_are_told(seen, *staying(seen, "spotty"))
    )
    drains, launches = by_instance(seen.drains), by_instance(seen.launched)
    deadlines = {drains[instance.id]["deadline"] for instance in spots}
    replacements = staying(seen, "spotty")
    launched = {launches[instance.id]["launchedAt"] for instance in replacements}
    assert max(launched) < min(deadlines), "replaced before the drain was over"
    resting = shortages(world)
    assert {
        claim_of(world, spots[0]).offering,
        claim_of(world, spots[-1]).offering,
    } <= resting
    assert (
        not {claim_of(world, replacement).offering for replacement in replacements}
        & resting
    )


def all_are_told(seen: Observed, *instances: Instance) -> bool:
    return {instance.id for instance in instances} <= by_instance(seen.launched).keys()


def shortages(world: World) -> set[OfferingKey]:
    rows = world.aws.client("dynamodb").query(
        TableName=world.output(Table.OFFERINGS.value),
        IndexName=names.LISTING_INDEX,
        KeyConditionExpression=f"{names.LISTING_KEY} = :it",
        ExpressionAttributeValues={":it": {"S": "shortages"}},
    )["Items"]
    return {loads(OfferingKey, row["data"]["S"]) for row in rows}


def test_a_node_that_all_have_left_goes_before_its_deadline(world: World) -> None:
    leaving = on_spot(world.look(), "spotty")
    world.aws.ec2("interrupt_spot", instance_id=leaving.id, notice_s=600)
    world.until("it drains", lambda seen: reasons(seen, leaving) == ["Interruption"])
    told = by_instance(world.seen.drains)[leaving.id]
    world.send(
        {
            "action": "release",
            "workload": {"metadata": {"namespace": "story", "name": "spotty"}},
            "nodeClaim": told["node"]["nodeClaim"],
        }
    )
    world.until("it is gone", lambda seen: leaving.id in by_instance(seen.terminated))
    assert world.now() < datetime.fromisoformat(told["deadline"])
    # S-86: its claim has ended
    deliver(world, golden("spot_interruption", **{"instance-id": leaving.id}))


def test_a_warning_that_ec2_keeps_from_being_handled_is_heeded_within_seconds(
    world: World,
) -> None:
    """EC2 gives two minutes; the queue alone would show a failed event again after thirty seconds."""
    warned = on_spot(world.look(), "spotty")
    react = function_name(world.output(DEPLOYMENT), Function.REACT)
    tries = 5  # of one call by the SDK: the invocation fails
    fault = world.aws.fault(
        "throttle",
        service="ec2",
        operation="DescribeInstances",
        function=react,
        times=tries,
    )
    warned_at = world.now()
    world.aws.ec2("interrupt_spot", instance_id=warned.id, notice_s=600)
    world.until("it drains", lambda seen: reasons(seen, warned) == ["Interruption"])
    assert [each["hits"] for each in world.aws.faults() if each["id"] == fault] == [tries]
    told = by_instance(world.seen.drains)[warned.id]
    assert datetime.fromisoformat(told["notifiedAt"]) - warned_at < timedelta(seconds=30)
    world.aws.clear_faults()


def test_no_event_was_given_up(world: World) -> None:
    assert undelivered(world) == 0
