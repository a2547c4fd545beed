"""What proves, beside tags, that an instance is one of ours that nobody wants."""

from dataclasses import replace
from datetime import timedelta

from lab.fakes.system import START
from lab.fakes.values import node_claim
from lab.worlds.launch_world import ZONES, World, on_demand
from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchedInstance,
    LaunchOutcome,
)
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.safety.orphans import (
    ORPHAN_AFTER,
    Traces,
    is_proven,
    is_suspect,
    is_wanted,
)

INSTANCE = Instance(
    "i-1",
    "running",
    "m5.large",
    *ZONES[0],
    START,
    owner="test",
    batch_id="b-1",
    launch_template_id="lt-1",
)
NOTHING = Traces(None, None, frozenset(), START)


def attempt(*instance_ids: str, completed: bool = True) -> LaunchAttempt:
    """An attempt as a real launch records it, with other instances."""
    world = World()
    world.add_workload()
    world.running(1, on_demand("m5.large"))
    outcome = LaunchOutcome(
        tuple(LaunchedInstance(key, "m5.large", *ZONES[0]) for key in instance_ids)
    )
    return replace(world.attempts.rows["b-1"], outcome=outcome, completed=completed)


def test_only_what_runs_with_our_tags_for_ten_minutes_is_suspect() -> None:
    then = START + ORPHAN_AFTER
    assert is_suspect(INSTANCE, then)
    assert not is_suspect(INSTANCE, then - timedelta(seconds=1))
    assert not is_suspect(replace(INSTANCE, batch_id=None), then)
    assert not is_suspect(replace(INSTANCE, state="terminated"), then)


def test_tags_alone_prove_nothing() -> None:
    assert not is_wanted(NOTHING)
    assert not is_proven(INSTANCE, NOTHING)


def test_a_claim_that_ended_proves_it() -> None:
    ended = replace(NOTHING, claim=node_claim("nc-1", state=ClaimState.TERMINATED))
    assert not is_wanted(ended)
    assert is_proven(INSTANCE, ended)
    assert is_wanted(replace(NOTHING, claim=node_claim("nc-1", state=ClaimState.RUNNING)))


def test_the_launch_that_names_it_proves_it() -> None:
    assert is_proven(INSTANCE, replace(NOTHING, attempt=attempt("i-1")))
    assert not is_proven(INSTANCE, replace(NOTHING, attempt=attempt("i-2")))


def test_our_launch_template_proves_it() -> None:
    surplus = replace(NOTHING, attempt=attempt("i-2"), our_template_ids={"lt-1"})
    assert is_proven(INSTANCE, surplus)
    assert not is_proven(replace(INSTANCE, launch_template_id="lt-2"), surplus)
    assert not is_proven(replace(INSTANCE, launch_template_id=None), surplus)


def test_an_attempt_that_is_open_may_still_adopt_it() -> None:
    assert is_wanted(replace(NOTHING, attempt=attempt(completed=False)))


def test_what_is_older_than_the_mark_on_the_tables_is_not_for_them_to_judge() -> None:
    """Tables that were restored, and then adopted, may have forgotten why it was launched."""
    young_tables = replace(
        NOTHING, attempt=attempt("i-1"), tables_marked_at=START + timedelta(seconds=1)
    )
    assert not is_proven(INSTANCE, young_tables)
