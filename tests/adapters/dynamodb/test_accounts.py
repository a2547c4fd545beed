"""Accounts: the same contract in memory and on DynamoDB."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.accounts import MemoryAccounts
from lab.fakes.system import START, ManualClock
from lab.local import ministack
from reservoir.adapters.dynamodb.accounts import DynamoDbAccounts
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.sharing.accounts import AccountLine, Amount, Meter, MeterReading
from reservoir.ports.accounts import AccountStore
from reservoir.ports.state import ConflictError, UnreadableRowsError

_names = itertools.count()
BOUGHT = CapacityType.ON_DEMAND
AUDIO = AccountLine("2026-01-15", "audio", "audio", BOUGHT)
NOBODY = AccountLine("2026-02-01", "", "", CapacityType.RESERVED)
METER = Meter("nc-1", START, START, BOUGHT, 10**20, {"audio": 2})
LATER = replace(METER, since=START + timedelta(hours=1), replicas={"audio": 1, "vision": 1})


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def accounts(request: pytest.FixtureRequest) -> AccountStore:
    if request.param == "memory":
        return MemoryAccounts()
    dynamodb: Any = request.getfixturevalue("dynamodb")
    table = f"accounts-{next(_names)}"
    ministack.create_history_table(dynamodb, table)
    return DynamoDbAccounts(dynamodb, table, ManualClock())


def test_amounts_are_added_and_the_meter_moves(accounts: AccountStore) -> None:
    accounts.write("nc-1", None, MeterReading({}, METER))
    assert (accounts.meter("nc-1"), accounts.meters()) == (METER, {"nc-1": METER})
    accounts.write(
        "nc-1", METER, MeterReading({AUDIO: Amount(3600, 10**20), NOBODY: Amount(7)}, LATER)
    )
    accounts.write("nc-1", LATER, MeterReading({AUDIO: Amount(1, 3 * 10**21)}, None))
    assert accounts.accounts("2026-01") == {AUDIO: Amount(3601, 31 * 10**20)}
    assert accounts.accounts("2026-02") == {NOBODY: Amount(7, 0)}
    assert (accounts.meter("nc-1"), accounts.meters()) == (None, {})


def test_many_meters_are_read_by_name(accounts: AccountStore) -> None:
    running = {
        f"nc-{number:03}": replace(METER, claim_id=f"nc-{number:03}")
        for number in range(120)
    }
    for claim_id, meter in running.items():
        accounts.write(claim_id, None, MeterReading({}, meter))
    asked = [*list(running)[10:], "nc-010", "nc-unknown"]
    assert accounts.meters_of(asked) == {
        key: meter for key, meter in running.items() if key in asked
    }
    assert accounts.meters_of([]) == {}


def test_nothing_is_counted_twice(accounts: AccountStore) -> None:
    accounts.write("nc-1", None, MeterReading({}, METER))
    reading = MeterReading({AUDIO: Amount(60)}, LATER)
    accounts.write("nc-1", METER, reading)
    for before in (METER, None):
        with pytest.raises(ConflictError):
            accounts.write("nc-1", before, reading)
    accounts.write("nc-1", LATER, MeterReading({AUDIO: Amount(1)}, None))
    for reading in (MeterReading({AUDIO: Amount(60)}, None), MeterReading({}, METER)):
        with pytest.raises(ConflictError):
            accounts.write("nc-1", None, reading)  # whoever hears of it after its end
    assert accounts.accounts("2026-01") == {AUDIO: Amount(61)}


def test_an_end_may_be_the_first_that_is_heard(accounts: AccountStore) -> None:
    accounts.write("nc-1", None, MeterReading({AUDIO: Amount(5)}, None))
    with pytest.raises(ConflictError):
        accounts.write("nc-1", None, MeterReading({AUDIO: Amount(5)}, None))
    assert accounts.accounts("2026-01") == {AUDIO: Amount(5)}


def test_many_meters_move_together_and_those_that_moved_on_stand_in_nobodys_way(
    accounts: AccountStore,
) -> None:
    """More than one transaction holds: meters that begin, end, and are not as they were read."""
    running = {
        f"nc-{number:03}": replace(METER, claim_id=f"nc-{number:03}")
        for number in range(120)
    }
    begun = {claim_id: MeterReading({}, meter) for claim_id, meter in running.items()}
    assert set(accounts.write_many({}, begun)) == running.keys()
    assert accounts.meters() == running
    before: dict[str, Meter | None] = {**running, "nc-007": None, "nc-008": LATER}
    ended = {
        claim_id: MeterReading({AUDIO: Amount(10, 100), NOBODY: Amount(1)}, None)
        for claim_id in running
    }
    assert set(accounts.write_many(before, ended)) == running.keys() - {"nc-007", "nc-008"}
    assert accounts.write_many(before, ended) == set(), (
        "each ended once, and those two are another's"
    )
    assert accounts.meters().keys() == {"nc-007", "nc-008"}
    assert accounts.accounts("2026-01") == {AUDIO: Amount(1180, 11800)}
    assert accounts.accounts("2026-02") == {NOBODY: Amount(118)}


def test_more_accounts_than_one_transaction_holds(accounts: AccountStore) -> None:
    """Each meter's own namespaces, as many as a reading may have."""
    readings = {
        f"nc-{number}": MeterReading(
            {
                replace(AUDIO, namespace=f"n-{number}-{each}"): Amount(1)
                for each in range(80)
            },
            None,
        )
        for number in range(3)
    }
    assert set(accounts.write_many({}, readings)) == readings.keys()
    assert len(accounts.accounts("2026-01")) == 240


@pytest.mark.embedded
@pytest.mark.parametrize(
    "damage", [{"form": {"N": "99"}}, {"data": {"S": "no JSON"}}, {"data": {"N": "1"}}]
)
def test_a_meter_that_cannot_be_read_is_left_out_of_the_list_and_refused_by_name(
    dynamodb: Any, damage: dict[str, Any]
) -> None:
    table = f"accounts-{next(_names)}"
    ministack.create_history_table(dynamodb, table)
    accounts = DynamoDbAccounts(dynamodb, table, ManualClock())
    for claim_id in ("nc-1", "nc-2"):
        accounts.write(claim_id, None, MeterReading({}, replace(METER, claim_id=claim_id)))
    key = {"id": {"S": "#running"}, "at": {"S": "nc-1"}}
    row = dynamodb.get_item(TableName=table, Key=key)["Item"]
    dynamodb.put_item(TableName=table, Item=row | damage)

    assert accounts.meters().keys() == accounts.meters_of(["nc-2"]).keys() == {"nc-2"}
    with pytest.raises(UnreadableRowsError, match="#running nc-1"):
        accounts.meter("nc-1")
    with pytest.raises(UnreadableRowsError, match="#running nc-1"):
        accounts.meters_of(["nc-1", "nc-2"])


@pytest.mark.embedded
def test_what_a_hundred_meters_write_to_partitions_that_all_share(dynamodb: Any) -> None:
    """Two units of each of two partitions for what begins or ends, and two of one for what changes.

    What accounts get is two units a transaction, however many meters are in it.
    """
    table = f"accounts-{next(_names)}"
    ministack.create_history_table(dynamodb, table)
    counted = CountedWrites(dynamodb)
    client: Any = counted
    accounts = DynamoDbAccounts(client, table, ManualClock())
    running = {
        f"nc-{number:03}": replace(METER, claim_id=f"nc-{number:03}")
        for number in range(100)
    }
    changed = {key: replace(meter, since=LATER.since) for key, meter in running.items()}
    steps: tuple[tuple[Mapping[str, Meter | None], Mapping[str, MeterReading]], ...] = (
        ({}, {key: MeterReading({}, meter) for key, meter in running.items()}),
        (
            running,
            {
                key: MeterReading({AUDIO: Amount(5)}, meter)
                for key, meter in changed.items()
            },
        ),
        (changed, {key: MeterReading({AUDIO: Amount(5)}, None) for key in running}),
    )
    found = []
    for before, readings in steps:
        counted.units, counted.calls = Counter(), 0
        assert len(accounts.write_many(before, readings)) == 100
        found.append((counted.calls, dict(counted.units)))
    assert found == [
        (2, {"#running": 200, "#ended": 200}),
        (2, {"#running": 200, "2026-01": 4}),
        (3, {"#running": 200, "#ended": 200, "2026-01": 6}),
    ]


class CountedWrites:
    """DynamoDB's client, which counts the write units that transactions take from each partition: two a row of 1 KB."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.units: Counter[str] = Counter()
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **request: Any) -> Any:
        self.calls += 1
        for write in (
            write for item in request["TransactItems"] for write in item.values()
        ):
            row = write.get("Item") or write["Key"]
            assert len(json.dumps(row)) < 1024
            self.units[row["id"]["S"]] += 2
        return self._client.transact_write_items(**request)
