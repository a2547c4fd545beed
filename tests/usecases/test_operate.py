"""What operators do by hand: once, with their name on it, and through the same steps as everything else."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.effects import Effects, Killed, mishaps
from lab.fakes.manifests import team_manifest
from lab.fakes.system import START
from lab.fakes.values import workload
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.safety.endings import Bound, Bounds, EndingKind
from reservoir.manifests.answers.operations import (
    OperationRequest,
    OperationResult,
    Verb,
    parse_request,
)
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.errors import TransientError
from reservoir.ports.policy import Pause, PolicyKind
from reservoir.ports.state import ConflictError, PlannedCommit, WorkloadRecord
from reservoir.ports.system import Sender
from reservoir.runtime.composition.operate import operate_from
from reservoir.usecases.demand.intake import submitted
from tests.strategies import dear

ADA = "arn:aws:iam::123456789012:user/ada"
SENDER = Sender(ADA, "AIDAADA")


def ask(
    world: DisruptWorld,
    verb: Verb,
    *names: str,
    deadline: str | None = None,
    sender: Sender = SENDER,
) -> dict[str, tuple[str, str]]:
    """Have a request carried out; return outcome and message of each object."""
    if verb is Verb.LIFT:
        return lift(world, *names, sender=sender)
    request = OperationRequest(
        verb=verb, names=list(names), reason="OPS-7", deadline=deadline
    )
    results: list[OperationResult] = operate_from(world.outside()).run(request, sender)
    return {result.name: (result.outcome, result.message) for result in results}


@pytest.fixture
def world() -> DisruptWorld:
    """Two nodes with a job each, bought on demand; nothing consolidates them."""
    world = DisruptWorld(
        "on-demand", consolidationPolicy="WhenEmpty", consolidateAfter="Never"
    )
    world.submit("train", replicas=2, cpus=1)
    world.minutes(2)
    return world


def only(world: DisruptWorld) -> NodeClaim:
    (claim,) = world.live()
    return claim


def test_a_cordoned_node_keeps_its_replicas_and_takes_no_new_ones(
    world: DisruptWorld,
) -> None:
    claim = only(world)
    assert ask(world, Verb.CORDON, claim.id) == {
        claim.id: ("done", "cordoned; takes no new replicas")
    }
    world.scale("train", 1)
    world.minutes(2)
    world.scale("train", 2)
    world.minutes(2)

    assert sum(placed.count for placed in world.now_of(claim).placements) == 1
    assert len(world.live()) == 2, "the replica went elsewhere"
    assert ask(world, Verb.CORDON, claim.id) == {
        claim.id: ("unchanged", "already cordoned")
    }
    assert [(it.verb, it.by, it.reason) for it in world.now_of(claim).operations] == [
        ("cordon", ADA, "OPS-7")
    ]


def test_an_uncordoned_node_takes_replicas_again(world: DisruptWorld) -> None:
    claim = only(world)
    ask(world, Verb.CORDON, claim.id)
    assert claim.instance_id is not None
    assert ask(world, Verb.UNCORDON, claim.instance_id)[claim.instance_id] == (
        "done",
        "uncordoned; takes new replicas again",
    )
    assert ask(world, Verb.UNCORDON, claim.id)[claim.id] == ("unchanged", "not cordoned")
    world.scale("train", 1)
    world.minutes(2)
    world.scale("train", 2)
    world.minutes(2)
    assert len(world.live()) == 1


def test_a_plan_that_was_made_before_the_cordon_is_not_carried_out_on_the_node(
    world: DisruptWorld,
) -> None:
    claim = only(world)
    world.scale("train", 1)
    world.minutes(2)
    world.scale("train", 2)
    original = world.state.node_claims.commit

    def cordon_first(commit: PlannedCommit) -> None:
        world.state.node_claims.commit = original  # type: ignore[method-assign] # once
        ask(world, Verb.CORDON, claim.id)
        original(commit)

    world.state.node_claims.commit = cordon_first  # type: ignore[method-assign] # between the plan and its commit
    world.plan_and_launch()
    assert sum(placed.count for placed in world.now_of(claim).placements) == 1
    assert len(world.live()) == 2


def test_a_drain_gives_notice_and_ends_the_node_once_at_its_deadline(
    world: DisruptWorld,
) -> None:
    world.holds_on = True
    claim = only(world)
    outcome, message = ask(world, Verb.DRAIN, claim.id, deadline="3m")[claim.id]
    assert outcome == "done"
    assert message.startswith("draining until ")
    (notice,) = world.bus.of("Node Draining")
    assert [(it.verb, it.by) for it in world.now_of(claim).operations] == [("drain", ADA)]
    assert (notice["reason"], [it["replicas"] for it in notice["workloads"]]) == (
        "Requested",
        [2],
    )
    again = ask(world, Verb.DRAIN, claim.id, deadline="3m")
    assert again[claim.id] == ("unchanged", message)
    world.minutes(6)
    assert world.of("Node Terminated") == [claim.id]
    assert world.pending() == 0, "its replicas have another node"
    assert len(world.bus.of("Node Draining")) == 1


def test_a_later_request_moves_the_deadline_forward_and_never_back(
    world: DisruptWorld,
) -> None:
    world.holds_on = True
    claim = only(world)
    ask(world, Verb.DRAIN, claim.id)
    first = world.now_of(claim).drain
    assert ask(world, Verb.DRAIN, claim.id, deadline="1h")[claim.id][0] == "unchanged"
    assert ask(world, Verb.DRAIN, claim.id, deadline="1m")[claim.id][0] == "done"
    second = world.now_of(claim).drain
    assert first is not None
    assert second is not None
    assert (second.id, second.deadline) == (
        first.id,
        world.clock.now() + timedelta(minutes=1),
    )


def test_a_deleted_node_is_terminated_at_once_and_its_replicas_are_demand_again(
    world: DisruptWorld,
) -> None:
    claim = only(world)
    assert ask(world, Verb.DELETE, claim.id)[claim.id] == ("done", "terminating")
    assert world.now_of(claim).state is ClaimState.TERMINATING
    assert world.pending() == 2
    assert ask(world, Verb.DELETE, claim.id)[claim.id] == ("unchanged", "terminating")
    world.minutes(3)
    assert world.of("Node Terminated") == [claim.id]
    assert ask(world, Verb.DELETE, claim.id)[claim.id] == ("refused", "it has ended")


def test_what_cannot_be_done_is_refused_beside_what_can(world: DisruptWorld) -> None:
    claim = only(world)
    assert ask(world, Verb.DRAIN, "nc-none", claim.id)["nc-none"] == (
        "refused",
        "it does not exist",
    )
    assert world.now_of(claim).state is ClaimState.DRAINING
    assert ask(world, Verb.CORDON, claim.id)[claim.id] == (
        "refused",
        "already draining or terminating",
    )

    world.submit("later", cpus=16)
    world.provision().run()
    planned = next(it for it in world.live() if it.state is ClaimState.PLANNED)
    assert ask(world, Verb.DRAIN, planned.id)[planned.id][1].startswith(
        "it is not launched yet"
    )


def test_more_than_the_envelope_allows_is_held_and_none_of_it_ends(
    world: DisruptWorld,
) -> None:
    claim = only(world)
    world.bounds = Bounds({EndingKind.REQUESTED: Bound(0, 0, 0)})
    outcome, message = ask(world, Verb.DELETE, claim.id)[claim.id]
    assert outcome == "refused"
    assert message.startswith("held by the safety envelope: ")
    assert world.now_of(claim).state is ClaimState.RUNNING
    assert [told["kind"] for told in world.bus.of("Endings Held")] == ["requested"]


def test_disruption_counts_a_node_that_is_drained_by_hand(world: DisruptWorld) -> None:
    world.holds_on = True
    world.submit("other", replicas=1, cpus=16)
    world.minutes(2)
    first, second = world.live()
    world.change_pool(labels={"wave": "2"})
    stored_budget = {
        "budgets": [{"nodes": "1"}],
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "Never",
    }
    world.change_pool(disruption=stored_budget)
    ask(world, Verb.DRAIN, first.id, deadline="30m")
    world.disruption_pass()
    assert world.now_of(second).disruption is None, "the one node that may be missing is"
    drain = world.now_of(first).drain
    assert drain is not None
    assert drain.reason is DrainReason.REQUESTED


def test_a_paused_pool_launches_nothing_and_says_who_wants_that(
    world: DisruptWorld,
) -> None:
    assert ask(world, Verb.PAUSE, "gpu") == {"gpu": ("done", "paused; launches no nodes")}
    assert ask(world, Verb.PAUSE, "gpu") == {"gpu": ("unchanged", "already paused")}
    world.submit("waits", replicas=1, cpus=16)
    world.minutes(3)
    assert len(world.live()) == 1
    (unplaced,) = world.state.workload_rows["research/waits"].unplaced
    assert unplaced.code == "NodePoolPaused"
    assert f"NodePool gpu is paused by {ADA} since " in unplaced.message
    assert unplaced.message.endswith(": OPS-7")

    assert ask(world, Verb.RESUME, "gpu") == {
        "gpu": ("done", "resumed; launches nodes again")
    }
    world.minutes(2)
    assert world.pending() == 0


def test_a_paused_pool_goes_on_taking_replicas_on_its_nodes(world: DisruptWorld) -> None:
    world.scale("train", 1)
    world.minutes(2)
    ask(world, Verb.PAUSE, "gpu")
    world.scale("train", 2)
    world.minutes(2)
    assert (world.pending(), len(world.live())) == (0, 1)


def test_what_was_planned_before_the_pause_is_not_launched(world: DisruptWorld) -> None:
    world.submit("waits", replicas=1, cpus=16)
    world.provision().run()
    ask(world, Verb.PAUSE, "gpu")
    world.plan_and_launch()
    assert [it.state for it in world.live()] == [ClaimState.RUNNING]
    assert [told["code"] for told in world.bus.of("Launch Failed")] == ["NodePoolPaused"]
    assert world.pending() == 1


def test_an_apply_in_between_neither_loses_nor_lifts_the_pause(world: DisruptWorld) -> None:
    ask(world, Verb.PAUSE, "gpu")
    world.change_pool(labels={"wave": "2"})
    assert ask(world, Verb.PAUSE, "gpu")["gpu"][0] == "unchanged"


def test_a_pause_that_others_keep_changing_is_given_up(world: DisruptWorld) -> None:
    asked = []

    def lose(name: str, pause: Pause, *, expected: Pause) -> None:
        asked.append((pause, expected))
        raise ConflictError([name])

    world.store.save_pause = lose  # type: ignore[method-assign] # somebody else is always faster
    assert ask(world, Verb.PAUSE, "gpu") == {
        "gpu": ("refused", "it changes too fast; repeat the command")
    }
    assert len(asked) == 6


def test_a_pool_that_does_not_exist_is_refused_with_what_was_meant(
    world: DisruptWorld,
) -> None:
    assert ask(world, Verb.PAUSE, "gpus") == {
        "gpus": ("refused", "it does not exist; did you mean gpu?")
    }


def test_a_request_is_told_before_it_is_carried_out(world: DisruptWorld) -> None:
    ask(world, Verb.DRAIN, "nc-none", deadline="10m")
    (told,) = world.bus.of("Operation Requested")
    assert (told["verb"], told["names"], told["by"], told["reason"]) == (
        "drain",
        ["nc-none"],
        ADA,
        "OPS-7",
    )
    assert told["deadline"] == "10m"


def test_a_node_that_is_named_by_its_instance_is_told_by_its_claim(
    world: DisruptWorld,
) -> None:
    claim = only(world)
    ask(world, Verb.CORDON, str(claim.instance_id))
    (told,) = world.bus.of("Operation Requested")
    assert told["names"] == [claim.id]


def killed_at(verb: Verb, effects: Effects) -> tuple[DisruptWorld, NodeClaim, int]:
    """Ask for something, die where ``effects`` says, ask again; return the world minutes later."""
    world = DisruptWorld(
        "on-demand", consolidationPolicy="WhenEmpty", consolidateAfter="Never"
    )
    world.submit("train", replicas=2, cpus=1)
    world.minutes(2)
    claim = only(world)
    world.effects = effects
    try:
        ask(world, verb, claim.id)
    except (Killed, TransientError):
        world.effects = Effects()
        world.check()
        ask(world, verb, claim.id)
    world.effects = Effects()
    world.minutes(4)
    return world, claim, effects.count


@pytest.mark.parametrize("verb", [Verb.CORDON, Verb.DRAIN, Verb.DELETE])
def test_a_request_that_dies_anywhere_is_finished_by_its_repeat(verb: Verb) -> None:
    points = killed_at(verb, Effects())[2]
    assert points >= (4 if verb is Verb.DELETE else 2)
    for effects in mishaps(range(1, points + 1)):
        world, claim, _ = killed_at(verb, effects)
        if verb is Verb.CORDON:
            assert world.now_of(claim).cordoned
            assert len(world.now_of(claim).operations) == 1
            continue
        assert world.now_of(claim).state is ClaimState.TERMINATED
        assert {told["drainId"] for told in world.bus.of("Node Draining")} == {
            f"drain-{claim.id}"
        }
        assert world.pending() == 0


def test_a_drain_that_was_begun_ends_without_a_repeat() -> None:
    world = DisruptWorld(
        "on-demand", consolidationPolicy="WhenEmpty", consolidateAfter="Never"
    )
    world.submit("train", replicas=2, cpus=1)
    world.minutes(2)
    claim = only(world)
    world.effects = Effects(lose_answer_of=4)
    with pytest.raises((Killed, TransientError)):
        ask(world, Verb.DELETE, claim.id)
    assert world.now_of(claim).state is ClaimState.DRAINING, (
        "written, and not yet terminated"
    )
    world.effects = Effects()
    world.minutes(3)
    assert world.of("Node Terminated") == [claim.id]


STEPS = st.lists(
    st.sampled_from(["cordon", "uncordon", "grow", "shrink", "minute"]),
    min_size=4,
    max_size=14,
)


@dear
@given(STEPS)
def test_a_cordoned_node_never_receives_anything(steps: list[str]) -> None:
    world = DisruptWorld(
        "on-demand", consolidationPolicy="WhenEmptyOrUnderutilized", consolidateAfter="0s"
    )
    world.submit("train", replicas=3, cpus=1)
    world.minutes(2)
    replicas = 3
    held: dict[str, int] = {}
    for number, step in enumerate(steps):
        nodes = [claim for claim in world.live() if claim.state is ClaimState.RUNNING]
        if step in ("cordon", "uncordon") and nodes:
            node = nodes[number % len(nodes)]
            ask(world, Verb(step), node.id)
            held.setdefault(node.id, sum(placed.count for placed in node.placements))
        elif step in ("grow", "shrink"):
            replicas = max(0, replicas + (2 if step == "grow" else -2))
            world.scale("train", replicas)
        world.minutes(1)
        for claim in world.claims():
            here = sum(placed.count for placed in claim.placements)
            assert not claim.cordoned or here <= held.get(claim.id, here), (
                f"{claim.id} received replicas"
            )
        held = {
            it.id: sum(placed.count for placed in it.placements)
            for it in world.claims()
            if it.cordoned
        }
    world.minutes(3)
    assert world.pending() == 0


def test_a_generation_that_nothing_can_follow_is_reset_and_nothing_else(
    world: DisruptWorld,
) -> None:
    (key,) = world.state.workload_rows
    record = world.state.workload_rows[key]
    assert record.workload is not None
    poisoned = replace(
        record,
        generation=2**53 - 1,
        workload=replace(record.workload, generation=2**53 - 1),
    )
    world.state.workload_rows[key] = poisoned
    before = world.live()
    done = {
        key: (
            "done",
            f"reset; its generation was {2**53 - 1}, and the next message may start at 1",
        )
    }
    assert ask(world, Verb.RESET, key) == done
    after = world.state.workload_rows[key]
    assert after.workload is not None
    assert (after.generation, after.workload.generation) == (0, 0)
    assert (
        replace(
            after,
            generation=record.generation,
            workload=record.workload,
            revision=record.revision,
        )
        == record
    )
    assert world.live() == before
    assert ask(world, Verb.RESET, key) == {key: ("unchanged", "already reset")}
    refused = {
        "research/nobody": ("refused", "it does not exist"),
        "train": ("refused", "name it NAMESPACE/NAME"),
    }
    assert ask(world, Verb.RESET, *refused) == refused
    world.scale("train", 3)
    assert world.state.workload_rows[key].generation > 0, "the next message counts again"


def test_a_withdrawn_name_is_free_again_after_a_reset(world: DisruptWorld) -> None:
    (key,) = world.state.workload_rows
    withdrawn = replace(
        world.state.workload_rows[key], generation=2**53 - 1, withdrawn=True
    )
    world.state.workload_rows[key] = withdrawn
    ask(world, Verb.RESET, key)
    wanted = replace(workload("train"), generation=1)
    again = submitted(world.state.workload_rows[key], wanted, START)
    assert again is not None
    assert (again.generation, again.withdrawn) == (1, False)


def test_a_generation_that_others_keep_changing_is_not_reset(world: DisruptWorld) -> None:
    (key,) = world.state.workload_rows
    put, tries = world.state.workloads.put, []

    def busy(record: WorkloadRecord, *, expected_revision: int | None) -> WorkloadRecord:
        tries.append(record.generation)
        put(world.state.workload_rows[key], expected_revision=expected_revision)
        return put(record, expected_revision=expected_revision)

    world.state.workloads.put = busy  # type: ignore[method-assign] # somebody else is always faster
    assert ask(world, Verb.RESET, key) == {
        key: ("refused", "it changes too fast; repeat the command")
    }
    assert len(tries) == 6


def own(world: DisruptWorld, name: str, namespace: str, *principals: str) -> None:
    """Let a Team have a namespace, with principals by their unique ids."""
    world.apply(team_manifest(name, namespaces=[namespace], principals=list(principals)))


VISION = Sender(
    "arn:aws:sts::123456789012:assumed-role/vision/kim", "AROAVISION0000000000:kim"
)
RESEARCH = Sender(
    "arn:aws:sts::123456789012:assumed-role/research/lee", "AROARESEARCH00000000:lee"
)


@pytest.fixture
def teams(world: DisruptWorld) -> DisruptWorld:
    """The nodes carry work of Team research alone."""
    for sender, name in ((VISION, "vision"), (RESEARCH, "research")):
        own(world, name, name, sender.id.partition(":")[0])
    return world


def object_of(world: DisruptWorld, verb: Verb) -> str:
    if verb in (Verb.PAUSE, Verb.RESUME):
        return "gpu"
    if verb is Verb.LIFT:
        return "orphans"
    return "research/train" if verb is Verb.RESET else only(world).id


@pytest.mark.parametrize("verb", Verb)
def test_a_principal_of_another_team_changes_nothing_in_any_verb(
    teams: DisruptWorld, verb: Verb
) -> None:
    before = (
        dict(teams.state.claim_rows),
        dict(teams.state.workload_rows),
        teams.store.list_all(),
    )
    name = object_of(teams, verb)
    ((outcome, message),) = ask(teams, verb, name, sender=VISION).values()
    assert outcome == "refused"
    assert "Team vision" in message
    assert (
        dict(teams.state.claim_rows),
        dict(teams.state.workload_rows),
        teams.store.list_all(),
    ) == before


@pytest.mark.parametrize(
    "verb", sorted({*Verb} - {Verb.PAUSE, Verb.RESUME, Verb.UNCORDON, Verb.LIFT})
)
def test_a_principal_acts_for_its_own_namespaces(teams: DisruptWorld, verb: Verb) -> None:
    assert [
        outcome
        for outcome, _ in ask(teams, verb, object_of(teams, verb), sender=RESEARCH).values()
    ] == ["done"]


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.RESUME])
def test_pools_are_everybodys(teams: DisruptWorld, verb: Verb) -> None:
    message = "it serves every team, and you may act for Team research only"
    assert ask(teams, verb, "gpu", sender=RESEARCH) == {"gpu": ("refused", message)}


def test_whoever_is_a_principal_of_no_team_operates_everything(teams: DisruptWorld) -> None:
    node = only(teams).id
    assert ask(teams, Verb.CORDON, node)[node][0] == "done"
    assert ask(teams, Verb.PAUSE, "gpu")["gpu"][0] == "done"


def test_a_node_with_work_of_others_or_none_is_no_teams(teams: DisruptWorld) -> None:
    claim = only(teams)
    shared = replace(claim, placements=(*claim.placements, PlacedReplicas("vision/job", 1)))
    teams.state.claim_rows[claim.id] = shared
    for sender, other in ((VISION, "research"), (RESEARCH, "vision")):
        ((outcome, message),) = ask(teams, Verb.DRAIN, claim.id, sender=sender).values()
        assert (outcome, f"it runs work of {other}" in message) == ("refused", True)
    teams.state.claim_rows[claim.id] = replace(claim, placements=())
    refused = {claim.id: ("refused", "it runs no work of Team research")}
    assert ask(teams, Verb.DELETE, claim.id, sender=RESEARCH) == refused


def test_of_several_objects_those_of_others_are_refused(teams: DisruptWorld) -> None:
    node = only(teams).id
    asked = ask(teams, Verb.CORDON, node, "nc-unknown", sender=RESEARCH)
    assert {name: outcome for name, (outcome, _) in asked.items()} == {
        node: "done",
        "nc-unknown": "refused",
    }


def test_who_may_be_a_principal_of_a_team_that_cannot_be_read_waits(
    teams: DisruptWorld,
) -> None:
    teams.store.unreadable.add((PolicyKind.TEAM, "vision"))
    node = only(teams).id
    ((outcome, message),) = ask(teams, Verb.CORDON, node, sender=VISION).values()
    assert (outcome, message.startswith("Team vision cannot be read")) == ("refused", True)
    assert ask(teams, Verb.CORDON, node, sender=RESEARCH)[node][0] == "done"


def lift(
    world: DisruptWorld, *kinds: str, sender: Sender = SENDER
) -> dict[str, tuple[str, str]]:
    request = OperationRequest(
        verb=Verb.LIFT, names=list(kinds), reason="OPS-7", deadline="2h", count=5
    )
    results = operate_from(world.outside()).run(request, sender)
    return {result.name: (result.outcome, result.message) for result in results}


def test_a_lift_bears_the_name_of_whoever_asked_and_the_functions_time(
    world: DisruptWorld,
) -> None:
    now = world.clock.now()
    until = now + timedelta(hours=2)
    assert lift(world, "orphans") == {
        "orphans": ("done", f"lifted for 5 until {until:%Y-%m-%d %H:%M} UTC")
    }
    given = world.tallies.get(EndingKind.ORPHANS).tally.lift
    assert given is not None
    assert (given.count, given.by, given.reason, given.made_at, given.until) == (
        5,
        ADA,
        "OPS-7",
        now,
        until,
    )
    (told,) = world.bus.of("Envelope Lifted")
    assert (told["kind"], told["by"]) == ("orphans", ADA)


def test_what_is_no_kind_of_ending_is_refused_with_those_there_are(
    world: DisruptWorld,
) -> None:
    outcome, message = lift(world, "everything")["everything"]
    assert outcome == "refused"
    assert "orphans" in message
    assert world.tallies.rows == {}


def test_a_tally_that_cannot_be_read_is_not_lifted(world: DisruptWorld) -> None:
    world.tallies.unreadable.add(EndingKind.ORPHANS)
    outcome, message = lift(world, "orphans")["orphans"]
    assert (outcome, "nothing was written" in message) == ("refused", True)


def test_a_principal_of_a_team_lifts_nothing(teams: DisruptWorld) -> None:
    outcome, message = lift(teams, "orphans", sender=RESEARCH)["orphans"]
    assert (outcome, "Team research" in message) == ("refused", True)
    assert teams.tallies.rows == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"deadline": "2h"}, "say how many may end"),
        ({"count": 5}, "say for how long, at most 24h"),
        ({"count": 5, "deadline": "25h"}, "say for how long, at most 24h"),
        ({"count": 5, "deadline": "0s"}, "say for how long, at most 24h"),
        ({"count": 0, "deadline": "1h"}, "greater than or equal to 1"),
    ],
)
def test_a_lift_has_bounds_of_its_own(given: dict[str, object], said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        parse_request({"verb": "lift", "names": ["orphans"], "reason": "OPS-7", **given})


def test_only_a_lift_has_a_count() -> None:
    with pytest.raises(ManifestError, match="is for lift alone"):
        parse_request({"verb": "cordon", "names": ["nc-1"], "reason": "OPS-7", "count": 3})
