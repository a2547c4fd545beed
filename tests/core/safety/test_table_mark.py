"""Marks: which tables belong to a deployment, and together."""

from dataclasses import replace

from lab.fakes.system import START
from reservoir.core.model.instance import Instance
from reservoir.core.safety.table_mark import (
    MarkedTable,
    TableMark,
    may_be_marked_unasked,
    next_mark,
    recognise,
)
from reservoir.core.serialisation.json_codec import dumps, loads


def marked(*roles: str) -> list[MarkedTable]:
    tables = [MarkedTable(role, f"{role}-1", None) for role in roles]
    mark = next_mark("prod", tables, made_at=START, made_by="reservoir", reason="new")
    return [replace(table, mark=mark) for table in tables]


def problems(tables: list[MarkedTable], deployment: str = "prod") -> list[str]:
    return list(recognise(deployment, tables).problems)


def test_tables_as_they_were_marked_are_recognised() -> None:
    recognition = recognise("prod", marked("claims", "policy"))
    assert recognition.is_whole
    assert recognition.mark is not None
    assert recognition.mark.generation == 1


def test_an_emptied_table_is_noticed() -> None:
    claims, policy = marked("claims", "policy")
    assert problems([replace(claims, mark=None), policy]) == [
        "claims has no mark: it is new, or was emptied"
    ]


def test_tables_without_any_mark_are_not_recognised() -> None:
    assert not recognise("prod", [MarkedTable("claims", "claims-1", None)]).is_whole
    assert not recognise("prod", []).is_whole


def test_a_table_that_was_restored_alone_is_noticed() -> None:
    claims, policy = marked("claims", "policy")
    assert problems([replace(claims, table_id="claims-2"), policy]) == [
        "claims is not the table that was marked: it was restored or created again",
        "policy was marked together with another claims",
    ]


def test_tables_that_were_all_restored_are_noticed() -> None:
    restored = [
        replace(table, table_id=f"{table.role}-2") for table in marked("claims", "policy")
    ]
    assert len(problems(restored)) == 2


def test_a_row_that_was_put_back_from_before_an_adoption_is_noticed() -> None:
    claims, policy = marked("claims", "policy")
    again = next_mark(
        "prod", [claims, policy], made_at=START, made_by="ops", reason="restored"
    )
    assert again.generation == 2
    assert problems([claims, replace(policy, mark=again)]) == [
        "claims has an older mark than the others"
    ]


def test_tables_of_another_deployment_are_noticed() -> None:
    assert problems(marked("claims"), "staging") == [
        "claims has the mark of deployment prod"
    ]


def test_a_mark_is_read_back_as_it_was_written() -> None:
    (table,) = marked("claims")
    assert loads(TableMark, dumps(table.mark)) == table.mark


def test_new_tables_are_marked_unasked_only_if_they_explain_what_our_launches_left() -> (
    None
):
    new = [MarkedTable("claims", "claims-1", None), MarkedTable("policy", "policy-1", None)]
    ours = Instance(
        "i-1", "running", "m5.large", "zone-a", "az-1", START, owner="test", batch_id="b-1"
    )
    assert may_be_marked_unasked(new, [], [])
    assert may_be_marked_unasked(new, [ours], ["i-1"])
    assert not may_be_marked_unasked(new, [ours], ["i-2"])
    of_others = replace(ours, batch_id=None)
    ended = replace(ours, state="terminated")
    assert may_be_marked_unasked(new, [of_others, ended], [])


def test_a_table_that_carries_a_mark_is_not_marked_unasked() -> None:
    claims, policy = marked("claims", "policy")
    assert not may_be_marked_unasked([claims, replace(policy, mark=None)], [], [])


def test_every_table_that_is_another_than_at_the_marking_is_named() -> None:
    claims, launches, policy = marked("claims", "launches", "policy")
    others = [replace(table, table_id=f"{table.role}-2") for table in (launches, claims)]
    assert problems([*others, policy])[-1] == (
        "policy was marked together with another claims, launches"
    )
