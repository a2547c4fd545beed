"""Two teams, somebody of none, and what each may send: hostile stories begin with these."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.fakes.manifests import team_manifest, workload_manifest
from lab.story.people import Person
from lab.story.policies import write_manifests
from lab.story.world import World
from reservoir.names import Queue

Body = dict[str, Any]


def demand(
    key: str,
    cpu: str,
    *,
    action: str = "submit",
    generation: int = 1,
    pool: str = "shop",
    **spec: Any,
) -> Body:
    """Return a message about one replica (unless ``spec`` says otherwise) for the nodes of a pool."""
    workload = workload_manifest(
        key,
        spec.pop("replicas", 1),
        {"cpu": cpu},
        generation=generation,
        nodeSelector={"story": pool},
        **spec,
    )
    return {"action": action, "workload": workload}


def annotated(body: Body, annotations: Mapping[str, str]) -> Body:
    """Return the message with annotations on its workload."""
    workload = body["workload"]
    return {
        **body,
        "workload": {
            **workload,
            "metadata": {**workload["metadata"], "annotations": dict(annotations)},
        },
    }


@dataclass(frozen=True)
class Tenants:
    """Audio and vision are principals of a Team each; the stranger may send, and is of none."""

    world: World
    audio: Person
    vision: Person
    stranger: Person

    def send(self, who: Person, body: Body | str, **more: Any) -> str:
        """Send a message as somebody; return its id."""
        text = body if isinstance(body, str) else json.dumps(body)
        sent = who.client("sqs").send_message(
            QueueUrl=self.world.output(Queue.DEMAND.value), MessageBody=text, **more
        )
        return str(sent["MessageId"])

    def rules_against(self, who: Person, body: Body | str, **more: Any) -> set[str]:
        """Send what has to be refused; return the rules (of a bound: its name) by which it was."""
        sent = self.send(who, body, **more)
        self.world.until(f"{sent} is refused", lambda _: sent in self.refused())
        return {_rule(problem) for problem in self.refused()[sent]}

    def refused(self) -> dict[str, list[dict[str, Any]]]:
        """Return what was wrong with each message that was told to be refused."""
        return {
            str(event["messageId"]): event["problems"]
            for event in self.world.events("Workload Rejected")
        }

    def accepted(self, who: Person, body: Body) -> None:
        """Send what has to be believed, and wait until it is."""
        sent = self.send(who, body)
        self.world.until("it is accepted", lambda _: sent in self._accepted())

    def placed(self, who: Person, body: Body) -> str:
        """Send demand for one replica and wait for its place; return the node that has it."""
        metadata = body["workload"]["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        self.send(who, body)
        self.world.until(f"{key} is placed", lambda seen: seen.placed[key] > 0)
        return self.node_of(key)

    def node_of(self, key: str) -> str:
        """Return the node on which a workload's replica was placed last."""
        namespace, _, name = key.partition("/")
        placed = [
            event
            for event in self.world.events("Workload Placed")
            if _names(event, namespace, name)
        ]
        return str(placed[-1]["nodes"][0]["nodeClaim"])

    def _accepted(self) -> set[str]:
        return {str(event["messageId"]) for event in self.world.events("Workload Accepted")}


def _names(event: Mapping[str, Any], namespace: str, name: str) -> bool:
    return (event["workload"]["namespace"], event["workload"]["name"]) == (namespace, name)


def _rule(problem: Mapping[str, Any]) -> str:
    if problem["rule"] == "bound":
        return str(problem["message"]).partition(":")[0]
    return str(problem["rule"])


def move_in(
    world: World, folder: Path, policy: list[Body], audio: Body, vision: Body
) -> Tenants:
    """Apply pools and the two Teams, with what each Team's spec has beside its namespace and its principal."""
    people = [Person(world, managed=("Sender",)) for _ in range(3)]
    teams = [
        team_manifest(name, namespaces=[name], principals=[person.arn], **spec)
        for name, person, spec in zip(
            ("audio", "vision"), people, (audio, vision), strict=False
        )
    ]
    world.apply(write_manifests(folder, [*policy, *teams]))
    world.discover()
    return Tenants(world, *people)
