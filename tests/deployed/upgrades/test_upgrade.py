"""An upgrade and its rollback, deployed: whole functions of two releases, one after the other, on one fleet.

The code of the previous release (``tests/upgrades``) is put in the place of this one's, as CloudFormation does when an
update is rolled back, while everything else stays: rows, messages, timers, instances. The tests tell one story in
their order.
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.naming import function_name
from lab.embedded.deploy import deploy
from lab.embedded.reservoir import Synthesis
from lab.story.world import World
from reservoir.names import (
    ANY_FUNCTION,
    DEPLOYMENT,
    ROWS_UNREADABLE,
    Function,
    Table,
    indexes,
)
from tests.deployed.upgrades.releases import Fleet, code_of
from tests.test_tidy import ROOT
from tests.upgrades.conftest import previous

__all__ = ["previous"]

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def fleet(world: World, previous: Path, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    fleet = Fleet(world, {"old": code_of(previous), "new": code_of(ROOT)})
    fleet.make(tmp_path_factory.mktemp("policy"))
    return fleet


def test_the_previous_release_launches_a_fleet(fleet: Fleet) -> None:
    fleet.run_by("old")
    fleet.world.discover()
    fleet.submit("first", 3)  # two units, and one more
    assert len(fleet.settle()) == 3


def test_this_release_takes_it_over_and_goes_on(fleet: Fleet) -> None:
    before = fleet.instances()
    fleet.run_by("new")
    # sweeps, passes and a round of the collector
    fleet.world.aws.clock.advance(timedelta(minutes=16), coalesce=True)
    fleet.submit("second", 1)
    assert fleet.settle() > before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_launch_that_one_release_began_the_other_finishes(
    fleet: Fleet, moment: str
) -> None:
    """Rolled back while the launch function dies: its message, its attempt and perhaps its instances are the newer."""
    before = fleet.instances()
    launch = function_name(fleet.world.output(DEPLOYMENT), Function.LAUNCH)
    fleet.world.aws.fault(
        "kill", service="ec2", operation="CreateFleet", function=launch, moment=moment
    )
    fleet.submit(f"killed-{moment}", 2)
    fleet.world.until("the launch has begun", lambda _: len(attempts(fleet)) == 1)
    fleet.run_by("old")
    fleet.world.aws.clock.advance(timedelta(minutes=8))  # the message comes back
    assert fleet.settle() > before
    fleet.run_by("new")


def attempts(fleet: Fleet) -> list[Any]:
    """Return the attempts of launches that are not over."""
    return [
        row
        for row in fleet.rows(Table.NODE_CLAIMS)
        if "phase" in row and row["phase"] != {"N": "2"}
    ]


def test_the_previous_release_ends_what_this_one_launched_and_nothing_else(
    fleet: Fleet,
) -> None:
    before = fleet.instances()
    fleet.run_by("old")
    fleet.withdraw("second")
    fleet.submit("first", 2, generation=2)  # one replica less
    fleet.world.aws.clock.advance(timedelta(minutes=4))
    after = fleet.settle()
    assert after < before
    assert len(before - after) == 2


def test_forward_again_nothing_is_lost_doubled_or_ended(fleet: Fleet) -> None:
    before = fleet.instances()
    fleet.run_by("new")
    fleet.world.aws.clock.advance(timedelta(minutes=16), coalesce=True)
    assert fleet.settle() == before
    seen = fleet.world.until(
        "each has its tag", lambda seen: all(instance.claim_id for instance in seen.live())
    )
    claims = [instance.claim_id for instance in seen.live()]
    assert sorted(
        row["id"]["S"] for row in fleet.rows(Table.NODE_CLAIMS, "live")
    ) == sorted(map(str, claims))
    placed = {
        row["id"]["S"]: (row["placed_count"], row["open_count"])
        for row in fleet.rows(Table.WORKLOADS, None)
        if "placed_count" in row
    }
    for name, replicas in fleet.wanted.items():
        assert placed[f"upgrade/{name}"] == ({"N": str(replicas)}, {"N": "0"})
    (held,) = fleet.rows(Table.RESERVATIONS, "current")
    assert held["outstanding_count"] == {"N": "0"}
    drained = {
        place["name"]
        for event in fleet.world.events("Node Draining")
        for place in event["workloads"]
    }
    assert drained <= {"first", "second"}, "nobody else was told to go"
    assert len({event["drainId"] for event in fleet.world.events("Node Draining")}) == 2


def test_the_second_update_takes_the_older_indexes_away_and_nothing_is_missed(
    fleet: Fleet,
) -> None:
    before = fleet.instances()
    assert "listing" in fleet.indexes(Table.NODE_CLAIMS) & fleet.indexes(Table.WORKLOADS)
    deploy(Synthesis({}).finish(), fleet.world.aws.client, print)
    for table in (Table.NODE_CLAIMS, Table.WORKLOADS):
        assert fleet.indexes(table) == set(indexes(table))
        assert "listing" not in fleet.indexes(table)
    fleet.submit("third", 1)
    assert fleet.settle() > before


def test_rows_of_a_release_to_come_are_left_alone_and_counted_and_stop_nobody(
    fleet: Fleet,
) -> None:
    """As after a rollback from it: a claim in a form of its own, and a kind of policy that nobody here knows."""
    before = fleet.instances()
    dynamodb = fleet.world.aws.client("dynamodb")
    stored = fleet.rows(Table.NODE_CLAIMS, "live")[0]
    # As every write does: what is known at a revision is not read again.
    claim = stored | {
        "form": {"N": "99"},
        "revision": {"N": str(int(stored["revision"]["N"]) + 1)},
    }
    dynamodb.put_item(TableName=fleet.world.output(Table.NODE_CLAIMS), Item=claim)
    policy = {"id": {"S": "KindToCome/x"}, "form": {"N": "99"}, "listing": {"S": "policy"}}
    dynamodb.put_item(TableName=fleet.world.output(Table.POLICY), Item=policy)
    fleet.world.aws.clock.advance(timedelta(minutes=16), coalesce=True)
    fleet.submit("later", 1)
    assert fleet.settle() > before
    assert claim in fleet.rows(Table.NODE_CLAIMS)
    assert {Function.PROVISION, Function.EXPIRE, Function.COLLECT} <= {
        function for function in Function if has_counted_rows(fleet.world.log(function))
    }


def has_counted_rows(log: str) -> bool:
    """Whether a function has counted rows that it cannot read, where the one alarm for all functions looks."""
    lines = [
        json.loads(line)
        for line in log.splitlines()
        if ROWS_UNREADABLE in line and '"_aws"' in line
    ]
    return any(
        line["service"] == ANY_FUNCTION and sum(line[ROWS_UNREADABLE]) > 0 for line in lines
    )
