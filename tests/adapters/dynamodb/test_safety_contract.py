"""Tallies and marks: the same contract in memory and on DynamoDB."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from lab.fakes.stores.safety import ROLES, MemoryTableMarks, MemoryTallies
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from reservoir.adapters.dynamodb.table import CURRENT_FORM, DATA, FORM
from reservoir.adapters.safety.table_marks import DynamoDbTableMarks
from reservoir.adapters.safety.tallies import DynamoDbTallies
from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.table_mark import next_mark, recognise
from reservoir.core.safety.tally import Passed, Tally
from reservoir.names import KEY, LISTING_INDEX, LISTING_KEY, MARK_ROW
from reservoir.ports.safety import TableMarkStore, TallyStore, UnreadableRowError
from reservoir.ports.state import ConflictError

_names = itertools.count()
ON_DYNAMODB = pytest.param("dynamodb", marks=pytest.mark.embedded)
TALLY = Tally(EndingKind.ORPHANS, (Passed(START, ("i-1", "i-2")),))


@dataclass
class Safety:
    tallies: TallyStore
    marks: TableMarkStore
    tables: dict[str, str]


@pytest.fixture(params=["memory", ON_DYNAMODB])
def safety(request: pytest.FixtureRequest) -> Safety:
    if request.param == "memory":
        return Safety(MemoryTallies(), MemoryTableMarks(), {})
    return on_dynamodb(request.getfixturevalue("dynamodb"))


def on_dynamodb(dynamodb: Any) -> Safety:
    # The prefix: DynamoDB Local takes "Workloads-0" for "workloads-0".
    tables = {role: f"safety-{role}-{next(_names)}" for role in ROLES}
    for table in tables.values():
        make(dynamodb, table)
    clock = ManualClock()
    marks = DynamoDbTableMarks(dynamodb, tables, clock)
    return Safety(DynamoDbTallies(dynamodb, tables["NodeClaims"], clock), marks, tables)


def make(dynamodb: Any, table: str) -> None:
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})


def test_a_tally_is_read_back_as_it_was_written(safety: Safety) -> None:
    assert safety.tallies.get(EndingKind.ORPHANS).tally == Tally(EndingKind.ORPHANS)
    safety.tallies.put(TALLY, expected_revision=None)
    assert safety.tallies.get(EndingKind.ORPHANS).tally == TALLY
    assert safety.tallies.get(EndingKind.EXPIRY).tally == Tally(EndingKind.EXPIRY)


def test_of_two_passes_that_read_the_same_tally_one_writes(safety: Safety) -> None:
    safety.tallies.put(TALLY, expected_revision=None)
    with pytest.raises(ConflictError):
        safety.tallies.put(TALLY, expected_revision=None)
    read = safety.tallies.get(EndingKind.ORPHANS).revision
    safety.tallies.put(TALLY, expected_revision=read)
    with pytest.raises(ConflictError):
        safety.tallies.put(TALLY, expected_revision=read)


def test_tables_are_marked_together(safety: Safety) -> None:
    new = safety.marks.read()
    assert [table.role for table in new] == sorted(ROLES)
    assert not recognise("prod", new).is_whole
    mark = next_mark("prod", new, made_at=START, made_by="reservoir", reason="new")
    safety.marks.write(mark, new)
    assert recognise("prod", safety.marks.read()).is_whole
    with pytest.raises(ConflictError):  # who saw them without marks came too late
        safety.marks.write(mark, new)


@pytest.mark.embedded
def test_a_table_that_is_made_anew_under_its_name_is_another(dynamodb: Any) -> None:
    """A restore, too, makes a table of its own; with the name of the old one, if that was deleted before."""
    safety = on_dynamodb(dynamodb)
    new = safety.marks.read()
    safety.marks.write(
        next_mark("prod", new, made_at=START, made_by="reservoir", reason="new"), new
    )
    name = safety.tables["NodeClaims"]
    rows = dynamodb.scan(TableName=name)["Items"]
    dynamodb.delete_table(TableName=name)
    make(dynamodb, name)
    for row in rows:
        dynamodb.put_item(TableName=name, Item=row)
    assert (
        recognise("prod", safety.marks.read())
        .problems[0]
        .startswith("NodeClaims is not the table that was marked")
    )


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("form", "text"),
    [(CURRENT_FORM + 1, "{}"), (CURRENT_FORM, "{}"), (CURRENT_FORM, "half a r")],
)
def test_a_row_that_is_not_understood_says_so(dynamodb: Any, form: int, text: str) -> None:
    safety = on_dynamodb(dynamodb)
    for key in (MARK_ROW, "#endings orphans"):
        row = {KEY: {"S": key}, FORM: {"N": str(form)}, DATA: {"S": text}}
        dynamodb.put_item(TableName=safety.tables["NodeClaims"], Item=row)
    with pytest.raises(UnreadableRowError):
        safety.marks.read()
    with pytest.raises(UnreadableRowError):
        safety.tallies.get(EndingKind.ORPHANS)
