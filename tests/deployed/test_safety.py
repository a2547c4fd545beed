"""What becomes of a fleet when its claims are gone: nothing ends, somebody is told, and may lift what holds it.

The tests tell one story in their order.
"""

import json
from base64 import b64decode
from datetime import timedelta
from typing import Any, Final

import pytest

from lab.story.people import Person
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import ENDINGS_ROW_PREFIX, MARK_ROW, Function, Table

pytestmark = pytest.mark.embedded

NODES: Final = 5  # more than the three orphans that may always end within an hour
HOSTILE: Final = "'\"}]; #id = :id $(reboot) ${AWS::StackName} reservoir:deployment"
SWEEPS: Final = (
    Function.DISCOVER_RESERVATIONS,
    Function.COLLECT,
    Function.EXPIRE,
    Function.DISRUPT,
)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def fleet(world: World, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Instances with a replica each."""
    world.apply(
        write_manifests(
            tmp_path_factory.mktemp("policy"),
            one_type_pool("kept", "m5.large", ["on-demand"]),
        )
    )
    world.discover()
    workload = story_workload("kept", NODES, "1200m")
    workload["metadata"]["annotations"] = {"note": HOSTILE}
    world.send({"action": "submit", "workload": workload})
    world.until("all run", lambda seen: len(seen.live("running")) == NODES)
    world.aws.clock.pause()  # from here on nothing runs but what a story lets run
    world.aws.clock.settle()
    return running(world)


def running(world: World) -> set[str]:
    return {instance.id for instance in world.look().live()}


def rows(world: World) -> list[Row]:
    """Return all rows of the table of nodes."""
    pages = (
        world.aws.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=world.output(Table.NODE_CLAIMS))
    )
    return [row for page in pages for row in page["Items"]]


def delete(world: World, gone: list[Row]) -> None:
    for row in gone:
        world.aws.client("dynamodb").delete_item(
            TableName=world.output(Table.NODE_CLAIMS), Key={"id": row["id"]}
        )


def sweep(world: World) -> None:
    """Let everything that could end something run, a while later."""
    world.aws.clock.advance(timedelta(minutes=15), coalesce=True)
    for function in SWEEPS:
        world.reservoir.invoke(function)


def counted(world: World, metric: str) -> float:
    """Return what ``collect`` has counted where the alarm on the metric looks, as CloudWatch reads it from its log."""
    pages = world.aws.client("cloudwatch").get_paginator("describe_alarms").paginate()
    (alarm,) = (
        it
        for page in pages
        for it in page["MetricAlarms"]
        if it.get("MetricName") == metric
    )
    watched = (
        alarm["Namespace"],
        sorted((it["Name"], it["Value"]) for it in alarm["Dimensions"]),
    )
    total = 0.0
    for line in world.log(Function.COLLECT).splitlines():
        written = json.loads(line) if '"_aws"' in line else {}
        for directive in written.get("_aws", {}).get("CloudWatchMetrics", ()):
            for names in directive["Dimensions"]:
                where = (
                    directive["Namespace"],
                    sorted((name, written[name]) for name in names),
                )
                if where == watched and metric in written:
                    total += sum(written[metric])
    return total


def test_the_tables_are_marked_when_the_deployment_is_finished(world: World) -> None:
    assert {"S": MARK_ROW} in [row["id"] for row in rows(world)]


def test_text_of_a_message_stays_data(world: World, fleet: set[str]) -> None:
    row = world.aws.client("dynamodb").get_item(
        TableName=world.output(Table.WORKLOADS), Key={"id": {"S": "story/kept"}}
    )
    assert (
        HOSTILE in json.loads(row["Item"]["data"]["S"])["workload"]["annotations"].values()
    )
    ec2 = world.aws.client("ec2")
    instances = ec2.describe_instances(InstanceIds=sorted(fleet))["Reservations"]
    assert len(instances) > 0
    templates = [
        version["LaunchTemplateData"]
        for template in ec2.describe_launch_templates()["LaunchTemplates"]
        for version in ec2.describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"]
        )["LaunchTemplateVersions"]
    ]
    assert len(templates) > 0
    user_data = [b64decode(template.get("UserData", "")).decode() for template in templates]
    assert "$(reboot)" not in json.dumps([instances, templates, user_data], default=str)


def test_an_emptied_table_ends_nothing_and_is_told(world: World, fleet: set[str]) -> None:
    sweep(world)
    assert counted(world, "TablesUnknown") == 0
    kept = rows(world)
    delete(world, kept)
    sweep(world)
    assert running(world) == fleet
    assert counted(world, "TablesUnknown") > 0
    for row in kept:
        world.aws.client("dynamodb").put_item(
            TableName=world.output(Table.NODE_CLAIMS), Item=row
        )
    told = counted(world, "TablesUnknown")
    sweep(world)
    assert running(world) == fleet
    assert counted(world, "TablesUnknown") == told, (
        "with its rows, the mark among them, the table is known again"
    )


def test_claims_that_somebody_deleted_end_no_more_than_the_bound(
    world: World, fleet: set[str]
) -> None:
    delete(
        world, [row for row in rows(world) if row.get("instance_id", {}).get("S") in fleet]
    )
    assert counted(world, "EndingsHeld") == 0
    sweep(world)
    assert running(world) == fleet, (
        "five at once are more than the bound of three: none of them"
    )
    assert counted(world, "EndingsHeld") > 0
    world.until("it is told", lambda _: bool(world.events("Endings Held")))
    (held,) = world.events("Endings Held")
    assert (held["kind"], held["wantedCount"], held["fleetCount"]) == (
        "orphans",
        NODES,
        NODES,
    )
    shown = Person(world, managed=("Viewer",)).command("envelope", "show").stdout
    assert (
        "orphans: closed, 0 ended within 60 minutes\n  5 would end, 3 of 5 may, 0 have ended"
        in shown
    )


def test_an_operator_lifts_it_once(world: World, fleet: set[str]) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    lifting = (
        "--count",
        str(NODES),
        "--minutes",
        "60",
        "--reason",
        "the claims are gone for good, OPS-123",
        "--yes",
    )
    lifted = operator.command("envelope", "lift", "orphans", *lifting)
    assert lifted.returncode == 0, lifted.stderr
    sweep(world)
    assert running(world).isdisjoint(fleet)
    world.until("it is told", lambda _: bool(world.events("Envelope Lifted")))
    (told,) = world.events("Envelope Lifted")
    assert (told["kind"], told["count"], told["by"]) == ("orphans", NODES, operator.arn)
    assert (
        "5 used: the claims are gone for good, OPS-123"
        in operator.command("envelope", "show").stdout
    )
    (tally,) = (
        row for row in rows(world) if row["id"]["S"] == f"{ENDINGS_ROW_PREFIX}orphans"
    )
    assert operator.arn in tally["data"]["S"]
