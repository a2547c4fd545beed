"""Agents report what comes about on their nodes; operators act by hand, and AWS vouches for them."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.values import node_claim, reservation
from lab.simulation.aws.lender import SimulatedLender
from lab.simulation.kernel import HOUR, START, Chance, Kernel
from lab.simulation.people.agents import Agents
from lab.simulation.people.operators import ARN, Identities, Operators
from lab.simulation.world import World
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.manifests.answers.operations import parse_request
from reservoir.manifests.reports import parse_report
from reservoir.ports.errors import AccessDeniedError

RUNNING: NodeClaim = node_claim(
    "nc-1",
    state=ClaimState.RUNNING,
    instance_id="i-1",
    placements=(PlacedReplicas("research/train", 2),),
)


def lived(kernel: Kernel, us: int) -> None:
    done = list[bool]()
    kernel.after(us, lambda: done.append(True))
    while not done:
        kernel.step()


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_agent_reports_as_long_as_its_node_is_there(*, is_gone: bool) -> None:
    kernel, sent = Kernel(), list[tuple[str, str]]()
    instance = Instance(
        "i-1",
        "terminated" if is_gone else "running",
        "m5.large",
        "us-east-1a",
        "use1-az1",
        START,
    )
    agents = Agents(
        kernel,
        Chance(1),
        lambda: {"nc-1": RUNNING},
        lambda _: instance,
        lambda body, sender: sent.append((body, sender)),
        are_there=True,
    )
    agents.row_written(RUNNING)
    lived(kernel, 2 * HOUR)
    told = [parse_report(body).report for body, _ in sent]
    assert set(told) == (set() if is_gone else {"ready", "failed", "finished"})
    assert {sender for _, sender in sent} <= {"AROANODES:i-1"}


def test_operators_ask_for_what_there_is_and_take_it_back() -> None:
    kernel, asked = Kernel(), list[dict[str, Any]]()
    cordoned = replace(RUNNING, cordoned=True)
    operators = Operators(
        kernel, Chance(1), lambda: {"nc-1": cordoned}, asked.append, ("pool",)
    )
    kernel.after(0, operators.act)
    lived(kernel, 4 * HOUR)
    verbs = {parse_request(request).verb.value for request in asked}
    assert verbs == {"cordon", "uncordon", "drain", "delete", "pause", "resume"}
    operators.go_home()
    assert [(request["verb"], request["names"]) for request in asked[-2:]] == [
        ("resume", ["pool"]),
        ("uncordon", ["nc-1"]),
    ]
    count = len(asked)
    lived(kernel, 4 * HOUR)
    assert {request["verb"] for request in asked[count:]} <= {"resume"}, (
        "only what was paused before they left"
    )


def test_aws_vouches_for_what_was_signed() -> None:
    assert Identities().sender_of("digest", {"signed": "digest"}).arn == ARN
    with pytest.raises(AccessDeniedError):
        Identities().sender_of("digest", json.loads("{}"))


def test_who_borrows_a_unit_that_is_taken_back_has_two_minutes() -> None:
    world = World(1)
    world.ec2.reserve(reservation("cr-1", total_count=2))
    lender = SimulatedLender(world.ec2, world.kernel)
    lender.begin("cr-1", 2, {}, "first")
    borrowing = Instance(
        id="i-1",
        state="running",
        instance_type="m5.4xlarge",
        zone="us-east-1a",
        zone_id="use1-az1",
        launched_at=START,
        capacity_reservation_id="cr-1-lent",
    )
    world.ec2.add(borrowing)
    lender.change("cr-1", 0)
    assert world.ec2.reservations["cr-1"].total_count == 1, "an unused unit is back at once"
    while world.kernel.now() < START + timedelta(minutes=2):
        assert borrowing in world.ec2.live()
        assert world.kernel.step()
    assert world.ec2.live() == []
    for _ in range(100):
        world.kernel.step()
    assert world.ec2.reservations["cr-1"].total_count == 2
