"""Diagrams in documents show what the code does."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim, reservation
from reservoir.core.capacity.ledger import (
    COUNT_LAG,
    absorbed,
    is_absorbed_by,
    relieved,
    settled,
)
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_claim import (
    ALLOWED_TRANSITIONS,
    ClaimState,
    Lease,
    LeaseState,
)
from reservoir.core.node_life.drain import block_drain
from reservoir.names import Function, Queue, output_name
from tests.test_docs import blocks
from tests.test_tidy import ROOT

Edges = set[tuple[str, str]]


def diagram(shows: str) -> str:
    """Return the only diagram that says this."""
    (text,) = (block.text for block in blocks("mermaid") if re.search(shows, block.text))
    return text


def drawn(text: str, arrow: str) -> Edges:
    """Return the arrows of a diagram; ``a & b --> c --> d`` are four things and three arrows."""
    edges = set()
    for line in re.findall(rf"^ .+{re.escape(arrow)}.+$", text, flags=re.MULTILINE):
        chain = [
            [
                re.split(r"\W", part.strip())[0] or part.strip()
                for part in place.split(" & ")
            ]
            for place in re.sub(r" : .*", "", line).split(arrow)
        ]
        for sources, targets in itertools.pairwise(chain):
            edges |= set(itertools.product(sources, targets))
    return edges


def test_a_claim_moves_as_drawn() -> None:
    moves = {
        (a.value, b.value) for a, targets in ALLOWED_TRANSITIONS.items() for b in targets
    }
    ends = {("[*]", "planned"), ("failed", "[*]"), ("terminated", "[*]")}
    assert drawn(diagram("planned --> launching"), "-->") == moves | ends


def test_a_unit_is_leased_as_drawn() -> None:
    later = START + COUNT_LAG
    moves = set()
    for state in LeaseState:
        lease = Lease("cr-1", state, START if state is LeaseState.SETTLED else None)
        claim = node_claim("nc-1", lease=lease, launched_at=START)
        after = [
            settled(claim),
            relieved(
                replace(claim, lease=Lease("cr-1", state), state=ClaimState.FAILED), {}
            ),
        ]
        after += [absorbed(claim)] if is_absorbed_by(lease, later) else []
        moves |= {
            (state.value, done.lease.state.value)
            for done in after
            if done.lease is not None
        }
    moves -= {(state.value, state.value) for state in LeaseState}
    # A failed claim never had an instance, so its lease was never settled.
    moves -= {("settled", "returned")}
    free = {("[*]", "free"), ("free", "held"), ("returned", "free"), ("absorbed", "free")}
    # Terminate first: leased for the replacement while the old node is in it (PlannedCommit.free_units_needed).
    free |= {("absorbed", "held")}
    assert drawn(diagram("free --> held"), "-->") == moves | free


@pytest.mark.parametrize(
    ("section", "changes", "checkpoint_periods_s"),
    [
        ("Block", {}, ()),
        ("UltraServer", {"ultra_server": True}, ()),
        ("20m checkpoint", {}, (20 * 60,)),
    ],
)
def test_a_block_drains_at_the_times_drawn(
    section: str, changes: Mapping[str, Any], checkpoint_periods_s: tuple[int, ...]
) -> None:
    end_at = START.replace(hour=11, minute=30)
    block = reservation(kind=ReservationKind.CAPACITY_BLOCK, end_at=end_at, **changes)
    drain, reclaim_at = block_drain(block, checkpoint_periods_s), block.reclaim_at()
    assert drain is not None
    assert reclaim_at is not None
    times = [f"{at:%H:%M}" for at in (drain.starts_at, drain.deadline, reclaim_at, end_at)]
    _, _, rows = diagram("section UltraServer").partition(f"  section {section}\n")
    told = re.findall(
        r" : (\d+:\d+), (\d+:\d+)$", rows.partition("  section")[0], flags=re.MULTILINE
    )
    assert told == list(itertools.pairwise(times))


def template() -> Mapping[str, Mapping[str, Any]]:
    """Return the resources of the template on file, which is the synthesised one (``tests/infra/test_snapshot.py``)."""
    lines = (ROOT / "tests" / "infra" / "template.snapshot.txt").read_text().splitlines()
    parts = (line.split(" ", 2) for line in lines if line.startswith("Resources "))
    return {name: json.loads(text) for _, name, text in parts}


def place(reference: Mapping[str, Any]) -> str:
    """Return the queue or function that a template refers to."""
    name = next(iter(reference.values()))
    name = name if isinstance(name, str) else name[0]
    queues = {f"Queues{output_name(queue.name)}": queue.name.lower() for queue in Queue}
    functions = {
        f"{output_name(function)}Function": function.value for function in Function
    }
    return {**queues, **functions}[name[:-8]]


def cause(rule: Mapping[str, Any], targets: set[str]) -> str:
    """Return what makes a rule of EventBridge fire, as the diagram calls it."""
    if "ScheduleExpression" in rule:
        every = {
            "rate(1 minute)": "minute",
            "rate(5 minutes)": "five_minutes",
            "rate(10 minutes)": "ten_minutes",
            "rate(12 hours)": "half_day",
        }
        return every[rule["ScheduleExpression"]]
    if rule["EventPattern"]["source"] == ["aws.cloudformation"]:
        return "deployment"
    if rule["EventPattern"]["source"] == ["reservoir"]:
        return "bus"
    return "capacity" if "discover_reservations" in targets else "instances"


def wakes(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for resource in resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            yield place(properties["EventSourceArn"]), place(properties["FunctionName"])
        elif resource["Type"] == "AWS::Events::Rule":
            targets = {place(target["Arn"]) for target in properties["Targets"]}
            yield from ((cause(properties, targets), target) for target in targets)


def asks(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, resource in resources.items():
        if resource["Type"] != "AWS::IAM::Policy":
            continue
        of = {
            f"{output_name(function)}RoleDefaultPolicy": function.value
            for function in Function
        }.get(name[:-8])
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
            if of is not None and statement.get("Sid") == "SendMessages":
                arns = statement["Resource"]
                yield from (
                    (of, place(arn)) for arn in (arns if isinstance(arns, list) else [arns])
                )
            elif of is not None and statement.get("Sid") == "SetDrainTimers":
                yield of, "timers"


def test_functions_wake_each_other_as_drawn() -> None:
    text = diagram(r"minute\(\[every minute")
    # Not of the template: demand and reports are sent from outside, timers are made while it runs, manifests are
    # optional, and operators call a function themselves.
    outside = {
        ("senders", "demand"),
        ("nodes", "reports"),
        ("timers", "expire"),
        ("manifests", "apply"),
        ("operators", "change_policy"),
        ("operators", "operate"),
    }
    assert drawn(text, "-->") == {*wakes(template()), *outside}
    assert drawn(text, "-.->") == set(asks(template()))
