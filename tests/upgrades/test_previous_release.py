"""Expand, then contract: functions of two releases work on the same rows while a deployment replaces one by one.

The previous release's code is the commit in ``PREVIOUS_RELEASE``, run as it was, in a process of its own.
"""

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from lab.fakes.system import ManualClock
from lab.local import ministack
from lab.local.stores import INDEXES, LISTING
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.workloads import DynamoDbWorkloadStore
from reservoir.ports.state import UnreadableRowsError
from tests.upgrades.conftest import ReleaseProcess

pytestmark = pytest.mark.embedded

LIFE = (
    "submit",
    "observe",
    "plan",
    "launch",
    "plan",
    "run",
    "observe",
    "launch",
    "observe",
)
END = {
    "claims": {"nc-0": "running", "nc-1": "launched"},
    "instances": ["i-nc-0", "i-nc-1"],
    "leases": 0,
    "placed": 2,
    "waiting": ["research/train"],
    "outstanding": 0,
    "free": 2,
}
NOW = "2026-01-15T12:00:00+00:00"
_numbers = itertools.count()


class Tables:
    """Fresh tables, and the two releases that work on them."""

    def __init__(self, dynamodb: Any, releases: Mapping[str, ReleaseProcess]) -> None:
        self.dynamodb, self.releases = dynamodb, releases
        number = next(_numbers)
        self.names = {
            name: f"{name}-{number}"
            for name in ("workloads", "reservations", "node-claims")
        }
        for name, table in self.names.items():  # with the indexes of both
            ministack.create_table(
                dynamodb, table, indexes={**INDEXES.get(name, {}), **LISTING}
            )

    def play(self, release: str, step: str) -> dict[str, Any]:
        """Let a release do a step; return what it sees afterwards."""
        return self.releases[release].play(self.names, step)

    def change(self, table: str, key: str, **changes: object) -> None:
        """Change the JSON of a row as a release to come would: ``changes`` are fields, nested ones by path a__b."""
        row = self.row(table, key)
        value = json.loads(row["data"]["S"])
        for path, item in changes.items():
            *outer, name = path.split("__")
            inner = value
            for part in outer:
                inner = inner[part]
            inner[name] = item
        row["data"] = {"S": json.dumps(value)}
        self.dynamodb.put_item(TableName=self.names[table], Item=row)

    def row(self, table: str, key: str) -> dict[str, Any]:
        item: dict[str, Any] = self.dynamodb.get_item(
            TableName=self.names[table], Key={"id": {"S": key}}, ConsistentRead=True
        )["Item"]
        return item

    def data(self, table: str, key: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.row(table, key)["data"]["S"])
        return value


@pytest.fixture
def tables(dynamodb: Any, releases: Mapping[str, ReleaseProcess]) -> Tables:
    return Tables(dynamodb, releases)


# What the previous release writes over when it writes such a row, and why nothing hangs on it.
LOST_ON_THE_WAY_BACK: Mapping[tuple[str, str], str] = {
    (
        "CapacityReservation",
        "refusal",
    ): "kept beside the facts until the next observation, which ends it anyway",
    ("CapacityReservation", "lent"): "observed anew by the next discovery",
    (
        "CapacityReservation",
        "unused_billing_owner_id",
    ): "observed anew by the next discovery",
    ("CapacityReservation", "is_launchable"): "observed anew by the next discovery",
    ("CapacityReservation", "network_nodes"): "asked for again by the next discovery",
    ("LaunchAttempt", "unanswered_at"): "the attempt is adopted after six minutes",
    ("LaunchAttempt", "unanswered_code"): "told of a launch that is given up",
    (
        "LaunchRequest",
        "reclaim_group_arn",
    ): "lost: its nodes count as launched at no group, and are replaced by restart",
    (
        "NodeClassStatus",
        "reclaim_group_arn",
    ): "lost with the older release's next writing; the next discovery finds it again",
    (
        "NodeClaim",
        "reclaim_group_arn",
    ): "kept as it is; the older release replaces such a node by restart",
    (
        "LaunchRequest",
        "node_class_hash",
    ): "empty: a refusal is then held against the class as it is now",
    (
        "NodeClaim",
        "team",
    ): "kept as it is; the older release launches without the team's tag",
    (
        "NodeClaim",
        "is_static",
    ): "kept as it is; the older release knows no static pools and ends such a node when idle",
    (
        "NodeClaim",
        "is_warm",
    ): "kept as it is; the older release knows no warm nodes and ends such a node when idle",
    (
        "NodeClaim",
        "placed_with",
    ): "kept as it is; replicas that the older release adds count as the oldest",
    (
        "NodeClaim",
        "successions",
    ): "kept as it is; replicas that the older release places hold nothing, and overlap as they did",
    (
        "Workload",
        "handover",
    ): "kept as it is; the older release hands nothing over",
    (
        "Workload",
        "rolling_update",
    ): "kept as it is; under the older release what runs stays",
    (
        "WorkloadRecord",
        "rollout",
    ): "kept as it is; the older release takes a surge for surplus, and takes it off",
    ("NodeClassStatus", "resting_markets"): "never stored: gathered anew for each plan",
    (
        "NodeClassStatus",
        "launch_blocked_until",
    ): "never stored: gathered anew for each plan",
    (
        "NodeClassStatus",
        "validation",
    ): "lost with the older release's next writing; this release asks EC2 again",
    (
        "WorkloadRecord",
        "former",
    ): "kept as it is; the older release asks what is wanted now, as it always did",
}
# A row with a member that the previous release does not know cannot be read by it: it leaves the row alone.
UNREAD_ON_THE_WAY_BACK: Mapping[tuple[str, str], str] = {
    (
        "ConditionType",
        "ValidationSucceeded",
    ): "stored in an attribute of its own, which the older one does not read",
    (
        "DrainReason",
        "ScaledDown",
    ): "only while a static pool lets nodes go, or a warm node ends; the older release knows neither",
}
KEEPING = {
    "NodeClaim",
    "GangSeat",
    "Lease",
    "Drain",
    "Succession",
    "WorkloadRecord",
    "Workload",
}


def test_what_the_previous_release_would_lose_is_known_and_harmless(
    releases: Mapping[str, ReleaseProcess],
) -> None:
    """Values within values keep no fields that they do not know, but for those of ``KEEPING``.

    A new field that must outlive a rollback belongs to a value that keeps what it does not know.
    """
    old, new = (releases[release].play({}, "fields") for release in ("old", "new"))
    grown = {
        (kind, name)
        for kind in new.keys() & old.keys()
        for name in set(new[kind]) - set(old[kind])
    }
    new_members = {
        (kind.removesuffix(" members"), name)
        for kind, name in grown
        if kind.endswith(" members")
    }
    assert {item for item in grown if not item[0].endswith(" members")} == set(
        LOST_ON_THE_WAY_BACK
    )
    assert new_members == set(UNREAD_ON_THE_WAY_BACK)
    assert {kind for kind in new if "unknown" in new[kind]} == KEEPING


@pytest.mark.parametrize(
    ("title", "turns"),
    [
        (
            "functions are replaced one by one",
            ("old", "new", "old", "new", "old", "new", "old", "new", "old"),
        ),
        (
            "the other way round",
            ("new", "old", "new", "old", "new", "old", "new", "old", "new"),
        ),
        ("new code on old rows", ("old",) * 4 + ("new",) * 5),
        ("old code on new rows", ("new",) * 4 + ("old",) * 5),
        (
            "an upgrade that is rolled back in the middle, and made again",
            ("old",) * 2 + ("new",) * 3 + ("old",) * 2 + ("new",) * 2,
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else None,
)
def test_two_releases_bring_one_life_to_the_same_end(
    title: str, turns: tuple[str, ...], tables: Tables
) -> None:
    for release, step in zip(turns, LIFE, strict=True):
        tables.play(release, step)
    assert tables.play("old", "look") == tables.play("new", "look") == END, title


def test_this_release_keeps_what_only_the_next_understands(tables: Tables) -> None:
    for step in ("submit", "observe", "plan"):
        tables.play("new", step)
    tables.change(
        "node-claims", "nc-0", quota_borrowed_from="team-b", lease__paid_by="team-b"
    )
    drain = {
        "id": "d",
        "reason": "Interruption",
        "notified_at": NOW,
        "deadline": NOW,
        "asked_by": "ops",
    }
    tables.change("node-claims", "nc-0", drain=drain)
    tables.change("workloads", "research/train", team="a", workload__preemptible=True)
    for step in ("launch", "run", "observe", "plan"):
        tables.play("new", step)
    kept = tables.data("node-claims", "nc-0")
    assert kept["quota_borrowed_from"] == kept["lease"]["paid_by"] == "team-b"
    assert kept["drain"]["asked_by"] == "ops"
    assert tables.data("workloads", "research/train")["team"] == "a"
    assert tables.data("workloads", "research/train")["workload"]["preemptible"] is True
    assert tables.data("node-claims", "nc-0")["state"] == "running"


@pytest.mark.parametrize(
    "change",
    [{"state": "hibernating"}, {"drain": {"reason": "Hibernation"}}, {"form": 99}],
    ids=["state", "drain", "form"],
)
def test_a_row_that_cannot_be_read_is_left_alone_and_never_absent(
    change: dict[str, object], tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    for step in ("submit", "observe", "plan", "launch", "plan"):
        tables.play("new", step)
    if "form" in change:
        row = {**tables.row("node-claims", "nc-0"), "form": {"N": "99"}}
        tables.dynamodb.put_item(TableName=tables.names["node-claims"], Item=row)
    else:
        tables.change("node-claims", "nc-0", **change)
    before = tables.row("node-claims", "nc-0")

    claims = DynamoDbNodeClaimStore(
        tables.dynamodb,
        node_claims_table=tables.names["node-claims"],
        reservations_table=tables.names["reservations"],
        workloads_table=tables.names["workloads"],
        clock=ManualClock(),
    )
    assert [claim.id for claim in claims.list_live()] == ["nc-1"], "the others go on"
    assert "row nc-0 is left alone, it cannot be read" in caplog.text
    for ask in (
        lambda: claims.get("nc-0"),
        lambda: claims.get_many(["nc-0", "nc-1"]),
        lambda: claims.find_by_instance(["i-nc-0"]),
    ):
        with pytest.raises(UnreadableRowsError, match="nc-0"):
            ask()
    assert tables.row("node-claims", "nc-0") == before


def test_a_workload_that_cannot_be_read_is_left_alone_and_never_absent(
    tables: Tables,
) -> None:
    tables.play("new", "submit")
    tables.change("workloads", "research/train", workload__replicas="many", generation="x")
    row = {**tables.row("workloads", "research/train"), "form": {"N": "99"}}
    tables.dynamodb.put_item(TableName=tables.names["workloads"], Item=row)
    workloads = DynamoDbWorkloadStore(
        tables.dynamodb, tables.names["workloads"], ManualClock()
    )
    assert workloads.list_needing_planning() == ()
    with pytest.raises(UnreadableRowsError, match="research/train"):
        workloads.get("research/train")
