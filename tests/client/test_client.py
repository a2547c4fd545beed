"""What a workload system says and hears, with everything that may be lost, doubled or late on the way."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.manifests import workload_manifest
from lab.fakes.system import START
from lab.fakes.values import node_claim
from reservoir.client import (
    Client,
    GenerationConflictError,
    NotSubscribedError,
    RejectedError,
    UnansweredError,
    WithdrawnError,
    events,
)
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason
from reservoir.core.model.plan import ReasonCode, UnplacedReplicas
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.team import Team, by_namespace
from reservoir.manifests.event_parts import PlacedWorkload
from reservoir.manifests.events import EVENTS, NodeDraining, NodeTerminated
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.demand.authorise_demand import DemandRules
from tests.client.values import KEY, draining
from tests.client.world import Deployment


def workload(replicas: int = 2, generation: int | None = None) -> dict[str, Any]:
    return workload_manifest(KEY, replicas, {"cpu": "4"}, generation=generation)


def record(world: Deployment) -> WorkloadRecord:
    stored = world.state.workloads.get(KEY)
    assert stored is not None
    return stored


def actions(world: Deployment) -> list[str]:
    return [message["action"] for message in world.sent]


def place(
    world: Deployment,
    replicas: int,
    *,
    state: ClaimState = ClaimState.RUNNING,
    **of_record: Any,
) -> None:
    """Put replicas on a node each."""
    world.state.workload_rows[KEY] = replace(
        record(world), placed_count=replicas, **of_record
    )
    for number in range(replicas):
        claim = node_claim(
            f"nc-{number}", placements=(PlacedReplicas(KEY, 1),), state=state
        )
        world.state.claim_rows[claim.id] = claim


def test_the_first_submit_is_generation_one_and_the_same_content_stays_it() -> None:
    world = Deployment()
    first = world.client().submit(workload())
    again = world.client().submit(workload())
    assert (first.generation, again.generation) == (1, 1)
    assert first.is_stored
    assert record(world).generation == 1


def test_other_content_is_the_next_generation_and_after_a_withdraw_it_is_wanted_anew() -> (
    None
):
    world = Deployment()
    client = world.client()
    client.submit(workload(2))
    assert client.submit(workload(3)).generation == 2
    client.withdraw(KEY)
    assert record(world).withdrawn
    assert client.submit(workload(3)).generation == 3
    assert not record(world).withdrawn


def test_a_generation_that_is_given_is_used() -> None:
    world = Deployment()
    assert world.client().submit(workload(generation=40)).generation == 40


@pytest.mark.parametrize("lost", ["Workload Described", "Workload Accepted"])
def test_an_answer_that_is_lost_is_asked_for_again(lost: str) -> None:
    world = Deployment()
    world.lost = [lost]
    assert world.client().submit(workload()).is_stored
    assert record(world).generation == 1


def test_answers_that_come_twice_are_dealt_with_once_and_nothing_is_left_in_the_queue() -> (
    None
):
    world = Deployment()
    world.doubled = {"Workload Described", "Workload Accepted"}
    client = world.client()
    client.submit(workload(2))
    client.submit(workload(3))
    list(client.events(idle_s=200))
    assert world.events.messages == []
    assert record(world).generation == 2


def test_whoever_is_overtaken_hears_by_whom() -> None:
    world = Deployment()
    world.client().submit(workload(5, generation=7))
    world.sender = "AROAEXAMPLE:bob"
    with pytest.raises(
        GenerationConflictError, match="generation 7 was sent by AROAEXAMPLE:us"
    ):
        world.client().submit(workload(9, generation=6))
    with pytest.raises(
        GenerationConflictError, match="by 'AROAEXAMPLE:us' with other content"
    ):
        world.client().submit(workload(9, generation=7))
    assert record(world).generation == 7


def test_what_cannot_be_is_refused_before_it_is_sent() -> None:
    world = Deployment()
    wrong = workload()
    wrong["spec"]["replicas"] = -1
    with pytest.raises(ManifestError):
        world.client().submit(wrong)
    assert world.sent == []


def test_what_reservoir_refuses_is_an_error_with_its_problems() -> None:
    world = Deployment()
    wanted = workload()
    wanted["spec"]["nodeSelector"] = {"karpenter.sh/nodepool": "nobodys"}
    with pytest.raises(RejectedError, match="is not a NodePool") as refused:
        world.client().submit(wanted)
    assert refused.value.problems[0].rule == "unknown-node-pool"


def test_whoever_may_not_act_for_a_namespace_is_told_so_at_once() -> None:
    world = Deployment()
    world.rules = DemandRules(
        frozenset(), by_namespace([Team("theirs", ("research",), ("arn:theirs",))])
    )
    client = world.client()
    calls: list[Callable[[], object]] = [
        lambda: client.submit(workload()),
        lambda: client.status(KEY),
        lambda: client.withdraw(KEY),
    ]
    for call in calls:
        with pytest.raises(RejectedError):
            call()
    assert world.events.now_s == 0


def test_nobody_answers_is_an_error_that_changes_nothing_twice() -> None:
    world = Deployment()
    world.lost = ["Workload Described"] * 99
    with pytest.raises(UnansweredError, match="subscription of its namespace"):
        world.client().submit(workload(), timeout_s=60)
    pauses = actions(world).count("describe")
    assert 3 <= pauses <= 6  # ever more seldom


def test_without_a_subscription_only_what_needs_no_answer_can_be_sent() -> None:
    world = Deployment()
    client = world.client(listens=False)
    assert not client.submit(workload(generation=1)).is_stored
    client.release(KEY, "nc-1")
    calls: list[Callable[[], object]] = [
        lambda: client.submit(workload()),
        lambda: client.status(KEY),
        lambda: client.withdraw(KEY),
        lambda: client.wait_placed(KEY),
        lambda: next(iter(client.events())),
        lambda: client.on_draining(lambda _: None, "research"),
    ]
    for call in calls:
        with pytest.raises(NotSubscribedError):
            call()


def test_waiting_ends_when_every_replica_is_placed_though_no_fact_came() -> None:
    world = Deployment()
    client = world.client()
    client.submit(workload(2))
    place(world, 2)
    known = client.wait_placed(KEY)
    assert [node.node_claim for node in known.nodes] == ["nc-0", "nc-1"]


def test_replicas_that_have_finished_need_no_place() -> None:
    world = Deployment()
    client = world.client()
    client.submit(workload(2))
    place(world, 1, finished_count=1)
    assert client.wait_placed(KEY, launched=True, timeout_s=30).finished == 1


def test_places_that_are_not_launched_yet_are_not_instances() -> None:
    world = Deployment()
    client = world.client()
    client.submit(workload(2))
    place(world, 2, state=ClaimState.LAUNCHING)
    assert client.wait_placed(KEY).placed == 2
    with pytest.raises(UnansweredError):
        client.wait_placed(KEY, launched=True, timeout_s=30)


def test_waiting_in_vain_says_why() -> None:
    world = Deployment()
    client = world.client()
    client.submit(workload(2))
    waits = UnplacedReplicas(KEY, 2, ReasonCode.RESERVATION_FULL, "cr-1 has no free unit")
    world.state.workload_rows[KEY] = replace(record(world), unplaced=(waits,))
    with pytest.raises(UnansweredError, match="2 because cr-1 has no free unit"):
        client.wait_placed(KEY, timeout_s=30)


def test_waiting_for_what_nobody_wants_is_an_error() -> None:
    with pytest.raises(WithdrawnError):
        Deployment().client().wait_placed(KEY)


def test_a_status_of_many_parts_is_put_together_also_out_of_order_and_doubled() -> None:
    world = Deployment()
    client = world.client()
    client.submit(workload(450))
    place(world, 450)
    world.doubled = {"Workload Described"}
    assert len({node.node_claim for node in client.status(KEY).nodes}) == 450


def test_a_drain_is_handled_once_and_then_released() -> None:
    world = Deployment()
    client = world.client()
    for _ in range(3):
        world.publish(draining("d-1", "nc-1"))
    handled: list[str] = []
    client.on_draining(lambda notice: handled.append(notice.drain_id), "research", idle_s=5)
    world.publish(draining("d-1", "nc-1"))
    client.on_draining(lambda notice: handled.append(notice.drain_id), "research", idle_s=5)
    assert handled == ["d-1"]
    assert world.releases == [(KEY, "nc-1")]
    assert world.events.messages == []


def test_a_notice_that_is_repeated_with_more_workloads_is_news_for_those() -> None:
    world = Deployment()
    client = world.client()
    world.publish(draining("d-1", "nc-1", "train"))
    world.publish(draining("d-1", "nc-1", "train", "late"))
    told: list[list[str]] = []
    client.on_draining(
        lambda notice: told.append([it.name for it in notice.workloads]),
        "research",
        idle_s=5,
    )
    assert told == [["train"], ["late"]]


def test_what_others_run_on_a_shared_node_is_not_released() -> None:
    world = Deployment()
    notice = draining("d-1", "nc-1", "train")
    theirs = PlacedWorkload(namespace="others", name="web", replicas=1)
    world.publish(notice.model_copy(update={"workloads": [*notice.workloads, theirs]}))
    world.client().on_draining(lambda _: None, "research", idle_s=5)
    assert world.releases == [(KEY, "nc-1")]


def test_a_handler_that_fails_has_released_nothing_and_the_next_process_handles_the_drain() -> (
    None
):
    world = Deployment()
    world.publish(draining("d-1", "nc-1"))

    def fails(_: NodeDraining) -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        world.client().on_draining(fails, "research", idle_s=5)
    assert world.releases == []
    world.client().on_draining(lambda _: None, "research", idle_s=200)
    assert world.releases == [(KEY, "nc-1")]


def test_a_notice_that_came_before_anybody_asked_for_notices_waits() -> None:
    world = Deployment()
    client = world.client()
    world.publish(draining("d-1", "nc-1"))
    client.submit(workload())  # reads the queue
    client.on_draining(lambda _: None, "research", idle_s=5)
    assert world.releases == [(KEY, "nc-1")]


def test_a_drain_whose_notice_was_lost_is_found_by_asking() -> None:
    world = Deployment()
    client = world.client()
    client.submit(workload(1))
    drain = Drain("d-9", DrainReason.EXPIRED, START, START, (PlacedReplicas(KEY, 1),))
    claim = node_claim("nc-9", placements=(), state=ClaimState.DRAINING, drain=drain)
    world.state.claim_rows[claim.id] = claim
    client.on_draining(lambda _: None, KEY, idle_s=5)
    assert world.releases == [(KEY, "nc-9")]


def test_a_fact_counts_as_dealt_with_when_the_next_is_asked_for() -> None:
    world = Deployment()
    world.publish(draining("d-1", "nc-1"))
    world.publish(draining("d-2", "nc-2"))
    facts = world.client().events(idle_s=5)
    next(facts)
    next(facts)  # the first is dealt with, the process dies with the second in hand
    seen = [fact.event for fact in world.client().events(idle_s=200)]
    assert [event.drain_id for event in seen if isinstance(event, NodeDraining)] == ["d-2"]


def test_the_end_of_a_node_is_told_once_although_its_step_was_repeated() -> None:
    world = Deployment()
    gone = NodeTerminated(node=draining().node, reason="Expired", terminated_at=START)
    world.publish(gone)
    world.publish(gone)
    assert len(list(world.client().events(idle_s=200))) == 1


def test_a_call_that_is_stopped_returns_and_leaves_what_it_had_to_the_next() -> None:
    world = Deployment()
    stop = threading.Event()
    world.publish(draining("d-1", "nc-1"))
    world.publish(draining("d-2", "nc-2"))
    world.client().on_draining(lambda _: stop.set(), "research", stop=stop)
    assert world.releases == [(KEY, "nc-1")]
    world.client().on_draining(lambda _: None, "research", idle_s=200)
    assert world.releases == [(KEY, "nc-1"), (KEY, "nc-2")]


def test_every_fact_that_a_subscription_lets_in_can_be_imported_from_the_client() -> None:
    let_in = {
        it.__name__
        for it in EVENTS
        if {"workload", "workloads", "returned"} & it.model_fields.keys()
    }
    assert let_in <= set(events.__all__)


def test_what_is_no_fact_is_thrown_away() -> None:
    world = Deployment()
    world.events.put("Node Draining", {"drainId": 3})
    world.events.put("Nobody Knows", {})
    assert list(world.client().events(idle_s=5)) == []
    assert world.events.messages == []


def test_threads_share_one_client() -> None:
    world = Deployment()
    client = world.client()
    found: list[int] = []

    def ask(client: Client) -> None:
        found.append(client.status(KEY).wanted)

    client.submit(workload(3))
    threads = [threading.Thread(target=ask, args=(client,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 8
