"""What people do by hand, each with the policies that the stack has for them, on the deployed stack."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from lab.demo.observer import Observed
from lab.fakes.manifests import team_manifest
from lab.story.people import Person, refusal
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.cli.stack.operating import signed
from reservoir.manifests.answers.operations import OperationRequest, Verb
from reservoir.names import Function, function_name

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def pool(world: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pool that buys what it needs."""
    world.apply(
        write_manifests(
            tmp_path_factory.mktemp("policy"),
            one_type_pool("hands", "m5.large", ["on-demand"]),
        )
    )
    world.discover()
    return "hands"


def demand(folder: Path, *workloads: dict[str, Any]) -> str:
    path = folder / "demand.yaml"
    path.write_text(yaml.safe_dump_all(workloads))
    return str(path)


def test_a_sender_who_may_look_submits_a_file_waits_for_places_and_withdraws(
    world: World, pool: str, tmp_path: Path
) -> None:
    sender = Person(world, managed=("Sender", "Viewer"))
    workload = story_workload(
        "by-hand", 1, "1", nodeSelector={"karpenter.sh/nodepool": pool}
    )
    submitted = sender.command(
        "submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "5m"
    )
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.splitlines() == [
        "workload/story/by-hand accepted (generation 1)",
        "workload/story/by-hand placed (1 replica)",
    ]
    assert (
        "unchanged (generation 1)"
        in sender.command("submit", "-f", demand(tmp_path, workload)).stdout
    )

    # What is withdrawn before has no node that could drain.
    world.until("it runs", lambda seen: bool(nodes_of(seen, "by-hand")))
    unasked = sender.command("withdraw", "story/by-hand")
    assert unasked.returncode == 2
    assert "no terminal on which to ask" in unasked.stderr
    withdrawn = sender.command("withdraw", "story/by-hand", "--yes")
    assert withdrawn.stdout == "workload/story/by-hand withdrawn (generation 1)\n"
    world.until("its node drains", lambda seen: bool(seen.drains))


def test_whoever_may_look_lists_what_there_is_and_reads_why(
    world: World, pool: str, tmp_path: Path
) -> None:
    person = Person(world, managed=("Sender", "Viewer"))
    workload = story_workload(
        "looked-at", 1, "1", nodeSelector={"karpenter.sh/nodepool": pool}
    )
    submitted = person.command(
        "submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "5m"
    )
    assert submitted.returncode == 0, submitted.stderr

    def listed(*arguments: str) -> list[dict[str, Any]]:
        done = person.command("get", *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return found

    (placed,) = listed("workload", "story/looked-at")
    assert (placed["status"]["state"], placed["status"]["nodePools"]) == ("placed", [pool])
    (node,) = [
        each
        for each in listed("nodes", "--pool", pool)
        if "looked-at" in str(each["status"]["workloads"])
    ]
    assert (node["spec"]["instanceType"], node["spec"]["capacityType"]) == (
        "m5.large",
        "on-demand",
    )
    (decision,) = listed("decision", node["status"]["planId"])
    assert decision["status"]["nodes"] == [node["metadata"]["name"]]
    assert {each["spec"]["capacityType"] for each in listed("offerings", "m5.large")} >= {
        "spot",
        "on-demand",
    }
    assert listed("reservations") == []

    described = person.command("describe", f"node/{node['metadata']['name']}")
    assert described.returncode == 0, described.stderr
    assert "exists" in described.stdout
    refused = person.command("get", "pools")
    assert refused.returncode == 2
    assert "AccessDenied" in refused.stderr


def nodes_of(seen: Observed, workload: str) -> set[str]:
    """The NodeClaims that were launched for a workload."""
    told = seen.launched.items()
    return {
        claim
        for claim, detail in told
        if any(it["name"] == workload for it in detail["workloads"])
    }


def test_an_operator_cordons_drains_and_deletes_nodes_and_aws_says_who(
    world: World, pool: str, tmp_path: Path
) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    # Too large to join a node of another story.
    workload = story_workload(
        "operated", 1, "1500m", nodeSelector={"karpenter.sh/nodepool": pool}
    )
    assert (
        operator.command(
            "submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "5m"
        ).returncode
        == 0
    )
    (first,) = nodes_of(
        world.until("it has a node", lambda seen: bool(nodes_of(seen, "operated"))),
        "operated",
    )

    cordoned = operator.command("cordon", first, "--reason", "OPS-7")
    assert cordoned.stdout == f"node/{first} cordoned; takes no new replicas\n", (
        cordoned.stderr
    )
    world.until("it is told", lambda seen: seen.counts["Operation Requested"] > 0)
    (asked,) = world.events("Operation Requested")
    assert (asked["verb"], asked["by"], asked["reason"]) == (
        "cordon",
        operator.arn,
        "OPS-7",
    )

    unasked = operator.command("delete", "node", first, "--reason", "OPS-7")
    assert (unasked.returncode, "no terminal on which to ask" in unasked.stderr) == (
        2,
        True,
    )
    deleted = operator.command("delete", "node", first, "--reason", "OPS-7", "--yes")
    assert deleted.stdout == f"node/{first} terminating\n", deleted.stderr
    world.until("it is gone", lambda seen: first in seen.terminated)
    world.until(
        "its replica has another node",
        lambda seen: bool(nodes_of(seen, "operated") - {first}),
    )


def test_a_paused_pool_launches_nothing_until_it_is_resumed(
    world: World, pool: str, tmp_path: Path
) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    paused = operator.command("pause", "pool", pool, "--reason", "OPS-8")
    assert paused.stdout == f"nodepool/{pool} paused; launches no nodes\n", paused.stderr
    workload = story_workload(
        "paused", 3, "1", nodeSelector={"karpenter.sh/nodepool": pool}
    )
    assert (
        operator.command(
            "submit", "-f", demand(tmp_path, workload), "--timeout", "5m"
        ).returncode
        == 0
    )
    world.until(
        "it is told to wait",
        lambda seen: "is paused" in seen.pending.get("story/paused", ""),
    )
    waits = operator.command(
        "submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "1s"
    )
    assert waits.returncode == 1
    assert (
        f"NodePoolPaused: NodePool {pool} is paused by {operator.arn} since" in waits.stderr
    )
    assert operator.command("resume", "pool", pool, "--reason", "OPS-8").returncode == 0
    placed = operator.command(
        "submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "5m"
    )
    assert placed.returncode == 0, placed.stderr


def test_an_operator_lets_generations_begin_anew(world: World, pool: str) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    workload = story_workload(
        "reset", 1, "100m", nodeSelector={"karpenter.sh/nodepool": pool}
    )
    mistaken = {**workload, "metadata": {**workload["metadata"], "generation": 2**50}}
    world.send({"action": "submit", "workload": mistaken})
    world.until("it is placed", lambda seen: seen.placed["story/reset"] == 1)
    more = {**workload, "spec": {**workload["spec"], "replicas": 2}}
    world.send({"action": "submit", "workload": more})
    world.until(
        "nothing follows",
        lambda _: any(
            it["workload"]["name"] == "reset" for it in world.events("Workload Ignored")
        ),
    )
    done = operator.command("reset", "workload", "story/reset", "--reason", "OPS-10")
    assert done.returncode == 0, done.stderr
    world.send({"action": "submit", "workload": more})
    world.until("what it wants now is placed", lambda seen: seen.placed["story/reset"] == 2)
    about = ("reset", operator.arn, "OPS-10")
    world.until(
        "it is told who asked",
        lambda _: (
            about
            in [
                (it["verb"], it["by"], it["reason"])
                for it in world.events("Operation Requested")
            ]
        ),
    )


def test_nobody_else_operates_and_a_proof_is_good_for_one_request(
    world: World, pool: str
) -> None:
    operator, sender = (
        Person(world, managed=("Viewer", "Operator")),
        Person(world, managed=("Viewer", "Sender")),
    )
    assert (
        "AccessDenied" in sender.command("pause", "pool", pool, "--reason", "mine").stderr
    )
    function = function_name(
        world.reservoir.outputs["ReservoirDeployment"], Function.OPERATE
    )
    for verb in Verb:
        asked = json.dumps(
            {"request": {"verb": verb.value, "names": [pool], "reason": "mine"}}
        ).encode()
        with pytest.raises(ClientError) as refused:
            sender.client("lambda").invoke(FunctionName=function, Payload=asked)
        assert "lambda:InvokeFunction" in refusal(refused.value), verb
    letters = world.reservoir.outputs["DemandDeadLettersUrl"]
    for api in ("receive_message", "purge_queue"):
        with pytest.raises(ClientError) as refused:
            getattr(sender.client("sqs"), api)(QueueUrl=letters)
        refusal(refused.value)
    deployment = world.reservoir.outputs["ReservoirDeployment"]
    request = OperationRequest(verb=Verb.PAUSE, names=[pool], reason="OPS-9")
    proof = signed(operator.client("sts"), request.digest(deployment))

    def call(**payload: Any) -> Any:
        function = function_name(deployment, Function.OPERATE)
        answer = operator.client("lambda").invoke(
            FunctionName=function, Payload=json.dumps(payload).encode()
        )
        return json.loads(answer["Payload"].read())

    other = {**request.document(), "reason": "another"}
    elsewhere = signed(operator.client("sts"), request.digest("Another"))
    nobody = {name: value for name, value in proof.items() if name != "authorization"}
    foreign = {
        **proof,
        "authorization": proof["authorization"].replace(
            "Credential=", "Credential=AKIANOBODY"
        ),
    }
    forged = {**proof, "authorization": proof["authorization"][:-64] + "0" * 64}
    for payload in (
        {"request": other, "proof": proof},
        {"request": request.document(), "proof": elsewhere},
        {"request": request.document(), "proof": nobody},
        {"request": request.document(), "proof": foreign},
        {"request": request.document(), "proof": forged},
        {"request": request.document()},
    ):
        (problem,) = call(**payload)["problems"]
        assert problem["rule"] == "identity", payload
    assert call(request=request.document(), proof=proof)["results"][0]["outcome"] == "done"
    assert operator.command("resume", "pool", pool, "--reason", "OPS-9").returncode == 0


def test_an_operator_looks_at_dead_letters_and_sends_them_again(world: World) -> None:
    operator = Person(world, managed=("Viewer", "Operator"))
    world.send('{"action": "sumbit"}')
    rejected = "Workload Rejected"
    world.until("it is refused", lambda seen: seen.counts[rejected] > 0)
    world.aws.clock.settle()  # its letter is there, too
    shown = operator.command("dlq", "show", "demand", "-o", "json")
    (letter,) = json.loads(shown.stdout)["items"]
    assert "did you mean submit?" in letter["status"]["reason"]
    listed = operator.command("dlq", "list", "-o", "json")
    counts = {
        each["metadata"]["name"]: each["status"]["letters"]
        for each in json.loads(listed.stdout)["items"]
    }
    assert counts["demand"] == 1
    world.aws.clock.advance(timedelta(minutes=1))  # it shows again
    assert (
        operator.command("dlq", "redrive", "demand", "--yes").stdout
        == "demand: 1 sent again\n"
    )
    world.until("it is refused again", lambda seen: seen.counts[rejected] > 1)
    world.aws.clock.settle()
    purged = operator.command("dlq", "purge", "demand", "--yes")
    assert purged.stdout == "demand: 1 deleted\n", purged.stderr


def test_a_principal_of_a_team_operates_for_its_namespaces_alone(
    world: World, pool: str, tmp_path: Path
) -> None:
    guest = Person(world, managed=("Viewer", "Sender", "Operator"))
    team = team_manifest("guests", namespaces=["guests"], principals=[guest.arn])
    world.apply(write_manifests(tmp_path, [team]))
    foreign = story_workload(
        "foreign", 1, "1500m", nodeSelector={"karpenter.sh/nodepool": pool}
    )
    owned = {**foreign, "metadata": {"namespace": "guests", "name": "owned"}}
    world.send({"action": "submit", "workload": foreign})
    submitted = guest.command(
        "submit", "-f", demand(tmp_path, owned), "--wait", "--timeout", "5m"
    )
    assert submitted.returncode == 0, submitted.stderr
    world.until(
        "both have nodes",
        lambda seen: bool(nodes_of(seen, "foreign")) and bool(nodes_of(seen, "owned")),
    )
    (theirs,), (its_own,) = nodes_of(world.seen, "foreign"), nodes_of(world.seen, "owned")
    world.until("it runs", lambda seen: all(it.state == "running" for it in seen.live()))
    for verb in (
        ("cordon", theirs),
        ("uncordon", theirs),
        ("drain", theirs, "--yes"),
        ("delete", "node", theirs, "--yes"),
        ("pause", "pool", pool),
        ("resume", "pool", pool),
        ("reset", "workload", "story/foreign"),
    ):
        refused = guest.command(*verb, "--reason", "mine")
        assert refused.returncode == 2, verb
        assert "Team guests" in refused.stdout + refused.stderr, verb
    assert theirs not in {
        drain["node"]["nodeClaim"] for drain in world.events("Node Draining")
    }
    done = guest.command("cordon", its_own, "--reason", "mine")
    assert done.stdout == f"node/{its_own} cordoned; takes no new replicas\n", done.stderr
