"""Recovery of DynamoDB tables as AWS documents it: to a point in time, and from the backup that a deletion leaves.

MiniStack restores a table as it is now, whatever instant is asked for, and forgets a table that is deleted. Here the
changes of every table that has point-in-time recovery are kept, and a restore takes those back that came later. Like on
AWS, what can be restored ends five minutes before the present, and a restored table has neither expiry of rows nor
point-in-time recovery nor protection from deletion until somebody sets them.
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from ministack.core.responses import error_response_json
from ministack.services import dynamodb

LATEST_S: Final = 300  # before the present; AWS says "typically five minutes"
DELETED_KEPT_S: Final = 35 * 24 * 3600
_CHANGES_MAX: Final = 100_000  # of a table; older instants cannot be restored

Item = Mapping[str, Any]
Answer = tuple[Any, ...]  # status, headers, body


class TableBackups:
    """The history of tables, since each had point-in-time recovery."""

    def __init__(self) -> None:
        # by table: the earliest instant that can be restored
        self._since: dict[str, float] = {}
        self._changes: dict[str, deque[tuple[float, Item | None, Item | None]]] = (
            defaultdict(deque)
        )

    def install(self) -> None:
        """Take the place of what MiniStack does."""
        dynamodb._emit_stream_event = self._noting(dynamodb._emit_stream_event)
        dynamodb._update_continuous_backups = self._beginning(
            dynamodb._update_continuous_backups
        )
        dynamodb._describe_continuous_backups = self._dated(
            dynamodb._describe_continuous_backups
        )
        dynamodb._restore_table_to_point_in_time = self._restoring(
            dynamodb._restore_table_to_point_in_time
        )
        dynamodb._list_backups = _of_one_type(dynamodb._list_backups)
        dynamodb._delete_table = self._leaving_a_backup(dynamodb._delete_table)

    def _noting(self, emit: Callable[..., None]) -> Callable[..., None]:
        def note(
            table: str,
            kind: str,
            old: Item | None,
            new: Item | None,
            *rest: Any,
            **more: Any,
        ) -> None:
            if dynamodb._pitr_settings.get(table):
                changes = self._changes[table]
                changes.append((_now(), old, new))
                self._since.setdefault(table, _now())
                if len(changes) > _CHANGES_MAX:
                    self._since[table] = changes.popleft()[0]
            emit(table, kind, old, new, *rest, **more)

        return note

    def _beginning(self, update: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        def begin(data: Any) -> Answer:
            answer = update(data)
            name = dynamodb._normalize_table_name(data.get("TableName"))
            if answer[0] == 200 and not dynamodb._pitr_settings.get(name):
                self._forget(name)
            elif answer[0] == 200:
                self._since.setdefault(name, _now())
            return answer

        return begin

    def _dated(self, describe: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        def dated(data: Any) -> Answer:
            status, headers, body = describe(data)
            answer = json.loads(body)
            recovery = answer.get("ContinuousBackupsDescription", {}).get(
                "PointInTimeRecoveryDescription", {}
            )
            if "EarliestRestorableDateTime" in recovery:
                name = dynamodb._normalize_table_name(data.get("TableName"))
                recovery["EarliestRestorableDateTime"] = self._since.setdefault(
                    name, _now()
                )
                recovery["LatestRestorableDateTime"] = _now() - LATEST_S
            return status, headers, json.dumps(answer).encode()

        return dated

    def _restoring(self, restore: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        def restore_to(data: Any) -> Answer:
            source = dynamodb._normalize_table_name(
                data.get("SourceTableName") or data.get("SourceTableArn") or ""
            )
            if source in dynamodb._tables and not dynamodb._pitr_settings.get(source):
                message = "Point in time recovery is not enabled for this table"
                return _refusal("PointInTimeRecoveryUnavailableException", message)
            latest = _now() - LATEST_S
            instant = (
                latest
                if data.get("UseLatestRestorableTime")
                else float(data.get("RestoreDateTime") or 0)
            )
            if not self._since.get(source, _now()) <= instant <= latest:
                return _refusal(
                    "InvalidRestoreTimeException", "The specified restore time is invalid"
                )
            answer = restore(data)
            if answer[0] == 200:
                self._take_back(source, str(data["TargetTableName"]), instant)
            return answer

        return restore_to

    def _take_back(self, source: str, target: str, instant: float) -> None:
        """Undo on the copy what happened to its source after an instant, the latest first."""
        keys = [key["AttributeName"] for key in dynamodb._tables[target]["KeySchema"]]
        for at, old, new in reversed(self._changes[source]):
            if at <= instant:
                return
            if old is not None:
                dynamodb._put_item({"TableName": target, "Item": old})
            elif new is not None:
                dynamodb._delete_item(
                    {"TableName": target, "Key": {key: new[key] for key in keys}}
                )

    def _leaving_a_backup(self, delete: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        def delete_table(data: Any) -> Answer:
            name = dynamodb._normalize_table_name(data.get("TableName"))
            backup: dict[str, Any] | None = None
            if dynamodb._pitr_settings.get(name) and not dynamodb._tables[name].get(
                "DeletionProtectionEnabled"
            ):
                made = dynamodb._create_backup(
                    {"TableName": name, "BackupName": f"{name}$DeletedTableBackup"}
                )
                backup = dynamodb._backups[
                    json.loads(made[2])["BackupDetails"]["BackupArn"]
                ]
                backup["BackupDetails"] |= {
                    "BackupType": "SYSTEM",
                    "BackupExpiryDateTime": _now() + DELETED_KEPT_S,
                }
            answer = delete(data)
            if answer[0] == 200:
                self._forget(name)
            elif backup is not None:
                dynamodb._backups.pop(backup["BackupDetails"]["BackupArn"])
            return answer

        return delete_table

    def _forget(self, name: str) -> None:
        self._since.pop(name, None)
        self._changes.pop(name, None)


def _of_one_type(list_backups: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    # MiniStack lists backups of every type; AWS those that somebody made, unless others are asked for.
    def listed(data: Any) -> Answer:
        status, headers, body = list_backups(data)
        answer, wanted = json.loads(body), data.get("BackupType", "USER")
        if status == 200 and wanted != "ALL":
            answer["BackupSummaries"] = [
                it for it in answer["BackupSummaries"] if it["BackupType"] == wanted
            ]
        return status, headers, json.dumps(answer).encode()

    return listed


def _now() -> float:
    instant: float = dynamodb.time.time()  # the emulated time
    return instant


def _refusal(code: str, message: str) -> Answer:
    answer: Answer = error_response_json(code, message, 400)
    return answer
