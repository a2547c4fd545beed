"""An upgrade and its rollback, deployed: whole functions of two releases, one after the other, on one fleet.

The code of the previous release (``tests/upgrades``) is put in the place of this one's, as CloudFormation does when an
update is rolled back, while everything else stays: rows, messages, timers, instances. The tests tell one story in
their order.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from infra.assets.bundle import CODE
from infra.naming import function_name
from shared.names import ANY_FUNCTION, DEPLOYMENT, ROWS_UNREADABLE, Function, Table
from tests.deployed.story.policies import one_type_pool, write_manifests
from tests.deployed.story.world import World
from tests.test_tidy import ROOT
from tests.upgrades.conftest import previous

__all__ = ["previous"]

pytestmark = pytest.mark.embedded

TYPE: Final = "m7i.2xlarge"
ZONE: Final = "us-east-1a"
UNITS: Final = 2


class Fleet:
    """The story's fleet: which release runs it, and what is wanted of it."""

    def __init__(self, world: World, releases: Mapping[str, bytes]) -> None:
        self.world, self.releases = world, releases
        self.wanted: dict[str, int] = {}
        self.code: dict[Function, str] = dict.fromkeys(Function, "as it was deployed")

    def run_by(self, release: str) -> None:
        """Put a release's code in the place of what runs; what is under way ends as it began."""
        for function in Function:
            name = function_name(self.world.output(DEPLOYMENT), function)
            before = self.code[function]
            changed = self.world.aws.client("lambda").update_function_code(
                FunctionName=name, ZipFile=self.releases[release]
            )
            self.code[function] = changed["CodeSha256"]
            assert self.code[function] != before, "another release runs from now on"

    def submit(self, name: str, replicas: int, generation: int = 1) -> None:
        """Ask for replicas that fill a node each."""
        self.wanted[name] = replicas
        self.world.send({"action": "submit", "workload": workload(name, replicas, generation)})

    def withdraw(self, name: str) -> None:
        del self.wanted[name]
        self.world.send({"action": "withdraw", "workload": workload(name, 0, 1)})

    def settle(self) -> set[str]:
        """Wait until everything that is wanted runs, and nothing else; return the instances."""
        count = sum(self.wanted.values())
        self.world.until(f"{count} run", lambda seen: len(seen.live("running")) == count == len(seen.live()))
        return self.instances()

    def instances(self) -> set[str]:
        return {instance.id for instance in self.world.look().live()}

    def rows(self, table: Table, listed: str | None = None) -> list[dict[str, Any]]:
        """Return a table's rows, or those under a listing key."""
        pages = self.world.aws.client("dynamodb").get_paginator("scan").paginate(TableName=self.world.output(table))
        found = [row for page in pages for row in page["Items"]]
        return [row for row in found if listed is None or row.get("listing") == {"S": listed}]


def workload(name: str, replicas: int, generation: int) -> dict[str, Any]:
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"namespace": "upgrade", "name": name, "generation": generation},
        "spec": {
            "replicas": replicas,
            "resources": {"requests": {"cpu": "6", "memory": "10Gi"}},
            "nodeSelector": {"story": "kept", "topology.kubernetes.io/zone": ZONE},
        },
    }


def code_of(root: Path) -> bytes:
    """Return the code asset of the release that lies there."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (path for folder in CODE for path in sorted((root / folder).rglob("*.py"))):
            archive.write(path, path.relative_to(root))
    return content.getvalue()


@pytest.fixture(scope="module")
def fleet(world: World, previous: Path, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    world.reserve("kept", TYPE, ZONE, UNITS, "kept")
    manifests = one_type_pool("kept", TYPE, ["reserved", "on-demand"])
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))
    return Fleet(world, {"old": code_of(previous), "new": code_of(ROOT)})


def test_the_previous_release_launches_a_fleet(fleet: Fleet) -> None:
    fleet.run_by("old")
    fleet.world.discover()
    fleet.submit("first", 3)  # two units, and one more
    assert len(fleet.settle()) == 3


def test_this_release_takes_it_over_and_goes_on(fleet: Fleet) -> None:
    before = fleet.instances()
    fleet.run_by("new")
    fleet.world.aws.clock.advance(timedelta(minutes=16), coalesce=True)  # sweeps, passes and a round of the collector
    fleet.submit("second", 1)
    assert fleet.settle() > before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_launch_that_one_release_began_the_other_finishes(fleet: Fleet, moment: str) -> None:
    """Rolled back while the launch function dies: its message, its attempt and perhaps its instances are the newer."""
    before = fleet.instances()
    launch = function_name(fleet.world.output(DEPLOYMENT), Function.LAUNCH)
    fleet.world.aws.fault("kill", service="ec2", operation="CreateFleet", function=launch, moment=moment)
    fleet.submit(f"killed-{moment}", 2)
    fleet.world.until("the launch has begun", lambda _: len(attempts(fleet)) == 1)
    fleet.run_by("old")
    fleet.world.aws.clock.advance(timedelta(minutes=8))  # the message comes back
    assert fleet.settle() > before
    fleet.run_by("new")


def attempts(fleet: Fleet) -> list[Any]:
    """Return the attempts of launches that are not over."""
    return [row for row in fleet.rows(Table.NODE_CLAIMS) if "phase" in row and row["phase"] != {"N": "2"}]


def test_the_previous_release_ends_what_this_one_launched_and_nothing_else(fleet: Fleet) -> None:
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
    seen = fleet.world.until("each has its tag", lambda seen: all(instance.claim_id for instance in seen.live()))
    claims = [instance.claim_id for instance in seen.live()]
    assert sorted(row["id"]["S"] for row in fleet.rows(Table.NODE_CLAIMS, "live")) == sorted(map(str, claims))
    placed = {
        row["id"]["S"]: (row["placed_count"], row["open_count"])
        for row in fleet.rows(Table.WORKLOADS, None)
        if "placed_count" in row
    }
    for name, replicas in fleet.wanted.items():
        assert placed[f"upgrade/{name}"] == ({"N": str(replicas)}, {"N": "0"})
    (held,) = fleet.rows(Table.RESERVATIONS, "current")
    assert held["outstanding_count"] == {"N": "0"}
    drained = {place["name"] for event in fleet.world.events("Node Draining") for place in event["workloads"]}
    assert drained <= {"first", "second"}, "nobody else was told to go"
    assert len({event["drainId"] for event in fleet.world.events("Node Draining")}) == 2


def test_rows_of_a_release_to_come_are_left_alone_and_counted_and_stop_nobody(fleet: Fleet) -> None:
    """As after a rollback from it: a claim in a form of its own, and a kind of policy that nobody here knows."""
    before = fleet.instances()
    dynamodb = fleet.world.aws.client("dynamodb")
    claim = fleet.rows(Table.NODE_CLAIMS, "live")[0] | {"form": {"N": "99"}}
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
    lines = [json.loads(line) for line in log.splitlines() if ROWS_UNREADABLE in line and '"_aws"' in line]
    return any(line["service"] == ANY_FUNCTION and sum(line[ROWS_UNREADABLE]) > 0 for line in lines)
