"""What an event of the bus is about, and the part of it that is kept for each object."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from reservoir.core.history.past_event import EventError, PastEvent, outcome_of, parse_event
from reservoir.core.history.summary import subject, summary
from reservoir.manifests.event_parts import Event
from tests.manifests.test_events import ONE_OF_EACH

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


REQUESTED = "Operation Requested"


def event(detail: Mapping[str, Any], detail_type: str = "Workload Placed") -> PastEvent:
    return PastEvent("e-1", AT, detail_type, detail)


def placed(*claims: str) -> dict[str, Any]:
    return {
        "workload": {"namespace": "research", "name": "train", "generation": 1},
        "nodes": [
            {"nodeClaim": claim, "capacityReservationId": "cr-1", "nodePool": "gpu"}
            for claim in claims
        ],
    }


def test_a_placement_is_about_the_workload_its_nodes_and_their_reservation() -> None:
    assert event(placed("nc-2", "nc-1")).objects() == (
        "node/nc-1",
        "node/nc-2",
        "reservation/cr-1",
        "workload/research/train",
    )


def test_an_offering_that_was_only_near_is_not_what_happened() -> None:
    waiting = {
        "workload": {"namespace": "a", "name": "b"},
        "nearestOffering": {"capacityReservationId": "cr-1"},
    }
    assert event(waiting).objects() == ("workload/a/b",)


def test_failed_claims_are_named_one_by_one() -> None:
    assert event({"nodeClaims": ["nc-1", "nc-2"]}).objects() == ("node/nc-1", "node/nc-2")


def test_changed_policy_is_named_by_its_kind() -> None:
    changes = [
        {"kind": kind, "name": "gpu"} for kind in ("NodePool", "EC2NodeClass", "Team")
    ]
    assert event({"changes": changes}).objects() == (
        "ec2nodeclass/gpu",
        "nodepool/gpu",
        "team/gpu",
    )


def test_a_class_that_launches_nothing_and_a_team_that_spends_are_named() -> None:
    assert event({"nodeClass": "gpu", "reason": "x"}, "Launches Blocked").objects() == (
        "ec2nodeclass/gpu",
    )
    assert event({"team": "vision", "month": "2026-01"}, "Team Share").objects() == (
        "team/vision",
    )
    of_a_node = {"node": {"nodeClaim": "nc-1", "nodeClass": "gpu"}}
    assert event(of_a_node).objects() == ("node/nc-1",), (
        "not each node's event is one of its class"
    )


@pytest.mark.parametrize("told", ONE_OF_EACH, ids=lambda told: str(told.detail_type))
def test_each_event_is_a_sentence_and_no_list_of_fields(told: Event) -> None:
    said = summary(event(told.detail(), told.detail_type))
    assert " " in said
    assert not re.search(r"\b[a-z]+[A-Z][A-Za-z]* ", said), "a field's name is no word"
    assert "None" not in said
    assert "?" not in said


def test_a_team_s_money_is_told_in_usd() -> None:
    detail = {
        "team": "vision",
        "quotas": [{"reservations": "p5", "used": 3, "nominal": 4}],
        "month": "2026-01",
        "spentMicroUsd": 1_234_500_000,
        "forecastMicroUsd": 2_000_000,
    }
    said = "uses 3 of 4 units of p5; spent 1,234.50 USD in 2026-01, forecast 2.00 USD"
    assert summary(event(detail, "Team Share")) == said


@pytest.mark.parametrize(
    ("verb", "name", "about"),
    [
        ("cordon", "nc-1", "node/nc-1"),
        ("delete", "nc-1", "node/nc-1"),
        ("pause", "gpu", "nodepool/gpu"),
        ("reset", "research/train", "workload/research/train"),
    ],
)
def test_what_somebody_asked_by_hand_is_told_of_what_it_was_asked_for(
    verb: str, name: str, about: str
) -> None:
    asked = event(
        {"verb": verb, "names": [name], "by": "arn:aws:iam::1:user/ada", "reason": "OPS-7"},
        REQUESTED,
    )
    assert asked.objects() == (about,)
    assert (subject(asked), summary(asked)) == (
        about,
        f"{verb}: OPS-7, by arn:aws:iam::1:user/ada",
    )


def test_a_request_for_several_nodes_says_how_many_and_by_when() -> None:
    asked = event(
        {
            "verb": "drain",
            "names": ["nc-1", "nc-2"],
            "by": "ada",
            "reason": "x",
            "deadline": "10m",
        },
        REQUESTED,
    )
    assert summary(asked) == "drain 2 within 10m: x, by ada"
    assert asked.about("node/nc-2").detail["names"] == ["nc-2"]


def test_of_many_nodes_each_keeps_its_own_part() -> None:
    about = event(placed("nc-1", "nc-2", "nc-3")).about("node/nc-2")
    assert [node["nodeClaim"] for node in about.detail["nodes"]] == ["nc-2"]
    assert about.detail["workload"]["name"] == "train"


def test_a_list_that_does_not_name_the_object_stays_whole() -> None:
    detail = {
        "node": {"nodeClaim": "nc-1"},
        "workloads": [{"namespace": "a", "name": name} for name in "xy"],
    }
    assert event(detail).about("node/nc-1").detail == detail
    assert [
        each["name"] for each in event(detail).about("workload/a/y").detail["workloads"]
    ] == ["y"]


@pytest.mark.parametrize("told", ONE_OF_EACH, ids=lambda told: str(told.detail_type))
def test_every_kind_of_event_that_names_an_object_is_found_by_it(told: Event) -> None:
    names = event(told.detail(), told.detail_type).objects()
    keys = (
        "'nodeClaim",
        "'namespace'",
        "apacityReservationId'",
        "'changes'",
        "'verb'",
        "'nodeClass'",
        "'team'",
    )
    assert bool(names) == any(key in str(told.detail()) for key in keys)


def test_what_was_told_within_a_second_comes_in_the_order_of_life() -> None:
    kinds = [
        "Node Launched",
        "Node Draining",
        "Workload Placed",
        "Something New",
        "Workload Accepted",
    ]
    told = [PastEvent(f"e-{number}", AT, kind, {}) for number, kind in enumerate(kinds)]
    assert [each.detail_type for each in sorted(told, key=lambda each: each.order)] == [
        "Workload Accepted",
        "Workload Placed",
        "Node Launched",
        "Node Draining",
        "Something New",
    ]


def delivered(**changes: Any) -> dict[str, Any]:
    return {
        "id": "e-1",
        "time": "2026-01-15T12:00:00Z",
        "detail-type": "Node Launched",
        "detail": {},
    } | changes


def test_an_event_is_read_as_eventbridge_delivers_it() -> None:
    assert parse_event(delivered()) == PastEvent("e-1", AT, "Node Launched", {})


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"id": "e 1"},
        {"time": "noon"},
        {"time": "2026-01-15T12:00:00"},
        {"detail": []},
        {"detail-type": 1},
    ],
    ids=str,
)
def test_what_is_no_event_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EventError):
        parse_event(delivered(**changes))


def test_an_event_tells_of_namespaces_pools_and_what_became_of_its_object() -> None:
    workload = {"namespace": "research", "name": "train"}
    told = event(
        {"workload": workload, "nodes": [{"nodeClaim": "nc-1", "nodePool": "gpu"}]},
        "Workload Placed",
    )
    changed = event(
        {"changes": [{"kind": "NodePool", "name": "cpu", "change": "updated"}]},
        "Policy Changed",
    )
    assert ({*told.namespaces()}, {*told.node_pools()}, told.outcome) == (
        {"research"},
        {"gpu"},
        "placed",
    )
    assert ({*changed.namespaces()}, {*changed.node_pools()}, changed.outcome) == (
        set(),
        {"cpu"},
        "changed",
    )
    assert outcome_of("Node Capacity Type Changed") == "capacity-type-changed"


def test_a_node_that_moved_in_says_where_it_is_and_whose_unit_that_is() -> None:
    node = {"instanceType": "p5.48xlarge", "capacityType": "reserved", "zone": "us-east-1c"}
    told = {"node": node, "splitFrom": "cr-1"}
    assert (
        summary(event(told, "Node Moved Into Reservation"))
        == "moved in without a restart: is now p5.48xlarge reserved in us-east-1c, in a unit of cr-1"
    )


def test_leaving_spot_says_until_when_and_why() -> None:
    told = {"until": "2026-01-15T13:00:00Z", "reason": "it costs more", "times": 1}
    assert (
        summary(event(told, "Workload Left Spot"))
        == "placed without spot until 2026-01-15T13:00:00Z: it costs more"
    )


def test_instants_are_told_to_the_second() -> None:
    drain = {"reason": "Requested", "deadline": "2026-01-15T12:14:46.116897Z"}
    assert (
        summary(event(drain, "Node Draining"))
        == "drains until 2026-01-15T12:14:46Z: Requested"
    )
    idle = {
        "idleCount": 1,
        "totalCount": 2,
        "instanceType": "m5.large",
        "idleSince": "2026-01-15T12:00:00Z",
    }
    assert (
        summary(event(idle, "Reservation Idle"))
        == "1 of 2 units of m5.large idle since 2026-01-15T12:00:00Z"
    )
