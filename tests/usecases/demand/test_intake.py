"""Messages in any order, any number of times, become the same workloads."""

import itertools
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.manifests import workload_manifest
from lab.fakes.messaging import MemoryBus, MemoryQueue
from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import START, ManualClock
from reservoir.core.model.workload import Workload
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.state import Rollout, WorkloadRecord
from reservoir.usecases.demand.authorise_demand import DemandRules
from reservoir.usecases.demand.intake import TOMBSTONE_KEPT, Answer, Intake
from reservoir.usecases.demand.sending_bounds import SendingBounds

KEY = "research/train"


class World:
    """Intake on memory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = MemoryState(self.clock)
        self.queue = MemoryQueue()
        self.bus = MemoryBus()
        self.releases: list[tuple[Any, ...]] = []
        bounds = SendingBounds(
            MemoryDemandCensus(self.state.workloads, self.clock), self.clock
        )
        self.intake = Intake(
            self.state.workloads, self.release, self.queue, self.bus, self.clock, bounds
        )

    def release(
        self, workload_key: str, claim_id: str, count: int | None, now: datetime
    ) -> bool:
        self.releases.append((workload_key, claim_id, count, now))
        return claim_id == "nc-1"

    def send(self, body: dict[str, Any]) -> str | None:
        return self.answer(body).changed_key

    def answer(
        self,
        body: dict[str, Any],
        sent_by: str | None = None,
        message_id: str | None = None,
    ) -> Answer:
        message = parse_demand(json.dumps(body))
        assert not isinstance(message, DescribeMessage)
        return self.intake.apply(
            message, DemandRules(frozenset({"gpu"})), sent_by, message_id
        )

    def placed(self, count: int) -> "World":
        """Let so many replicas run."""
        self.state.workloads.put(
            replace(self.record, placed_count=count), expected_revision=self.record.revision
        )
        return self

    def rolls(self, rollout: Rollout) -> None:
        """Let an update be under way."""
        self.state.workloads.put(
            replace(self.record, rollout=rollout), expected_revision=self.record.revision
        )

    @property
    def record(self) -> WorkloadRecord:
        record = self.state.workloads.get(KEY)
        assert record is not None
        return record


def submit(generation: int = 1, replicas: int = 4, **spec: Any) -> dict[str, Any]:
    wanted = workload_manifest(KEY, replicas, {"cpu": "90"}, generation=generation, **spec)
    return {"action": "submit", "workload": wanted}


def withdraw(generation: int = 1) -> dict[str, Any]:
    return {
        "action": "withdraw",
        "workload": {
            "metadata": {"name": "train", "namespace": "research", "generation": generation}
        },
    }


def release(node_claim: str = "nc-1", replicas: int = 2) -> dict[str, Any]:
    return {
        **withdraw(),
        "action": "release",
        "nodeClaim": node_claim,
        "replicas": replicas,
    }


def test_a_submit_is_pending_from_now_on() -> None:
    world = World()

    assert world.send(submit())
    assert (world.record.pending_count, world.record.pending_since) == (4, START)
    assert world.record.workload is not None
    assert world.record.workload.requests["cpu"] == 90_000


def test_a_repeat_and_an_older_generation_change_nothing() -> None:
    world = World()
    world.send(submit(generation=2))
    written = world.state.write_count

    assert not world.send(submit(generation=2))
    assert not world.send(submit(generation=1, replicas=9))
    assert world.state.write_count == written


def test_other_content_under_a_generation_that_is_taken_is_refused_and_changes_nothing() -> (
    None
):
    world = World()
    world.send(submit(generation=2))
    written = world.state.write_count

    with pytest.raises(ManifestError) as error:
        world.send(submit(generation=2, replicas=9))

    (problem,) = error.value.problems
    assert (problem.rule, problem.suggestion) == ("generation-taken", "3")
    assert world.state.write_count == written


def test_a_submit_that_its_withdraw_overtook_is_no_conflict() -> None:
    world = World()
    world.send(withdraw(generation=2))

    assert not world.send(submit(generation=2))
    assert not world.send(submit(generation=2, replicas=9))


def test_an_update_keeps_the_clock_of_replicas_that_wait() -> None:
    world = World()
    world.send(submit())
    world.clock.advance(minutes=5)

    assert world.send(submit(generation=2, replicas=6))
    assert (world.record.pending_count, world.record.pending_since) == (6, START)


def test_an_update_of_a_satisfied_workload_starts_the_clock() -> None:
    world = World()
    world.send(submit(replicas=0))
    assert world.record.pending_since is None
    later = world.clock.advance(minutes=5)

    world.send(submit(generation=2))
    assert world.record.pending_since == later


def test_a_withdraw_leaves_a_tombstone_that_older_submits_do_not_pass() -> None:
    world = World()
    assert world.send(withdraw(generation=3))

    assert not world.send(submit(generation=3))
    assert world.record.withdrawn
    assert world.record.expires_at == START + TOMBSTONE_KEPT
    assert world.send(submit(generation=4))
    assert world.record.pending_count == 4
    assert world.record.expires_at is None


def test_a_withdraw_keeps_the_row_while_replicas_run() -> None:
    world = World()
    world.send(submit())
    world.state.workload_rows[KEY] = replace(world.record, placed_count=3)

    world.send(withdraw())
    assert (world.record.surplus_count, world.record.expires_at) == (3, None)
    assert world.record.needs_planning


def test_a_withdraw_older_than_the_workload_is_ignored() -> None:
    world = World()
    world.send(submit(generation=5))

    assert not world.send(withdraw(generation=4))
    assert not world.record.withdrawn


MESSAGES = [submit(1, 4), submit(2, 8), withdraw(2), submit(3, 5), withdraw(1)]


@given(
    st.permutations(range(len(MESSAGES))),
    st.lists(st.integers(0, len(MESSAGES) - 1), max_size=4),
)
def test_the_order_and_number_of_deliveries_do_not_matter(
    order: list[int], again: list[int]
) -> None:
    world = World()
    for index in itertools.chain(order, again):
        world.send(MESSAGES[index])

    assert (
        world.record.generation,
        world.record.withdrawn,
        world.record.pending_count,
    ) == (3, False, 5)


def test_a_withdraw_and_a_submit_of_one_generation_commute_towards_withdrawn() -> None:
    for messages in itertools.permutations([submit(2), withdraw(2)]):
        world = World()
        for message in messages:
            world.send(message)
        assert world.record.pending_count == 0
        assert world.record.withdrawn


def test_a_conflict_says_who_wrote_last_and_when() -> None:
    world = World()
    world.answer(submit(generation=2), sent_by="AROAEXAMPLE:ada")
    with pytest.raises(ManifestError) as caught:
        world.answer(submit(generation=2, replicas=9), sent_by="AROAEXAMPLE:bob")

    (problem,) = caught.value.problems
    assert "by 'AROAEXAMPLE:ada'" in problem.message
    assert START.isoformat() in problem.message
    assert world.record.sent_by == "AROAEXAMPLE:ada"


def test_a_release_goes_to_the_drain_protocol() -> None:
    world = World()

    assert not world.send(release())
    assert world.releases == [(KEY, "nc-1", 2, START)]


def test_a_pool_that_nobody_defined_is_refused_with_a_suggestion() -> None:
    world = World()

    with pytest.raises(ManifestError) as caught:
        world.send(submit(nodeSelector={"karpenter.sh/nodepool": "gpus"}))

    (problem,) = caught.value.problems
    assert problem.suggestion == "gpu"
    assert "nodeSelector" in problem.path
    assert world.state.workload_rows == {}
    assert world.send(submit(nodeSelector={"karpenter.sh/nodepool": "gpu"}))


def test_what_is_wanted_is_decided_on_the_row_as_it_is_when_it_is_written() -> None:
    world = World()
    world.send(submit())

    original = world.state.workloads.get
    reads = iter([True])

    def get(key: str) -> WorkloadRecord | None:
        record = original(key)
        if record is not None and next(reads, False):
            world.state.workload_rows[KEY] = replace(
                record, placed_count=1, revision=record.revision + 1
            )
        return record

    world.state.workloads.get = get  # type: ignore[method-assign] # its first read sees the row before it moves
    assert world.send(submit(generation=2, replicas=6))
    assert (world.record.placed_count, world.record.pending_count) == (1, 5)
    assert world.record.submitted_at == START


def told(world: World, **messages: dict[str, Any]) -> None:
    """Apply messages by their ids, and tell their senders."""
    world.intake.publish_answers(
        {message_id: world.answer(body) for message_id, body in messages.items()}
    )


def test_a_sender_hears_that_its_message_was_applied() -> None:
    world = World()
    told(world, first=submit(), second=withdraw(), third=release())

    generation_1 = {"namespace": "research", "name": "train", "generation": 1}
    assert world.bus.of("Workload Accepted") == [
        {"version": 1, "messageId": "first", "action": "submit", "workload": generation_1},
        {
            "version": 1,
            "messageId": "second",
            "action": "withdraw",
            "workload": generation_1,
        },
        {
            "version": 1,
            "messageId": "third",
            "action": "release",
            "workload": {"namespace": "research", "name": "train"},
        },
    ]
    assert world.bus.of("Workload Ignored") == []


@pytest.mark.parametrize(
    ("before", "message", "reason", "stored"),
    [
        ([submit(2)], submit(2), "Unchanged", 2),
        ([withdraw(2)], withdraw(2), "Unchanged", 2),
        ([submit(2)], submit(1, replicas=9), "OlderGeneration", 2),
        ([submit(3)], withdraw(2), "OlderGeneration", 3),
        ([submit(1), withdraw(4)], withdraw(3), "OlderGeneration", 4),
        ([submit(2), withdraw(2)], submit(2), "Withdrawn", 2),
        ([withdraw(3)], submit(1), "Withdrawn", 3),
    ],
)
def test_a_sender_hears_why_its_message_changed_nothing(
    before: list[dict[str, Any]], message: dict[str, Any], reason: str, stored: int
) -> None:
    world = World()
    for earlier in before:
        world.send(earlier)
    told(world, late=message)

    (ignored,) = world.bus.of("Workload Ignored")
    assert (ignored["messageId"], ignored["reason"], ignored["storedGeneration"]) == (
        "late",
        reason,
        stored,
    )
    assert world.bus.of("Workload Accepted") == []


def test_a_release_that_no_node_waits_for_is_ignored() -> None:
    world = World()
    told(world, late=release("nc-gone"))

    (ignored,) = world.bus.of("Workload Ignored")
    assert (ignored["action"], ignored["reason"]) == ("release", "NotAwaited")
    assert "storedGeneration" not in ignored


def test_nothing_is_told_of_a_batch_in_which_nothing_was_understood() -> None:
    world = World()
    told(world)
    assert world.bus.events == []


def test_a_workload_is_followed_by_the_message_that_it_began_with() -> None:
    world = World()
    bodies = [submit(), submit(), submit(generation=2, replicas=5), release(), withdraw(2)]
    answers = [
        world.answer(body, message_id=f"m-{number}") for number, body in enumerate(bodies)
    ]
    assert {answer.workload.correlation_id for answer in answers} == {"m-0"}
    assert world.record.correlation_id == "m-0"


def test_what_is_wanted_again_after_a_withdraw_is_followed_anew() -> None:
    world = World()
    world.answer(withdraw(), message_id="m-0")
    assert world.record.correlation_id == "m-0"
    answer = world.answer(submit(generation=2), message_id="m-1")
    assert (answer.workload.correlation_id, world.record.correlation_id) == ("m-1", "m-1")


def test_what_replicas_were_placed_with_is_kept_when_the_spec_changes() -> None:
    world = World()
    world.send(submit(1))
    world.send(submit(2, priority=5))  # nothing of it runs
    assert world.placed(2).record.former[-1].priority == 0
    world.send(submit(3, replicas=5, priority=5))
    assert [each.generation for each in world.record.former] == [1]
    world.send(submit(4, priority=7))
    assert [(each.generation, each.priority) for each in world.record.former] == [
        (1, 0),
        (3, 5),
    ]


def test_an_update_of_fewer_replicas_surges_no_more_than_fewer_may() -> None:
    world = World()
    strategy = {"rollingUpdate": {"maxSurge": "25%"}}
    world.send(submit(1, replicas=6, strategy=strategy))
    world.placed(6)
    world.rolls(Rollout(surge_count=2))
    world.send(submit(2, replicas=6, priority=5, strategy=strategy))
    assert world.record.surge_count == 2
    world.send(submit(3, replicas=2, priority=5, strategy=strategy))
    assert world.record.surge_count == 1
    world.send(submit(4, replicas=0, priority=5, strategy=strategy))
    world.send(submit(5, replicas=2, priority=5, strategy=strategy))
    assert world.record.surge_count == 0, "the next pass counts it anew"


@pytest.mark.parametrize("replicas", [6, 7])
def test_an_update_with_a_smaller_surge_keeps_to_it_at_once(replicas: int) -> None:
    world = World()
    world.send(submit(1, replicas=6, strategy={"rollingUpdate": {"maxSurge": "100%"}}))
    world.placed(6)
    world.rolls(Rollout(surge_count=6))
    smaller = {"rollingUpdate": {"maxSurge": 1}}
    world.send(submit(2, replicas=replicas, strategy=smaller))
    assert world.record.surge_count == 1


def test_an_update_of_the_same_bounds_keeps_a_surge_that_one_node_needs() -> None:
    world = World()
    strategy = {"rollingUpdate": {"maxSurge": 1}}
    world.send(submit(1, replicas=6, strategy=strategy))
    world.placed(6)
    world.rolls(Rollout(surge_count=3))
    world.send(submit(2, replicas=5, priority=5, strategy=strategy))
    assert world.record.surge_count == 3


def test_more_earlier_specs_than_are_kept_are_refused_while_they_run() -> None:
    world = World()
    world.send(submit(1))
    world.placed(4)
    for generation in range(2, 6):
        world.send(submit(generation, priority=generation))
    with pytest.raises(ManifestError, match="rollout-under-way"):
        world.send(submit(6, priority=6))
    assert world.record.generation == 5
    world.send(submit(6, replicas=2, priority=5))  # the same terms
    world.placed(0)
    world.send(submit(7, priority=7))
    assert len(world.record.former) == 4


def too_large(world: World) -> Workload:
    """What an earlier release may have stored, and DynamoDB takes no more when a byte is added."""
    known = world.record.workload
    assert known is not None
    return replace(known, annotations={"note": "x" * 410_000})


def test_what_is_larger_than_a_row_is_refused_by_the_name_of_the_bound() -> None:
    world = World()
    world.send(submit())
    longer = replace(world.record, former=(too_large(world),))
    world.state.workload_rows[KEY] = longer

    with pytest.raises(ManifestError, match="stored bytes"):
        world.send(submit(2, replicas=5))
    assert world.record == longer


def test_what_an_earlier_release_stored_too_large_can_be_withdrawn() -> None:
    world = World()
    world.send(submit())
    before = too_large(world)
    world.state.workload_rows[KEY] = replace(world.record, workload=before)

    assert world.send(withdraw()) == KEY
    assert (world.record.withdrawn, world.record.pending_count) == (True, 0)
    assert world.record.workload == replace(before, annotations={})
