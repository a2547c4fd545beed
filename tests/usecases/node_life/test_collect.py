"""The collector: lost messages, orphans of either side, templates."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from lab.fakes.effects import Effects, Killed
from lab.fakes.stores.safety import ROLES, MemoryTableMarks
from lab.fakes.values import workload
from lab.worlds.launch_world import World, on_demand, reserved
from reservoir.core.launching.launch_template import StoredTemplate
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.tally import Lift
from reservoir.names import NODE_CLASS_TAG
from reservoir.ports.errors import AccessDeniedError
from reservoir.usecases.safety.envelope import LiftEnvelope
from reservoir.usecases.safety.tables import AdoptTables


def left_over(world: World, name: str, **changes: object) -> Instance:
    """An instance that a launch brought and no claim has: a copy of one that has a claim."""
    (claim,) = world.running(1, on_demand("m5.large"), batch_id=f"b-{name}")
    twin = next(
        instance for instance in world.ec2.live() if instance.id == claim.instance_id
    )
    return replace(
        twin,
        **({"id": name, "claim_id": None, "launched_at": world.clock.now()} | changes),  # type: ignore[arg-type] # field names of tests
    )


def ids(world: World) -> set[str]:
    return {instance.id for instance in world.ec2.live()}


def test_a_lost_launch_message_is_sent_again(world: World) -> None:
    batch = world.plan(3, reserved())
    assert world.collect().run().resent_count == 0  # its message may still be on the way
    world.clock.advance(minutes=1)
    assert world.collect().run().resent_count == 1
    assert world.queue.launches == [batch]


def test_a_batch_that_is_sent_again_says_for_whom_it_is(world: World) -> None:
    world.plan(2, reserved(), correlation_ids={"research/train": "m-7"})
    world.clock.advance(minutes=1)
    world.collect().run()
    assert [batch.correlation_ids for batch in world.queue.launches] == [("m-7",)]


def test_part_of_a_gang_whose_planner_died_is_not_launched(world: World) -> None:
    """Its replicas still pend, so the planner's next pass gives the claims back; sending them would launch a part."""
    world.add_workload("gang", replicas=4)
    of_gang = {"workload": "research/gang", "gang_key": "research/gang"}
    half = world.plan(2, on_demand("m5.large"), batch_id="b-half", **of_gang)
    world.clock.advance(minutes=2)
    assert world.collect().run().resent_count == 0
    rest = world.plan(2, on_demand("m5.large"), batch_id="b-rest", **of_gang)
    world.clock.advance(minutes=2)
    assert world.collect().run().resent_count == 2
    assert world.queue.launches == [half, rest]


def test_a_launch_of_a_gang_that_was_under_way_goes_on(world: World) -> None:
    """Whether EC2 was called is not known, so the launch must find out, whole gang or not."""
    world.add_workload("gang", replicas=2)
    of_gang = {"workload": "research/gang", "gang_key": "research/gang"}
    batch = world.plan(2, on_demand("m5.large"), **of_gang)
    world.effects = Effects(kill_before=5)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    assert {claim.state for claim in world.claims()} == {ClaimState.LAUNCHING}
    record = world.state.workload_rows["research/gang"]
    world.state.workload_rows["research/gang"] = replace(
        record, workload=workload("gang", replicas=3)
    )
    world.clock.advance(minutes=1)
    assert world.collect().run().resent_count == 1


def test_an_instance_without_a_claim_is_terminated_after_a_grace_time(world: World) -> None:
    world.ec2.add(left_over(world, "i-lost"))
    world.collect().run()
    assert "i-lost" in ids(world)
    world.clock.advance(minutes=10)
    assert world.collect().run().orphan_count == 1
    assert "i-lost" not in ids(world)
    assert len(ids(world)) == 1


def test_what_a_launch_takes_over_while_the_collector_looks_is_kept(world: World) -> None:
    """The launch that asked EC2 died; it comes again, and is over, between two readings of a collector."""
    batch = world.plan(1, on_demand("m5.large"))
    world.effects = Effects(kill_before=6)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    world.clock.advance(minutes=12)

    class ReadLate:
        def latest(self, batch_id: str) -> Any:
            world.launch().run(batch)
            return world.attempts.latest(batch_id)

    (launched,) = world.ec2.live()
    report = replace(world.collect(), attempts=cast("Any", ReadLate())).run()
    assert report.orphan_count == 0
    assert [(claim.state, claim.instance_id) for claim in world.claims()] == [
        (ClaimState.LAUNCHED, launched.id)
    ]
    assert world.ec2.live() == [launched]


def test_instances_without_our_tags_are_never_touched(world: World) -> None:
    world.ec2.add(left_over(world, "i-foreign", owner=None))
    world.ec2.add(left_over(world, "i-without-batch", batch_id=None))
    world.clock.advance(days=1)
    assert world.collect().run().orphan_count == 0
    assert {"i-foreign", "i-without-batch"} < ids(world)


def test_a_tag_that_somebody_else_set_ends_nothing(world: World) -> None:
    """Whoever may tag instances can set our owner tag, and a batch that does not exist, or one that does."""
    world.ec2.add(
        left_over(world, "i-invented", batch_id="b-of-nobody", launch_template_id=None)
    )
    world.ec2.add(
        left_over(world, "i-more-like-this", launch_template_id="lt-of-somebody-else")
    )
    world.clock.advance(minutes=20)
    report = world.collect().run()
    assert set(report.spared) == {"i-invented", "i-more-like-this"}
    assert set(report.spared) < ids(world)


def test_an_instance_that_lost_our_tag_is_not_ended(world: World) -> None:
    """It is nobody's of ours any more: its replicas get another place, and it is left to whoever took it over."""
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.change(claim.instance_id or "", owner=None)
    world.clock.advance(minutes=20)
    world.collect().run()
    world.expire().run()
    assert claim.instance_id in ids(world)
    assert world.placed() == 0


# --- knowledge that is missing


def fleet(world: World, count: int = 48) -> set[str]:
    world.running(count, on_demand("m5.large"))
    world.clock.advance(hours=1)
    return ids(world)


def test_a_claims_table_that_was_emptied_ends_nothing(world: World) -> None:
    """Its rows are gone, and the mark with them: what no row wants is then not what nobody wants."""
    before = fleet(world)
    world.state.claim_rows.clear()
    world.attempts.rows.clear()
    world.marks.empty("NodeClaims")
    for _ in range(100):
        world.clock.advance(minutes=5)
        report = world.collect().run()
        assert report.unknown_tables == (
            "NodeClaims has no mark: it is new, or was emptied",
        )
    assert ids(world) == before


def test_a_stack_that_was_made_anew_under_the_same_name_ends_nothing(world: World) -> None:
    """All its tables are new and empty, but the instances carry its tag."""
    before = fleet(world)
    world.state.claim_rows.clear()
    world.attempts.rows.clear()
    world.marks = MemoryTableMarks()
    world.clock.advance(minutes=5)
    report = world.collect().run()
    assert len(report.unknown_tables) == len(ROLES)
    assert ids(world) == before


def test_the_tables_of_a_new_deployment_are_marked_unasked(world: World) -> None:
    world.marks = MemoryTableMarks()
    assert world.collect().run().unknown_tables == ()
    assert world.envelope().tables.recognition().is_whole


def test_tables_from_before_there_were_marks_are_marked_if_they_know_every_instance(
    world: World,
) -> None:
    fleet(world, 4)
    world.marks = MemoryTableMarks()
    world.collect().run()
    assert world.envelope().tables.recognition().is_whole


def test_tables_that_do_not_fit_together_are_not_marked_unasked(world: World) -> None:
    """Claims name a workload that the table of workloads does not have: one of them was emptied."""
    fleet(world, 4)
    world.marks = MemoryTableMarks()
    world.state.workload_rows.clear()
    assert world.collect().run().unknown_tables != ()


def test_a_claims_table_without_claims_but_with_its_mark_ends_nothing(world: World) -> None:
    """Somebody deleted the claims one by one: the launches still prove each instance, so it is the bound that holds."""
    before = fleet(world)
    world.state.claim_rows.clear()
    for _ in range(100):
        world.clock.advance(minutes=5)
        report = world.collect().run()
    assert report.held == {EndingKind.ORPHANS: 48}
    assert ids(world) == before
    assert len(world.bus.of("Endings Held")) == 1


def test_a_lift_lets_that_many_orphans_go_once(world: World) -> None:
    fleet(world)
    world.state.claim_rows.clear()
    world.clock.advance(minutes=5)
    world.collect().run()
    until = world.clock.now() + timedelta(minutes=30)
    lift = Lift(
        48,
        until,
        "arn:aws:iam::111122223333:user/ops",
        "the claims are gone for good",
        world.clock.now(),
    )
    LiftEnvelope(world.tallies, world.bus).lift(EndingKind.ORPHANS, lift)
    world.collect().run()
    assert ids(world) == set()
    (told,) = world.bus.of("Envelope Lifted")
    assert (told["count"], told["by"]) == (48, "arn:aws:iam::111122223333:user/ops")


def test_what_was_launched_before_tables_were_adopted_is_no_orphan(world: World) -> None:
    """A table restored to an hour ago does not know what was launched since; adopting it says nothing about that."""
    world.running(2, on_demand("m5.large"))
    world.clock.advance(minutes=30)
    claims = dict(world.state.claim_rows)
    world.running(2, on_demand("m5.large"), batch_id="b-since")
    before = ids(world)
    world.clock.advance(minutes=30)
    world.state.claim_rows = claims
    world.marks.restore("NodeClaims")
    world.collect().run()
    tables = AdoptTables(world.envelope().tables, world.bus)
    assert tables.adopt(
        tables.look(), by="ops", reason="restored", now=world.clock.now()
    ).is_whole
    world.clock.advance(minutes=30)
    assert len(world.collect().run().spared) == 2
    assert ids(world) == before


def test_an_instance_of_an_open_attempt_is_left_for_adoption(world: World) -> None:
    batch = world.plan(2, reserved())
    world.effects = Effects(lose_answer_of=None, kill_before=5)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    assert len(world.ec2.live()) == 2
    world.clock.advance(minutes=10)
    assert world.collect().run().orphan_count == 0
    assert world.queue.launches == [batch]
    world.launch().run(batch)
    assert {c.state for c in world.claims()} == {ClaimState.LAUNCHED}
    assert len(world.ec2.all()) == 2


def test_a_claim_without_an_instance_is_left_to_the_sweep_which_alarms(
    world: World,
) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.forget(claim.instance_id or "")
    world.clock.advance(minutes=10)
    world.collect().run()
    assert world.claims() == [claim]
    world.expire().run()
    assert world.claims()[0].state is ClaimState.TERMINATED
    assert world.placed() == 0


def test_the_instance_of_a_claim_that_ended_is_terminated(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.state.claim_rows[claim.id] = replace(
        claim, state=ClaimState.TERMINATED, placements=()
    )
    world.clock.advance(minutes=10)
    assert world.collect().run().orphan_count == 1
    assert world.ec2.live() == []


def test_claims_whose_tag_is_missing_are_tagged(world: World) -> None:
    claims = world.running(2, on_demand("m5.large"))
    for claim in claims:
        world.ec2.change(claim.instance_id or "", claim_id=None)
    assert world.collect().run().tagged_count == 2
    assert {i.claim_id for i in world.ec2.live()} == {c.id for c in claims}


def test_a_refused_tag_is_told_and_stops_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: Mapping[str, str], *, patient: bool) -> None:
        raise AccessDeniedError("UnauthorizedOperation", f"CreateTags, patient: {patient}")

    monkeypatch.setattr(world.ec2, "tag_claims", refuses)
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.change(claim.instance_id or "", claim_id=None)
    world.ec2.add(left_over(world, "i-orphan"))
    world.clock.advance(hours=2)

    report = world.collect().run()

    assert report.tags_refused == "UnauthorizedOperation"
    assert report.tagged_count == 0
    assert report.orphan_count == 1


def test_templates_of_changed_classes_and_gone_reservations_are_deleted(
    world: World,
) -> None:
    world.running(1, reserved())
    world.running(1, on_demand("m5.large"), batch_id="b-2")
    used = set(world.ec2.templates)
    assert len(used) == 2
    world.clock.advance(hours=2)
    assert world.collect().run().deleted_template_count == 0
    world.policy.classes["default"] = replace(
        world.policy.classes["default"], static_hash="h2"
    )
    assert world.collect().run().deleted_template_count == 2
    world.running(1, on_demand("m5.large"), batch_id="b-3")
    assert len(world.ec2.templates) == 1


def test_a_young_template_is_spared(world: World) -> None:
    young = StoredTemplate(
        "reservoir-test-x",
        world.clock.now() - timedelta(minutes=30),
        {NODE_CLASS_TAG: "gone"},
    )
    world.ec2.templates[young.name] = young
    assert world.collect().run().deleted_template_count == 0
