"""The control plane goes away, while work runs and while a node drains: nothing is lost, and nothing doubled.

All functions of Reservoir are switched off, and AWS's endpoints do not answer the nodes. Instances run their user
data: real agents in processes of their own start real commands.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.naming import function_name
from lab.embedded.reservoir.user_data import AGENT, agent_user_data
from lab.story.endpoints import Endpoint
from lab.story.nodes import let_nodes_in
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function

pytestmark = pytest.mark.embedded
RUN_NODES = True
ZONE = "us-east-1a"
# Counts, and goes on counting when it is asked to end; goes on from where somebody before it was.
WORK = """
file={shared}/$RESERVOIR_WORKLOAD_NAME
echo $$ > $file-pid
trap 'touch $file-asked' TERM
n=$(cat $file 2>/dev/null || echo 0)
echo "begins at $n"
while [ ! -e $file-go ]; do n=$((n+1)); echo $n > $file.new; mv $file.new $file; sleep 0.1; done
echo "is done"
"""
RUNS = """
[[run]]
workload = "story/*"
command = ["sh", "{shared}/work.sh"]
checkpoint = ["sh", "-c", "touch {shared}/$RESERVOIR_WORKLOAD_NAME-checkpoint"]
ready_after_s = 1
"""
STORIES = ("steady", "told", "untold")


@pytest.fixture(scope="module")
def endpoint(world: World) -> Iterator[Endpoint]:
    """Where nodes reach AWS."""
    with Endpoint(world.aws, "dynamodb", "sqs") as endpoint:
        yield endpoint


@pytest.fixture(scope="module", autouse=True)
def policy(
    world: World, shared: Path, endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Make a pool for each story, that never has more than one node."""
    let_nodes_in(world)
    (shared / "work.sh").write_text(WORK.format(shared=shared))
    start = f"export AWS_ENDPOINT_URL={endpoint.url}\nexec {AGENT}"
    user_data = agent_user_data(
        RUNS.format(shared=shared), log_folder=shared / "logs", start=start
    )
    manifests = []
    for name in STORIES:
        node_class, pool = one_type_pool(
            name, "p5.48xlarge", ("reserved", "on-demand"), userData=user_data
        )
        pool["spec"]["limits"] = {"cpu": "192"}
        manifests += [node_class, pool]
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))


@contextmanager
def lost(world: World, endpoint: Endpoint) -> Iterator[None]:
    """Take the whole control plane away: no function runs, and nobody answers the nodes."""
    functions, deployment = world.aws.client("lambda"), world.output(DEPLOYMENT)
    names = [function_name(deployment, function) for function in Function]
    kept = {
        it: functions.get_function_concurrency(FunctionName=it).get(
            "ReservedConcurrentExecutions"
        )
        for it in names
    }
    endpoint.is_down = True
    for name in names:
        functions.put_function_concurrency(
            FunctionName=name, ReservedConcurrentExecutions=0
        )
    yield
    for name, count in kept.items():
        if count is None:
            functions.delete_function_concurrency(FunctionName=name)
        else:
            functions.put_function_concurrency(
                FunctionName=name, ReservedConcurrentExecutions=count
            )
    endpoint.is_down = False


def number(file: Path) -> int:
    """Return how far a command has come, 0 before it has begun."""
    return int(file.read_text()) if file.exists() else 0


def goes_on(world: World, file: Path) -> None:
    """Wait until a command has counted further."""
    seen = number(file)
    world.until(f"{file.name} goes on", lambda _: number(file) > seen)


def told(kind: str, name: str, world: World) -> list[dict[str, Any]]:
    """Return what was told of a kind about a workload."""
    return [it for it in world.events(kind) if it["workload"]["name"] == name]


def runs(name: str, world: World, shared: Path) -> str:
    """Submit a workload of one replica and wait until it works; return its claim."""
    world.discover()
    world.send({"action": "submit", "workload": story_workload(name, 1, "100")})
    world.until(f"{name} is ready", lambda _: bool(told("Replica Ready", name, world)))
    world.until(f"{name} works", lambda _: number(shared / name) > 0)
    return str(told("Replica Ready", name, world)[0]["node"]["nodeClaim"])


def begun(name: str, shared: Path) -> list[int]:
    """Return where a command has begun, each time."""
    return [
        int(it)
        for it in re.findall(
            r"begins at (\d+)", (shared / "logs" / f"story_{name}-0.log").read_text()
        )
    ]


def is_alive(name: str, shared: Path) -> bool:
    """Whether the command that has begun last is still there."""
    return Path("/proc", (shared / f"{name}-pid").read_text().strip()).exists()


def test_what_finishes_while_nobody_listens_is_told_once_somebody_does(
    world: World, shared: Path, endpoint: Endpoint
) -> None:
    claim = runs("steady", world, shared)
    launched = len(world.seen.launched)
    with lost(world, endpoint):
        world.aws.clock.advance(timedelta(minutes=30), coalesce=True)
        goes_on(world, shared / "steady")
        (shared / "steady-go").touch()
        world.until("it is done", lambda _: not is_alive("steady", shared))
        world.aws.clock.advance(timedelta(minutes=30), coalesce=True)
        assert told("Replica Finished", "steady", world) == []
    world.until("it is told", lambda _: bool(told("Replica Finished", "steady", world)))
    world.aws.clock.advance(timedelta(minutes=3))
    assert len(world.look().launched) == launched, "what has finished is not placed again"
    finished = told("Replica Finished", "steady", world)
    assert {(it["node"]["nodeClaim"], it["finished"]) for it in finished} == {(claim, 1)}
    assert begun("steady", shared) == [0]


@pytest.mark.parametrize("name", ["told", "untold"])
def test_a_node_works_until_the_deadline_that_it_knows_and_its_work_goes_on_elsewhere_once(
    world: World, shared: Path, endpoint: Endpoint, name: str
) -> None:
    """It was told that it must go before the control plane was lost, or knows it from when its block was bought."""
    block = world.buy_block(
        name, "p5.48xlarge", ZONE, 1, name, end_in_s=timedelta(hours=3).total_seconds()
    )
    world.aws.clock.advance(timedelta(minutes=6))  # it has been paid
    first = runs(name, world, shared)
    (instance,) = (it for it in world.look().live("running") if it.claim_id == first)
    assert instance.reservation_id == block
    work, asked = shared / name, shared / f"{name}-asked"
    reservations = world.aws.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[block]
    )
    ends_at: datetime = reservations["CapacityReservations"][0]["EndDate"]
    drains_at, deadline = ends_at - timedelta(minutes=40), ends_at - timedelta(minutes=32)

    def pass_until(moment: datetime) -> None:
        world.aws.clock.advance(moment - world.now(), coalesce=True)

    if name == "told":
        pass_until(drains_at + timedelta(seconds=5))
        world.until(
            "its agent has asked it to end",
            lambda seen: first in seen.drains and asked.exists(),
        )
        assert datetime.fromisoformat(world.seen.drains[first]["deadline"]) == deadline
    with lost(world, endpoint):
        pass_until(drains_at + timedelta(minutes=3))
        world.until("it was asked to end", lambda _: asked.exists())
        assert (shared / f"{name}-checkpoint").exists()
        pass_until(deadline - timedelta(minutes=1))
        goes_on(world, work)
        pass_until(deadline)
        world.until("it was ended", lambda _: not is_alive(name, shared))
        assert instance.id in {it.id for it in world.look().live("running")}, (
            "by its agent, and not by EC2"
        )
        stopped_at = number(work)
        pass_until(ends_at)
        world.until(
            "EC2 has taken the block back",
            lambda seen: instance.id not in {it.id for it in seen.live()},
        )
        assert first not in world.seen.terminated
    world.until("it runs elsewhere", lambda _: len(told("Replica Ready", name, world)) > 1)
    world.until("the end of its node is told", lambda seen: first in seen.terminated)
    world.aws.clock.advance(timedelta(minutes=3))
    world.look()
    claims = [it["node"]["nodeClaim"] for it in told("Replica Ready", name, world)]
    assert len(claims) == len(set(claims)) == 2
    assert begun(name, shared) == [0, stopped_at]
    assert {
        it.claim_id for it in world.seen.live() if it.claim_id in world.seen.launched
    } >= {claims[1]}
    assert sum(it["node"]["nodePool"] == name for it in world.seen.launched.values()) == 2
    explained = world.command("explain", "workload", f"story/{name}").stdout
    assert "1 wanted, 1 placed, 0 waiting" in explained
