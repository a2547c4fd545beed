"""New tables that can be adopted: restored ones, whose ledger is counted again, or empty ones."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from reservoir import names
from reservoir.adapters.dynamodb.ledger import AVAILABLE, FREE, OUTSTANDING
from reservoir.cli.deployment.account import Account
from reservoir.names import Table

Report = Callable[[str], None]

_LOOK_AGAIN_S: Final = 5.0
_NAME_MAX: Final = 255
# With eight such names all settings together are still within AWS's limits (tests/infra/limits/test_quotas.py).
_NAME_SHORT: Final = 80


class RestoreError(Exception):
    """A table cannot be restored; nothing was made."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Makes new tables for a deployment."""

    account: Account
    report: Report
    sleep: Callable[[float], None]  # seconds

    def run(
        self, sources: Mapping[Table, str], at: datetime | None, suffix: str
    ) -> dict[Table, str]:
        """Restore each source into a new table with a suffix; return their names.

        ``at`` None is the latest instant that all sources can be restored to. A source that was deleted is restored
        as it was then, from the backup that DynamoDB keeps of it for 35 days.

        Raises
        ------
        RestoreError
            A source cannot be restored to that instant, or was neither kept nor backed up.
        """
        targets = named_after(sources, suffix)
        standing = {
            table: name for table, name in sources.items() if self.account.has_table(name)
        }
        # All that can be refused is asked for before anything is made.
        instant = self._instant(standing.values(), at)
        backups = {
            table: self._backup_of(name)
            for table, name in sources.items()
            if table not in standing
        }
        for table, source in sources.items():
            if table in backups:
                self.report(f"{source} as it was when it was deleted -> {targets[table]}")
                self._dynamodb.restore_table_from_backup(
                    TargetTableName=targets[table], BackupArn=backups[table]
                )
            else:
                self.report(
                    f"{source} as of {instant:%Y-%m-%dT%H:%M:%SZ} -> {targets[table]}"
                )
                self._dynamodb.restore_table_to_point_in_time(
                    SourceTableName=source,
                    TargetTableName=targets[table],
                    RestoreDateTime=instant,
                )
        for name in targets.values():
            self._finish(name)
        if Table.RESERVATIONS in targets and Table.NODE_CLAIMS in targets:
            self._recount(targets[Table.RESERVATIONS], targets[Table.NODE_CLAIMS])
        return targets

    def make_empty(self, sources: Mapping[Table, str], suffix: str) -> dict[Table, str]:
        """Make an empty table in place of each source, named after it with a suffix; return their names."""
        targets = named_after(sources, suffix)
        for table, name in targets.items():
            self.report(f"an empty table -> {name}")
            self._dynamodb.create_table(
                TableName=name, BillingMode="PAY_PER_REQUEST", **_schema(table)
            )
        for name in targets.values():
            self._finish(name)
        return targets

    @property
    def _dynamodb(self) -> Any:
        return self.account.clients("dynamodb")

    def _instant(self, standing: Iterable[str], at: datetime | None) -> datetime | None:
        """Return the instant to restore, ``at`` or else the latest of all; None when there is no table."""
        windows: dict[str, tuple[datetime, datetime]] = {}
        for name in standing:
            backups = self._dynamodb.describe_continuous_backups(TableName=name)[
                "ContinuousBackupsDescription"
            ]
            recovery = backups["PointInTimeRecoveryDescription"]
            if recovery["PointInTimeRecoveryStatus"] != "ENABLED":
                raise RestoreError(f"{name} has no point-in-time recovery")
            windows[name] = (
                recovery["EarliestRestorableDateTime"],
                recovery["LatestRestorableDateTime"],
            )
        instant = at or min((last for _, last in windows.values()), default=None)
        for name, (first, last) in windows.items():
            if instant is not None and not first <= instant <= last:
                raise RestoreError(
                    f"{name} can be restored to instants from {_utc(first)} to {_utc(last)}, not to {_utc(instant)}"
                )
        return instant

    def _backup_of(self, source: str) -> str:
        pages = self._dynamodb.get_paginator("list_backups").paginate(
            TableName=source, BackupType="SYSTEM"
        )
        backups = list(pages.search("BackupSummaries[]"))
        if not backups:
            raise RestoreError(
                f"{source} does not exist, and DynamoDB has no backup of it: --empty makes an empty table in its place;"
                " docs/runbook.md says what is lost then"
            )
        return str(
            max(backups, key=lambda backup: backup["BackupCreationDateTime"])["BackupArn"]
        )

    def _finish(self, name: str) -> None:
        """Wait for a table, and set what a restored one lacks."""
        while not self._is_active(name):
            self.sleep(_LOOK_AGAIN_S)
        self._dynamodb.update_time_to_live(
            TableName=name,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": names.TTL_ATTRIBUTE},
        )
        self._dynamodb.update_continuous_backups(
            TableName=name,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )
        self._dynamodb.update_table(TableName=name, DeletionProtectionEnabled=True)
        while not self._is_active(name):
            self.sleep(_LOOK_AGAIN_S)

    def _is_active(self, name: str) -> bool:
        table = self._dynamodb.describe_table(TableName=name)["Table"]
        indexes = table.get("GlobalSecondaryIndexes", ())
        return table["TableStatus"] == "ACTIVE" and all(
            index["IndexStatus"] == "ACTIVE" for index in indexes
        )

    def _recount(self, reservations: str, node_claims: str) -> None:
        """Set each reservation's counter to the leases that its claims hold: tables are restored one by one.

        These tables are not in use yet, so the rows are read and written without conditions.
        """
        leased = Counter(
            row[names.LEASE_KEY]["S"]
            for row in self._rows(node_claims)
            if names.LEASE_KEY in row
        )
        for row in self._rows(reservations):
            if OUTSTANDING not in row:
                continue
            key, stored = row[names.KEY]["S"], int(row[OUTSTANDING]["N"])
            if stored != leased[key]:
                free = int(row[AVAILABLE]["N"]) - leased[key]
                self.report(f"{key}: {leased[key]} open leases, not {stored}")
                self._dynamodb.update_item(
                    TableName=reservations,
                    Key={names.KEY: row[names.KEY]},
                    UpdateExpression="SET #o = :o, #f = :f",
                    ExpressionAttributeNames={"#o": OUTSTANDING, "#f": FREE},
                    ExpressionAttributeValues={
                        ":o": {"N": str(leased[key])},
                        ":f": {"N": str(free)},
                    },
                )

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        for page in self._dynamodb.get_paginator("scan").paginate(
            TableName=table, ConsistentRead=True
        ):
            yield from page["Items"]


def _schema(table: Table) -> dict[str, Any]:
    """Return the keys and indexes of a table as CreateTable wants them; it refuses an empty list of indexes."""
    keys = names.key_attributes(table)
    indexed = list(
        chain.from_iterable(names.INDEX_KEYS[index] for index in names.indexes(table))
    )
    schema: dict[str, Any] = {
        "KeySchema": _keys(keys),
        "AttributeDefinitions": [
            {"AttributeName": key, "AttributeType": "S"}
            for key in dict.fromkeys((*keys, *indexed))
        ],
    }
    if indexed:
        schema["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index,
                "KeySchema": _keys(names.INDEX_KEYS[index]),
                "Projection": _projection(index),
            }
            for index in names.indexes(table)
        ]
    return schema


def _keys(attributes: Sequence[str]) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [
        {"AttributeName": name, "KeyType": kind}
        for name, kind in zip(attributes, kinds, strict=False)
    ]


def named_after(sources: Mapping[Table, str], suffix: str) -> dict[Table, str]:
    """Return a name for each new table: its source's beginning, and a suffix.

    They are no longer than what CloudFormation chooses, unless that would make two of them one: names of tables are in
    policies and variables, of which AWS takes so much.
    """
    short, long = _cut(sources, suffix, _NAME_SHORT), _cut(sources, suffix, _NAME_MAX)
    return short if len({*short.values()}) == len(sources) else long


def _cut(sources: Mapping[Table, str], suffix: str, longest: int) -> dict[Table, str]:
    kept = longest - len(suffix) - 1
    return {table: f"{name[:kept]}-{suffix}" for table, name in sources.items()}


def _projection(index: str) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": names.INDEX_PROJECTIONS[index]}
    if index in names.INDEX_INCLUDES:
        projection["NonKeyAttributes"] = list(names.INDEX_INCLUDES[index])
    return projection


def _utc(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
