"""What was believed stays true: nobody takes anything from a neighbour by what is said of what runs already."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from lab.fakes.manifests import team_manifest
from lab.story.people import Person, all_refused, policy_statements
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import (
    EVENT_BUS,
    PLANNING_MESSAGE_GROUP,
    Function,
    Queue,
    Table,
    dead_letters_output,
)
from tests.deployed.hostile.tenants import Tenants, annotated, demand, move_in

pytestmark = pytest.mark.embedded

DAYS: Final = timedelta(days=3).total_seconds()
TEN_YEARS: Final = "87600h"
KEPT: Final = {"karpenter.sh/do-not-disrupt": "true"}
LENT: Final = {"capacityReservationSelectorTerms": [{"tags": {"purpose": "lent"}}]}


@pytest.fixture(scope="module")
def tenants(world: World, tmp_path_factory: pytest.TempPathFactory) -> Tenants:
    """Audio owns 4 vCPU on demand and no unit; vision owns the one unit that is lent."""
    policy = [
        *one_type_pool("shop", "m5.xlarge", ["on-demand"]),
        *one_type_pool("alone", "m5.large", ["on-demand"]),
        *one_type_pool("rich", "m5.xlarge", ["on-demand"]),
        *one_type_pool("lent", "m7i.large", ["reserved"]),
        *one_type_pool("block", "p5.48xlarge", ["reserved"]),
        team_manifest("rich", namespaces=["rich"], budget={"usdPerHour": "0.2"}),
    ]
    bought = {"capacityTypes": ["on-demand"], "resource": "cpu", "nominalQuota": "4"}
    audio = {"quotas": [bought, {**LENT, "nominalQuota": 0}], "cohort": "all"}
    vision = {
        "quotas": [{**LENT, "nominalQuota": 1}],
        "cohort": "all",
        "reclaimWithinCohort": "Any",
        "loans": {"grace": "5m"},
    }
    world.reserve("lent", "m7i.large", "us-east-1a", 1, "lent")
    world.buy_block("block", "p5.48xlarge", "us-east-1a", 1, "block", end_in_s=DAYS)
    world.aws.clock.advance(timedelta(minutes=6))  # it has been paid
    return move_in(world, tmp_path_factory.mktemp("policy"), policy, audio, vision)


def test_work_that_says_it_shrank_still_fills_its_node(tenants: Tenants) -> None:
    full = tenants.placed(tenants.audio, demand("audio/shrunk", "2500m"))
    tenants.accepted(tenants.audio, demand("audio/shrunk", "0", generation=2))
    assert tenants.placed(tenants.vision, demand("vision/wide", "2500m")) != full


def test_a_quota_counts_what_runs_whatever_is_said_of_it_later(tenants: Tenants) -> None:
    tenants.send(tenants.audio, demand("audio/more", "2500m"))
    why = tenants.world.until(
        "it waits", lambda seen: "audio/more" in seen.pending
    ).pending["audio/more"]
    assert "Team audio" in why


def test_work_that_says_it_grew_takes_room_from_nobody(tenants: Tenants) -> None:
    nodes = {tenants.node_of("audio/shrunk"), tenants.node_of("vision/wide")}
    tenants.accepted(tenants.audio, demand("audio/shrunk", "1000000", generation=3))
    assert tenants.placed(tenants.vision, demand("vision/small", "500m")) in nodes


def test_a_withdrawn_node_goes_within_the_hour_whatever_notice_it_asked_for(
    tenants: Tenants,
) -> None:
    world, body = (
        tenants.world,
        demand("vision/patient", "1", pool="alone", checkpointPeriod=TEN_YEARS),
    )
    node = tenants.placed(tenants.vision, body)
    world.until(
        "it runs",
        lambda seen: any(
            it.claim_id == node and it.state == "running" for it in seen.live()
        ),
    )
    metadata = body["workload"]["metadata"]
    tenants.send(tenants.vision, {"action": "withdraw", "workload": {"metadata": metadata}})
    drain = world.until("its node drains", lambda seen: node in seen.drains).drains[node]
    assert datetime.fromisoformat(drain["deadline"]) <= world.now() + timedelta(hours=1)


def test_a_neighbour_in_a_block_ends_nobodys_node_by_asking_for_more_notice(
    tenants: Tenants,
) -> None:
    world = tenants.world
    node = tenants.placed(tenants.vision, demand("vision/trainer", "150", pool="block"))
    assert (
        tenants.placed(tenants.stranger, demand("none/parasite", "10m", pool="block"))
        == node
    )
    more = demand(
        "none/parasite", "10m", pool="block", generation=2, checkpointPeriod=TEN_YEARS
    )
    tenants.accepted(tenants.stranger, more)
    world.aws.clock.advance(timedelta(minutes=3))
    assert node not in world.look().drains


def test_a_loan_comes_back_although_it_must_not_be_disturbed(tenants: Tenants) -> None:
    world = tenants.world
    borrowed = tenants.placed(
        tenants.audio, annotated(demand("audio/borrower", "1500m", pool="lent"), KEPT)
    )
    world.until(
        "it runs",
        lambda seen: any(
            it.claim_id == borrowed and it.state == "running" for it in seen.live()
        ),
    )
    tenants.send(tenants.vision, demand("vision/owner", "1500m", pool="lent"))
    drain = world.until("it is taken back", lambda seen: borrowed in seen.drains).drains[
        borrowed
    ]
    assert drain["reason"] == "Reclaimed"
    assert datetime.fromisoformat(drain["deadline"]) <= world.now() + timedelta(hours=1)


def test_a_crowd_beside_its_work_pays_no_part_of_a_teams_node(tenants: Tenants) -> None:
    node = tenants.placed(tenants.stranger, demand("rich/first", "3", pool="rich"))
    crowd = tenants.placed(
        tenants.stranger, demand("crowd/many", "10m", pool="rich", replicas=20)
    )
    assert crowd == node
    tenants.send(tenants.stranger, demand("rich/second", "3", pool="rich"))
    why = tenants.world.until(
        "it waits", lambda seen: "rich/second" in seen.pending
    ).pending["rich/second"]
    assert "its team's budget leaves 0.02 USD" in why


@pytest.fixture(scope="module")
def operator(world: World) -> Person:
    return Person(world, managed=("Viewer", "Operator"))


def test_wake_ups_of_another_form_keep_nobody_waiting(
    tenants: Tenants, operator: Person
) -> None:
    for number, body in enumerate(
        ('{"workloads": 1}', '{"group": []}', "[]", "{", '{"group": {"pool": 7}}')
    ):
        operator.client("sqs").send_message(
            QueueUrl=tenants.world.output(Queue.PLANNING.value),
            MessageBody=body,
            MessageGroupId=PLANNING_MESSAGE_GROUP,
            MessageDeduplicationId=f"poison-{number}",
        )
    tenants.placed(tenants.vision, demand("vision/after-wake-ups", "100m"))
    assert letters(tenants.world, Queue.PLANNING) == 0


def test_launches_of_another_form_keep_no_launch_waiting(
    tenants: Tenants, operator: Person
) -> None:
    for body in ("{}", "[]", '{"nodeClaims": 1}', '{"nodeClaims": ["nc-0"]}'):
        operator.client("sqs").send_message(
            QueueUrl=tenants.world.output(Queue.LAUNCHES.value), MessageBody=body
        )
    node = tenants.placed(
        tenants.vision, demand("vision/after-launches", "1500m", pool="alone")
    )
    tenants.world.until("it is launched", lambda seen: node in seen.launched)


def test_no_operator_tells_what_others_did_or_raises_what_may_be_ended(
    tenants: Tenants, operator: Person
) -> None:
    told = {
        "DetailType": "Operation Requested",
        "Source": "reservoir",
        "Detail": json.dumps({"by": "somebody-else"}),
    }
    endings = {
        "id": {"S": "#endings disruption"},
        "count": {"N": "1000000000"},
        "until": {"S": "2999-01-01T00:00:00Z"},
    }
    bus, nodes = (
        tenants.world.output(EVENT_BUS),
        tenants.world.output(Table.NODE_CLAIMS.value),
    )
    calls: list[Callable[[], Any]] = [
        lambda: operator.client("events").put_events(
            Entries=[{**told, "EventBusName": bus}]
        ),
        lambda: operator.client("dynamodb").put_item(TableName=nodes, Item=endings),
        lambda: operator.client("sqs").send_message(
            QueueUrl=tenants.world.output(Queue.REACTIONS.value), MessageBody="{}"
        ),
    ]
    all_refused(calls)


def test_a_teams_operator_gives_its_team_no_more_and_ends_no_other(
    world: World, tmp_path: Path
) -> None:
    guest = Person(world, managed=("Viewer", "TeamOperator"))
    greedy = team_manifest(
        "guests",
        namespaces=["guests"],
        principals=[guest.arn],
        limits={"replicas": 1_000_000},
    )
    for attempt in (
        ("apply", "-f", str(write_manifests(tmp_path, [greedy]))),
        ("delete", "team", "vision", "--yes"),
    ):
        done = guest.command(*attempt)
        assert (done.returncode != 0, "AccessDenied" in done.stderr) == (True, True), (
            attempt
        )


@pytest.mark.parametrize(
    ("function", "others"),
    [
        (Function.LAUNCH, ("Team/vision", "NodePool/shop")),
        (Function.DISCOVER_RESERVATIONS, ("Team/vision",)),
    ],
)
def test_a_function_that_discovers_or_launches_rewrites_no_team(
    tenants: Tenants, function: Function, others: tuple[str, ...]
) -> None:
    dynamodb = Person(
        tenants.world, statements=policy_statements(tenants.world, function)
    ).client("dynamodb")
    policy, rows = (
        tenants.world.output(Table.POLICY.value),
        [{"id": {"S": key}} for key in others],
    )
    all_refused([partial(dynamodb.update_item, TableName=policy, Key=row) for row in rows])
    every = [*rows, {"id": {"S": "EC2NodeClass/shop"}}]
    all_refused([partial(dynamodb.put_item, TableName=policy, Item=row) for row in every])
    all_refused([partial(dynamodb.delete_item, TableName=policy, Key=row) for row in every])


def test_a_sender_sees_and_ends_nothing(tenants: Tenants) -> None:
    audio, workloads = tenants.audio, tenants.world.output(Table.WORKLOADS.value)
    calls: list[Callable[[], Any]] = [
        lambda: audio.client("dynamodb").get_item(
            TableName=workloads, Key={"id": {"S": "vision/wide"}}
        ),
        lambda: audio.client("sqs").receive_message(
            QueueUrl=tenants.world.output(Queue.DEMAND.value)
        ),
        lambda: audio.client("sqs").purge_queue(
            QueueUrl=tenants.world.output(Queue.DEMAND.value)
        ),
        lambda: audio.client("ec2").terminate_instances(
            InstanceIds=["i-0123456789abcdef0"]
        ),
    ]
    all_refused(calls)


def letters(world: World, queue: Queue) -> int:
    """Return how many messages of a queue were given up."""
    url = world.reservoir.outputs[dead_letters_output(queue)]
    answer = world.aws.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
    )
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])
