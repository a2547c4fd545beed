"""The handlers of launch, react, expire and collect, from the event as Lambda brings it to the state that it leaves."""

import json
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from functions.collect.handler import BusRefusesError
from functions.collect.handler import handler as collect
from functions.expire.handler import handler as expire
from functions.launch.handler import handler as launch
from functions.react.handler import handler as react
from lab.fakes.messaging import MemoryRedelivery, MemoryUnpublishedEvents
from lab.fakes.outside import with_parts
from lab.worlds.launch_world import World, on_demand, reserved, spot
from reservoir.core.launching.launch_outcome import LaunchError, LaunchErrorKind
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.serialisation.json_codec import dumps
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.messaging import ClassToValidate
from reservoir.runtime.composition.collect import collect_from
from reservoir.runtime.composition.parts.draining import draining_from

EVENTS = Path(__file__).parents[1] / "events"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose use cases stand in the place of those of the composition root."""
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=100)
    for name in ("launch", "react", "expire", "collect"):
        monkeypatch.setattr(f"functions.{name}.handler.{name}", getattr(world, name))
    monkeypatch.setattr("functions.launch.handler.validate_class", world.validate_class)
    return world


@pytest.fixture(autouse=True)
def redelivery(monkeypatch: pytest.MonkeyPatch) -> MemoryRedelivery:
    redelivery = MemoryRedelivery()
    monkeypatch.setattr("functions.react.handler.redelivery", lambda: redelivery)
    return redelivery


@pytest.fixture(autouse=True)
def marking_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    names = frozenset({"Reservoir-intake", "Reservoir-follow"})
    monkeypatch.setattr("functions.react.handler.marking_functions", lambda: names)


def sqs(
    *bodies: str, received_count: int = 1, sender: str = "AIDAEVENTBRIDGE"
) -> dict[str, Any]:
    attributes = {
        "ApproximateReceiveCount": str(received_count),
        "SenderId": sender,
    }
    return {
        "Records": [
            {
                "messageId": f"m-{n}",
                "receiptHandle": f"receipt-{n}",
                "body": body,
                "attributes": attributes,
            }
            for n, body in enumerate(bodies)
        ]
    }


def event(name: str, **detail: Any) -> str:
    golden = json.loads((EVENTS / f"{name}.json").read_text())
    return json.dumps(
        golden | {"detail": golden["detail"] | detail, "time": "2026-01-15T12:00:00Z"}
    )


def failures(answer: dict[str, Any]) -> list[str]:
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def test_launch_messages_become_instances(world: World) -> None:
    first = world.plan(2, reserved(), batch_id="b-1")
    second = world.plan(1, on_demand("m5.large"), batch_id="b-2")
    assert failures(launch(sqs(dumps(first), dumps(second)), None)) == []
    assert len(world.ec2.live()) == 3


@pytest.mark.parametrize(
    "body",
    ["", "[" * 100_000, "{}", '{"batch_id": 7}', '{"batch_id": "b", "claim_ids": [1]}'],
)
def test_a_launch_message_that_names_no_batch_is_passed_over(
    world: World, body: str
) -> None:
    batch = world.plan(1, reserved())
    assert failures(launch(sqs(body, dumps(batch)), None)) == []
    assert len(world.ec2.live()) == 1


def test_a_message_about_a_class_is_tried_beside_launches(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = world.plan(1, reserved())
    tried = dumps(ClassToValidate("default"))
    world.dry_runs.refusals["CreateFleet"] = AccessDeniedError(
        "UnauthorizedOperation", "CreateFleet", "a deny"
    )
    assert failures(launch(sqs(tried, dumps(batch)), None)) == []
    assert len(world.ec2.live()) == 1
    world.clock.advance(seconds=60)
    assert failures(launch(sqs(tried), None)) == []
    written = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert written["LaunchesRefused"] == [1.0]


def test_a_class_that_cannot_be_read_is_no_dead_letter(world: World) -> None:
    world.policy.unreadable = {"default"}
    assert failures(launch(sqs(dumps(ClassToValidate("default"))), None)) == []


def test_a_lost_token_brings_the_message_back(world: World) -> None:
    batch = world.plan(1, reserved())
    world.ec2.throttle_count = 1
    # it has sent itself again, with a delay
    assert failures(launch(sqs(dumps(batch)), None)) == []
    assert world.queue.launches == [replace(batch, throttle_count=1)]


def test_quotas_and_codes_that_nobody_knows_are_counted(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.ec2.whole_refusals = [
        LaunchError(LaunchErrorKind.QUOTA, "VcpuLimitExceeded"),
        LaunchError(LaunchErrorKind.UNKNOWN, "SomethingNew"),
    ]
    batches = [
        world.plan(1, offering, batch_id=offering.capacity_type)
        for offering in (spot("m5.large"), reserved())
    ]
    launch(sqs(*map(dumps, batches)), None)
    written = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (written["QuotasReached"], written["LaunchesRefused"]) == ([1.0], [1.0, 1.0])
    assert "LaunchesBlocked" not in written


def instance_id(world: World, name: str) -> str:
    """Give the running spot node the id that EC2's events can name, and return it."""
    (claim,) = world.running(1, spot("m5.large"), batch_id=name)
    assert claim.instance_id is not None
    return claim.instance_id


def test_a_batch_of_events_is_sorted_out(world: World) -> None:
    interrupted = instance_id(world, "b-1")
    bodies = (
        event("spot_interruption", **{"instance-id": interrupted}),
        event("instance_state_running", **{"instance-id": "i-0fedcba9876543210"}),
        event("unknown_kind"),
        "not json at all",
        "[]",
        event("health_issue"),
    )
    assert failures(react(sqs(*bodies), None)) == []
    assert [c.state for c in world.claims()] == [ClaimState.DRAINING]


def test_of_who_reads_what_strangers_write_no_word_of_ec2_is_believed(
    world: World,
) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    detail = {"instance-id": claim.instance_id}
    warning = event("spot_interruption", **detail)
    for function in ("intake", "follow"):
        answer = react(sqs(warning, sender=f"AROAONE:Reservoir-{function}"), None)
        assert failures(answer) == []
        assert world.now_of(claim).state is ClaimState.RUNNING
    react(sqs(warning, sender="AROAONE:somebody"), None)
    assert world.now_of(claim).state is ClaimState.DRAINING


def test_what_intake_has_marked_is_ended(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    draining_from(world.outside()).terminate([claim], world.clock.now())
    world.ec2.change(claim.instance_id or "", state="running")  # its own request was lost
    told = {
        "source": "reservoir",
        "detail-type": "Nodes Ending",
        "time": world.clock.now().isoformat(),
        "detail": {"instance-ids": [claim.instance_id, "not one", 7]},
    }
    react(sqs(json.dumps(told), sender="AROAONE:Reservoir-intake"), None)
    assert world.ec2.terminate_calls[-1] == (claim.instance_id,)
    assert len(world.ec2.terminate_calls) == 2


def test_every_event_is_counted_also_those_that_are_dropped(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted = instance_id(world, "b-1")
    bodies = (
        event("spot_interruption", **{"instance-id": interrupted}),
        event("instance_state_running", **{"instance-id": "i-0fedcba9876543210"}),
        event("unknown_kind"),
        event("unknown_ec2_kind"),
        "not json at all",
    )
    # writes what tests before this one counted, too
    react(sqs(event("health_issue")), None)
    capsys.readouterr()
    react(sqs(*bodies), None)
    written = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {
        name: written[name]
        for name in (
            entry["Name"] for entry in written["_aws"]["CloudWatchMetrics"][0]["Metrics"]
        )
    } == {
        "SpotInterruption": [1.0],
        "InstanceRunning": [1.0],
        "EventsAboutOthers": [1.0],
        "EventsIgnored": [1.0, 1.0],
        "EventsUnreadable": [1.0],
        "NodesDrained": [1.0],
    }


def test_health_events_in_pages_and_copies_drain_each_node_once(world: World) -> None:
    first, second = instance_id(world, "b-1"), instance_id(world, "b-2")
    arn = f"arn:aws:ec2:us-east-1:123456789012:instance/{second}"
    soon = {
        "startTime": format_datetime(world.clock.now() + timedelta(minutes=5), usegmt=True)
    }
    pages = [
        event(
            "health_scheduled_change",
            affectedEntities=[{"entityValue": first}],
            **soon,
            page="1",
            totalPages="2",
        ),
        event(
            "health_scheduled_change_page_2",
            affectedEntities=[{"entityValue": arn}],
            **soon,
        ),
    ]
    copies = [
        event(
            "health_scheduled_change_backup",
            affectedEntities=[{"entityValue": first}],
            **soon,
        )
    ]
    assert failures(react(sqs(*pages, *pages, *copies), None)) == []
    assert failures(react(sqs(*reversed(pages)), None)) == []
    assert [claim.state for claim in world.claims()] == [
        ClaimState.DRAINING,
        ClaimState.DRAINING,
    ]
    assert len(world.bus.of("Node Draining")) == 2
    assert world.placed() == 0


@pytest.mark.parametrize(
    ("received_count", "delay_s"), [(1, 2), (2, 4), (5, 32), (6, 60), (9, 60)]
)
def test_a_notice_that_ec2_keeps_from_being_handled_is_tried_again_within_seconds(
    world: World, redelivery: MemoryRedelivery, received_count: int, delay_s: int
) -> None:
    notice = event("spot_interruption", **{"instance-id": instance_id(world, "b-1")})
    world.ec2.read_throttle_count = 1

    assert failures(
        react(sqs(notice, "not json", received_count=received_count), None)
    ) == ["m-0"]
    assert redelivery.delays_s == {"receipt-0": delay_s}

    assert failures(react(sqs(notice, received_count=received_count + 1), None)) == []
    assert world.claims()[0].state is ClaimState.DRAINING


def test_an_event_whose_claim_is_fought_over_comes_back_alone(
    world: World, redelivery: MemoryRedelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = instance_id(world, "b-1"), instance_id(world, "b-2")
    lost = world.claims()[0].id

    class Fought:
        """A store in which somebody else always writes the first claim first."""

        def __getattr__(self, name: str) -> Any:
            method = getattr(world.state.node_claims, name)
            if name in ("save_many", "return_many"):
                return lambda claims, **more: method(
                    [claim for claim in claims if claim.id != lost], **more
                )
            if name not in ("save", "return_replicas"):
                return method

            def write(claim: Any, *, expected_revision: int, **more: Any) -> Any:
                revision = expected_revision - (claim.id == lost)
                return method(claim, expected_revision=revision, **more)

            return write

    outside = world.outside
    monkeypatch.setattr(
        world,
        "outside",
        lambda **chosen: with_parts(outside(**chosen), node_claims=Fought()),
    )
    bodies = [
        event("spot_interruption", **{"instance-id": each}) for each in (first, second)
    ]
    assert failures(react(sqs(*bodies), None)) == ["m-0"]
    assert redelivery.delays_s == {"receipt-0": 2}
    assert [c.state for c in world.claims()] == [ClaimState.RUNNING, ClaimState.DRAINING]


def test_the_sweep_runs_on_the_schedule_and_on_a_blocks_timer(world: World) -> None:
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end)
    world.running(1, reserved("cr-block"))
    expire({"source": "aws.events"}, None)
    assert world.claims()[0].state is ClaimState.RUNNING
    world.clock.set(end - timedelta(minutes=40))
    expire({"capacityReservationId": "cr-1"}, None)
    assert world.claims()[0].state is ClaimState.RUNNING  # another reservation's timer
    expire({"capacityReservationId": "cr-block"}, None)
    assert world.claims()[0].state is ClaimState.DRAINING


def test_an_exact_timer_says_what_time_it_is(world: World) -> None:
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end)
    world.running(1, reserved("cr-block"))
    begins = end - timedelta(minutes=40)
    world.clock.set(begins - timedelta(minutes=2))
    expire({"capacityReservationId": "cr-block", "due": begins.isoformat()}, None)
    (claim,) = world.claims()
    assert (claim.state, claim.drain and claim.drain.deadline) == (
        ClaimState.DRAINING,
        end - timedelta(minutes=32),
    )
    expire({"drainDeadline": (end - timedelta(minutes=37, seconds=1)).isoformat()}, None)
    assert world.claims()[0].state is ClaimState.DRAINING
    world.clock.set(end - timedelta(minutes=34))
    expire({"drainDeadline": (end - timedelta(minutes=32)).isoformat()}, None)
    assert world.claims()[0].state is ClaimState.TERMINATING


def test_the_collector_runs_on_its_schedule(world: World) -> None:
    batch = world.plan(1, reserved())
    world.clock.advance(minutes=5)
    collect({}, None)
    assert world.queue.launches == [batch]


def test_a_bus_that_takes_nothing_fails_the_collector_when_all_else_is_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = AccessDeniedError("AccessDeniedException", "PutEvents")
    kept = MemoryUnpublishedEvents(kept_count=2, refusal=refusal)
    outside = with_parts(world.outside(), unpublished_events=kept)
    monkeypatch.setattr("functions.collect.handler.collect", lambda: collect_from(outside))
    lost = world.plan(1, reserved())
    world.clock.advance(minutes=10)

    with pytest.raises(BusRefusesError, match="AccessDeniedException"):
        collect({}, None)
    assert world.queue.launches[-1].batch_id == lost.batch_id, "sent again all the same"

    kept.refusal = None
    collect({}, None)
    assert kept.kept_count == 0
