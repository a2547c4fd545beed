"""How much one may send; what is beyond it is refused by the bound's name and changes nothing."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.messaging import MemoryBus, MemoryDeadLetters
from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import ManualClock
from reservoir.core.model.team import Team, TeamLimits
from reservoir.core.serialisation.json_codec import dumps
from reservoir.manifests.parsing.problems import ManifestError, Problem
from reservoir.usecases.demand.reject_demand import (
    REJECTIONS_PUBLISHED_PER_MINUTE,
    RejectDemand,
)
from tests.usecases.demand.test_authorise_demand import OWN, RELEASE, RESEARCH, Teams
from tests.usecases.demand.test_intake import submit, withdraw

OTHER = Team("vision", namespaces=("vision", "vision-ci"))


def with_limits(**limits: Any) -> Teams:
    return Teams(
        replace(RESEARCH, limits=TeamLimits(**limits)),
        replace(OTHER, limits=TeamLimits(**limits)),
    )


def named(name: str, body: dict[str, Any], namespace: str = "research") -> dict[str, Any]:
    metadata = {**body["workload"]["metadata"], "name": name, "namespace": namespace}
    return {**body, "workload": {**body["workload"], "metadata": metadata}}


def padded(body: dict[str, Any], size: int) -> dict[str, Any]:
    metadata = {**body["workload"]["metadata"], "annotations": {"note": "x" * size}}
    return {**body, "workload": {**body["workload"], "metadata": metadata}}


def bound(world: Teams, body: dict[str, Any], sender: str = OWN) -> str:
    """The name of the bound that refuses a message."""
    with pytest.raises(ManifestError) as caught:
        world.by(sender, body)
    (problem,) = caught.value.problems
    assert problem.rule == "bound"
    return problem.message.partition(":")[0]


def test_one_sends_so_many_messages_a_minute_and_takes_demand_back_all_the_same() -> None:
    world = with_limits(messages_per_minute=2)
    world.by(OWN, submit())
    world.by(OWN, submit())
    assert bound(world, submit(2)) == "messages per minute"
    assert world.by(OWN, withdraw(2)).ignored is None
    assert bound(world, RELEASE) == "messages per minute", "nor does this go on for ever"
    world.by(OWN, named("x", submit(), "vision"))

    world.clock.advance(minutes=1)
    assert world.by(OWN, submit(3)).ignored is None


def test_what_strangers_send_uses_up_nothing_of_a_team() -> None:
    world = with_limits(messages_per_minute=1)
    for _ in range(3):
        world.refused("AROASTRANGER:x", submit())
    assert world.by(OWN, submit()).ignored is None


def test_so_many_workloads_of_a_team_wait_at_a_time() -> None:
    world = with_limits(waiting_workloads=2)
    world.by(OWN, named("a", submit(), "vision"))
    world.by(OWN, named("b", submit(), "vision-ci"))
    assert bound(world, named("c", submit(), "vision")) == "waiting workloads"
    assert world.by(OWN, named("a", submit(2, replicas=3), "vision")).ignored is None, (
        "it waits already"
    )
    assert world.by(OWN, named("d", submit(replicas=0), "vision")).ignored is None, (
        "it waits for nothing"
    )
    assert world.by(OWN, submit()).ignored is None, "others are not concerned"

    world.by(OWN, named("b", withdraw(), "vision-ci"))
    world.clock.advance(seconds=5)
    assert world.by(OWN, named("c", submit(), "vision")).ignored is None


def test_the_more_wait_the_smaller_they_are() -> None:
    first = Teams(OTHER)
    first.by(OWN, named("a", submit(), "vision"))
    small = len(dumps(first.state.workload_rows["vision/a"].workload))
    world = with_limits(waiting_workloads=100, waiting_bytes=3 * small + small // 2)
    for name in "abc":
        world.by(OWN, named(name, submit(), "vision"))
    assert bound(world, named("d", submit(), "vision")) == "waiting bytes"
    large = padded(submit(2, replicas=3), 1_000)
    assert bound(world, named("a", large, "vision")) == "waiting bytes", (
        "it waits and grows"
    )
    assert world.by(OWN, named("a", submit(3), "vision")).ignored is None
    assert world.by(OWN, padded(submit(), small)).ignored is None, (
        "others are not concerned"
    )

    for name in "abc":
        world.by(OWN, named(name, withdraw(4), "vision"))
    world.clock.advance(seconds=5)
    assert world.by(OWN, named("d", padded(submit(), small), "vision")).ignored is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3_000)), max_size=30))
def test_all_that_waits_of_a_team_has_a_few_times_the_bound(
    sent: list[tuple[int, int]],
) -> None:
    most, allowed = 6, 4_000
    world = with_limits(waiting_workloads=most, waiting_bytes=allowed)
    for generation, (name, padding) in enumerate(sent, 1):
        body = padded(submit(generation), padding)
        with suppress(ManifestError):
            world.by(OWN, named(f"w-{name}", body, "vision"))
    sizes = [len(dumps(row.workload)) for row in world.state.workload_rows.values()]
    assert sum(sizes) <= allowed * sum(1 / count for count in range(1, most + 1))


def test_where_too_many_of_all_wait_each_team_has_its_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reservoir.usecases.demand.sending_bounds.WAITING_OF_ALL", 6)
    world = Teams(RESEARCH, OTHER)
    for number in range(6):
        world.by(OWN, named(f"w-{number}", submit(), "vision"))
    assert bound(world, named("one-more", submit(), "vision")) == "waiting workloads of all"
    for name in "ab":
        world.by(OWN, named(name, submit()))
    assert bound(world, named("c", submit())) == "waiting workloads of all", "two of six"


def test_what_policy_lets_one_team_have_waiting_all_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reservoir.usecases.demand.sending_bounds.WAITING_OF_ALL", 1)
    world = with_limits(waiting_workloads=3)
    for name in "abc":
        world.by(OWN, named(name, submit(), "vision"))
    assert bound(world, named("d", submit(), "vision")) == "waiting workloads"


def test_so_many_workloads_of_a_team_are_new_in_a_day() -> None:
    world = with_limits(new_workloads_per_day=2)
    world.by(OWN, named("a", submit()))
    world.by(OWN, named("b", withdraw()))
    assert bound(world, named("c", submit())) == "new workloads per day"
    assert world.by(OWN, named("a", submit(2, replicas=3))).ignored is None, (
        "it is there already"
    )

    world.clock.advance(days=1)
    assert world.by(OWN, named("c", submit())).ignored is None


def test_namespaces_of_no_team_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = TeamLimits(waiting_workloads=2)
    monkeypatch.setattr("reservoir.core.model.team.CEILINGS", few)
    world = Teams(OTHER)
    world.by(OWN, named("a", submit(), "one"))
    world.by(OWN, named("a", submit(), "two"))
    assert bound(world, named("a", submit(), "three")) == "waiting workloads"


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (submit(priority=10**9 + 1), "team-limit"),
        (submit(replicas=100_001), "team-limit"),
        (submit(2**51 + 1), "generation-jump"),
        (withdraw(2**51 + 1), "generation-jump"),
    ],
)
def test_without_a_team_there_are_ceilings(body: dict[str, Any], rule: str) -> None:
    world = Teams(OTHER)
    assert [found for _, found in world.refused(OWN, body)] == [rule]
    assert world.by(OWN, submit(2**50, replicas=100_000, priority=10**9)).ignored is None


def test_a_team_may_choose_more_than_the_ceilings() -> None:
    assert with_limits(replicas=200_000).by(OWN, submit(replicas=150_000)).ignored is None


def test_of_the_refusals_of_one_sender_so_many_are_told() -> None:
    clock = ManualClock()
    letters, bus = MemoryDeadLetters(), MemoryBus()
    reject = RejectDemand(
        letters, bus, MemoryDemandCensus(MemoryState(clock).workloads, clock)
    )
    for number in range(REJECTIONS_PUBLISHED_PER_MINUTE + 5):
        reject.reject(
            f"m-{number}", "{", [Problem("", "json", "is not JSON")], "AROAONE:session"
        )
    assert len(bus.of("Workload Rejected")) == REJECTIONS_PUBLISHED_PER_MINUTE
    assert len(letters.letters) == REJECTIONS_PUBLISHED_PER_MINUTE + 5

    reject.reject("m-other", "{", [Problem("", "json", "is not JSON")], "AROATWO:session")
    clock.advance(minutes=1)
    reject.reject("m-later", "{", [Problem("", "json", "is not JSON")], "AROAONE:another")
    assert len(bus.of("Workload Rejected")) == REJECTIONS_PUBLISHED_PER_MINUTE + 2
