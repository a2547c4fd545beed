"""Messages that are meant to harm others: each is refused by name, and the neighbour goes on as it did."""

import json
from functools import partial
from pathlib import Path

import pytest

from lab.fakes.manifests import team_manifest
from lab.story.people import all_refused
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import (
    DEPLOYMENT,
    EVENT_BUS,
    EVENT_SOURCE,
    Function,
    function_name,
)
from tests.deployed.hostile.tenants import Tenants, annotated, demand, move_in

pytestmark = pytest.mark.embedded

OWNED = demand("vision/owned", "1")
RUBBISH = [{f"labelSelecto{number:03}": 1 for number in range(390)} for _ in range(9)]
ELSEWHERE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {},
                "namespaces": ["vision"],
                "topologyKey": "topology.kubernetes.io/zone",
            }
        ]
    }
}


@pytest.fixture(scope="module")
def tenants(world: World, tmp_path_factory: pytest.TempPathFactory) -> Tenants:
    """Vision has one replica on one node, and loses neither in all that follows."""
    bounded = {"limits": {"replicas": 10, "priority": 10, "generationJump": 100}}
    pool = one_type_pool("shop", "m5.xlarge", ["on-demand"])
    found = move_in(world, tmp_path_factory.mktemp("policy"), pool, bounded, {})
    found.placed(found.vision, OWNED)
    world.until(
        "it runs", lambda seen: any(each.state == "running" for each in seen.live())
    )
    return found


def test_a_row_that_would_be_full_is_refused_by_the_bounds_name(tenants: Tenants) -> None:
    padded = annotated(demand("audio/padded", "1"), {"padding": "x" * 20_000})
    assert tenants.rules_against(tenants.audio, padded) == {"annotation bytes"}


def test_terms_without_end_are_refused_by_the_bounds_name(tenants: Tenants) -> None:
    tolerations = [{"key": f"key-{number}", "operator": "Exists"} for number in range(100)]
    terms = demand("audio/terms", "1", tolerations=tolerations)  # and the pool's label
    assert tenants.rules_against(tenants.audio, terms) == {"constraints"}


def test_a_message_of_nearly_a_megabyte_is_refused_unread(tenants: Tenants) -> None:
    large = annotated(
        demand("audio/large", "1"), {f"key-{number}": "x" * 60_000 for number in range(15)}
    )
    assert tenants.rules_against(tenants.audio, large) == {"size"}


def test_a_message_that_is_nested_without_end_is_refused_unread(tenants: Tenants) -> None:
    assert tenants.rules_against(tenants.stranger, "[" * 50_000 + "]" * 50_000) == {"depth"}


def test_a_number_that_is_too_large_is_refused(tenants: Tenants) -> None:
    assert tenants.rules_against(tenants.stranger, demand("none/number", "9" * 5_000))


def test_a_storm_of_rubbish_brings_no_neighbour_to_the_dead_letters(
    tenants: Tenants,
) -> None:
    rubbish = demand("none/rubbish", "1", topologySpreadConstraints=RUBBISH)
    storm = {tenants.send(tenants.stranger, rubbish) for _ in range(40)}
    tenants.placed(tenants.vision, demand("vision/neighbour", "100m"))
    tenants.world.until(
        "all rubbish is refused", lambda _: tenants.refused().keys() >= storm
    )
    assert "vision" not in json.dumps(tenants.world.events("Workload Rejected"))


def test_who_is_of_no_team_has_ceilings_too(tenants: Tenants) -> None:
    assert tenants.rules_against(
        tenants.stranger, demand("none/crowd", "1m", replicas=1_000_000)
    ) == {"team-limit"}
    assert tenants.rules_against(
        tenants.stranger, demand("none/first", "1m", priority=2**31 - 1)
    )


def test_a_team_puts_itself_before_others_no_further_than_its_limit(
    tenants: Tenants,
) -> None:
    assert tenants.rules_against(
        tenants.audio, demand("audio/first", "1", priority=11)
    ) == {"team-limit"}


def test_no_message_uses_up_the_generations_of_a_name(tenants: Tenants) -> None:
    last = demand("audio/poisoned", "1", action="withdraw", generation=2**53 - 1)
    named = {**last, "workload": {"metadata": last["workload"]["metadata"]}}
    assert tenants.rules_against(tenants.audio, named) == {"generation-jump"}
    assert tenants.rules_against(tenants.stranger, named) == {"not-permitted"}


def test_required_affinity_keeps_no_other_team_out_of_a_zone(tenants: Tenants) -> None:
    wall = demand("audio/wall", "100m", affinity=ELSEWHERE)
    assert tenants.rules_against(tenants.audio, wall) == {"not-permitted"}
    assert tenants.rules_against(
        tenants.stranger, demand("none/wall", "100m", affinity=ELSEWHERE)
    ) == {"not-permitted"}


def test_nobody_takes_back_what_another_team_wants(tenants: Tenants) -> None:
    withdrawn = {
        "action": "withdraw",
        "workload": {"metadata": {"namespace": "vision", "name": "owned"}},
    }
    for who in (tenants.audio, tenants.stranger):
        assert tenants.rules_against(who, withdrawn) == {"not-permitted"}


def test_what_a_message_says_of_its_sender_counts_for_nothing(tenants: Tenants) -> None:
    said = {"SenderId": {"DataType": "String", "StringValue": tenants.vision.arn}}
    update = demand("vision/owned", "1", action="update", generation=2, replicas=0)
    assert tenants.rules_against(tenants.stranger, update, MessageAttributes=said) == {
        "not-permitted"
    }


def test_a_message_that_was_overheard_is_nobody_elses_to_send_again(
    tenants: Tenants,
) -> None:
    assert tenants.rules_against(tenants.audio, OWNED) == {"not-permitted"}


def test_nobody_gives_up_the_place_of_another_teams_replica(tenants: Tenants) -> None:
    metadata = {"namespace": "vision", "name": "owned"}
    release = {
        "action": "release",
        "workload": {"metadata": metadata},
        "nodeClaim": tenants.node_of("vision/owned"),
    }
    assert tenants.rules_against(tenants.audio, release) == {"not-permitted"}


def test_a_name_that_only_looks_like_a_neighbours_is_no_name(tenants: Tenants) -> None:
    lookalikes = (
        "Vision/owned",
        "vision /owned",
        "visi\u043en/owned",
        "audio/vision@1",
        "audio/../vision/owned",
    )
    sent = {
        tenants.send(who, demand(key, "1"))
        for key in lookalikes
        for who in (tenants.audio, tenants.stranger)
    }
    tenants.world.until("all are refused", lambda _: tenants.refused().keys() >= sent)


def test_a_message_that_says_twice_whose_workload_it_is_about_is_refused(
    tenants: Tenants,
) -> None:
    own, theirs = (
        json.dumps(demand(key, "1")["workload"]) for key in ("audio/own", "vision/owned")
    )
    for first, second in ((own, theirs), (theirs, own)):
        twice = f'{{"action": "submit", "workload": {first}, "workload": {second}}}'
        assert tenants.rules_against(tenants.audio, twice) == {"duplicate"}


def test_no_team_takes_a_namespace_that_is_anothers(
    tenants: Tenants, tmp_path: Path
) -> None:
    thieves = team_manifest(
        "thieves", namespaces=["vision"], principals=[tenants.audio.arn]
    )
    done = tenants.world.command("apply", "-f", str(write_manifests(tmp_path, [thieves])))
    assert done.returncode != 0
    assert "vision" in done.stdout + done.stderr


def test_few_terms_with_values_without_end_are_refused_by_the_bounds_name(
    tenants: Tenants,
) -> None:
    terms = [
        {
            "key": "node.kubernetes.io/instance-type",
            "operator": "NotIn",
            "values": [f"type-{term}-{number}" for number in range(500)],
        }
        for term in range(5)
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": terms}]
            }
        }
    }
    product = demand("audio/product", "1", affinity=affinity)
    assert tenants.rules_against(tenants.audio, product) == {"constraint values"}


def test_what_was_believed_is_no_door_for_what_would_have_been_refused(
    tenants: Tenants,
) -> None:
    """Each is the second message of a workload whose first one was believed."""
    tenants.placed(tenants.audio, demand("audio/later", "100m"))
    for body, rule in (
        (demand("audio/later", "100m", generation=2, affinity=ELSEWHERE), "not-permitted"),
        (demand("audio/later", "100m", generation=2, priority=11), "team-limit"),
        (demand("audio/later", "100m", generation=2, replicas=11), "team-limit"),
        (
            annotated(demand("audio/later", "100m", generation=2), {"pad": "x" * 20_000}),
            "annotation bytes",
        ),
    ):
        assert tenants.rules_against(tenants.audio, body) == {rule}


def test_an_update_that_replaces_what_runs_ends_no_neighbours_node(
    tenants: Tenants,
) -> None:
    """Audio lets its replica be replaced as often as it likes, on the node where vision works."""
    strategy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}
    node = tenants.placed(tenants.audio, demand("audio/rolls", "100m", strategy=strategy))
    assert node == tenants.node_of("vision/owned")
    for generation in (2, 3):
        again = demand(
            "audio/rolls", f"{generation}00m", generation=generation, strategy=strategy
        )
        tenants.accepted(tenants.audio, again)

    def is_left(_: object) -> bool:
        said = tenants.world.command("explain", "workload", "audio/rolls").stdout
        return "other work runs there, too" in said

    tenants.world.until("the update leaves the node alone", is_left)
    assert node not in tenants.world.look().drains


def test_no_sender_tells_facts_or_calls_what_changes_policy_and_nodes(
    tenants: Tenants,
) -> None:
    audio, bus = tenants.audio, tenants.world.output(EVENT_BUS)
    deployment = tenants.world.output(DEPLOYMENT)
    fact = {
        "EventBusName": bus,
        "Source": EVENT_SOURCE,
        "DetailType": "Node Draining",
        "Detail": "{}",
    }
    all_refused(
        [
            partial(audio.client("events").put_events, Entries=[fact]),
            *(
                partial(
                    audio.client("lambda").invoke,
                    FunctionName=function_name(deployment, function),
                    Payload=b"{}",
                )
                for function in Function
            ),
        ]
    )


def test_no_escape_of_a_message_reaches_a_terminal(tenants: Tenants) -> None:
    tenants.accepted(
        tenants.audio,
        annotated(demand("audio/loud", "100m"), {"note": "\x1b[2J\x1b]0;owned\x07"}),
    )
    for shown in (
        ("describe", "workload", "audio/loud"),
        ("get", "workloads", "-A", "-o", "json"),
    ):
        done = tenants.world.command(*shown)
        assert (done.returncode, "audio" in done.stdout, "\x1b" in done.stdout) == (
            0,
            True,
            False,
        ), shown


def test_after_all_that_the_neighbour_runs_where_it_ran(tenants: Tenants) -> None:
    node = tenants.node_of("vision/owned")
    seen = tenants.world.look()
    assert seen.placed["vision/owned"] == 1
    assert node not in seen.drains
    assert seen.launched.keys() == {node}, "one node had room for everybody"
