"""Recovery, played on the embedded AWS with the commands of docs/runbook.md; the tests tell one story in their order.

Each ends with the fleet that ran before, and with a ledger whose counters are the leases that claims hold.
"""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import DeployedReservoir, make_network
from lab.fakes.manifests import workload_manifest
from lab.story.world import World
from reservoir.cli.deployment.account import Account
from reservoir.cli.deployment.connect import deployed
from reservoir.cli.deployment.deploy import Deploy
from reservoir.deployment.deployment import read, table_field
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import LEASE_KEY, Function, Table, output_name
from tests.deployment.embedded_cdk import EmbeddedCdk, delete_stack

pytestmark = pytest.mark.embedded

POLICY: Final = Path(__file__).parents[2] / "examples" / "demo" / "policy.yaml"
SETTINGS: Final = {
    "stack": "Reservoir",
    "manifests": "policy",
    "instanceRole": "reservoir-node",
}
UNITS: Final = 3
EMPTIED: Final = (Table.NODE_CLAIMS, Table.WORKLOADS)
SWEEPS: Final = (
    Function.DISCOVER_RESERVATIONS,
    Function.COLLECT,
    Function.EXPIRE,
    Function.DISRUPT,
)


class Recovery:
    """One deployment with a fleet on a reservation, and the operator's commands."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.aws = aws
        self.path = folder / "production.yaml"
        self.path.write_text(json.dumps(SETTINGS))
        (folder / "policy").mkdir()
        shutil.copy(POLICY, folder / "policy")
        self.cdk = EmbeddedCdk(aws, self.path)
        self.world = self._deployed()

    def deploy(self) -> None:
        """``make deploy``."""
        self.world = self._deployed()

    def _deployed(self) -> World:
        connect = partial(deployed, self.aws.client)
        Deploy(read(self.path), Account(self.aws.client), connect, self.cdk, print).run(())
        reservoir = DeployedReservoir(report=print)
        reservoir.aws, reservoir.outputs = self.aws, self.cdk.outputs
        return World(reservoir)

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """``python -m reservoir --deployment production ...``."""
        done = self.world.command("--deployment", str(self.path), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def restore(self, *arguments: str) -> dict[str, str]:
        """``reservoir deployment restore``; return what it says to write into the settings."""
        said: dict[str, dict[str, str]] = yaml.safe_load(
            self.command("deployment", "restore", *arguments).stdout
        )
        return said["tables"]

    def adopt(self, tables: dict[str, str]) -> None:
        """Write tables into the settings, deploy, and say that they are right."""
        settings = json.loads(self.path.read_text())
        settings["tables"] = {**settings.get("tables", {}), **tables}
        self.path.write_text(json.dumps(settings))
        self.deploy()
        self.command("tables", "adopt", "--reason", "restored after OPS-123", "--yes")

    def fleet(self) -> set[str]:
        """The instances that run."""
        return {instance.id for instance in self.world.look().live()}

    def rows(self, name: str) -> list[dict[str, Any]]:
        pages = self.aws.client("dynamodb").get_paginator("scan").paginate(TableName=name)
        return [row for page in pages for row in page["Items"]]

    def sweep(self) -> None:
        """Let every function that could end something run, a while later."""
        self.aws.clock.advance(timedelta(minutes=15), coalesce=True)
        for function in SWEEPS:
            self.world.reservoir.invoke(function)

    def check(self, fleet: set[str]) -> None:
        """The fleet lives, each instance has its live claim, and counters are what claims lease."""
        self.sweep()
        self.aws.clock.pause()  # what is read one after the other is of one instant
        self.aws.clock.settle()
        assert self.fleet() == fleet
        rows = self.rows(self.table(Table.NODE_CLAIMS))
        claimed = {
            row["instance_id"]["S"]
            for row in rows
            if "instance_id" in row and "listing" in row
        }
        assert claimed == fleet
        leased = Counter(row[LEASE_KEY]["S"] for row in rows if LEASE_KEY in row)
        for row in self.rows(self.table(Table.RESERVATIONS)):
            if "outstanding_count" in row:
                outstanding, available, free = (
                    int(row[name]["N"])
                    for name in ("outstanding_count", "available_count", "free_units")
                )
                assert (outstanding, free) == (
                    leased[row["id"]["S"]],
                    available - outstanding,
                )
        self.aws.clock.resume()

    def submit(self, name: str, replicas: int = 1) -> None:
        """Send work that may only run on the reservation."""
        requests, where = (
            {"cpu": "1200m", "memory": "4Gi"},
            {"karpenter.sh/capacity-type": "reserved"},
        )
        workload = workload_manifest(
            f"story/{name}", replicas, requests, generation=1, nodeSelector=where
        )
        self.world.send({"action": "submit", "workload": workload})

    def lose(self, table: Table) -> None:
        """Let somebody delete a table."""
        dynamodb, name = self.aws.client("dynamodb"), self.table(table)
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName=name)

    def lose_with_its_backup(self, table: Table) -> None:
        """Let somebody delete a table that DynamoDB makes no backup of."""
        off = {"PointInTimeRecoveryEnabled": False}
        self.aws.client("dynamodb").update_continuous_backups(
            TableName=self.table(table), PointInTimeRecoverySpecification=off
        )
        self.lose(table)

    def refused(self, *arguments: str) -> str:
        """``reservoir deployment restore`` that is refused and makes nothing; return what it says."""
        tables = self.aws.client("dynamodb").list_tables()["TableNames"]
        done = self.world.command(
            "--deployment", str(self.path), "deployment", "restore", *arguments
        )
        assert done.returncode != 0
        assert self.aws.client("dynamodb").list_tables()["TableNames"] == tables
        return " ".join(done.stderr.split())

    def table(self, table: Table) -> str:
        """The name of a table in use."""
        return self.world.output(table)


def ids(rows: list[dict[str, Any]]) -> set[str]:
    return {row["id"]["S"] for row in rows}


@pytest.fixture(scope="module")
def recovery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recovery]:
    with EmbeddedAws() as aws:
        make_network(aws)
        yield Recovery(aws, tmp_path_factory.mktemp("deployments"))
        print(aws.log())  # noqa: T201 - pytest shows it beside a failure


@pytest.fixture(scope="module")
def fleet(recovery: Recovery) -> set[str]:
    """Two replicas that fill two of three units."""
    recovery.world.reserve("general", "m7i.large", "us-east-1a", UNITS, "general")
    recovery.world.discover()
    recovery.submit("first", 2)
    recovery.world.until("both run", lambda seen: len(seen.live("running")) == 2)
    return recovery.fleet()


def test_a_stack_that_was_deleted_under_a_fleet_is_not_deployed_anew_beside_its_tables(
    recovery: Recovery, fleet: set[str]
) -> None:
    recovery.check(fleet)
    recovery.aws.client("cloudformation").update_termination_protection(
        StackName="Reservoir", EnableTerminationProtection=False
    )
    recovery.aws.client("events").remove_targets(
        Rule="everything", EventBusName="reservoir", Ids=["tap"]
    )
    recovery.aws.client("events").delete_rule(Name="everything", EventBusName="reservoir")
    delete_stack(recovery.aws, "Reservoir")
    with pytest.raises(ManifestError) as refused:
        recovery.deploy()
    for table in Table:
        assert (
            f"tables.{table_field(table)}: an earlier stack Reservoir left {recovery.table(table)}"
            in str(refused.value)
        )


def test_redeployed_under_its_name_with_its_tables_it_goes_on(
    recovery: Recovery, fleet: set[str]
) -> None:
    recovery.adopt({table_field(table): recovery.table(table) for table in Table})
    recovery.check(fleet)


def test_tables_restored_to_an_instant_before_somebody_emptied_them_end_nothing(
    recovery: Recovery, fleet: set[str]
) -> None:
    recovery.aws.clock.pause()  # nobody writes meanwhile
    recovery.aws.clock.settle()
    instant, before = (
        recovery.world.now(),
        {table: ids(recovery.rows(recovery.table(table))) for table in EMPTIED},
    )
    recovery.aws.clock.advance(timedelta(seconds=2))
    dynamodb = recovery.aws.client("dynamodb")
    for table in EMPTIED:
        for row in recovery.rows(recovery.table(table)):
            dynamodb.delete_item(TableName=recovery.table(table), Key={"id": row["id"]})
    recovery.aws.clock.resume()
    recovery.sweep()
    assert recovery.fleet() == fleet, "an empty table is no word on what is wanted"
    restored = recovery.restore(
        "--at", f"{instant + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
    )
    for table in EMPTIED:
        assert ids(recovery.rows(restored[table_field(table)])) >= before[table]
    recovery.adopt(restored)
    recovery.check(fleet)


def test_the_last_unit_is_leased_once_after_a_restore(
    recovery: Recovery, fleet: set[str]
) -> None:
    recovery.submit("second", 2)
    recovery.world.until("one more runs", lambda seen: len(seen.live("running")) == UNITS)
    recovery.check(recovery.fleet())
    assert len(recovery.fleet()) == UNITS
    assert recovery.fleet() > fleet


@pytest.mark.parametrize("lost", [Table.NODE_CLAIMS, Table.RESERVATIONS, Table.WORKLOADS])
def test_a_table_that_was_lost_comes_back_from_its_backup(
    recovery: Recovery, lost: Table
) -> None:
    fleet, name = recovery.fleet(), recovery.table(lost)
    recovery.lose(lost)
    recovery.aws.clock.advance(timedelta(minutes=15), coalesce=True)
    assert recovery.fleet() == fleet, "what cannot be read says nothing"
    with pytest.raises(ManifestError, match=f"tables.{table_field(lost)}: {name}"):
        recovery.deploy()
    recovery.adopt(recovery.restore("--table", table_field(lost)))
    recovery.check(fleet)


def test_what_is_adopted_must_be_fit(recovery: Recovery) -> None:
    settings = recovery.path.read_text()
    changed = json.loads(settings)
    dynamodb, name = recovery.aws.client("dynamodb"), recovery.table(Table.DECISIONS)
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=name, TargetTableName="bare", UseLatestRestorableTime=True
    )
    changed["tables"]["decisions"] = "bare"
    changed["tables"]["policy"] = "missing"
    recovery.path.write_text(json.dumps(changed))
    with pytest.raises(ManifestError) as refused:
        recovery.deploy()
    said = str(refused.value)
    assert "tables.policy: missing does not exist" in said
    for flaw in (
        "is not protected from deletion",
        "does not expire rows",
        "has no point-in-time recovery",
    ):
        assert f"tables.decisions: bare {flaw}" in said
    recovery.path.write_text(settings)


def test_names_of_outputs_are_the_tables_in_use(recovery: Recovery) -> None:
    adopted = read(recovery.path).tables
    assert adopted == {table: recovery.cdk.outputs[output_name(table)] for table in Table}


def test_an_instant_that_no_table_can_be_restored_to_is_refused_before_anything_is_made(
    recovery: Recovery,
) -> None:
    assert "can be restored to instants from" in recovery.refused(
        "--at", "2020-01-01T00:00Z"
    )


# in this order: nothing forgets the second
@pytest.mark.parametrize("lost", [Table.RESERVATIONS, Table.NODE_CLAIMS])
def test_without_a_backup_an_empty_table_is_adopted_and_the_fleet_runs_on(
    recovery: Recovery, lost: Table
) -> None:
    fleet, name = recovery.fleet(), recovery.table(lost)
    recovery.lose_with_its_backup(lost)
    assert (
        f"{name} does not exist, and DynamoDB has no backup of it: --empty makes"
        in recovery.refused()
    )
    assert "--empty needs --table, and cannot be used with --at" in recovery.refused(
        "--empty"
    )
    recovery.adopt(recovery.restore("--table", table_field(lost), "--empty"))
    assert recovery.rows(recovery.table(lost)) != [], "the mark at least"
    if lost is Table.RESERVATIONS:
        recovery.check(fleet)
        assert [
            row for row in recovery.rows(recovery.table(lost)) if "outstanding_count" in row
        ] != []
    else:
        recovery.sweep()
        assert recovery.fleet() == fleet, (
            "they are older than the marks, and nothing says who launched them"
        )
