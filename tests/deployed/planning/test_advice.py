"""What is wanted is kept by the deployed stack, and advice is made of what it keeps."""

import json
from datetime import timedelta

import pytest

from lab.fakes.system import ManualClock
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.adapters.dynamodb.history import DynamoDbHistory
from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.names import Table

pytestmark = pytest.mark.embedded

DAYS = 14
TYPE = "m7i.4xlarge"


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Three units that one pool may use, and nothing else."""
    world.reserve("advised", TYPE, "us-east-1a", 3, "advised")
    world.apply(
        write_manifests(
            tmp_path_factory.mktemp("advice"), one_type_pool("advised", TYPE, ["reserved"])
        )
    )
    world.discover()


def history(world: World) -> DynamoDbHistory:
    table = world.output(Table.HISTORY.value)
    clock = ManualClock(world.now())
    return DynamoDbHistory(
        world.aws.client("dynamodb"), table, clock, kept=timedelta(days=14)
    )


def steps(world: World) -> list[DemandStep]:
    since, until = world.now() - timedelta(days=1), world.now() + timedelta(days=1)
    return [
        step
        for step in history(world).demand(since, until)
        if step.workload_key == "story/advised"
    ]


def test_what_was_wanted_and_where_it_ended_is_kept(world: World) -> None:
    manifest = story_workload("advised", 1, "12")
    world.send({"action": "submit", "workload": manifest})
    world.until("it runs", lambda seen: seen.all_run({"story/advised": 1}))
    manifest["metadata"]["generation"] = 2
    world.send({"action": "withdraw", "workload": manifest})
    ended = {DemandStepKind.PLACED, DemandStepKind.WITHDRAWN}
    world.until("it is kept", lambda _: ended <= {step.kind for step in steps(world)})
    (wanted,) = (
        step.workload for step in steps(world) if step.kind is DemandStepKind.WANTED
    )
    assert wanted is not None
    assert (wanted.key, wanted.replicas) == ("story/advised", 1)


def test_units_that_nobody_used_are_advised_to_be_given_back(world: World) -> None:
    wanted = next(step.workload for step in steps(world) if step.workload is not None)
    now = world.now().replace(microsecond=0)
    for day in range(1, DAYS):
        begin = now - timedelta(days=day)
        about = (wanted.key, 1)
        history(world).keep_demand(
            [
                DemandStep(
                    f"past-{day}-1", begin, DemandStepKind.WANTED, *about, workload=wanted
                ),
                DemandStep(
                    f"past-{day}-2", begin, DemandStepKind.PLACED, *about, replicas=1
                ),
                DemandStep(
                    f"past-{day}-3",
                    begin + timedelta(hours=23),
                    DemandStepKind.WITHDRAWN,
                    *about,
                ),
            ]
        )
    done = world.command("advise", "--since", "13d", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (change,) = found["changes"]
    assert (change["units"], change["unitsAdvised"], change["instanceType"]) == (3, 1, TYPE)
    assert change["command"].endswith("--instance-count 1")
