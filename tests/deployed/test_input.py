"""What users write, deployed: policy from a folder and from the command line, and demand that is wrong.

The tests tell one story in their order, on one deployment, which brought ``examples/policy`` along.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.demo.observer import Observed
from lab.embedded.reservoir import IMAGE_PARAMETER
from lab.fakes.manifests import workload_manifest
from lab.story.world import World
from reservoir.manifests.parsing.structure import LARGEST_MESSAGE_BYTES
from reservoir.names import (
    DEMAND_DEAD_LETTER_QUEUE,
    DEPLOYMENT,
    MANIFEST_NAME,
    MANIFEST_TEXT,
    MANIFESTS_PROPERTY,
    REMOVED_PROPERTY,
    Function,
    Queue,
)

pytestmark = pytest.mark.embedded

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SETTINGS: Final = {"manifests": str(EXAMPLES / "policy")}
OBJECTS: Final = [
    "ec2nodeclass/default",
    "ec2nodeclass/gpu-training",
    "nodepool/default",
    "nodepool/gpu-training",
]


def names(text: str) -> list[str]:
    return [
        f"{each['kind'].lower()}/{each['metadata']['name']}"
        for each in yaml.safe_load_all(text)
    ]


def stored(world: World) -> dict[str, dict[str, Any]]:
    """What ``get`` prints, by kind and name."""
    done = world.command("get", "-o", "yaml")
    assert done.returncode == 0, done.stderr
    return dict(zip(names(done.stdout), yaml.safe_load_all(done.stdout), strict=True))


def apply(
    world: World, *manifests: Mapping[str, Any], options: tuple[str, ...] = ()
) -> list[str]:
    done = world.command("apply", *options, "-f", "-", stdin=yaml.safe_dump_all(manifests))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def refused(world: World, *manifests: Mapping[str, Any]) -> str:
    """What is said to an ``apply`` that is refused."""
    done = world.command("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing was written" in done.stderr
    return done.stderr


def changed(manifest: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {**manifest, "spec": {**manifest["spec"], **fields}}


def conditions(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {
        condition["type"]: condition["status"]
        for condition in manifest["status"]["conditions"]
    }


# -- policy


def test_the_deployment_applied_the_folder_at_the_first_attempt(world: World) -> None:
    log = map(json.loads, world.log(Function.APPLY).splitlines())
    (answer,) = (line for line in log if "CloudFormation" in line["message"])
    assert (answer["succeeded"], answer["repeated"], answer["problems"]) == (True, [], [])
    assert answer["changes"] == [
        "EC2NodeClass/default created",
        "EC2NodeClass/gpu-training created",
        "NodePool/default created",
        "NodePool/gpu-training created",
    ]


def test_what_is_printed_and_what_was_deployed_change_nothing(world: World) -> None:
    assert apply(world, *stored(world).values()) == [
        f"{name} unchanged" for name in OBJECTS
    ]
    same = world.command("diff", "-f", str(EXAMPLES / "policy"))
    assert (same.returncode, same.stdout) == (0, "")


def test_an_edit_is_shown_then_tried_then_made_and_then_it_is_stale(world: World) -> None:
    before = stored(world)["nodepool/default"]
    edit = changed(before, weight=11)
    shown = world.command("diff", "-f", "-", stdin=yaml.safe_dump(edit))
    assert shown.returncode == 1
    assert {"-  weight: 10", "+  weight: 11"} <= set(shown.stdout.splitlines())
    assert apply(world, edit, options=("--dry-run",)) == [
        "nodepool/default updated (dry run)"
    ]
    assert apply(world, edit) == ["nodepool/default updated"], (
        "the dry run has written nothing"
    )

    other = {**before, "metadata": {"name": "other"}}
    assert "somebody else was faster" in refused(world, other, changed(before, weight=12))
    after = stored(world)
    assert sorted(after) == OBJECTS
    assert (
        after["nodepool/default"]["spec"]["weight"],
        after["nodepool/default"]["metadata"]["generation"],
    ) == (11, 2)


def test_an_edit_of_what_was_deleted_and_made_again_is_stale_too(world: World) -> None:
    read = stored(world)["nodepool/gpu-training"]
    assert world.command("delete", "nodepool/gpu-training").stdout.splitlines() == [
        "nodepool/gpu-training deleted"
    ]
    again = {**read, "metadata": {"name": "gpu-training"}}
    assert apply(world, again) == ["nodepool/gpu-training created"]
    assert "somebody else was faster" in refused(world, changed(read, weight=1))


def test_one_error_among_many_objects_writes_none(world: World) -> None:
    good = changed(stored(world)["nodepool/default"], weight=13)
    said = refused(world, good, {**changed(good, wieght=1), "metadata": {"name": "Other"}})
    assert "spec.wieght: is not a known field (did you mean weight?)" in said
    assert "metadata.name" in said


def test_conditions_say_what_was_found_and_what_is_missing(world: World) -> None:
    world.reserve("general", "m7i.large", "us-east-1a", 1, "general")
    before = stored(world)
    assert before["nodepool/default"]["spec"]["weight"] == 11, (
        "the apply with an error wrote nothing"
    )
    node_class = before["ec2nodeclass/default"]
    apply(world, changed(node_class, amiSelectorTerms=[{"tags": {"no": "such-image"}}]))
    world.discover()
    broken = stored(world)
    found = conditions(broken["ec2nodeclass/default"])
    assert (found["AMIsReady"], found["Ready"]) == ("False", "False")
    assert conditions(broken["nodepool/default"])["NodeClassReady"] == "False"

    terms = [{"ssmParameter": IMAGE_PARAMETER.format("x86_64")}]
    apply(world, changed(broken["ec2nodeclass/default"], amiSelectorTerms=terms))
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    repaired = stored(world)
    shown = conditions(repaired["ec2nodeclass/default"])
    # a dry run answers when it comes
    assert shown.pop("ValidationSucceeded") in ("Unknown", "True")
    assert shown == {
        "AMIsReady": "True",
        "CapacityReservation": "Available",
        "CapacityReservationsReady": "True",
        "InstanceProfileReady": "True",
        "LaunchesPermitted": "True",
        "SecurityGroupsReady": "True",
        "SubnetsReady": "True",
        "Ready": "True",
    }
    assert conditions(repaired["nodepool/default"])["Ready"] == "True"
    (reservation,) = repaired["ec2nodeclass/default"]["status"]["capacityReservations"]
    assert {
        key: reservation[key]
        for key in ("instanceType", "state", "totalInstanceCount", "freeUnits")
    } == {
        "instanceType": "m7i.large",
        "state": "active",
        "totalInstanceCount": 1,
        "freeUnits": 1,
    }


# -- demand


def workload(name: str, **spec: Any) -> dict[str, Any]:
    usual = workload_manifest(
        f"story/{name}", 1, {"cpu": "1", "memory": "1Gi"}, generation=1
    )
    return {**usual, "spec": {**usual["spec"], **spec}}


def submit(name: str, **spec: Any) -> str:
    return json.dumps({"action": "submit", "workload": workload(name, **spec)})


MIB: Final = 2**20
# What is wrong with a message -> where its problem is found, the rule that it breaks, and what is nearest.
BAD: Final[dict[str, tuple[str, tuple[str, str, str | None]]]] = {
    "malformed": ('{"action": "submit", "workload": ', ("", "json", None)),
    "no object": ("[1, 2, 3]", ("", "message", None)),
    "unknown version": (
        '{"schemaVersion": 2, "action": "submit"}',
        ("schemaVersion", "schema-version", "1"),
    ),
    "unknown action": ('{"action": "sumbit"}', ("action", "action", "submit")),
    "wrong type": (
        submit("bad", replicas="three"),
        ("workload.spec.replicas", "int-type", None),
    ),
    "unknown field": (
        submit("bad", replica=3),
        ("workload.spec.replica", "unknown-field", "replicas"),
    ),
    "unknown pool": (
        submit("bad", nodeSelector={"karpenter.sh/nodepool": "gpu-trainign"}),
        (
            "workload.spec.nodeSelector['karpenter.sh/nodepool']",
            "unknown-node-pool",
            "gpu-training",
        ),
    ),
    "absurd count": (
        submit("bad", replicas=10**18),
        ("workload.spec.replicas", "less-than-equal", "1000000"),
    ),
    "absurd number": ('{"action": ' + "9" * 400 + "}", ("", "integer", None)),
    "absurd quantity": (
        submit("bad", resources={"requests": {"memory": "999999999Ei"}}),
        ("workload.spec.resources.requests.memory", "quantity", None),
    ),
    "deep": ("[" * 5_000, ("", "depth", None)),
}


def put_away(world: World, *ids: str) -> dict[str, dict[str, Any]]:
    """Wait for the dead letters of these messages; return all that nobody has read before, by the message's id."""
    sqs, found = world.aws.client("sqs"), dict[str, dict[str, Any]]()

    def are_there(_: Observed) -> bool:
        while letters := sqs.receive_message(
            QueueUrl=world.output(DEMAND_DEAD_LETTER_QUEUE),
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
        ).get("Messages", []):
            for letter in letters:
                attributes = {
                    name: value["StringValue"]
                    for name, value in letter["MessageAttributes"].items()
                }
                found[attributes["MessageId"]] = {**attributes, "Body": letter["Body"]}
        return found.keys() >= set(ids)

    world.until("the letters are put away", are_there)
    return found


def rejected(world: World) -> dict[str, dict[str, Any]]:
    """What was told of refused messages, by the message's id."""
    return {event["messageId"]: event for event in world.events("Workload Rejected")}


def answers(world: World) -> dict[str, str]:
    """Why a message changed nothing, or that it was accepted, by the message's id."""
    ignored = {
        event["messageId"]: event["reason"] for event in world.events("Workload Ignored")
    }
    return ignored | {
        event["messageId"]: "accepted" for event in world.events("Workload Accepted")
    }


def test_what_is_wrong_is_put_away_and_told_and_its_neighbours_are_placed(
    world: World,
) -> None:
    bodies = [body for body, _ in BAD.values()]
    neighbours = {f"story/good-{index}" for index in range(len(bodies))}
    mixed = [
        text for index, bad in enumerate(bodies) for text in (submit(f"good-{index}"), bad)
    ]
    sqs, queue = world.aws.client("sqs"), world.output(Queue.DEMAND)
    ids: list[str] = []
    for start in range(0, len(mixed), 10):
        entries: Any = [
            {"Id": str(index), "MessageBody": text}
            for index, text in enumerate(mixed[start : start + 10])
        ]
        sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]
        ids += [
            each["MessageId"] for each in sorted(sent, key=lambda each: int(each["Id"]))
        ]

    world.until(
        "every bad message is told", lambda _: rejected(world).keys() >= set(ids[1::2])
    )
    world.until("every good message is placed", lambda seen: neighbours <= set(seen.placed))

    told = rejected(world)
    letters = put_away(world, *ids[1::2])
    for (title, (body, expected)), message_id in zip(BAD.items(), ids[1::2], strict=True):
        problem = told[message_id]["problems"][0]
        assert (problem["path"], problem["rule"], problem.get("suggestion")) == expected, (
            title
        )
        assert letters[message_id]["Body"] == body, title
        assert problem["message"] in letters[message_id]["Reason"], title
    assert set(told) == set(letters) == set(ids[1::2]), (
        "nothing else was refused or gave up"
    )

    repeat = sqs.send_message(QueueUrl=queue, MessageBody=submit("good-0"))["MessageId"]
    world.until(
        "every other message has its answer",
        lambda _: set(answers(world)) >= {*ids[0::2], repeat},
    )
    said = answers(world)
    assert said[repeat] == "Unchanged"
    assert {said[message_id] for message_id in ids[0::2]} <= {"accepted", "Unchanged"}, (
        "a delivery may be repeated"
    )


def test_what_is_large_is_read_or_refused_and_stops_nobody(world: World) -> None:
    sqs, queue = world.aws.client("sqs"), world.output(Queue.DEMAND)
    large = submit("large")
    full = large[:-1] + " " * (LARGEST_MESSAGE_BYTES - len(large)) + "}"
    crowded = json.dumps({"action": "submit", "workload": [0] * (MIB // 3 - 20)})
    assert MIB - 100 < len(crowded) <= MIB
    ids = [
        sqs.send_message(QueueUrl=queue, MessageBody=text)["MessageId"]
        for text in (full, crowded)
    ]
    world.send(submit("after"))
    placed = {"story/large", "story/after"}
    world.until(
        "the large one and the next are placed", lambda seen: placed <= set(seen.placed)
    )
    world.until("the crowded one is told", lambda _: ids[1] in rejected(world))
    assert rejected(world)[ids[1]]["problems"][0]["rule"] == "size"
    ((message_id, letter),) = put_away(world, ids[1]).items()
    assert (message_id, letter["Truncated"]) == (ids[1], "true")
    assert crowded.startswith(letter["Body"])


def test_a_full_reservation_is_limit_exceeded_until_a_unit_is_free(world: World) -> None:
    world.send(submit("reserved", nodeSelector={"karpenter.sh/capacity-type": "reserved"}))
    world.until(
        "the unit is used",
        lambda seen: [each.available_count for each in seen.reservations] == [0],
    )
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    full = stored(world)
    assert (
        conditions(full["ec2nodeclass/default"])["CapacityReservation"] == "LimitExceeded"
    )
    assert conditions(full["nodepool/default"])["CapacityReservation"] == "LimitExceeded"
    assert conditions(full["ec2nodeclass/default"])["Ready"] == "True"
    world.reserve("more", "m7i.large", "us-east-1a", 1, "general")
    world.reservoir.invoke(Function.DISCOVER_RESERVATIONS)
    assert (
        conditions(stored(world)["nodepool/default"])["CapacityReservation"] == "Available"
    )


# -- the folder of the next deployment


def redeployed(
    world: World, change: Callable[[dict[str, str]], None], removed: Sequence[str] = ()
) -> str:
    """Update the stack with a changed folder (name -> text); return how that ended."""
    template = template_of(world)
    (applied,) = (
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "Custom::ReservoirManifests"
    )
    files = {
        each[MANIFEST_NAME]: each[MANIFEST_TEXT] for each in applied[MANIFESTS_PROPERTY]
    }
    change(files)
    applied[MANIFESTS_PROPERTY] = [
        {MANIFEST_NAME: name, MANIFEST_TEXT: text} for name, text in sorted(files.items())
    ]
    applied[REMOVED_PROPERTY] = list(removed)
    return updated(world, template)


def template_of(world: World) -> dict[str, Any]:
    """Return what is deployed."""
    found = world.aws.client("cloudformation").get_template(
        StackName=world.output(DEPLOYMENT)
    )["TemplateBody"]
    return dict(found)


def updated(world: World, template: Mapping[str, Any]) -> str:
    """Update the stack to a template; return how that ended."""
    cloudformation, stack = world.aws.client("cloudformation"), world.output(DEPLOYMENT)
    s3, bucket = world.aws.client("s3"), "changed-template"
    if bucket not in [each["Name"] for each in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="template.json", Body=json.dumps(template))
    url = f"https://s3.{s3.meta.region_name}.amazonaws.com/{bucket}/template.json"
    cloudformation.update_stack(
        StackName=stack, TemplateURL=url, Capabilities=["CAPABILITY_NAMED_IAM"]
    )

    def status() -> str:
        return str(
            cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
        )

    world.until("the update has ended", lambda _: not status().endswith("_IN_PROGRESS"))
    return status()


def test_a_folder_with_an_error_is_rolled_back_and_changes_nothing(world: World) -> None:
    def misspell(files: dict[str, str]) -> None:
        files["default.yaml"] = files["default.yaml"].replace("weight: 10", "wieght: 20")
        del files["gpu-training.yaml"]

    assert redeployed(world, misspell) == "UPDATE_ROLLBACK_COMPLETE"
    assert sorted(stored(world)) == OBJECTS


def test_what_left_the_folder_stays_until_it_is_said_to_be_removed(world: World) -> None:
    by_hand = {**stored(world)["nodepool/gpu-training"], "metadata": {"name": "by-hand"}}
    apply(world, by_hand)

    def drop(files: dict[str, str]) -> None:
        files["default.yaml"] = files["default.yaml"].replace("weight: 10", "weight: 20")
        files.pop("gpu-training.yaml", None)

    assert redeployed(world, drop) == "UPDATE_COMPLETE"
    after = stored(world)
    assert sorted(after) == sorted([*OBJECTS, "nodepool/by-hand"])
    assert after["nodepool/default"]["spec"]["weight"] == 20

    assert (
        redeployed(world, drop, ["NodePool/gpu-training", "EC2NodeClass/gpu-training"])
        == "UPDATE_COMPLETE"
    )
    assert sorted(stored(world)) == [
        "ec2nodeclass/default",
        "nodepool/by-hand",
        "nodepool/default",
    ]


def test_a_deployment_without_a_folder_over_a_live_fleet_changes_neither_policy_nor_fleet(
    world: World,
) -> None:
    policy, running = stored(world), {each.id for each in world.look().live()}
    assert running
    template = template_of(world)
    template["Resources"] = {
        name: each
        for name, each in template["Resources"].items()
        if each["Type"] != "Custom::ReservoirManifests"
    }
    assert updated(world, template) == "UPDATE_COMPLETE"
    for function in (Function.DISRUPT, Function.COLLECT):
        world.reservoir.invoke(function)
    assert list(stored(world)) == list(policy)
    assert {each.id for each in world.look().live()} == running
    assert world.events("Node Draining") == []
