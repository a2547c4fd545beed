"""The whole circle on one machine: submit, placed, launched, running, drain, checkpoint, release, gone, placed again.

Instances run their user data: a real agent in a process of its own, with the metadata and the credentials of its
instance, starts a real command.
"""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.embedded.reservoir.user_data import AGENT, agent_user_data
from lab.story.nodes import Inside, let_nodes_in
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import Function

pytestmark = pytest.mark.embedded
RUN_NODES = True
ZONE = "us-east-1a"
AGENT_RSS_MAX_MIB = 40
# Counts until somebody lets it finish, in a file that is never half written, as it is copied meanwhile. It goes on from
# the checkpoint, if there is one, and says so if somebody else is at work: its node is there before the one that it
# replaces has written its checkpoint.
WORK = """
mkdir {shared}/at-work || echo "two at once" >> {shared}/clashes
trap 'sleep 3; rmdir {shared}/at-work; exit 1' TERM
n=0
if [ -e {shared}/checkpoint ]; then n=$(cat {shared}/checkpoint); fi
echo "begins at $n"
echo "for $RESERVOIR_CORRELATION_ID"
while [ ! -e {shared}/go ]; do n=$((n+1)); echo $n > {shared}/next; mv {shared}/next {shared}/progress; sleep 0.1; done
rmdir {shared}/at-work
echo "is done at $n"
"""
# A member of a gang works until it is told that it has lost another one.
MEMBER = """#!/bin/sh
echo $RANK $WORLD_SIZE $MASTER_ADDR $RESERVOIR_GANG_ADDRESSES > {shared}/$RANK
while [ ! -e {shared}/lost-$RANK ]; do sleep 0.1; done
rm {shared}/lost-$RANK
echo lost another one
exit 1
"""
RUNS = """
[[run]]
workload = "story/gang"
command = ["{shared}/member.sh"]
gang = true
ready_after_s = 1

[[run]]
workload = "story/*"
command = ["sh", "{shared}/work.sh"]
checkpoint = ["cp", "{shared}/progress", "{shared}/checkpoint"]
ready_after_s = 1
"""
START = f"""
echo $$ >> {{shared}}/agents
{AGENT} --identity > {{shared}}/{{{{{{{{reservoir.nodePool}}}}}}}}.json
exec {AGENT}
"""


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    let_nodes_in(world, "NodeLogsPolicyArn")
    (shared / "work.sh").write_text(WORK.format(shared=shared))
    (shared / "member.sh").write_text(MEMBER.format(shared=shared))
    (shared / "member.sh").chmod(0o755)
    start = START.format(shared=shared)
    user_data = agent_user_data(
        RUNS.format(shared=shared),
        log_folder=shared / "logs",
        start=start,
        log_group="{{reservoir.deployment}}-NodeLogs",
    )
    world.buy_block(
        "block",
        "p5.48xlarge",
        ZONE,
        1,
        "circle",
        end_in_s=timedelta(hours=3).total_seconds(),
    )
    pool = one_type_pool(
        "circle", "p5.48xlarge", ("reserved", "on-demand"), userData=user_data
    )
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), pool))
    world.aws.clock.advance(timedelta(minutes=6))  # the block has been paid
    world.discover()


def test_work_goes_on_from_its_checkpoint_on_another_node_and_finishes(
    world: World, shared: Path
) -> None:
    world.send(
        {
            "action": "submit",
            "workload": story_workload("circle", 1, "100", checkpointPeriod="10m"),
        }
    )
    world.until("it runs", lambda _: bool(_ready("circle", world)))
    (first,) = _ready("circle", world)
    assert first["capacityType"] == "reserved"
    assert (
        json.loads((shared / "circle.json").read_text())["nodeClaim"] == first["nodeClaim"]
    )
    world.until("it works", lambda _: _number(shared / "progress") > 3)

    # past the drain's start, before its deadline
    world.aws.clock.advance(timedelta(hours=2, minutes=20))
    world.until(
        "its node is gone, and why is told",
        lambda seen: bool(seen.terminated and seen.drains),
    )
    assert {claim: it["reason"] for claim, it in world.seen.drains.items()} == {
        first["nodeClaim"]: "CapacityBlockEnding"
    }
    assert world.seen.terminated.keys() == {first["nodeClaim"]}
    assert world.seen.terminated[first["nodeClaim"]]["returned"] == [], "it was released"
    checkpoint = _number(shared / "checkpoint")
    assert checkpoint > 3

    world.until("it runs again", lambda _: len(_ready("circle", world)) == 2)
    (second,) = (
        node for node in _ready("circle", world) if node["nodeClaim"] != first["nodeClaim"]
    )
    assert second["capacityType"] == "on-demand"

    def begun() -> list[str]:
        return re.findall(
            r"begins at (\d+)", (shared / "logs" / "story_circle-0.log").read_text()
        )

    world.until("it has said where it begins", lambda _: len(begun()) == 2)
    assert begun() == ["0", str(checkpoint)]
    assert not (shared / "clashes").exists(), "both are never at work at once"

    (shared / "go").touch()
    world.until("it finishes", lambda _: bool(world.events("Replica Finished")))
    finished = world.events("Replica Finished")[0]
    assert (finished["node"]["nodeClaim"], finished["finished"], finished["wanted"]) == (
        second["nodeClaim"],
        1,
        1,
    )
    assert "is done at" in finished["logTail"]
    world.aws.clock.advance(timedelta(minutes=3))
    world.look()
    assert len(world.seen.launched) == 2, "what has finished is not placed again"


def test_one_search_finds_what_every_function_said_of_it(
    world: World, shared: Path
) -> None:
    (accepted,) = (
        it for it in world.events("Workload Accepted") if it["workload"]["name"] == "circle"
    )
    followed_by = accepted["workload"]["correlationId"]
    assert followed_by == accepted["messageId"]
    nodes = [each["node"] for each in world.events("Node Launched")]
    names = {
        "story/circle",
        *(node["nodeClaim"] for node in nodes),
        *(node["instanceId"] for node in nodes),
    }
    said = {function: world.log(function).splitlines() for function in Function}
    for function, lines in said.items():
        for text in (text for text in lines if any(name in text for name in names)):
            assert followed_by in json.loads(text).get("correlation_ids", ()), (
                f"{function}: {text}"
            )
    # From its message to its instance, its drain, its report and its end.
    circle = {
        Function.INTAKE,
        Function.PROVISION,
        Function.LAUNCH,
        Function.EXPIRE,
        Function.FOLLOW,
        Function.RECORD,
    }
    assert circle <= {
        function
        for function, lines in said.items()
        if any(followed_by in text for text in lines)
    }
    assert f"for {followed_by}" in (shared / "logs" / "story_circle-0.log").read_text()


def test_what_commands_wrote_is_read_after_their_nodes_have_gone(world: World) -> None:
    seen: list[str] = []

    def has_come(_: object) -> bool:
        done = world.command("logs", "story/circle")
        assert done.returncode == 0, done.stderr
        seen[:] = [line.split("  ", 1)[1] for line in done.stdout.splitlines()]
        return any(line.startswith("is done at") for line in seen)

    world.until("the last line has come", has_come)
    # The nodes of this story share their folder of logs, so that both agents may copy a line.
    begun = list(dict.fromkeys(line for line in seen if line.startswith("begins at")))
    assert len(begun) == 2, "both nodes' lines"
    assert begun[0] == "begins at 0"


def test_the_agent_is_small(world: World, shared: Path) -> None:
    assert world.events("Replica Finished")
    pid = int((shared / "agents").read_text().split()[-1])
    (resident_kib,) = re.findall(
        r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    assert int(resident_kib) / 1024 <= AGENT_RSS_MAX_MIB


def test_a_command_that_fails_is_told_and_started_again(world: World, shared: Path) -> None:
    (shared / "work.sh").write_text("echo no such dataset; exit 3\n")
    workload = story_workload("crashing", 1, "100", nodeSelector={"story": "circle"})
    world.send({"action": "submit", "workload": workload})
    for restarts, pause_s in enumerate((10, 20, 40, 0)):
        _until_it_fails("crashing", restarts, world)
        world.aws.clock.advance(timedelta(seconds=pause_s))
    failures = _failures("crashing", world)
    assert [failures[restarts]["isCrashLoop"] for restarts in range(4)] == [
        False,
        False,
        False,
        True,
    ]
    assert failures[0]["exitCode"] == 3
    assert failures[0]["logTail"].endswith("no such dataset\n")


def _written(path: Path) -> bool:
    """Whether a command has written a whole line."""
    return path.exists() and path.read_text().endswith("\n")


def _number(path: Path) -> int:
    """Return the number that a command has written, 0 before it has; a file is emptied before it is written."""
    return int(path.read_text()) if _written(path) else 0


def test_nodes_of_a_gang_start_when_all_are_there_and_know_each_other(
    world: World, shared: Path
) -> None:
    workload = story_workload("gang", 2, "100", gang=True, nodeSelector={"story": "circle"})
    world.send({"action": "submit", "workload": workload})
    world.until("both are ready", lambda _: len(_ready("gang", world)) == 2)
    world.until(
        "both have written", lambda _: all(_written(shared / rank) for rank in ("0", "1"))
    )
    told = [(shared / rank).read_text().split() for rank in ("0", "1")]
    addresses = told[0][3]
    assert sorted(addresses.split(",")) == sorted(
        _addresses(_ready("gang", world), world).values()
    )
    assert told == [
        [rank, "2", addresses.partition(",")[0], addresses] for rank in ("0", "1")
    ]


def test_the_node_of_a_gang_that_ec2_takes_is_replaced_and_whoever_starts_anew_knows_the_new_one(
    world: World, shared: Path
) -> None:
    before = (shared / "1").read_text().split()
    lost, stays = before[3].split(",")
    address_of = _addresses(_ready("gang", world), world)
    instance_of = {address: instance for instance, address in address_of.items()}
    (shared / "0").unlink()
    world.aws.client("ec2").terminate_instances(InstanceIds=[instance_of[lost]])
    world.until("another node is ready", lambda _: len(_ready("gang", world)) == 3)
    world.until("it has written", lambda _: _written(shared / "0"))
    (new,) = {*_addresses(_ready("gang", world), world).values()} - {*address_of.values()}
    assert (shared / "0").read_text().split() == ["0", "2", new, f"{new},{stays}"], (
        "it takes the rank that was free"
    )
    assert (shared / "1").read_text().split() == before, "what runs goes on"
    (told,) = Inside(world, instance_of[stays]).identity()["workloads"]
    assert told["gang"]["addresses"] == [new, stays]

    (shared / "lost-1").touch()
    _until_it_fails("gang", 0, world)
    world.aws.clock.advance(timedelta(seconds=10))
    now = ["1", "2", new, f"{new},{stays}"]
    world.until(
        "it starts among those of now", lambda _: (shared / "1").read_text().split() == now
    )


def _failures(name: str, world: World) -> dict[int, dict[str, Any]]:
    """Return what was told of failures of a workload, by the restarts before."""
    return {
        it["restarts"]: it
        for it in world.events("Replica Failed")
        if it["workload"]["name"] == name
    }


def _until_it_fails(name: str, restarts: int, world: World) -> None:
    world.until(
        f"{name} fails after {restarts} restarts",
        lambda _: restarts in _failures(name, world),
    )


def _addresses(nodes: list[dict[str, Any]], world: World) -> dict[str, str]:
    """Return the private addresses of nodes, by instance; EC2 shows none of an instance that is gone."""
    described = world.aws.client("ec2").describe_instances(
        InstanceIds=[it["instanceId"] for it in nodes]
    )
    instances = [
        it for reservation in described["Reservations"] for it in reservation["Instances"]
    ]
    return {
        it["InstanceId"]: it["PrivateIpAddress"]
        for it in instances
        if it.get("PrivateIpAddress")
    }


def _ready(name: str, world: World) -> list[dict[str, Any]]:
    """Return the nodes on which replicas of a workload have been ready."""
    return [
        it["node"] for it in world.events("Replica Ready") if it["workload"]["name"] == name
    ]
